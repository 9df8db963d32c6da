"""Stored values: Kafka's layout of a value with its timestamp, encoded and decoded by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from struct import Struct, error as StructError
from typing import Any

from mustela.model import Headers
from mustela.serdes.base import Serde, SerdeError
from mustela.serdes.primitives import IntSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import (
    add_headers,
    add_session_headers,
    without_headers,
    without_session_headers,
)
from mustela.state.stored_value import unreadable

__all__ = ["NO_TIMESTAMP", "StoreCodec"]

NO_TIMESTAMP = -1
"""The timestamp of rows in a store that keeps none."""

_TIME = Struct(">q")
_TIMED_INT = Struct(">qq")


class StoreCodec:
    """Encodes and decodes the rows of one store.

    A row of a timestamped store is eight bytes of big-endian milliseconds, then the value's bytes;
    in a store with headers, the headers, if any, come first.

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
        self.spec = spec
        self.serde = serde = spec.rows_of(serde)
        self.timed = spec.traits.timed
        self.headed = spec.with_headers
        self._ints = self.timed and type(serde) is IntSerde
        self._bare: Callable[[Any], bytes] = (
            without_headers if self.timed else without_session_headers
        )
        self._add: Callable[[bytes, Headers], Any] = (
            add_headers if self.timed else add_session_headers
        )

    def decode_many(
        self, raw: Sequence[bytes | None], keys: Sequence[bytes] | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return values (None where there is no row) and timestamps (-1 where there is none).

        Args:
            raw: The rows.
            keys: Their keys, to name one whose row cannot be read.

        Raises:
            StoredValueError: If a row cannot be read.
        """
        if self.headed:
            bare = self._bare
            raw = [None if item is None else bare(item) for item in raw]
        if not self.timed:
            return self._values(raw, keys), [NO_TIMESTAMP] * len(raw)
        if self._ints:
            unpack = _TIMED_INT.unpack
            absent = (NO_TIMESTAMP, None)
            try:
                pairs = [absent if item is None else unpack(item) for item in raw]
            except StructError:
                pass  # not the bytes of a number: the serde's own error says more
            else:
                return [pair[1] for pair in pairs], [pair[0] for pair in pairs]
        bodies = [None if item is None else item[8:] for item in raw]
        unpack_time = _TIME.unpack_from
        times: list[int] = [NO_TIMESTAMP if item is None else unpack_time(item)[0] for item in raw]
        return self._values(bodies, keys), times

    def _values(
        self, bodies: Sequence[bytes | None], keys: Sequence[bytes] | None = None
    ) -> list[Any]:
        try:
            return self.serde.deserialize_many(bodies)
        except SerdeError as error:
            raise unreadable(self.spec, self.serde, error, keys) from error

    def decode_one(self, raw: bytes | None) -> Any:
        """Return the value of one row, or None for no row."""
        if raw is None:
            return None
        if self.headed:
            raw = self._bare(raw)
        body = raw[8:] if self.timed else raw
        try:
            return self.serde.deserialize(body)
        except SerdeError as error:
            raise unreadable(self.spec, self.serde, error) from error

    def encode_many(
        self,
        values: Sequence[Any],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None = None,
    ) -> list[bytes | None]:
        """Return the rows to store; None stays None.

        Args:
            values: The values.
            timestamps: The time of each.
            headers: The headers of each, None if no record has any; ignored by a store without
                headers.

        Raises:
            SerdeError: For the first value that cannot be encoded.
        """
        rows = self._rows(values, timestamps)
        if not self.headed:
            return rows
        add = self._add
        column = repeat((), len(rows)) if headers is None else headers
        return [
            None if row is None else add(row, mine) for row, mine in zip(rows, column, strict=True)
        ]

    def _rows(self, values: Sequence[Any], timestamps: Sequence[int]) -> list[bytes | None]:
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

    def encode_one(self, value: Any, timestamp: int, headers: Headers = ()) -> bytes | None:
        """Return the row of one value."""
        row = self.serde.serialize(value)
        if row is not None and self.timed:
            row = _TIME.pack(timestamp) + row
        return self._add(row, headers) if self.headed and row is not None else row

    def with_headers(self, row: bytes | None, headers: Headers) -> bytes | None:
        """Return a row with its headers replaced, if there is a row and the store keeps headers."""
        if row is None or not self.headed:
            return row
        return self._add(self._bare(row), headers)
