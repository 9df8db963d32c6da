"""Stores that keep the headers of records: those of processors, and those of tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import (
    Materialized,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
)
from mustela.api.errors import BadOptionError
from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.processors.processor_stores import open_group_store
from mustela.model import Headers
from mustela.processors import ContextualProcessor
from mustela.serdes.primitives import BytesSerde
from mustela.state.faults import StoreError
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.kinds.headers import add_headers, split_headers
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from mustela.stores import (
    AggregationWithHeaders,
    StoreBuilder,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from mustela.testing.mock_context import MockProcessorContext
from mustela.windows import EmitStrategy
from tests.unit.testing.processors import WAYS

KEPT = timedelta(hours=1)
SIZE = timedelta(milliseconds=10)
WEB: Headers = (("from", b"web"), ("null", None), ("from", b""))
SHOP: Headers = (("from", b"shop"),)


def builders() -> list[StoreBuilder]:
    """A store of each kind that keeps headers."""
    kinds = Stores.persistent_timestamped_key_value_store_with_headers("rows")
    windows = Stores.persistent_timestamped_window_store_with_headers("windows", KEPT, SIZE)
    several = Stores.persistent_timestamped_window_store_with_headers(
        "several", KEPT, SIZE, retain_duplicates=True
    )
    sessions = Stores.persistent_session_store_with_headers("sessions", KEPT)
    of_windows = Stores.timestamped_window_store_with_headers_builder
    return [
        Stores.timestamped_key_value_store_with_headers_builder(kinds, key=str, value=int),
        of_windows(windows, key=str, value=int),
        of_windows(several, key=str, value=int),
        Stores.session_store_with_headers_builder(sessions, key=str, value=int),
    ]


class Keep(ContextualProcessor[str, int, str, str]):
    """Keeps each record in all stores, with its headers, and tells what was there."""

    def process(self, record: Record[str, int]) -> None:
        key, value, headers, time = record.key, record.value, record.headers, record.timestamp
        state, start = self.context.state_store, time - time % 10
        session = Windowed(key, start, start + 10)
        told = (
            state("rows").get(key),
            state("windows").fetch(key, start),
            len(list(state("several").fetch(key, start, start))),
            state("sessions").fetch_session(key, start, start + 10),
        )
        state("rows").put(key, value, timestamp=time, headers=headers)
        state("windows").put(key, value, start, timestamp=time, headers=headers)
        state("several").put(key, value, start, timestamp=time, headers=headers)
        state("sessions").put(session, value, headers=headers)
        self.context.forward(record.with_value(repr(told)))


def keeping() -> StreamsBuilder:
    builder = StreamsBuilder()
    for store in builders():
        builder.add_state_store(store)
    names = [store.name for store in builders()]
    kept = builder.stream("in", key=str, value=int).process(Keep, stores=names, name="keep")
    kept.to("out", key=str, value=str)
    return builder


HEADERS = st.sampled_from([(), SHOP, WEB, (("long", b"x" * 300),)])
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.one_of(st.none(), st.integers(-3, 300)),
        st.integers(0, 60),
        HEADERS,
    ),
    max_size=14,
)


@given(records=RECORDS, way=st.sampled_from(WAYS), epoch=st.integers(1, 5))
def test_stores_keep_what_a_dict_keeps(
    records: Sequence[tuple[str, int | None, int, Headers]], way: dict[str, Any], epoch: int
) -> None:
    """Headers come back as they were put, in every kind of store, over crashes and epochs."""
    rows: dict[str, Any] = {}
    windows: dict[tuple[str, int], Any] = {}
    several: dict[tuple[str, int], list[Any]] = {}
    told: dict[str, list[str]] = {}
    with TopologyTestDriver(keeping(), **way) as driver:
        topic = driver.create_input_topic("in")
        for first in range(0, len(records), epoch):
            with driver.epoch():
                for key, value, time, headers in records[first : first + epoch]:
                    topic.pipe_input(key, value, timestamp=time, headers=headers)
        for key, value, time, headers in records:
            start, row = time - time % 10, ValueTimestampHeaders(value, time, headers)
            place = key, start
            session = windows.get(place)
            if session is not None:
                session = AggregationWithHeaders(session.value, session.headers)
            known = rows.get(key), windows.get(place), len(several.get(place, ())), session
            told.setdefault(key, []).append(repr(known))
            rows[key], windows[place] = row, row
            if value is None:
                del rows[key], windows[place]
            else:
                several.setdefault(place, []).append(row)
        found: dict[str, list[str]] = {}
        for record in driver.create_output_topic("out").read_records_to_list():
            found.setdefault(record.key, []).append(record.value)
        assert found == told
        assert dict(driver.get_timestamped_key_value_store_with_headers("rows").all()) == rows
        assert {
            key: (row.value, row.timestamp)
            for key, row in driver.get_timestamped_key_value_store("rows").all()
        } == {key: row[:2] for key, row in rows.items()}
        plain = dict(driver.get_key_value_store("rows").all())
        assert plain == {key: row.value for key, row in rows.items()}
        in_windows = driver.get_timestamped_window_store_with_headers("windows").all()
        assert {(window.key, window.start): row for window, row in in_windows} == windows
        in_windows = driver.get_timestamped_window_store_with_headers("several").all()
        seen: dict[tuple[str, int], list[Any]] = {}
        for window, row in in_windows:
            seen.setdefault((window.key, window.start), []).append(row)
        assert seen == several
        in_sessions = driver.get_session_store_with_headers("sessions").all()
        assert {(window.key, window.start): tuple(row) for window, row in in_sessions} == {
            place: (row.value, row.headers) for place, row in windows.items()
        }


def add(_key: str, value: int, total: int) -> int:
    return total + value


def tables(builder: StreamsBuilder, *, with_headers: bool) -> None:
    """Tables of each kind over one stream."""
    stream = builder.stream("in", key=str, value=int)
    group = stream.group_by_key()

    def kept(store: str) -> Materialized[Any, Any]:
        return Materialized(store=store, with_headers=with_headers)

    table = stream.to_table(materialized=kept("table"))
    table.map_values(lambda value: -value, materialized=kept("negative"))
    group.count(materialized=kept("count"))
    group.reduce(lambda old, new: old + new, materialized=kept("sum"))
    group.cogroup(add).aggregate(int, materialized=kept("cogroup"))
    elsewhere = stream.group_by(lambda key, _: key, key=str, value=int)
    elsewhere.count(materialized=kept("combined"))
    minutes = group.windowed_by(TimeWindows(size=SIZE, grace=KEPT))
    minutes.count(materialized=kept("counts"))
    minutes.reduce(lambda old, new: old + new, materialized=kept("sums"))
    sliding = group.windowed_by(SlidingWindows(time_difference=SIZE, grace=KEPT))
    sliding.reduce(lambda old, new: old + new, materialized=kept("slides"))
    visits = group.windowed_by(SessionWindows(inactivity_gap=SIZE, grace=KEPT))
    visits.reduce(lambda old, new: old + new, materialized=kept("visits"))
    by_value = table.group_by(lambda key, value: (value % 2, value), key=int, value=int)
    by_value.count(materialized=kept("parities"))


GIVEN = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 60), HEADERS),
    max_size=8,
)
TIMES = {"event_time": "stream-time", "emit": "barrier"}


@given(records=GIVEN, way=st.sampled_from([*WAYS, {"settings": TIMES}]), epoch=st.integers(1, 5))
def test_tables_keep_the_headers_of_the_record_that_changed_a_row(
    records: Sequence[tuple[str, int, int, Headers]], way: dict[str, Any], epoch: int
) -> None:
    """Each row has the headers of the last record in it; values are as without headers."""
    builder, plain = StreamsBuilder(), StreamsBuilder()
    tables(builder, with_headers=True)
    tables(plain, with_headers=False)
    last: dict[str, tuple[int, Headers]] = {}
    windows: dict[tuple[str, int], Headers] = {}
    for key, value, time, headers in records:
        last[key] = value, headers
        windows[key, time - time % 10] = headers
    with TopologyTestDriver(builder, **way) as driver, TopologyTestDriver(plain, **way) as other:
        for each in (driver, other):
            topic = each.create_input_topic("in")
            for first in range(0, len(records), epoch):
                with each.epoch():
                    for key, value, time, headers in records[first : first + epoch]:
                        topic.pipe_input(key, value, timestamp=time, headers=headers)
        for name in ("table", "negative", "count", "sum", "cogroup", "combined", "parities"):
            store = driver.get_timestamped_key_value_store_with_headers(name)
            if name != "parities":
                rows = {key: row.headers for key, row in store.all()}
                assert rows == {key: headers for key, (_, headers) in last.items()}
            timed = driver.get_timestamped_key_value_store(name)
            assert list(timed.all()) == list(other.get_timestamped_key_value_store(name).all())
        for name in ("counts", "sums", "slides"):
            store = driver.get_timestamped_window_store_with_headers(name)
            if name != "slides":
                rows = {(window.key, window.start): row.headers for window, row in store.all()}
                assert rows == windows
            timed = driver.get_timestamped_window_store(name)
            assert list(timed.all()) == list(other.get_timestamped_window_store(name).all())
            bare = driver.get_window_store(name)
            assert list(bare.all()) == list(other.get_window_store(name).all())
        sessions = driver.get_session_store("visits")
        assert list(sessions.all()) == list(other.get_session_store("visits").all())


@pytest.mark.parametrize("way", WAYS)
def test_windows_that_move_have_the_headers_of_their_last_record(way: dict[str, Any]) -> None:
    """Sliding windows and sessions, also where a record joins two of them."""
    builder = StreamsBuilder()
    tables(builder, with_headers=True)
    with TopologyTestDriver(builder, **way) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", 1, timestamp=100, headers=SHOP)
        topic.pipe_input("a", 2, timestamp=115)
        sessions = driver.get_session_store_with_headers("visits")
        assert list(sessions.all()) == [
            (Windowed("a", 100, 100), AggregationWithHeaders(1, SHOP)),
            (Windowed("a", 115, 115), AggregationWithHeaders(2, ())),
        ]
        topic.pipe_input("a", 4, timestamp=108, headers=WEB)
        assert list(sessions.all()) == [(Windowed("a", 100, 115), AggregationWithHeaders(7, WEB))]
        assert sessions.fetch_session("a", 100, 115) == (7, WEB)
        sliding = driver.get_timestamped_window_store_with_headers("slides")
        assert [(window.start, row) for window, row in sliding.all()] == [
            (90, ValueTimestampHeaders(1, 100, SHOP)),
            (98, ValueTimestampHeaders(5, 108, WEB)),
            (101, ValueTimestampHeaders(4, 108, WEB)),
            (105, ValueTimestampHeaders(6, 115, WEB)),  # as the record behind it changed it
            (109, ValueTimestampHeaders(2, 115, WEB)),
        ]


def test_windows_that_are_told_once_keep_headers_as_others_do() -> None:
    """They are read again when they close."""
    builder = StreamsBuilder()
    group = builder.stream("in", key=str, value=int).group_by_key()
    kept = Materialized[Any, Any](with_headers=True)
    told = EmitStrategy.on_window_close()
    soon = timedelta(0)
    windows = group.windowed_by(TimeWindows(size=SIZE, grace=soon)).emit_strategy(told)
    windows.count(store="counts", materialized=kept).to_stream().to("counts", value=int)
    visits = group.windowed_by(SessionWindows(inactivity_gap=SIZE, grace=soon)).emit_strategy(told)
    visits.count(store="visits", materialized=kept).to_stream().to("visits", value=int)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", 1, timestamp=1, headers=SHOP)
        topic.pipe_input("a", 1, timestamp=5, headers=WEB)
        rows = driver.get_timestamped_window_store_with_headers("counts")
        assert rows.fetch("a", 0) == ValueTimestampHeaders(2, 5, WEB)
        sessions = driver.get_session_store_with_headers("visits")
        assert sessions.fetch_session("a", 1, 5) == AggregationWithHeaders(2, WEB)
        topic.pipe_input("a", 1, timestamp=100)
        for name in ("counts", "visits"):
            assert driver.create_output_topic(name).read_values_to_list() == [2]


def test_a_change_goes_on_with_the_headers_that_its_row_has() -> None:
    """What is forwarded and what is kept have the same headers."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_timestamped_key_value_store_with_headers("sums")
    group = builder.stream("in", key=str, value=int).group_by_key()
    sums = group.reduce(lambda old, new: old + new, materialized=Materialized(supplier=supplier))
    sums.to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", 1, headers=SHOP)
        topic.pipe_input("a", 2, headers=WEB)
        records = driver.create_output_topic("out").read_records_to_list()
        assert [(record.value, record.headers) for record in records] == [(1, SHOP), (3, WEB)]
        kept = driver.get_timestamped_key_value_store_with_headers("sums")
        assert kept["a"].headers == WEB


