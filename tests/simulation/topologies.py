"""The topologies that run in the simulation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mustela import (
    Joined,
    JoinWindows,
    Materialized,
    Record,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from mustela.calls import AsyncOptions
from mustela.processors import ContextualProcessor, PunctuationType
from mustela.windows import BufferConfig
from tests.simulation.broker import BASE_MS

WINDOW_MS = 2_000
GRACE_MS = 500
JOIN_MS = 1_000
GAP_MS = 800
WAIT_MS = 1_000


def count(builder: StreamsBuilder, version: int) -> None:
    """Version 1 does not log its store, version 2 calls it something else.

    Version 3 renames it, and version 4 keeps texts in it.
    """
    records = builder.stream("in", key=str, value=str).group_by_key()
    if version == 4:
        texts = records.reduce(lambda _text, value: value, store="counts")
        texts.to_stream().to("out", key=str, value=str)
        return
    if version == 1:
        counts = records.count(materialized=Materialized(store="counts", logged=False))
    elif version == 3:
        counts = records.count(materialized=Materialized(store="tally", renamed_from="counts"))
    else:
        counts = records.count(store="renamed" if version == 2 else "counts")
    counts.to_stream().to("out", key=str, value=int)


def two(builder: StreamsBuilder, version: int) -> None:
    """Version 1 reads only one of the topics."""
    records = builder.stream("in", key=str, value=str)
    if version == 0:
        records = records.merge(builder.stream("side", key=str, value=str))
    records.group_by_key().count(store="counts").to_stream().to("out", key=str, value=int)


def words(builder: StreamsBuilder, version: int) -> None:
    records = builder.stream("in", key=str, value=str)
    words = records.group_by(lambda _key, value: value)
    words.count(store="words").to_stream().to("out", key=str, value=int)


def histogram(builder: StreamsBuilder, version: int) -> None:
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    bars = counts.group_by(lambda key, count: (str(count), key), key=str, value=str)
    bars.count(store="bars").to_stream().to("out", key=str, value=int)


def windows(builder: StreamsBuilder, version: int) -> None:
    """Version 1 has windows of another size."""
    size = timedelta(milliseconds=WINDOW_MS * (1 + version))
    windows = TimeWindows(size=size, grace=timedelta(milliseconds=GRACE_MS))
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    counts.count(store="windows").to_stream().map(flat).to("out", key=str, value=int)


def final(builder: StreamsBuilder, version: int) -> None:
    """Version 1 has windows of another size."""
    size = timedelta(milliseconds=WINDOW_MS * (1 + version))
    windows = TimeWindows(size=size, grace=timedelta(milliseconds=GRACE_MS))
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    closed = Suppressed.until_window_closes(BufferConfig.unbounded(), name="closed")
    finals = counts.count(store="windows").suppress(closed)
    finals.to_stream().map(flat).to("out", key=str, value=int)


def flat(window: Any, count: int) -> tuple[str, int]:
    return f"{window.key}@{window.start - BASE_MS}", count


def join(builder: StreamsBuilder, version: int) -> None:
    table = builder.table("side", key=str, value=str, store="side")
    records = builder.stream("in", key=str, value=str)
    joined = records.join(table, lambda value, row: f"{value}+{row}", name="joined")
    joined.to("out", key=str, value=str)


def _span(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _both(left: str, right: str) -> str:
    return f"{left}+{right}"


def _either(left: str | None, right: str | None) -> str:
    return f"{left or ''}+{right or ''}"


def pairs(builder: StreamsBuilder, version: int) -> None:
    """A join of two streams."""
    windows = JoinWindows.of_time_difference(_span(JOIN_MS), grace=_span(GRACE_MS))
    side = builder.stream("side", key=str, value=str)
    records = builder.stream("in", key=str, value=str)
    joined = records.join(side, _both, windows=windows, name="pairs", store="pairs")
    joined.to("out", key=str, value=str)


def alone(builder: StreamsBuilder, version: int) -> None:
    """A full outer join of two streams: who meets nobody is told when the window closes."""
    windows = JoinWindows.of_time_difference(_span(JOIN_MS), grace=_span(GRACE_MS))
    side = builder.stream("side", key=str, value=str)
    records = builder.stream("in", key=str, value=str)
    joined = records.outer_join(side, _either, windows=windows, name="alone", store="alone")
    joined.to("out", key=str, value=str)


def tables(builder: StreamsBuilder, version: int) -> None:
    """An outer join of two tables."""
    left = builder.table("in", key=str, value=str, store="left")
    right = builder.table("side", key=str, value=str, store="right")
    joined = left.outer_join(right, _either, value=str, name="joined", store="joined")
    joined.to_stream().to("out", key=str, value=str)


def foreign(builder: StreamsBuilder, version: int) -> None:
    """A join of two tables by foreign key: ``v3`` refers to ``k3``."""
    left = builder.table("in", key=str, value=str, store="left")
    right = builder.table("side", key=str, value=str, store="right")
    joined = left.join(
        right, _both, foreign_key=lambda value: f"k{value[1:]}", value=str, name="joined"
    )
    joined.to_stream().to("out", key=str, value=str)


def global_(builder: StreamsBuilder, version: int) -> None:
    """A join with a global table."""
    table = builder.global_table("side", key=str, value=str, store="side")
    records = builder.stream("in", key=str, value=str)
    joined = records.join(table, _both, foreign_key_with_key=lambda key, _value: key, name="joined")
    joined.to("out", key=str, value=str)


def versioned(builder: StreamsBuilder, version: int) -> None:
    """A join with a table that keeps versions, for which records wait."""
    kept = Stores.persistent_versioned_key_value_store("side", timedelta(days=400))
    table = builder.table("side", key=str, value=str, materialized=Materialized(supplier=kept))
    records = builder.stream("in", key=str, value=str)
    waiting = Joined(grace=_span(WAIT_MS))
    joined = records.join(table, _both, value=str, name="joined", joined=waiting)
    joined.to("out", key=str, value=str)


def sessions(builder: StreamsBuilder, version: int) -> None:
    """Sessions that grow and merge; version 1 has another gap."""
    windows = SessionWindows(inactivity_gap=_span(GAP_MS * (1 + version)), grace=_span(GRACE_MS))
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    counts.count(store="sessions").to_stream().map(_session).to("out", key=str, value=int)


def settled(builder: StreamsBuilder, version: int) -> None:
    """Sessions that are told once, when they are over."""
    windows = SessionWindows(inactivity_gap=_span(GAP_MS), grace=_span(GRACE_MS))
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    closed = Suppressed.until_window_closes(BufferConfig.unbounded(), name="closed")
    finals = counts.count(store="sessions").suppress(closed)
    finals.to_stream().map(_session).to("out", key=str, value=int)


def _session(window: Any, count: int | None) -> tuple[str, int | None]:
    return f"{window.key}@{window.start - BASE_MS}-{window.end - BASE_MS}", count


def held_back(builder: StreamsBuilder, version: int) -> None:
    """A table whose changes are held back for a time."""
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    later = Suppressed.until_time_limit(_span(WAIT_MS), BufferConfig.unbounded(), name="later")
    counts.suppress(later).to_stream().to("out", key=str, value=int)


def twice(builder: StreamsBuilder, version: int) -> None:
    """Records get another key twice."""
    records = builder.stream("in", key=str, value=str)
    words = records.group_by(lambda _key, value: value).count(store="words").to_stream()
    remainders = words.group_by(lambda _key, count: count % 3, key=int, value=int)
    counts = remainders.count(store="remainders").to_stream()
    odd = counts.group_by(lambda _key, count: str(count % 2), key=str, value=int)
    odd.count(store="odd").to_stream().to("out", key=str, value=int)


def branches(builder: StreamsBuilder, version: int) -> None:
    """Two branches that end in one topic."""
    records = builder.stream("in", key=str, value=str)
    low = records.filter(lambda _key, value: value in {"v0", "v1"}, name="low")
    high = records.filter_not(lambda _key, value: value in {"v0", "v1"}, name="high")
    low.map_values(lambda value: f"low {value}").to("out", key=str, value=str, name="low-out")
    high.map_values(lambda value: f"high {value}").to("out", key=str, value=str, name="high-out")


def _counts() -> Any:
    counts = Stores.persistent_key_value_store("counts")
    return Stores.key_value_store_builder(counts, key=str, value=int)


class _Late(ContextualProcessor[str, str, str, int]):
    """Counts, and tells the count of a key some time after its last record."""

    @staticmethod
    def stores() -> list[Any]:
        """Name the store."""
        return [_counts()]

    def process(self, record: Record[str, str]) -> None:
        """Count."""
        counts = self.context.state_store("counts")
        counts.put(record.key, (counts.get(record.key) or 0) + 1)
        self.context.register_event_time_timer(record.timestamp + WAIT_MS)

    def on_timer(self, timer: Any, context: Any) -> None:
        """Tell."""
        context.forward(timer.with_value(context.state_store("counts").get(timer.key)))


class _Clock(ContextualProcessor[str, str, str, int]):
    """Counts, and tells all counts when the clock ticks."""

    @staticmethod
    def stores() -> list[Any]:
        """Name the store."""
        return [_counts()]

    def init(self, context: Any) -> None:
        """Ask for ticks."""
        super().init(context)
        context.schedule(_span(WAIT_MS), PunctuationType.WALL_CLOCK_TIME, self.tell)

    def process(self, record: Record[str, str]) -> None:
        """Count."""
        counts = self.context.state_store("counts")
        counts.put(record.key, (counts.get(record.key) or 0) + 1)

    def tell(self, now: int) -> None:
        """Tell."""
        for key, count in self.context.state_store("counts").all():
            self.context.forward(Record(key, count, now))


class _Listed(ContextualProcessor[str, str, str, str]):
    """Keeps the last value of each key, and tells under which ones an index had it before."""

    @staticmethod
    def stores() -> list[Any]:
        """Name the store."""
        kept = Stores.persistent_key_value_store("kept")
        return [Stores.key_value_store_builder(kept, key=str, value=str).with_index(value=_same)]

    def process(self, record: Record[str, str]) -> None:
        """Look the key up, and put."""
        kept = self.context.state_store("kept")
        under = [value for key, value in kept.by("value").range() if key == record.key]
        kept.put(record.key, record.value)
        self.context.forward(record.with_value("+".join([*under, record.value])))


def _same(value: str) -> str:
    return value


def indexed(builder: StreamsBuilder, version: int) -> None:
    """A store with an index."""
    records = builder.stream("in", key=str, value=str)
    records.process(_Listed, name="listed").to("out", key=str, value=str)


def timers(builder: StreamsBuilder, version: int) -> None:
    """A processor with timers."""
    records = builder.stream("in", key=str, value=str)
    records.process(_Late, name="late").to("out", key=str, value=int)


def ticks(builder: StreamsBuilder, version: int) -> None:
    """A processor that acts on the clock."""
    records = builder.stream("in", key=str, value=str)
    records.process(_Clock, name="clock").to("out", key=str, value=int)


async def _shout(value: str) -> str:
    return value.upper()


def calls(builder: StreamsBuilder, version: int) -> None:
    """Calls to the outside."""
    records = builder.stream("in", key=str, value=str)
    loud = records.map_values_async(_shout, AsyncOptions(), value=str, name="shout")
    loud.to("out", key=str, value=str)


def grow(builder: StreamsBuilder) -> None:
    """Add a source, a store and a sink to whatever is there."""
    records = builder.stream("extra", key=str, value=str).group_by_key()
    records.count(store="extra").to_stream().to("more", key=str, value=int)
