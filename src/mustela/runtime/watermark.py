"""The watermark: how far event time has come over all source partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from mustela.model import TopicPartition

__all__ = ["PartitionTime", "WatermarkOptions", "WatermarkState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkOptions:
    """How the watermark follows the partitions.

    Attributes:
        max_out_of_orderness_ms: How far the watermark stays behind the largest timestamps.
        idleness_ms: How long a partition must have been read to its known end before it is idle.
        max_future_skew_ms: A timestamp further ahead of the wall clock pushes nothing.
    """

    max_out_of_orderness_ms: int = 0
    idleness_ms: int = 60_000
    max_future_skew_ms: int = 86_400_000


@dataclass(slots=True)
class PartitionTime:
    """Event time of one partition.

    Attributes:
        max_timestamp: The largest timestamp that counts, or -1.
        seen_ms: When the partition last had a record, or was last not read to its end.
        idle: Whether it is left out of the minimum.
    """

    max_timestamp: int = -1
    seen_ms: int = 0
    idle: bool = False


@dataclass(slots=True)
class WatermarkState:
    """Event time of all partitions, advanced once per epoch; never goes back.

    Attributes:
        options: The rules.
        value: The watermark in milliseconds, or -1.
        partitions: Each partition's event time.
        future_records: Timestamps that were too far ahead to count.
    """

    options: WatermarkOptions = field(default_factory=WatermarkOptions)
    value: int = -1
    partitions: dict[TopicPartition, PartitionTime] = field(
        default_factory=dict[TopicPartition, PartitionTime]
    )
    future_records: int = 0

    def copy(self) -> WatermarkState:
        """Return a copy to advance while the epoch is not committed."""
        return WatermarkState(
            self.options,
            self.value,
            {
                place: PartitionTime(time.max_timestamp, time.seen_ms, time.idle)
                for place, time in self.partitions.items()
            },
            self.future_records,
        )

    def observe(self, place: TopicPartition, max_timestamp: int, now_ms: int) -> None:
        """Note that an epoch read records of ``place``, up to ``max_timestamp``."""
        time = self.partitions.setdefault(place, PartitionTime())
        time.seen_ms = now_ms
        time.idle = False
        if max_timestamp > now_ms + self.options.max_future_skew_ms:
            self.future_records += 1
        elif max_timestamp > time.max_timestamp:
            time.max_timestamp = max_timestamp

    def rest(self, place: TopicPartition, now_ms: int, *, read_to_end: bool) -> None:
        """Note that an epoch, or a look at the broker, had no record of ``place``.

        Only a partition that was read to its known end may become idle: an outage or a long
        restore is not idleness.
        """
        time = self.partitions.setdefault(place, PartitionTime(seen_ms=now_ms))
        if not read_to_end:
            time.seen_ms = now_ms
        elif now_ms - time.seen_ms >= self.options.idleness_ms:
            time.idle = True

    def advance(self) -> int:
        """Move the watermark as far as the partitions allow and return it."""
        times = [time.max_timestamp for time in self.partitions.values() if not time.idle]
        if times and min(times) >= 0:
            self.value = max(self.value, min(times) - self.options.max_out_of_orderness_ms)
        return self.value