def test_a_table_with_headers_is_joined_as_one_without() -> None:
    """Streams, other tables and foreign keys find the values."""
    builder = StreamsBuilder()
    with_headers = Materialized[Any, Any](with_headers=True)
    rows = builder.table("rows", key=str, value=int, materialized=with_headers, name="rows")
    whole = builder.global_table(
        "whole", key=str, value=int, materialized=Materialized(store="whole", with_headers=True)
    )
    stream = builder.stream("in", key=str, value=int)
    found = stream.join(rows, lambda left, right: (left, right), name="found")
    every = found.join(
        whole,
        lambda left, right: (*left, right),
        foreign_key_with_key=lambda key, _: key,
        name="every",
    )
    every.map_values(repr).to("out", key=str, value=str)
    twice = rows.join(
        rows.map_values(lambda value: -value, name="less"),
        lambda left, right: f"{left}{right}",
        materialized=Materialized(store="twice", with_headers=True),
        name="twice",
    )
    twice.to_stream().to("twice", key=str, value=str)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("whole").pipe_input("a", 5, timestamp=3, headers=SHOP)
        driver.create_input_topic("rows").pipe_input("a", 7, headers=WEB)
        driver.create_input_topic("in").pipe_input("a", 1)
        assert driver.create_output_topic("out").read_values_to_list() == ["(1, 7, 5)"]
        assert driver.create_output_topic("twice").read_values_to_list() == ["7-7"]
        assert driver.get_timestamped_key_value_store_with_headers("twice")["a"].headers == WEB
        whole_rows = driver.get_timestamped_key_value_store_with_headers("whole")
        assert whole_rows["a"] == ValueTimestampHeaders(5, 3, SHOP)


