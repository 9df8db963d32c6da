"""Suppliers and builders of stores, and the tables that are kept in them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from mustela import (
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.api.errors import BadOptionError, OptionConflictError, RetentionError
from mustela.api.stores import StoreSupplier
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.kinds.timed import ValueAndTimestamp
from mustela.state.kinds.versioned_store import VersionedKeyValueStore, VersionedRecord
from mustela.state.kinds.window_store import TimestampedWindowStore
from mustela.testing.faults import TestDriverError
from mustela.windows import BufferConfig, EmitStrategy

SECOND = timedelta(seconds=1)
WAYS = [
    {},
    {"crash_after_every_record": True},
    {"key_groups": 8, "lanes": 3},
    {"settings": {"emit": "every"}},
    {"settings": {"event_time": "watermark"}},
]


def table_in(supplier: Any, **options) -> StreamsBuilder:
    builder = StreamsBuilder()
    kept = Materialized(supplier=supplier, **options)
    table = builder.table("rows", key=str, value=int, materialized=kept)
    table.to_stream().to("out", key=str, value=int)
    return builder


@pytest.mark.parametrize("way", WAYS)
def test_a_versioned_table_is_written_by_timestamp(way):
    """What came late goes into the history and is said; what came too late is not."""
    supplier = Stores.persistent_versioned_key_value_store("versions", 100 * SECOND)
    with TopologyTestDriver(table_in(supplier), **way) as driver:
        rows = driver.create_input_topic("rows")
        rows.pipe_input("a", 1, timestamp=50_000)
        rows.pipe_input("a", 2, timestamp=30_000)
        rows.pipe_input("a", 3, timestamp=200_000)
        rows.pipe_input("a", 4, timestamp=99_999)
        rows.pipe_input("a", 5, timestamp=100_000)
        rows.pipe_input("a", None, timestamp=150_000)
        out = driver.create_output_topic("out").read_key_values_to_list()
        assert out == [("a", 1), ("a", 2), ("a", 3), ("a", 5), ("a", None)]
        store = driver.get_versioned_key_value_store("versions")
        assert store["a"] == VersionedRecord(3, 200_000)
        assert store.get("a", as_of=149_999) == VersionedRecord(5, 100_000, 150_000)
        assert store.get("a", as_of=199_999) is None
        assert store.get("a", as_of=99_999) is None
        assert driver.metrics["dropped_expired:rows"] == 1


def test_every_version_of_an_epoch_is_said():
    """A versioned table is never combined at the barrier."""
    supplier = Stores.persistent_versioned_key_value_store("versions", 100 * SECOND)
    with TopologyTestDriver(table_in(supplier)) as driver:
        with driver.epoch():
            rows = driver.create_input_topic("rows")
            for value, timestamp in enumerate([10, 30, 20]):
                rows.pipe_input("a", value, timestamp=timestamp)
        out = driver.create_output_topic("out").read_key_values_to_list()
        assert out == [("a", 0), ("a", 1), ("a", 2)]
        versions = driver.get_versioned_key_value_store("versions").versions("a")
        assert [(v.value, v.timestamp, v.valid_to) for v in versions] == [
            (0, 10, 20),
            (2, 20, 30),
            (1, 30, None),
        ]


def test_a_filter_and_a_mapping_can_be_versioned_too():
    """What is not kept stays marked; what is kept is written by timestamp again."""
    builder = StreamsBuilder()
    first, second = (
        Stores.persistent_versioned_key_value_store(name, 100 * SECOND) for name in ("all", "even")
    )
    table = builder.table("rows", key=str, value=int, materialized=Materialized(supplier=first))
    even = table.filter(lambda _key, n: n % 2 == 0, materialized=Materialized(supplier=second))
    even.map_values(lambda n: n * 10).to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder) as driver:
        rows = driver.create_input_topic("rows")
        for value, timestamp in [(2, 20), (4, 10), (5, 15), (1, 30)]:
            rows.pipe_input("a", value, timestamp=timestamp)
        out = driver.create_output_topic("out").read_key_values_to_list()
        assert out == [("a", 20), ("a", 40), ("a", None), ("a", None)]
        store = driver.get_versioned_key_value_store("even")
        assert list(store.versions("a")) == [
            VersionedRecord(4, 10, 15),
            VersionedRecord(2, 20, 30),
        ]
        assert "a" not in store


@pytest.mark.parametrize("caching", [None, True, False])
def test_a_step_without_caching_says_each_change(caching):
    """Within an epoch, whatever the application's emit says."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    options = Materialized(store="counts", caching=caching)
    words.count(materialized=options).to_stream().to("out", key=str, value=int)
    for emit in ("barrier", "every"):
        with TopologyTestDriver(builder, settings={"emit": emit}) as driver:
            with driver.epoch():
                driver.create_input_topic("words").pipe_key_value_list([("a", "x"), ("a", "y")])
            out = driver.create_output_topic("out").read_key_values_to_list()
            each = caching is False or emit == "every"
            assert out == ([("a", 1), ("a", 2)] if each else [("a", 2)])


