"""Waiting until an application has committed what its sources held at a given moment."""

from __future__ import annotations

from collections.abc import Mapping

from mustela.model import TopicPartition

__all__ = ["CaughtUp"]


class CaughtUp:
    """One waiter: what there was to read, and whether it is committed.

    Example:
        >>> place, waiting = TopicPartition("lines", 0), CaughtUp()
        >>> waiting.see({place: 5}, {place: 3})
        False
        >>> waiting.see({place: 9}, {place: 5})
        True
    """

    def __init__(self) -> None:
        self._wanted: dict[TopicPartition, int] | None = None
        self.done = False

    def see(
        self, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
    ) -> bool:
        """Return whether everything that was waited for is committed.

        Args:
            ends: The ends of partitions. Those of the first call are waited for.
            committed: Next offset of each partition, as of the last commit. A partition that is no
                longer read is no longer waited for.
        """
        if self._wanted is None:
            self._wanted = dict(ends)
        wanted = self._wanted.items()
        self.done = all(committed.get(place, end) >= end for place, end in wanted)
        return self.done