class Methods(ContextualProcessor[str, int, str, str]):
    """Uses what handles have besides put and get."""

    def process(self, record: Record[str, int]) -> None:
        more: dict[str, Any] = {"timestamp": record.timestamp, "headers": dict(record.headers)}
        session = Windowed(record.key, 0, 5)
        told: list[Any] = []
        for name, place, other in (
            ("rows", (), "key"),
            ("windows", (10,), "window"),
            ("sessions", (), "session"),
        ):
            store = self.context.state_store(name)
            where: Any = session if other == "session" else record.key
            if other == "session":
                more.pop("timestamp")
            told.append(store.put_if_absent(where, 1, *place, **more))
            told.append(store.put_if_absent(where, 2, *place, **more))
            told.append(store.compute(where, lambda old: old + 10, *place, **more))
            told.append(store.merge(where, 5, lambda old, new: old * new, *place, **more))
            told.append(store.delete(where, *place))
            told.append(store.delete(where, *place))
        self.context.forward(record.with_value(repr(told)))


def test_handles_have_the_methods_of_those_without_headers() -> None:
    """Each of them says headers by keyword; functions see values alone."""
    context = MockProcessorContext[str, str]()
    for builder in builders():
        context.add_state_store(builder)
    processor = Methods()
    processor.init(context)
    processor.process(Record("a", 1, 7, SHOP))
    first, then = ValueTimestampHeaders(1, 7, SHOP), ValueTimestampHeaders(55, 7, SHOP)
    session, merged = AggregationWithHeaders(1, SHOP), AggregationWithHeaders(55, SHOP)
    expected = [None, first, 11, 55, then, None] * 2 + [None, session, 11, 55, merged, None]
    assert context.forwarded()[0].record.value == repr(expected)


