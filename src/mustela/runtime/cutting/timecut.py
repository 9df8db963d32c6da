"""Cutting a backlog by event time, so that all partitions reach the same time together.

Cut by volume, a stream of three days and a table of a thousand rows would drift apart: records
would be joined with rows of another day. So the end of an epoch is a point in time, found with the
broker's time index, and made exact by the tasks that read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mustela.model import TopicPartition
from mustela.plan.ranges import RangeReport
from mustela.runtime.record.source_offsets import Cut

__all__ = ["Backlog", "Seen", "TimeCutter", "seen_behind"]

Lookup = Callable[[int], Mapping[TopicPartition, int]]
"""Returns, for a time in milliseconds, each partition's first offset at or after it."""

_ENOUGH = 0.5
_AIM = 0.9
"""The share of a budget that the first lookup aims for, assuming the rate of records is
unchanged."""
_WIDER = 8.0
_STEPS_MAX = 48
SLACK_MIN = 1_000
"""How many records a task may read beyond those that the broker's index says are old enough."""


class Seen(NamedTuple):
    """What tasks found in a partition after the offset that the broker's index gave.

    Attributes:
        records: How many records.
        top: The largest order time among them and all earlier records.
        end: Where reading ended.
        next_ms: The order time of the record at which it stopped; -1 if it did not.
    """

    records: int = 0
    top: int = -1
    end: int = -1
    next_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The records waiting to be read.

    Attributes:
        waiting: Next offset and end of each partition that has records.
        floors: For each of them, a time not after its records.
        budget: Approximate maximum number of offsets to read.
        high: A time after all records.
        lookup: Offsets for a time; a partition it leaves out is read to its end.
        retimed: Topics whose record times the lookup does not know.
    """

    waiting: Mapping[TopicPartition, tuple[int, int]]
    floors: Mapping[TopicPartition, int]
    budget: int
    high: int
    lookup: Lookup
    retimed: Collection[str] = ()


class TimeCutter:
    """Finds the latest time up to which the partitions together hold no more than a budget.

    The broker's index only finds the first record at or after a time, from the start of the log.
    Transaction markers, aborted records and timestamps far in the future count too, so more records
    may be before the time than it says. So tasks read on from there until they see the time pass.
    How many records they read, and how fast event time advanced, is remembered, so that few lookups
    and no second reading are needed.

    Example:
        >>> a, b = TopicPartition("a", 0), TopicPartition("b", 0)
        >>> cutter = TimeCutter()  # a has a record each millisecond, b one in ten
        >>> cuts, moment = cutter.cut(Backlog(
        ...     waiting={a: (0, 100), b: (0, 10)},
        ...     floors={a: 0, b: 0},
        ...     budget=55,
        ...     high=1_000,
        ...     lookup=lambda time: {a: min(time, 100), b: min(-(-time // 10), 10)},
        ... ))
        >>> 25 < cuts[a].sure <= 50, cuts[b].sure == -(-cuts[a].sure // 10), moment == cuts[a].sure
        (True, True, True)
    """

    def __init__(self, *, slack_min: int = SLACK_MIN) -> None:
        self._slack_min = slack_min
        self._step = 0
        self._found = 0
        self._low = 0
        self._limit: int | None = None
        self._fills = False
        self._rates: dict[TopicPartition, float] = {}
        self._next: dict[TopicPartition, tuple[int, int]] = {}

    def cut(self, backlog: Backlog) -> tuple[dict[TopicPartition, Cut], int]:
        """Return what to read, and a time before which no record is left out.

        Tasks stop at it, unless a single millisecond holds more than the budget; then no cut has a
        ``sure`` offset.
        """
        waiting, budget = backlog.waiting, backlog.budget
        low = self._low = max(0, min(self._time(place, backlog) for place in waiting))
        found, moment, above = self._search(backlog, low)
        if moment is None:
            ends = _fill(waiting, above, budget)
            cuts = {
                place: Cut(start, ends[place], end)
                for place, (start, end) in waiting.items()
                if ends[place] > start and self._time(place, backlog) <= low
            }
            if cuts:
                self._step = 0
                return cuts, low
            # The index does not show how many records have exactly this time: tasks see that.
            moment = low + 1
        self._step = moment - low
        slack = max(budget, self._slack_min)
        cuts: dict[TopicPartition, Cut] = {}
        for place, (start, end) in waiting.items():
            if self._time(place, backlog) >= moment:
                continue
            sure = start if place.topic in backlog.retimed else found[place]
            likely = sure + int(2 * self._rates.get(place, 0.0) * (moment - low))
            cuts[place] = Cut(start, min(end, likely + slack), end, sure=sure)
        return cuts, moment

    def settle(
        self, cuts: Mapping[TopicPartition, Cut], seen: Mapping[TopicPartition, Seen]
    ) -> bool:
        """Learn from what tasks found after a cut; return whether all of them reached its time.

        If one did not, the partitions have not reached the same time and the epoch must not be
        committed. The next cut is at a time that this partition's records were seen to reach.
        """
        tops: list[int] = []
        for place, cut in cuts.items():
            met = seen.get(place, Seen())
            assert cut.sure is not None, place
            if met.next_ms >= 0:
                self._next[place] = (met.end, met.next_ms)
            if met.records:
                is_short = met.next_ms < 0 and cut.end < cut.known_end
                span = met.top - self._low if is_short else self._step
                self._rates[place] = met.records / max(1, span)
            elif cut.sure > cut.start:
                self._rates.pop(place, None)
            if met.next_ms < 0 and cut.end < cut.known_end:
                tops.append(met.top)
        if not tops:
            self._limit = None
            return True
        self._limit = min(tops)
        if self._limit <= self._low:
            self._limit, self._fills = None, True
        return False

    def _time(self, place: TopicPartition, backlog: Backlog) -> int:
        """Return a time not after any waiting record of a partition."""
        offset, time = self._next.get(place, (-1, -1))
        floor = backlog.floors.get(place, -1)
        return max(floor, time) if offset == backlog.waiting[place][0] else floor

    def _search(
        self, backlog: Backlog, low: int
    ) -> tuple[dict[TopicPartition, int], int | None, dict[TopicPartition, int]]:
        """Return the broker's offsets for the chosen time, the time, and offsets after it."""
        waiting, budget = backlog.waiting, backlog.budget
        first = low

        def ends(time: int) -> tuple[dict[TopicPartition, int], int]:
            known = backlog.lookup(time)
            found = {
                place: max(start, min(end, known.get(place, end)))
                for place, (start, end) in waiting.items()
            }
            size = 0
            for place, (start, end) in waiting.items():
                guessed = int(self._rates.get(place, 0.0) * (time - first))
                size += min(end - start, max(found[place] - start, guessed))
            return found, size

        best = {place: start for place, (start, _) in waiting.items()}
        above = {place: end for place, (_, end) in waiting.items()}
        if self._fills:
            self._fills = False
            return best, None, above
        read, tight = 0, False
        high = backlog.high if self._limit is None else min(backlog.high, self._limit)
        high = max(high, low + 1)
        guess = high if self._limit is not None else self._guess(low, high, budget)
        for _ in range(_STEPS_MAX):
            if read >= _ENOUGH * budget or (tight and high - low <= 1):
                break
            found, size = ends(guess)
            if size <= budget:
                low, best, read = guess, found, size
                if low >= high:
                    break
            else:
                high, above, tight = guess, found, True
            guess = max(low + 1, (low + high) // 2)
        self._found = read
        if low == first:  # nothing is before it, and too much is at it
            return best, None, above
        return best, low, above

    def _guess(self, low: int, high: int, budget: int) -> int:
        step = self._step
        if self._found:
            step = max(1, int(step * min(_WIDER, _AIM * budget / self._found)))
        return low + step if self._step > 0 and step < high - low else (low + high) // 2


def seen_behind(
    cuts: Mapping[TopicPartition, Cut],
    topics: Mapping[str, int],
    reports: Iterable[RangeReport],
) -> dict[TopicPartition, Seen]:
    """Return what tasks found after the offsets that the broker's index gave."""
    names = {index: topic for topic, index in topics.items()}
    seen: dict[TopicPartition, Seen] = {}
    for report in reports:
        place = TopicPartition(names[report.topic_index], report.partition)
        if place in cuts and report.start == cuts[place].sure:
            seen[place] = Seen(report.records, report.max_timestamp, report.end, report.next_ms)
    return seen


def _fill(
    waiting: Mapping[TopicPartition, tuple[int, int]],
    above: Mapping[TopicPartition, int],
    budget: int,
) -> dict[TopicPartition, int]:
    """Return ends within one millisecond that holds more than the budget, a share per partition."""
    total = sum(above[place] - start for place, (start, _) in waiting.items())
    share = min(1.0, budget / total) if total else 0.0
    return {
        place: start + min(above[place] - start, max(1, int((above[place] - start) * share)))
        for place, (start, _) in waiting.items()
    }
