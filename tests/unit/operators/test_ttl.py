"""Rows that are kept for a time: against a model, in both kinds of event time and by the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, strategies as st

from mustela import Materialized, Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, SharedStoreError
from mustela.plan.keygroups import key_group
from mustela.planner.planner import plan
from mustela.processors import ContextualProcessor
from mustela.topology.fingerprint import fingerprint
from mustela.topology.graph import TopologyGraph
from mustela.topology.meaning_changes import compare_meanings
from tests.epochs import cut, ms, pipe_in_epochs

WALL_CLOCK = 60_000


class Sent(NamedTuple):
    key: str
    value: int | None
    timestamp: int


def kept(ttl: int, **more: Any) -> Materialized[Any, Any]:
    return Materialized(store="rows", ttl=ms(ttl), **more)


def plus(total: int, value: int) -> int | None:
    """Add, and delete what gets too large."""
    return None if total + value > 12 else total + value


PLAIN = Stores.persistent_key_value_store("rows")
MAKERS: dict[str, Callable[[Any, int], Any]] = {
    "count": lambda s, ttl: s.group_by_key().count(materialized=kept(ttl)),
    "reduce": lambda s, ttl: s.group_by_key().reduce(plus, materialized=kept(ttl)),
    "plain": lambda s, ttl: s.group_by_key().count(
        materialized=Materialized(supplier=PLAIN, ttl=ms(ttl))
    ),
    "table": lambda s, ttl: s.to_table(materialized=kept(ttl)),
    "headers": lambda s, ttl: s.to_table(materialized=kept(ttl, with_headers=True)),
    "result": lambda s, ttl: s.to_table(store="t").map_values(
        lambda value: value + 1, value=int, materialized=kept(ttl)
    ),
}


@dataclass
class Model:
    """The rows of a table, record by record."""

    kind: str
    ttl: int
    group_of: Callable[[str], int]
    rows: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    told: dict[str, list[int | None]] = field(default_factory=dict[str, list[int | None]])
    now: dict[int, int] = field(default_factory=dict[int, int])

    def move(self, key: str, timestamp: int) -> int:
        group = self.group_of(key)
        self.now[group] = max(self.now.get(group, -1), timestamp)
        return self.now[group]

    def expire(self, key: str) -> None:
        if key in self.rows and self.rows[key][1] + self.ttl <= self.now[self.group_of(key)]:
            del self.rows[key]
            self.told[key].append(None)

    def add(self, sent: Sent) -> None:
        key, value, timestamp = sent
        self.move(key, timestamp)
        self.expire(key)
        before = self.rows.get(key)
        if self.kind in {"table", "headers", "result"}:
            new = value if self.kind != "result" or value is None else value + 1
            row = None if new is None else (new, timestamp)
        elif value is None:
            return
        else:
            total = {"reduce": value}.get(self.kind, 1)
            if before is not None:
                added = plus(before[0], value) if self.kind == "reduce" else before[0] + 1
                row = None if added is None else (added, max(before[1], timestamp))
            else:
                row = (total, timestamp)
            if row is not None and self.kind == "plain":
                row = (row[0], max(timestamp, before[1] if before else timestamp))
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
        if row is not None or before is not None:
            self.told.setdefault(key, []).append(None if row is None else row[0])

    def end(self) -> None:
        for key in list(self.rows):
            self.expire(key)


def topology(kind: str, ttl: int) -> TopologyGraph:
    """Tell each change, and take rows out of a sum again."""
    builder = StreamsBuilder()
    table = MAKERS[kind](builder.stream("in", key=str, value=int), ttl)
    table.to_stream().to("out", key=str, value=int)
    grouped = table.group_by(lambda _key, value: ("all", value), key=str, value=int)
    sums = grouped.reduce(int.__add__, int.__sub__, store="sums")
    sums.to_stream().to("sums", key=str, value=int)
    return builder.build()


RECORDS = st.lists(
    st.builds(
        Sent,
        st.sampled_from(["a", "a", "b", "c"]),
        st.integers(1, 5) | st.none(),
        st.integers(0, 40),
    ),
    max_size=30,
)
LANES = [{}, {"key_groups": 8, "lanes": 3, "crash_after_every_record": True}]


def run(
    built: TopologyGraph, records: Sequence[Sent], sizes: Sequence[int], **options: Any
) -> tuple[dict[str, list[int | None]], dict[str, int], int | None]:
    with TopologyTestDriver(built, initial_wall_clock=WALL_CLOCK, **options) as driver:
        pipe_in_epochs(driver, cut(records, sizes), topic="in")
        told: dict[str, list[int | None]] = {}
        for key, value in driver.create_output_topic("out").read_key_values_to_list():
            told.setdefault(key, []).append(value)
        sums = driver.create_output_topic("sums").read_values_to_list()
        rows = dict(driver.get_key_value_store("rows").all())
    return told, rows, sums[-1] if sums else None


def told_once(changes: Sequence[int | None]) -> list[int | None]:
    """Return changes without deletions of what is not there, which tables pass on."""
    pairs = zip([None, *changes], changes, strict=False)
    return [new for old, new in pairs if (old, new) != (None, None)]


@pytest.mark.parametrize("kind", sorted(MAKERS))
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
@given(
    records=RECORDS,
    sizes=st.lists(st.integers(1, 8), max_size=8),
    ttl=st.integers(1, 15),
    emit=st.sampled_from(["every", "barrier"]),
    lanes=st.sampled_from(LANES),
)
def test_rows_and_what_is_told_of_them_are_the_models_however_epochs_are_cut(
    *,
    kind: str,
    event_time: str,
    records: list[Sent],
    sizes: list[int],
    ttl: int,
    emit: str,
    lanes: dict[str, Any],
) -> None:
    """Late records included, crashes too; a sum of the rows has what is there, and nothing else."""
    if kind == "result":  # at the barrier it does not see all that moves stream time
        emit = "every"
    settings = {"event_time": event_time, "emit": emit}
    told, rows, total = run(topology(kind, ttl), records, sizes, settings=settings, **lanes)
    groups = 1 if event_time == "watermark" else lanes.get("key_groups", 1)
    model = Model(kind, ttl, lambda key: key_group(key.encode(), groups))
    for sent in records:
        if kind in {"table", "headers", "result"} or sent.value is not None:
            model.add(sent)
        else:  # no row of it comes to the step
            model.move(sent.key, sent.timestamp)
    model.end()
    assert rows == {key: value for key, (value, _) in model.rows.items()}
    assert (total or 0) == sum(rows.values())
    if emit == "every":
        assert {key: told_once(changes) for key, changes in told.items() if any(changes)} == {
            key: told_once(changes) for key, changes in model.told.items() if any(changes)
        }
    else:
        last = {key: changes[-1] for key, changes in told.items() if changes[-1] is not None}
        assert last == rows


@pytest.mark.parametrize("lanes", LANES)
def test_by_the_clock_a_row_lives_as_long_as_nobody_writes_it(lanes: dict[str, Any]) -> None:
    """What expires is told while no record comes, at its time and not before."""
    builder = StreamsBuilder()
    table = (
        builder.stream("in", key=str, value=int)
        .group_by_key()
        .count(materialized=kept(10, ttl_by="processing_time"))
    )
    table.to_stream().to("out")
    with TopologyTestDriver(builder, initial_wall_clock=0, **lanes) as driver:
        topic, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        topic.pipe_input("a", 1, timestamp=500)
        topic.pipe_input("b", 1, timestamp=100)
        driver.advance_wall_clock_time(ms(6))
        topic.pipe_input("a", 1, timestamp=0)
        driver.advance_wall_clock_time(ms(3))
        assert out.read_key_values_to_list() == [("a", 1), ("b", 1), ("a", 2)]
        driver.advance_wall_clock_time(ms(1))
        assert out.read_key_values_to_list() == [("b", None)]
        driver.advance_wall_clock_time(ms(5))
        assert dict(driver.get_key_value_store("rows").all()) == {"a": 2}
        driver.crash(lose_state=True)
        driver.advance_wall_clock_time(ms(1))
        assert out.read_key_values_to_list() == [("a", None)]
        topic.pipe_input("a", 1)
        assert out.read_key_values_to_list() == [("a", 1)]


def test_an_idle_row_goes_when_the_watermark_comes_to_its_time() -> None:
    """Without a record of its own, and though state was lost meanwhile."""
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, materialized=kept(10))
    table.to_stream().to("out")
    with TopologyTestDriver(builder, settings={"event_time": "watermark"}) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, timestamp=100)
        driver.crash(lose_state=True)
        driver.advance_watermark(109)
        assert driver.create_output_topic("out").read_values_to_list() == [1]
        driver.advance_watermark(110)
        (record,) = driver.create_output_topic("out").read_records_to_list()
        assert (record.key, record.value, record.timestamp) == ("a", None, 110)


@pytest.mark.parametrize("lose_state", [False, True])
def test_the_changelog_has_a_deletion_for_each_row_that_expired(*, lose_state: bool) -> None:
    """So a copy that is restored does not hold it, and what is stored is bounded."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().count(materialized=kept(10))
    with TopologyTestDriver(builder, settings={"event_time": "stream-time"}) as driver:
        for time in range(100):
            driver.create_input_topic("in").pipe_input(f"k{time}", 1, timestamp=time)
        driver.crash(lose_state=lose_state)
        cluster = driver._cluster  # pyright: ignore[reportPrivateUsage]
        (place,) = list(cluster.environments)
        driver.create_input_topic("in").pipe_input("last", 1, timestamp=100)
        stored = cluster.environments[place].snapshot(cluster.committed(place)).count("rows")
        keys = {key for key, _ in driver.get_key_value_store("rows").all()}
    assert keys == {"last", *(f"k{time}" for time in range(91, 100))}
    assert stored == 2 * len(keys) + 1  # a row and a line of the index for each, and stream time


