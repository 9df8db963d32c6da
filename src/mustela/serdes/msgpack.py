"""MessagePack for values without a declared shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mustela.serdes.base import Serde, bad_bytes, bad_value
from mustela.serdes.encoding import encode_each

__all__ = ["MsgpackSerde"]

_FAILURES = (TypeError, ValueError, OverflowError, RecursionError)


class MsgpackSerde(Serde[Any]):
    r"""Plain MessagePack, as other programs read it: smaller and faster than JSON.

    Values come back as MessagePack types: a tuple returns as a list, a Decimal as text.

    Args:
        sort_keys: Write dict keys and sets in sorted order, so that equal values have equal bytes;
            for record keys.

    Example:
        >>> MsgpackSerde().serialize({"total": 30})
        b'\x81\xa5total\x1e'
    """

    def __init__(self, *, sort_keys: bool = False) -> None:
        self.sort_keys = sort_keys
        self.name = "msgpack:sorted" if sort_keys else "msgpack"
        order = "deterministic" if sort_keys else None
        self._encoder = msgspec.msgpack.Encoder(order=order)
        self._encode = self._encoder.encode
        self._decode = msgspec.msgpack.Decoder().decode
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments, not the encoders."""
        return _rebuild, (self.sort_keys,)

    def serialize(self, value: Any) -> bytes | None:
        """Return the MessagePack bytes of the value."""
        if value is None:
            return None
        try:
            return self._encode(value)
        except _FAILURES as error:
            fix = "use only what MessagePack can hold, or a dataclass or a msgspec.Struct"
            raise bad_value(self, value, str(error), fix) from None

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of the MessagePack bytes."""
        if data is None:
            return None
        try:
            return self._decode(data)
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            raise bad_bytes(self, data, str(error)) from None

    def serialize_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Serialize a list of values."""
        try:
            return encode_each(self._encoder, values)
        except _FAILURES as error:
            self._raise_at(self.serialize, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """Deserialize a list of values."""
        decode = self._decode
        try:
            return [None if item is None else decode(item) for item in data]
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            self._raise_at(self.deserialize, data, error)


def _rebuild(sort_keys: bool) -> MsgpackSerde:
    return MsgpackSerde(sort_keys=sort_keys)