def test_what_kind_of_store_a_supplier_gives():
    """A plain store loses the times of its rows, as in Kafka Streams; the others keep them."""
    for supplier, timed in [
        (Stores.persistent_key_value_store("s"), False),
        (Stores.persistent_timestamped_key_value_store("s"), True),
        (Stores.in_memory_key_value_store("s"), True),
    ]:
        with TopologyTestDriver(table_in(supplier)) as driver:
            driver.create_input_topic("rows").pipe_input("a", 1, timestamp=7)
            assert driver.get_key_value_store("s")["a"] == 1
            if timed:
                assert cast("Any", driver.get_state_store("s"))["a"] == ValueAndTimestamp(1, 7)
            else:
                assert isinstance(driver.get_state_store("s"), KeyValueStore)
                with pytest.raises(StoreError, match="keeps no timestamps"):
                    driver.get_timestamped_key_value_store("s")


@pytest.mark.parametrize("way", [{}, {"crash_after_every_record": True}])
def test_a_map_of_the_keys_used_last_forgets_the_others(way):
    """A key that was forgotten begins anew."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    counts = words.count(materialized=Materialized(supplier=Stores.lru_map("recent", 2)))
    counts.to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder, **way) as driver:
        words = driver.create_input_topic("words")
        for key in "abacabb":
            words.pipe_input(key, "x")
        out = driver.create_output_topic("out").read_key_values_to_list()
        assert out == [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3), ("b", 1), ("b", 2)]
        store = driver.get_key_value_store("recent")
        assert list(store.all()) == [("a", 3), ("b", 2)]
        assert len(store) == 2
        store.put("d", 9)
        assert list(store) == ["b", "d"]
        driver.crash(lose_state=True)
        assert list(store) == ["b", "d"]


def test_a_supplier_of_ones_own():
    """A name and a specification are all it takes."""

    class Plain:
        name = "mine"

        def spec(self) -> StoreSpec:
            return StoreSpec(name=self.name, kind="key_value")

    assert isinstance(Plain(), StoreSupplier)
    with TopologyTestDriver(table_in(Plain(), logged=False)) as driver:
        driver.create_input_topic("rows").pipe_input("a", 1)
        assert driver.get_key_value_store("mine").get("a") == 1


def test_what_is_no_supplier_is_refused():
    """With what a supplier is, and the user's line."""
    with pytest.raises(BadOptionError, match="does not supply a store") as caught:
        table_in("counts")
    assert caught.value.at is not None
    assert "test_stores.py" in str(caught.value)


def test_a_store_has_one_name():
    """Keyword, option and supplier must agree."""
    builder = StreamsBuilder()
    options = Materialized(supplier=Stores.in_memory_key_value_store("one"))
    builder.table("a", key=str, value=int, store="one", materialized=options)
    with pytest.raises(OptionConflictError):
        builder.table("b", key=str, value=int, store="two", materialized=options)


