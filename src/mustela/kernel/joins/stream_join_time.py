"""What the rows of a join of two streams are judged by, and what closes the windows of those alone.

By watermark both sides have one time, and what waits closes with it. By stream time each store has
a time of its own, the largest timestamp of the records it keeps, and so has what waits: that of all
records; so it is in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from mustela.kernel.core.event_time import StreamTimeClock, by_event_time
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.joins.stream_join_pace import PacedWaiting
from mustela.kernel.joins.stream_join_waiting import WaitingRecords
from mustela.plan.batch import Batch
from mustela.topology.stream_join import StreamJoinNode

__all__ = ["JoinClock", "JoinRows", "join_clock"]

LEFT, RIGHT = 0, 1


@dataclass(slots=True)
class JoinRows:
    """The rows of both sides, left ones first, and what each of them is judged by.

    Attributes:
        batch: The rows.
        lefts: How many of them are left ones.
        nulls: Whether a key or a value may be null.
        order: Their places in merged order.
        keys: Keys as bytes, None for null.
        values: Values as bytes, None for null.
        groups: The key group of each; only where somebody needs it.
        now: Event time as each row is handled.
        floors: What is older is no longer there for the row to meet.
        triggers: Whether a row closes windows.
    """

    batch: Batch
    lefts: int
    order: Sequence[int]
    keys: list[Any]
    values: list[Any]
    times: list[int]
    nulls: bool = False
    groups: list[int] = field(default_factory=list[int])
    now: list[int] = field(default_factory=list[int])
    floors: list[int] = field(default_factory=list[int])
    triggers: bytearray = field(default_factory=bytearray)


class JoinClock(Protocol):
    """Event time of a join.

    Attributes:
        highest_min: No span of times that a row meets ends before this; None for no such bound.
        waiting: What waits for a partner; None where nobody does.
    """

    highest_min: ClassVar[int | None]
    waiting: WaitingRecords | None

    def judge(self, rows: JoinRows) -> None:
        """Say for each row what time it is, and what the other side still holds for it."""
        ...

    def cause(self, row: int) -> int:
        """Return the row with which the windows go on that close when ``row`` comes.

        -1 where they go on at the moment of their closing.
        """
        ...

    def ends(self, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Give the key groups whose windows close when the epoch ends, and their event time."""
        ...

    def forgets(self, side: int, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Give key groups with the time before which a side's records are not met any more."""
        ...


def join_clock(
    operator: KeyedOperator[StreamJoinNode], kept: Sequence[LaneStore], unmatched: LaneStore | None
) -> JoinClock:
    """Return the event time of a join.

    Args:
        operator: The join.
        kept: Where the records of the sides are; one store where both are one stream.
        unmatched: Where those without a partner wait, if they do.
    """
    kind: Any = by_event_time(operator.options, watermark=_ByWatermark, stream_time=_ByStreamTime)
    return kind(operator, kept, unmatched)


class _ByWatermark:
    """One time for both sides."""

    highest_min: ClassVar[int | None] = None

    def __init__(
        self,
        operator: KeyedOperator[StreamJoinNode],
        kept: Sequence[LaneStore],
        unmatched: LaneStore | None,
    ) -> None:
        window = operator.node.window
        self._clock = operator.event_clock(kept[LEFT])
        self._kept_ms = window.kept_ms
        self.waiting: WaitingRecords | None = None
        if unmatched is not None:
            self.waiting = WaitingRecords(unmatched, width_ms=window.block_ms)

    def judge(self, rows: JoinRows) -> None:
        """By the same time, whichever side a row is of."""
        kept = self._kept_ms
        rows.now = self._clock.row_times(rows.batch, ())
        rows.floors = [now - kept for now in rows.now]
        rows.triggers = bytearray(b"\x01") * len(rows.now)

    def cause(self, row: int) -> int:
        """At the moment of their closing."""
        del row
        return -1

    def ends(self, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """All key groups come to the watermark."""
        return ((group, self._clock.closed_until(group)) for group in groups)

    def forgets(self, side: int, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """What nobody can meet any more, by the watermark."""
        del side
        return ((group, now - self._kept_ms) for group, now in self.ends(groups))


class _ByStreamTime:
    """A time for each store; what waits closes at the pace of Kafka Streams."""

    highest_min: ClassVar[int | None] = 0  # it asks for time 0 where a span ends before that

    def __init__(
        self,
        operator: KeyedOperator[StreamJoinNode],
        kept: Sequence[LaneStore],
        unmatched: LaneStore | None,
    ) -> None:
        window = operator.node.window
        self._stores = [StreamTimeClock(store) for store in kept]
        self._all = StreamTimeClock(unmatched)
        self._kept_ms = self._all.kept_ms(needed=window.kept_ms, retained=window.retention_ms)
        self.waiting: WaitingRecords | None = None
        if unmatched is not None:
            self.waiting = PacedWaiting(unmatched, window)

    def judge(self, rows: JoinRows) -> None:
        """By the time of all records, and by that of the store in which a row looks."""
        groups, times, lefts = rows.groups, rows.times, rows.lefts
        # One store for both sides is the same as two: a row is kept after its left part.
        seen = [clock.times(groups) for clock in self._stores] * (2 // len(self._stores))
        tracked = self._all.times(groups)
        rows.now, rows.floors = [0] * len(times), [0] * len(times)
        rows.triggers = bytearray(len(times))
        for row in rows.order:
            group, time = groups[row], times[row]
            now = tracked[group]
            if time >= now:
                tracked[group] = now = time
                rows.triggers[row] = 1
            rows.now[row] = now
            mine = LEFT if row < lefts else RIGHT
            rows.floors[row] = seen[1 - mine][group] - self._kept_ms
            if rows.keys[row] is None or rows.values[row] is None:
                rows.triggers[row] = 0
            elif time > seen[mine][group]:
                seen[mine][group] = time
        for clock in (*self._stores, self._all):
            clock.save()

    def cause(self, row: int) -> int:
        """Return the row: Kafka Streams looks at what waits when a record comes."""
        return row

    def ends(self, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """No key group: what no record closed goes on waiting for one."""
        del groups
        return iter(())

    def forgets(self, side: int, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """What a store has retained long enough, where records came."""
        seen = self._stores[side].times(())
        return ((group, seen[group] - self._kept_ms) for group in groups if group in seen)