def test_updates_of_other_keys_leave_the_headers_of_their_record() -> None:
    """An update is the last record of its key."""

    class Send(ContextualProcessor[str, int, str, str]):
        def process(self, record: Record[str, int]) -> None:
            more = self.context.update
            more("rows", "other", lambda old: (old or 0) + 1, reply_to="told", reply_key="a")
            self.context.update("windows", "other", lambda old: (old or 0) + 1, at=10)
            self.context.update("sessions", "other", lambda old: (old or 0) + 1, at=(0, 5))

    updated = [store for store in builders() if store.name != "several"]
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    sent = stream.process(Send, updates=updated, replies=["told"], name="send")
    told = sent.reply("told").map_values(lambda updated: updated.new)
    told.to("told", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=8) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, timestamp=7, headers=SHOP)
        row = ValueTimestampHeaders(1, 7, SHOP)
        assert driver.get_timestamped_key_value_store_with_headers("rows")["other"] == row
        windows = driver.get_timestamped_window_store_with_headers("windows")
        assert windows.fetch("other", 10) == row
        sessions = driver.get_session_store_with_headers("sessions")
        assert sessions.fetch_session("other", 0, 5) == AggregationWithHeaders(1, SHOP)
        reply = driver.create_output_topic("told").read_record()
        assert (reply.key, reply.value, reply.headers) == ("a", 1, SHOP)