def test_a_step_takes_the_kinds_that_it_can_write():
    """A window store for a table, or a versioned one for a count, is refused when it is written."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    versions = Stores.persistent_versioned_key_value_store("v", SECOND)
    with pytest.raises(BadOptionError, match="cannot write store 'v'"):
        words.count(materialized=Materialized(supplier=versions))
    left, right = (builder.table(name, key=str, value=int) for name in ("left", "right"))
    with pytest.raises(BadOptionError, match="cannot write store 'v'"):
        left.join(right, lambda a, b: a + b, materialized=Materialized(supplier=versions))
    sessions = Stores.persistent_session_store("s", SECOND)
    with pytest.raises(BadOptionError, match="it is a session store"):
        builder.table("t", key=str, value=int, materialized=Materialized(supplier=sessions))
    minutes = words.windowed_by(TimeWindows(size=SECOND, grace=timedelta(0)))
    with pytest.raises(BadOptionError, match="cannot write store 's'"):
        minutes.count(materialized=Materialized(supplier=sessions))
    with pytest.raises(BadOptionError, match="cannot be cached"):
        table_in(versions, caching=True)


def test_windows_are_kept_where_the_supplier_says():
    """Its retention and its length must fit the windows."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    windowed = words.windowed_by(TimeWindows(size=10 * SECOND, grace=timedelta(0)))
    for retention, size, error in [(5, 5, RetentionError), (20, 5, BadOptionError)]:
        supplier = Stores.persistent_window_store("w", retention * SECOND, size * SECOND)
        with pytest.raises(error):
            windowed.count(materialized=Materialized(supplier=supplier))
    supplier = Stores.persistent_window_store("w", 30 * SECOND, 10 * SECOND)
    windowed.count(materialized=Materialized(supplier=supplier))
    with TopologyTestDriver(builder) as driver:
        words = driver.create_input_topic("words")
        for timestamp in (1_000, 2_000, 11_000, 29_000):
            words.pipe_input("a", "x", timestamp=timestamp)
        store = driver.get_window_store("w")
        assert list(store.fetch("a", None, None)) == [(0, 2), (10_000, 1), (20_000, 1)]
        assert next(store.all()) == (Windowed("a", 0, 10_000), 2)
        words.pipe_input("a", "x", timestamp=30_000)
        assert store.get("a", 0) is None
        timed = driver.get_timestamped_window_store("w")
        assert timed["a", 20_000] == ValueAndTimestamp(1, 29_000)
        assert type(driver.get_state_store("w")) is TimestampedWindowStore
        assert list(driver.get_all_state_stores()) == ["w"]
        with pytest.raises(TestDriverError, match="is a window store"):
            driver.get_key_value_store("w")


@pytest.mark.parametrize("way", WAYS[:3])
def test_sliding_windows_and_sessions_can_be_read(way):
    """By key, over key groups, also behind a crash that lost the disk."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    sliding = SlidingWindows(time_difference=10 * SECOND, grace=10 * SECOND)
    words.windowed_by(sliding).count(store="sliding")
    sessions = SessionWindows(inactivity_gap=5 * SECOND, grace=10 * SECOND)
    words.windowed_by(sessions).count(store="sessions")
    with TopologyTestDriver(builder, **way) as driver:
        words = driver.create_input_topic("words")
        for key, timestamp in [("a", 20_000), ("a", 23_000), ("b", 24_000), ("a", 30_000)]:
            words.pipe_input(key, "x", timestamp=timestamp)
        driver.crash(lose_state=True)
        visits = driver.get_session_store("sessions")
        assert list(visits.fetch("a")) == [
            (Windowed("a", 20_000, 23_000), 2),
            (Windowed("a", 30_000, 30_000), 1),
        ]
        assert [window.key for window, _ in visits.all()] == ["a", "a", "b"]
        counts = driver.get_window_store("sliding")
        assert counts.get("a", 13_000) == 2
        assert counts.get("a", 20_000) == 3
        starts = [start for start, _ in counts.fetch("a", None, None)]
        assert starts == sorted(starts)
        assert len(starts) > 3


def test_a_store_can_be_filled_by_its_test():
    """What a test puts is committed, and the topology goes on from it."""
    supplier = Stores.persistent_versioned_key_value_store("versions", 100 * SECOND)
    with TopologyTestDriver(table_in(supplier), key_groups=4) as driver:
        store = driver.get_versioned_key_value_store("versions")
        assert isinstance(driver.get_state_store("versions"), VersionedKeyValueStore)
        assert store.put("a", 1, 1_000) == -1
        driver.create_input_topic("rows").pipe_input("a", 2, timestamp=500)
        assert list(store.versions("a")) == [
            VersionedRecord(2, 500, 1_000),
            VersionedRecord(1, 1_000),
        ]
        driver.crash(lose_state=True)
        assert store["a"].value == 1


def test_a_builder_says_what_its_supplier_does_not():
    """Serdes, logging and caching; each method gives a new builder."""
    supplier = Stores.persistent_window_store("w", 60 * SECOND, SECOND, retain_duplicates=True)
    builder = Stores.window_store_builder(supplier, key=str, value=int)
    spec = builder.with_logging_enabled({"segment.ms": "1000"}).with_caching_disabled().spec()
    assert (spec.kind, spec.duplicates, spec.indexed, spec.cached) == ("window", True, True, False)
    assert spec.topic_config == {"segment.ms": "1000"}
    assert builder.spec().cached is None
    assert builder.with_caching_enabled().with_logging_disabled().spec().logged is False
    plain = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"))
    assert plain.spec().kind == "key_value"
    with pytest.raises(BadOptionError, match="session_store_builder cannot build"):
        Stores.session_store_builder(supplier)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stores.lru_map("s", 0),
        lambda: Stores.persistent_versioned_key_value_store("s", -SECOND),
        lambda: Stores.persistent_versioned_key_value_store("s", SECOND, timedelta(0)),
        lambda: Stores.persistent_window_store("s", SECOND, 2 * SECOND),
        lambda: Stores.in_memory_session_store("s", cast("Any", 5)),
    ],
)
def test_a_supplier_that_cannot_be_is_refused_where_it_is_written(make):
    """With the user's line."""
    with pytest.raises(BadOptionError) as caught:
        make()
    assert caught.value.at is not None
    assert "test_stores.py" in str(caught.value)


