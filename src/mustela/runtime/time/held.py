"""Partitions whose next records exist but are held back by an open transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mustela.clock import Clock
from mustela.errors import EnvironmentFault
from mustela.model import TopicPartition
from mustela.runtime.ports import Cluster
from mustela.runtime.time.watermark import WatermarkState, steady_ms

__all__ = ["HeldPartitions"]

_LOOK_EVERY_S = 1.0


class HeldPartitions:
    """Tells a partition without records from one whose records are not readable yet.

    A reader of committed records gets up to the last stable offset. If the log continues after it,
    some transaction is open: the partition is not idle, and the watermark waits for it.

    Args:
        cluster: Finds the ends of logs, including uncommitted records.
        clock: Monotonic time.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._next_look = 0.0
        self._looked_at: frozenset[TopicPartition] = frozenset()
        self._held: frozenset[TopicPartition] = frozenset()

    def among(
        self,
        watermark: WatermarkState,
        ends: Mapping[TopicPartition, int],
        short: Collection[TopicPartition],
    ) -> set[TopicPartition]:
        """Return the partitions that are held back.

        The broker is asked about once a second, and only about partitions that are idle, or have
        had no records for half of the idle time.

        Args:
            watermark: Knows since when a partition has had no records.
            ends: The last stable offsets.
            short: Partitions that are not read up to there for other reasons.
        """
        quiet = watermark.quiet(steady_ms(self._clock))
        if short or len(ends) < len(watermark.partitions):
            quiet = [place for place in quiet if place not in short and place in ends]
        if not quiet:
            self._looked_at = self._held = frozenset()
            return set()
        now = self._clock.monotonic()
        # No partition becomes idle unnoticed, however short the idle time is.
        turning = not self._looked_at.isdisjoint(watermark.turning(steady_ms(self._clock)))
        if now >= self._next_look or turning or not self._looked_at.issuperset(quiet):
            self._next_look = now + _LOOK_EVERY_S
            self._looked_at = frozenset(quiet)
            try:
                highs = self._cluster.high_watermarks(quiet)
            except EnvironmentFault:  # no answer: a partition not known to be idle counts as held
                return set(quiet)
            self._held = frozenset(place for place in quiet if highs[place] > ends[place])
        return set(self._held) & set(quiet)