@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_a_join_does_not_meet_a_row_that_is_over(event_time: str) -> None:
    """Not even where the record and the end of the row are in one epoch."""
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=int, materialized=kept(10))
    orders = builder.stream("orders", key=str, value=int)
    orders.left_join(prices, lambda order, price: (order, price), name="j").to(
        "out", value=tuple[int, int | None]
    )
    with TopologyTestDriver(builder, settings={"event_time": event_time}) as driver:
        price, order = driver.create_input_topic("prices"), driver.create_input_topic("orders")
        with driver.epoch():
            price.pipe_input("a", 7, timestamp=0)
            order.pipe_input("a", 1, timestamp=9)
            price.pipe_input("b", 7, timestamp=10)
            order.pipe_input("a", 2, timestamp=10)
        assert driver.create_output_topic("out").read_values_to_list() == [(1, 7), (2, None)]


class Remember(ContextualProcessor[str, int, str, int]):
    """Tells what it finds, then keeps the value."""

    def process(self, record: Record[str, int]) -> None:
        store: Any = self.context.state_store("seen")
        found = store.get(record.key)
        all_keys = sum(1 for _ in store.all())
        self.context.forward(record.with_value(-1 if found is None else all_keys))
        store.put(record.key, record.value)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("by", ["event_time", "processing_time"])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_a_processor_does_not_see_rows_that_are_over(
    event_time: str, by: Any, lanes: dict[str, Any], *, cut: bool
) -> None:
    """Whatever the number of records in an epoch; what it writes again lives again."""
    seen = Stores.key_value_store_builder(PLAIN_SEEN, key=str, value=int).with_ttl(ms(10), by)
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.process(Remember, stores=[seen], name="remember").to("out", key=str, value=int)
    settings = {"event_time": event_time}
    with TopologyTestDriver(builder, settings=settings, initial_wall_clock=0, **lanes) as driver:
        topic, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        times = [0, 9, 18, 28, 40]
        if cut:
            for time in times:
                topic.pipe_input("a", time, timestamp=time)
                if by == "processing_time":
                    driver.advance_wall_clock_time(ms(9 if time < 18 else 10))
        else:
            topic.pipe_key_value_list([("a", time) for time in times], start=0, advance=10)
        found = out.read_values_to_list()
        driver.advance_wall_clock_time(ms(100))
        left = len(driver.get_key_value_store("seen"))
    if by == "event_time":
        assert found == ([-1, 1, 1, -1, -1] if cut else [-1, -1, -1, -1, -1])
        assert left == 1
    else:
        assert found == ([-1, 1, 1, -1, -1] if cut else [-1, 1, 1, 1, 1])
        assert left == 0


