"""JSON for values without a declared shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mustela.serdes.base import Serde, bad_bytes, bad_value, wrong_type
from mustela.serdes.encoding import encode_each

__all__ = ["JsonSerde"]

_FAILURES = (TypeError, ValueError, OverflowError, RecursionError)


class JsonSerde(Serde[Any]):
    """JSON in UTF-8 for dicts, lists and whatever else JSON can hold.

    Values come back as JSON types: a tuple returns as a list, a datetime as text. NaN and
    infinities are written as null. To keep types, give `resolve_serde` a dataclass or a Struct.

    Args:
        expected: ``dict`` or ``list`` if only that is allowed, or None.
        sort_keys: Write dict keys and sets in sorted order, so that equal values have equal bytes;
            for record keys.

    Example:
        >>> JsonSerde().serialize({"total": 30})
        b'{"total":30}'
        >>> JsonSerde().deserialize(b'[1,null]')
        [1, None]
    """

    def __init__(self, expected: type[Any] | None = None, *, sort_keys: bool = False) -> None:
        self.expected = expected
        self.sort_keys = sort_keys
        kind = f"json:{expected.__name__}" if expected else "json"
        self.name = f"{kind}:sorted" if sort_keys else kind
        order = "deterministic" if sort_keys else None
        self._encoder = msgspec.json.Encoder(order=order)
        self._encode = self._encoder.encode
        self._decode = msgspec.json.Decoder(expected or Any).decode
        self.freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments, not the encoders."""
        return _rebuild, (self.expected, self.sort_keys)

    def serialize(self, value: Any) -> bytes | None:
        """Return the JSON text of the value."""
        if value is None:
            return None
        if self.expected is not None and not isinstance(value, self.expected):
            raise wrong_type(self, value, self.expected.__name__, 'or use "json" for any value')
        try:
            return self._encode(value)
        except _FAILURES as error:
            fix = "use only what JSON can hold, or a dataclass or a msgspec.Struct"
            raise bad_value(self, value, str(error), fix) from None

    def deserialize(self, data: bytes | None) -> Any:
        """Return the value of the JSON text."""
        if data is None:
            return None
        try:
            return self._decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise bad_bytes(self, data, str(error)) from None

    def serialize_many(self, values: Sequence[Any]) -> list[bytes | None]:
        """Serialize a list of values."""
        if self.expected and not {self.expected, type(None)}.issuperset(map(type, values)):
            return super().serialize_many(values)
        try:
            return encode_each(self._encoder, values)
        except _FAILURES as error:
            self._raise_at(self.serialize, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Any]:
        """Deserialize a list of values."""
        decode = self._decode
        try:
            return [None if item is None else decode(item) for item in data]
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self._raise_at(self.deserialize, data, error)


def _rebuild(expected: type[Any] | None, sort_keys: bool) -> JsonSerde:
    return JsonSerde(expected, sort_keys=sort_keys)
