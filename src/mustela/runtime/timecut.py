"""Cutting a backlog by event time, so that all partitions come to the same moment together.

Cut by volume, a stream of three days and a table of a thousand rows would drift apart: records
would be joined with rows of another day. So the end of an epoch is a moment, found with the
broker's own index of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mustela.model import TopicPartition
from mustela.runtime.progress import Cut

__all__ = ["TimeCutter"]

Lookup = Callable[[int], Mapping[TopicPartition, int]]
"""Gives, for a time in milliseconds, each partition's first offset at or after it."""

_ENOUGH = 0.5
_STEPS_MAX = 48


class TimeCutter:
    """Finds the latest moment up to which the partitions together hold no more than a budget.

    It remembers how fast event time went by in the last cut, so that few looks are needed.

    Example:
        >>> a, b = TopicPartition("a", 0), TopicPartition("b", 0)
        >>> waiting = {a: (0, 100), b: (0, 10)}
        >>> cutter = TimeCutter()  # a has a record each millisecond, b one in ten
        >>> lookup = lambda time: {a: min(time, 100), b: min(-(-time // 10), 10)}
        >>> cuts, _moment = cutter.cut(waiting, 55, lookup, low=0, high=1_000)
        >>> 25 < cuts[a].end <= 50, cuts[b].end == -(-cuts[a].end // 10)
        (True, True)
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._step = 0

    def cut(
        self,
        waiting: Mapping[TopicPartition, tuple[int, int]],
        budget: int,
        lookup: Lookup,
        *,
        low: int,
        high: int,
    ) -> tuple[dict[TopicPartition, Cut], int | None]:
        """Return what to read, and the moment at which it is cut.

        The moment is None where the cut goes through a moment that holds more than the budget.

        Args:
            waiting: Next offset and end of each partition that has records.
            budget: Offsets to read at most, about.
            lookup: Offsets for a time; a partition it leaves out is read to its end.
            low: A time that lies before all waiting records, or at them.
            high: A time behind all of them.
        """

        def ends(time: int) -> dict[TopicPartition, int]:
            found = lookup(time)
            return {
                place: max(start, min(end, found.get(place, end)))
                for place, (start, end) in waiting.items()
            }

        def size(found: Mapping[TopicPartition, int]) -> int:
            return sum(found[place] - start for place, (start, _) in waiting.items())

        best = {place: start for place, (start, _) in waiting.items()}
        above = {place: end for place, (_, end) in waiting.items()}
        start = low
        guess = self._guess(low, high)
        for _ in range(_STEPS_MAX):
            if high - low <= 1 or size(best) >= _ENOUGH * budget:
                break
            found = ends(guess)
            if size(found) <= budget:
                low, best = guess, found
            else:
                high, above = guess, found
            guess = (low + high) // 2
        moment: int | None = low
        if size(best) == 0:
            best, moment = _fill(waiting, above, budget), None
        self._remember(start, low)
        cuts = {
            place: Cut(begin, best[place], end)
            for place, (begin, end) in waiting.items()
            if best[place] > begin
        }
        return cuts, moment

    def _guess(self, low: int, high: int) -> int:
        if self._last is not None and self._step > 0 and low < low + self._step < high:
            return low + self._step
        return (low + high) // 2

    def _remember(self, start: int, low: int) -> None:
        self._last, self._step = low, max(0, low - start)


def _fill(
    waiting: Mapping[TopicPartition, tuple[int, int]],
    above: Mapping[TopicPartition, int],
    budget: int,
) -> dict[TopicPartition, int]:
    """Return ends inside one moment that holds more than the budget: each partition its share."""
    total = sum(above[place] - start for place, (start, _) in waiting.items())
    share = min(1.0, budget / total) if total else 0.0
    return {
        place: start + min(above[place] - start, max(1, int((above[place] - start) * share)))
        for place, (start, _) in waiting.items()
    }