PLAIN_SEEN = Stores.persistent_key_value_store("seen")


def test_another_time_to_live_holds_from_now_on() -> None:
    """For the gate it is a change that can go on; for the rows that are there, too."""
    topologies = [topology("count", ttl) for ttl in (10, 20)]
    then, now = (plan(one).meanings["rows"] for one in topologies)
    assert [(c.field, c.then, c.now, c.compatible) for c in compare_meanings(then, now)] == [
        ("ttl_ms", "10 ms", "20 ms", True)
    ]
    prints = {fingerprint(one) for one in topologies}
    assert len(prints) == 2
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().count(store="rows")
    never = plan(builder.build()).meanings["rows"]
    changes = compare_meanings(never, now)
    assert [(c.field, c.compatible) for c in changes] == [("layout", False), ("ttl_ms", True)]


@pytest.mark.parametrize(
    "write",
    [
        lambda t, s: t.filter(lambda _k, _v: True, materialized=Materialized(ttl=ms(5))),
        lambda t, s: t.group_by(lambda k, v: (v, k), key=int, value=str).count(
            materialized=kept(5)
        ),
        lambda t, s: t.join(t, lambda a, b: a, materialized=Materialized(ttl=ms(5))),
        lambda t, s: s.to_table(materialized=kept(5, ttl_by="wall")),
        lambda t, s: s.to_table(materialized=Materialized(store="x", ttl=ms(0))),
        lambda t, s: s.to_table(materialized=Materialized(store="x", ttl=cast("Any", 5))),
        lambda t, s: s.to_table(
            materialized=Materialized(
                supplier=Stores.persistent_versioned_key_value_store("x", ms(9)), ttl=ms(5)
            )
        ),
        lambda t, s: s.group_by_key().count(
            materialized=Materialized(supplier=Stores.lru_map("x", 5), ttl=ms(5))
        ),
    ],
)
def test_what_cannot_expire_says_so(write: Callable[[Any, Any], Any]) -> None:
    """At the user's line, with what to do."""
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=int, store="t")
    stream = builder.stream("s", key=str, value=int)
    with pytest.raises(BadOptionError) as raised:
        write(table, stream)
    assert raised.value.fix
    assert raised.value.at is not None
    assert raised.value.at.file == __file__