def test_a_transaction_writes_headers_too() -> None:
    """The store of a transaction is the one that the step was given."""

    def move(key: str, value: int, tx: Any) -> None:
        tx.store("rows").put(key, value, timestamp=tx.timestamp, headers=tx.headers)

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.transact(keys=lambda key, _: [key], fn=move, stores=builders()[:1], name="move")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, timestamp=7, headers=WEB)
        rows = driver.get_timestamped_key_value_store_with_headers("rows")
        assert rows["a"] == ValueTimestampHeaders(1, 7, WEB)


def test_any_key_is_read_with_its_headers() -> None:
    """Whoever reads another lane's rows sees what their owner sees."""

    class Look(ContextualProcessor[str, int, str, str]):
        def process(self, record: Record[str, int]) -> None:
            row = self.context.any_key_store("rows").get("a")
            self.context.forward(record.with_value(repr(row)))

    builder = keeping()
    looks = builder.stream("look", key=str, value=int).process(Look, reads=["rows"], name="reader")
    looks.to("looks", key=str, value=str)
    with TopologyTestDriver(builder, key_groups=8) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, timestamp=7, headers=SHOP)
        driver.create_input_topic("look").pipe_input("z", 1)
        row = repr(ValueTimestampHeaders(1, 7, SHOP))
        assert driver.create_output_topic("looks").read_values_to_list() == [row]


def test_a_store_without_headers_has_no_handle_that_shows_them() -> None:
    """And one that keeps them opens as what it is."""
    builder = StreamsBuilder()
    tables(builder, with_headers=False)
    with TopologyTestDriver(builder) as driver:
        for get, name in (
            (driver.get_timestamped_key_value_store_with_headers, "table"),
            (driver.get_timestamped_window_store_with_headers, "counts"),
            (driver.get_session_store_with_headers, "visits"),
        ):
            with pytest.raises(StoreError, match="keeps no headers"):
                get(name)
    with TopologyTestDriver(keeping()) as driver:
        names = {
            name: type(store).__name__ for name, store in driver.get_all_state_stores().items()
        }
        assert names == {
            "rows": "TimestampedKeyValueStoreWithHeaders",
            "windows": "TimestampedWindowStoreWithHeaders",
            "several": "TimestampedWindowStoreWithHeaders",
            "sessions": "SessionStoreWithHeaders",
        }


