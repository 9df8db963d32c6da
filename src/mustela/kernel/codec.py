"""Stored values: Kafka's layout of a value with its timestamp, encoded and decoded by column."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.state.interfaces import StoreSpec

__all__ = ["NO_TIMESTAMP", "StoreCodec"]

NO_TIMESTAMP = -1
"""What stands for the timestamp in a store that keeps none."""

_TIME = Struct(">q")
_TIMED_INT = Struct(">qq")


class StoreCodec:
    """Encodes and decodes the rows of one store.

    A timestamped store holds eight bytes of big-endian milliseconds, then the value's bytes.

    Args:
        spec: The store.
        serde: The serde of its values.

    Example:
        >>> codec = StoreCodec(StoreSpec(name="counts"), IntSerde())
        >>> raw = codec.encode_many([7], [1000])
        >>> codec.decode_many(raw)
        ([7], [1000])
    """

    def __init__(self, spec: StoreSpec, serde: Serde[Any]) -> None:
        self.serde = serde
        self.timed = spec.kind in {"timestamped_key_value", "window"}
        self._ints = self.timed and type(serde) is IntSerde

    def decode_many(self, raw: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
        """Return values (None where there is no row) and timestamps (-1 where there is none)."""
        if not self.timed:
            return self.serde.deserialize_many(raw), [NO_TIMESTAMP] * len(raw)
        if self._ints:
            unpack = _TIMED_INT.unpack
            absent = (NO_TIMESTAMP, None)
            pairs = [absent if item is None else unpack(item) for item in raw]
            return [pair[1] for pair in pairs], [pair[0] for pair in pairs]
        bodies = [None if item is None else item[8:] for item in raw]
        unpack_time = _TIME.unpack_from
        times: list[int] = [NO_TIMESTAMP if item is None else unpack_time(item)[0] for item in raw]
        return self.serde.deserialize_many(bodies), times

    def decode_one(self, raw: bytes | None) -> Any:
        """Return the value of one row, None where there is none."""
        if raw is None:
            return None
        return self.serde.deserialize(raw[8:] if self.timed else raw)

    def encode_many(self, values: Sequence[Any], timestamps: Sequence[int]) -> list[bytes | None]:
        """Return the rows to be stored; None stays None.

        Raises:
            SerdeError: For the first value that cannot be encoded.
        """
        if not self.timed:
            return self.serde.serialize_many(values)
        if self._ints and set(map(type, values)) <= {int}:
            try:
                return list(map(_TIMED_INT.pack, timestamps, values))
            except Exception:  # noqa: BLE001 - too large: the serde says it better
                pass
        bodies = self.serde.serialize_many(values)
        return [
            None if body is None else head + body
            for head, body in zip(map(_TIME.pack, timestamps), bodies, strict=True)
        ]

    def encode_one(self, value: Any, timestamp: int) -> bytes | None:
        """Return the row of one value."""
        body = self.serde.serialize(value)
        if body is None or not self.timed:
            return body
        return _TIME.pack(timestamp) + body