def test_a_store_that_forgets_is_not_changed_from_other_lanes() -> None:
    """A change would begin with what is there, or not, by chance."""
    seen = Stores.key_value_store_builder(PLAIN_SEEN, key=str, value=int).with_ttl(ms(10))
    stream = StreamsBuilder().stream("in", key=str, value=int)
    with pytest.raises(SharedStoreError, match="forgets keys"):
        stream.process(Remember, updates=[seen], name="remember")
    lru: Any = Stores.key_value_store_builder(Stores.lru_map("x", 5), key=str, value=int)
    with pytest.raises(BadOptionError, match="time to live"):
        lru.with_ttl(ms(5))


def test_more_rows_than_an_epoch_looks_at_go_in_those_right_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though no record comes, and time stands still."""
    monkeypatch.setattr("mustela.kernel.core.expiry.SWEPT_MAX", 1)
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, materialized=kept(10))
    table.to_stream().to("out")
    with TopologyTestDriver(builder, settings={"event_time": "watermark"}) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_key_value_list([(f"k{n}", n) for n in range(9)], start=100)
        driver.advance_watermark(110)
        driver.advance_wall_clock_time(ms(1))
        found = driver.create_output_topic("out").read_key_values_to_list()
        assert 0 < len([key for key, value in found if value is None]) < 9
        for _ in range(9):
            driver.advance_wall_clock_time(ms(1))
        found += driver.create_output_topic("out").read_key_values_to_list()
    assert [key for key, value in found if value is None] == [f"k{n}" for n in range(9)]