@pytest.mark.parametrize("emit", ["update", "close"])
def test_a_window_is_read_until_its_retention_is_over(emit):
    """Counted from its start to that of the newest window; a moment more if it is told once."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    windowed = words.windowed_by(TimeWindows(size=10 * SECOND, grace=timedelta(0)))
    if emit == "close":
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    windowed.count(materialized=Materialized(store="w", retention=30 * SECOND))
    settings = {"event_time": "stream-time"}
    with TopologyTestDriver(builder, settings=settings) as driver:
        words = driver.create_input_topic("words")
        words.pipe_input("a", "x", timestamp=0)
        words.pipe_input("b", "x", timestamp=29_999)
        assert driver.get_window_store("w").fetch("a", 0) == 1
        words.pipe_input("b", "x", timestamp=30_000)
        assert driver.get_window_store("w").fetch("a", 0) == (1 if emit == "close" else None)
        words.pipe_input("b", "x", timestamp=40_000)
        assert list(driver.get_window_store("w").fetch("a", 0, None)) == []


def test_a_sliding_window_is_read_until_a_record_is_later_by_its_retention():
    """Whatever windows that record is in: its own may begin earlier."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by_key()
    windowed = words.windowed_by(SlidingWindows(time_difference=10 * SECOND, grace=timedelta(0)))
    windowed.count(materialized=Materialized(store="w", retention=20 * SECOND))
    settings = {"event_time": "stream-time"}
    with TopologyTestDriver(builder, settings=settings) as driver:
        words = driver.create_input_topic("words")
        words.pipe_input("a", "x", timestamp=15_000)
        words.pipe_input("b", "x", timestamp=24_999)
        assert driver.get_window_store("w").fetch("a", 5_000) == 1
        words.pipe_input("b", "x", timestamp=25_000)
        assert driver.get_window_store("w").fetch("a", 5_000) is None


MINUTE = timedelta(minutes=1)
KINDS = [
    (Stores.in_memory_key_value_store("s"), Stores.key_value_store_builder, "key_value"),
    (
        Stores.persistent_timestamped_key_value_store("s"),
        Stores.timestamped_key_value_store_builder,
        "timestamped_key_value",
    ),
    (
        Stores.persistent_versioned_key_value_store("s", MINUTE, SECOND),
        Stores.versioned_key_value_store_builder,
        "versioned",
    ),
    (Stores.in_memory_window_store("s", MINUTE, SECOND), Stores.window_store_builder, "window"),
    (
        Stores.persistent_timestamped_window_store("s", MINUTE, SECOND),
        Stores.timestamped_window_store_builder,
        "window",
    ),
    (Stores.in_memory_session_store("s", MINUTE), Stores.session_store_builder, "session"),
]


@pytest.mark.parametrize(("supplier", "build", "kind"), KINDS)
def test_each_builder_makes_its_kind_of_store(supplier, build, kind):
    """With the supplier's name and times, and the serdes that were said."""
    builder = build(supplier, key=str, value=int)
    spec = builder.spec()
    assert (builder.name, spec.name, spec.kind) == ("s", "s", kind)
    assert spec.key_serde is builder.key
    assert spec.value_serde is builder.value
    assert spec.retention_ms == supplier.retention_ms
    assert spec.history_retention_ms == supplier.history_retention_ms


def test_a_changelog_has_the_settings_that_were_said():
    """They reach the plan's store; the type of a store is the application's setting."""
    options = Materialized(
        store="s", topic_config={"segment.ms": "600000"}, store_type="in_memory", logged=True
    )
    builder = StreamsBuilder()
    builder.table("rows", key=str, value=int, materialized=options)
    (node,) = builder.build()
    assert node.stores[0].topic_config == {"segment.ms": "600000"}
    assert node.stores[0].kind == "timestamped_key_value"


