"""What the gate looks for while an application runs."""

from __future__ import annotations

from collections.abc import Mapping

from mustela.clock import Clock
from mustela.model import TopicPartition
from mustela.runtime.gate.answers import stop_of
from mustela.runtime.gate.differences import Difference, Kind

__all__ = ["TruncationWatch"]

_SURE_AFTER_S = 5.0


class TruncationWatch:
    """Notices a source that ends before what was read of it.

    A leader that has just been elected may say so for a moment, until it knows what its followers
    have: only what stays is believed.

    Args:
        application_id: The application.
        clock: Monotonic time.
    """

    def __init__(self, application_id: str, clock: Clock) -> None:
        self._application_id = application_id
        self._clock = clock
        self._since: dict[TopicPartition, float] = {}

    def see(self, read: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        """Compare where partitions end with what was read of them.

        Returns:
            Whether all of them end where they may.

        Raises:
            SourceTruncatedError: If one ends before that, and has done so for a while.
        """
        short = {place: end for place, end in ends.items() if end < read.get(place, end)}
        if not short:
            self._since.clear()
            return True
        now = self._clock.monotonic()
        self._since = {place: self._since.get(place, now) for place in short}
        lost = [
            Difference(
                kind=Kind.SOURCE_TRUNCATED,
                subject=f"{place.topic}-{place.partition}",
                then=f"read to {read[place]}",
                now=f"ends at {short[place]}",
            )
            for place in sorted(short)
            if now - self._since[place] >= _SURE_AFTER_S
        ]
        error = stop_of(lost, self._application_id)
        if error is not None:
            raise error
        return False
