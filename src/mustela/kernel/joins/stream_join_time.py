"""Event time in the join of two streams: what rows are judged by, and what closes windows.

By watermark, both sides and the waiting records share one time. By stream time, each store has its
own time, the largest timestamp of the records it keeps, and the waiting records use that of all
records; this is what Kafka Streams does.
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
    """The rows of both sides, left ones first, and the event time each is judged by.

    Attributes:
        batch: The rows.
        lefts: How many of them are left ones.
        nulls: Whether a key or a value may be null.
        order: Their places in merged order.
        keys: Keys as bytes, None for null.
        values: Values as bytes, None for null.
        groups: The key group of each; only if needed.
        now: Event time when each row is handled; only if records wait for a partner.
        floors: The oldest time that the other side still has for each row; see `JoinClock.floors`.
        newest_floor: None of these is larger.
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
    newest_floor: int = 0
    triggers: bytearray = field(default_factory=bytearray)


class JoinClock(Protocol):
    """Event time of a join.

    Attributes:
        highest_min: No time span that a row matches ends before this; None for no bound.
        waiting: The records waiting for a partner; None if none ever wait.
    """

    highest_min: ClassVar[int | None]
    waiting: WaitingRecords | None

    def judge(self, rows: JoinRows) -> None:
        """Set, for each row, event time, and how far back the other side still has records."""
        ...

    def floors(self, rows: JoinRows) -> list[int]:
        """Return, for each row, how far back the other side still has records; after `judge`."""
        ...

    def cause(self, row: int) -> int:
        """Return the row after which results of windows that ``row`` closes are forwarded.

        -1 if they are ordered by their closing time instead.
        """
        ...

    def ends(self, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield the key groups whose windows close when the epoch ends, and their event time."""
        ...

    def forgets(self, side: int, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield key groups with the time before which no record of a side can match any more."""
        ...


def join_clock(
    operator: KeyedOperator[StreamJoinNode], kept: Sequence[LaneStore], unmatched: LaneStore | None
) -> JoinClock:
    """Return the event time of a join.

    Args:
        operator: The join.
        kept: The stores of the two sides' records; one store if both are the same stream.
        unmatched: The store of records without a partner, if they wait.
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
        time = operator.context.time
        self._newest = max(time.before, time.watermark) - operator.step.lag_ms
        self.waiting: WaitingRecords | None = None
        if unmatched is not None:
            self.waiting = WaitingRecords(unmatched, width_ms=window.block_ms)

    def judge(self, rows: JoinRows) -> None:
        """Use the same time for both sides."""
        rows.newest_floor = self._newest - self._kept_ms
        if self.waiting is not None:
            rows.now = self._clock.row_times(rows.batch, ())
            rows.triggers = bytearray(b"\x01") * len(rows.now)

    def floors(self, rows: JoinRows) -> list[int]:
        """Return the same for both sides, found when a row asks for more than all sides have."""
        if not rows.floors:
            kept = self._kept_ms
            now = rows.now or self._clock.row_times(rows.batch, ())
            rows.floors = [time - kept for time in now]
        return rows.floors

    def cause(self, row: int) -> int:
        """Return -1: results are ordered by closing time."""
        del row
        return -1

    def ends(self, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield all key groups, with the watermark."""
        return ((group, self._clock.closed_until(group)) for group in groups)

    def forgets(self, side: int, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield what no record can match any more, by the watermark."""
        del side
        return ((group, now - self._kept_ms) for group, now in self.ends(groups))


class _ByStreamTime:
    """One time per store; waiting records expire as in Kafka Streams."""

    highest_min: ClassVar[int | None] = 0  # Kafka Streams asks for time 0 where a span ends earlier

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
        """Use the time of all records, and that of the store which a row reads."""
        groups, times, lefts = rows.groups, rows.times, rows.lefts
        # One store for both sides behaves like two: a row is kept after its left part.
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
        rows.newest_floor = max(rows.floors, default=0)
        for clock in (*self._stores, self._all):
            clock.save()

    def floors(self, rows: JoinRows) -> list[int]:
        """Return what `judge` found."""
        return rows.floors

    def cause(self, row: int) -> int:
        """Return the row: Kafka Streams looks at what waits when a record comes."""
        return row

    def ends(self, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield nothing: windows that no record has closed wait for one."""
        del groups
        return iter(())

    def forgets(self, side: int, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield what a store has retained long enough, where records arrived."""
        seen = self._stores[side].times(())
        return ((group, seen[group] - self._kept_ms) for group in groups if group in seen)