def test_a_buffer_is_for_its_step_alone():
    """It is not among the stores that a test can read, and asking for it says why."""
    builder = StreamsBuilder()
    left, right = (builder.stream(name, key=str, value=int) for name in ("left", "right"))
    near = JoinWindows(before=SECOND, after=SECOND, grace=SECOND)
    left.join(right, lambda a, b: a + b, windows=near, name="sum").to("out", key=str, value=int)
    with TopologyTestDriver(builder) as driver:
        assert driver.get_all_state_stores() == {}
        with pytest.raises(TestDriverError, match="is a list store") as caught:
            driver.get_state_store("sum-this-join-store")
        assert "only the step that owns it" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"topic_config": {"segment.bytes": 1000}}, 'write "segment.bytes": "1000"'),
        ({"topic_config": {"preallocate": True}}, 'write "preallocate": "true"'),
        ({"logged": "no"}, "write True or False"),
        ({"store_type": "rocksdb"}, "use one of persistent, in_memory"),
        (
            {"store_type": "in_memory", "supplier": Stores.in_memory_key_value_store("counts")},
            "leave out store_type=",
        ),
    ],
)
def test_what_is_said_of_a_store_is_checked_where_it_is_said(options: Any, fix: str) -> None:
    """Not when its changelog is made, which would be after the start."""
    stream = StreamsBuilder().stream("in", key=str, value=str)
    with pytest.raises(BadOptionError) as caught:
        stream.group_by_key().count(materialized=Materialized(store="counts", **options))
    assert caught.value.fix is not None
    assert caught.value.fix.startswith(fix)
    assert "count(materialized=" in str(caught.value.at)


def test_settings_of_the_changelogs_of_joins_buffers_and_processors_are_texts() -> None:
    """Whoever has a store."""
    config: Any = {"segment.bytes": 1000}
    builder = StreamsBuilder()
    one, two = (builder.stream(topic, key=str, value=str) for topic in ("one", "two"))
    rows = builder.table("rows", key=str, value=str)
    supplier = Stores.persistent_key_value_store("mine")
    with pytest.raises(BadOptionError, match="changelog of store 'j-this-join-store'"):
        one.join(
            two,
            lambda left, right: left + right,
            windows=JoinWindows.of_time_difference(SECOND, grace=timedelta(0)),
            stream_joined=StreamJoined(store="j", topic_config=config),
        )
    buffer = BufferConfig.unbounded().with_logging_enabled(config)
    with pytest.raises(BadOptionError, match="changelog of store"):
        rows.suppress(Suppressed.until_time_limit(SECOND, buffer))
    mine = Stores.key_value_store_builder(supplier, key=str, value=str)
    with pytest.raises(BadOptionError, match="changelog of store 'mine'"):
        builder.add_state_store(mine.with_logging_enabled(config))


def _tables(builder: StreamsBuilder) -> Any:
    """Return ways to make a table that is no windowed aggregation, given its options."""
    stream = builder.stream("in", key=str, value=int)
    table = builder.table("rows", key=str, value=int)
    other = builder.table("others", key=str, value=int)
    minutes = TimeWindows(size=SECOND, grace=timedelta(0))
    windowed: Any = stream.group_by_key().windowed_by(minutes).count(store="windows")
    return {
        "table": lambda m: builder.table("more", key=str, value=int, materialized=m),
        "global_table": lambda m: builder.global_table("all", key=str, value=int, materialized=m),
        "to_table": lambda m: stream.to_table(materialized=m),
        "count": lambda m: stream.group_by_key().count(materialized=m),
        "reduce": lambda m: stream.group_by_key().reduce(int.__add__, materialized=m),
        "filter": lambda m: table.filter(lambda _k, v: v > 0, materialized=m),
        "map_values": lambda m: windowed.map_values(str, value=str, materialized=m),
        "join": lambda m: table.join(other, int.__add__, materialized=m),
        "foreign": lambda m: table.join(
            other, int.__add__, foreign_key=str, value=int, materialized=m
        ),
        "regrouped": lambda m: table.group_by(lambda k, v: (k, v), key=str, value=int).count(
            materialized=m
        ),
    }


TABLES = [
    *("table", "global_table", "to_table", "count", "reduce", "filter", "map_values", "join"),
    *("foreign", "regrouped"),
]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("made", TABLES)
def test_only_windows_have_a_retention(made: str, *, named: bool) -> None:
    """Any other table would keep its rows for ever and not say so: it is refused."""
    options = Materialized[Any, Any](retention=SECOND, store="kept" if named else None)
    with pytest.raises(BadOptionError, match="cannot have retention") as raised:
        _tables(StreamsBuilder())[made](options)
    assert raised.value.fields["option"] == "retention"
    assert raised.value.at is not None
    assert __file__ in raised.value.at.file
    builder = StreamsBuilder()
    _tables(builder)[made](Materialized[Any, Any](store="kept" if named else None))
    builder.build()
