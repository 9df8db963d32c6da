"""What operators that work by key share: keys as bytes, dropping rows without a key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import le
from typing import Any

from mustela.errors import InvariantError
from mustela.kernel.core.each import drop, without
from mustela.kernel.core.encode import encode_column
from mustela.kernel.core.event_time import (
    EventClock,
    StreamTimeClock,
    WatermarkClock,
    by_event_time,
)
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.core.operator import EXCHANGED, N, Operator
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec

__all__ = ["KeyedOperator", "last_rows"]


def last_rows(keys: Sequence[Any], timestamps: Sequence[int]) -> tuple[dict[Any, int], list[int]]:
    """Return the last row of each key, and the latest time of each key in the same order.

    Example:
        >>> last_rows(["a", "b", "a"], [5, 7, 3])
        ({'a': 2, 'b': 1}, [5, 7])
    """
    last = dict(zip(keys, range(len(keys)), strict=True))
    if all(map(le, timestamps, islice(timestamps, 1, None))):
        return last, [timestamps[row] for row in last.values()]
    by_time = sorted(range(len(keys)), key=timestamps.__getitem__)
    latest = dict(zip(map(keys.__getitem__, by_time), by_time, strict=True))
    return last, [timestamps[latest[key]] for key in last]


class KeyedOperator(Operator[N]):
    """An operator that identifies rows by the bytes of their key.

    Attributes:
        skips_null_values: Whether rows without a value are dropped and counted too.
    """

    skips_null_values: bool = False

    def use_key_serde(self, serde: Serde[Any] | None) -> None:
        """Set the serde of the key bytes."""
        self._key: Serde[Any] = serde or ValueSerde(sort_keys=True)

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the serde of the key bytes."""
        return self._key

    def lane_store(self, spec: StoreSpec) -> LaneStore:
        """Return a store of the lane.

        Raises:
            InvariantError: If the stage keeps no state.
        """
        if self.context.state is None:
            msg = f"step {self.step.name!r} keeps state, but its stage has none"
            raise InvariantError(msg)
        suffix = 0 if spec.key_serde is None else spec.key_serde.group_suffix
        return self.context.state.store(
            spec.name, prefix=spec.traits.prefix, suffix=suffix, spec=spec
        )

    def event_clock(self, store: LaneStore | None) -> EventClock:
        """Return a clock for this operator alone.

        Args:
            store: Where it keeps what it needs in the next epoch, if anything; None for a clock
                that starts again in each epoch.
        """
        return by_event_time(
            self.options,
            watermark=lambda: WatermarkClock(self.context.time, self.step.lag_ms),
            stream_time=lambda: StreamTimeClock(store),
        )()

    def without_null_keys(self, batch: Batch) -> Batch:
        """Drop and count the rows without a key."""
        return self.without_null(batch, "key", batch.keys)

    def without_null_values(self, batch: Batch) -> Batch:
        """Drop and count the rows without a value, if they are skipped."""
        return self.without_null(batch, "value", batch.values) if self.skips_null_values else batch

    def without_nulls(self, batch: Batch) -> Batch:
        """Drop and count the rows without a key and, if they are skipped, without a value."""
        return self.without_null_values(self.without_null_keys(batch))

    def with_key_bytes(self, batch: Batch) -> tuple[Batch, list[bytes]]:
        """Return the rows whose key is not null and can be encoded, and their keys as bytes."""
        return self.encoded_keys(self.without_nulls(batch), self.context.key_serde)

    def encoded_keys(self, batch: Batch, known: Serde[Any] | None) -> tuple[Batch, list[Any]]:
        """Return the rows whose key can be encoded, and their keys as bytes; None for a null key.

        Args:
            batch: The rows.
            known: The serde of the key bytes that the rows carry, if it is known.
        """
        if batch.key_bytes is not None and (known is EXCHANGED or known == self._key):
            return batch, batch.key_bytes
        key_bytes, failed = encode_column(self._key, batch.keys, batch, self.encode_failures())
        return without(batch, failed), drop(key_bytes, failed)