@pytest.mark.parametrize(
    "supplier",
    [
        Stores.persistent_key_value_store("plain"),
        Stores.persistent_versioned_key_value_store("plain", KEPT),
    ],
)
def test_headers_need_a_store_that_can_keep_them(supplier: Any) -> None:
    """They stand next to the timestamp of a value."""
    kept = Materialized[Any, Any](supplier=supplier, with_headers=True)
    with pytest.raises(BadOptionError, match="cannot keep headers"):
        StreamsBuilder().table("rows", key=str, value=int, materialized=kept)


def older() -> list[StoreBuilder]:
    """The same stores in a program that keeps no headers."""
    rows = Stores.persistent_timestamped_key_value_store("rows")
    windows = Stores.persistent_timestamped_window_store("windows", KEPT, SIZE)
    return [
        Stores.timestamped_key_value_store_builder(rows, key=str, value=int),
        Stores.timestamped_window_store_builder(windows, key=str, value=int),
        Stores.session_store_builder(
            Stores.persistent_session_store("sessions", KEPT), key=str, value=int
        ),
    ]


@pytest.mark.parametrize("time", [0, 7, 1_700_000_000_000])
def test_rows_that_were_written_without_headers_have_none(time: int) -> None:
    """The same bytes are read by a program that keeps headers now; what has none stays as it is."""
    now = [store.spec() for store in builders() if store.name != "several"]
    before = [store.spec() for store in older()]
    assert [spec.reads(old.layout) for spec, old in zip(now, before, strict=True)] == [True] * 3
    assert not any(old.reads(spec.layout) for spec, old in zip(now, before, strict=True))
    place = EnvironmentSpec(
        application_id="app", stage="s", group=0, groups=1, stores=tuple(before)
    )
    overlay = Overlay(MemoryEnvironment(place).snapshot(Committed()))

    def opened(spec: StoreSpec) -> Any:
        return open_group_store(overlay.store(spec.name), spec, plain=False)

    stores = {spec.name: opened(spec) for spec in before}
    stores["rows"].put("a", 3, timestamp=time)
    stores["rows"].put("untimed", 4)
    stores["windows"].put("a", 3, 0, timestamp=time)
    stores["sessions"].put(Windowed("a", 0, 5), 3)
    rows, windows, sessions = (opened(spec) for spec in now)
    assert rows["a"] == ValueTimestampHeaders(3, time, ())
    assert rows["untimed"] == ValueTimestampHeaders(4, -1, ())
    assert windows.fetch("a", 0) == ValueTimestampHeaders(3, time, ())
    assert sessions.fetch_session("a", 0, 5) == AggregationWithHeaders(3, ())
    rows.put("a", 5, timestamp=time)
    assert stores["rows"]["a"] == ValueAndTimestamp(5, time)


@pytest.mark.parametrize(
    ("headers", "written"),
    [
        (SHOP, "16020866726f6d0873686f70"),
        (WEB, "2c060866726f6d06776562086e756c6c010866726f6d00"),
        ((("größe", bytes(300)),), "ee04020e6772c3b6c39f65d804" + "00" * 300),
        ((), ""),
    ],
)
def test_headers_lie_before_a_row_as_in_kafka_streams(headers: Headers, written: str) -> None:
    """What its own serializer writes, but for the length of no headers, which is left out."""
    row = pack_timestamped(b"value", 1_000)
    assert add_headers(row, headers).hex() == written + row.hex()
    assert split_headers(add_headers(row, headers)) == (headers, row)


@given(
    value=st.binary(max_size=3),
    time=st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([1 << 56, 1 << 57])),
    headers=HEADERS,
)
def test_no_timestamp_is_taken_for_headers(value: bytes, time: int, headers: Headers) -> None:
    """Whoever counts in nanoseconds reads what was put, too."""
    row = pack_timestamped(value, time)
    assert split_headers(add_headers(row, headers)) == (headers, row)
    codec = StoreCodec(StoreSpec(name="s", with_headers=True), BytesSerde())
    (stored,) = codec.encode_many([value], [time])
    assert stored == codec.encode_one(value, time)
    assert codec.decode_many([stored]) == ([value], [time])
    again = codec.with_headers(codec.with_headers(stored, WEB), headers)
    assert split_headers(again or b"") == (headers, row)
    assert codec.decode_one(again) == value
