"""Serdes of Python's simple types in Kafka's own byte formats.

The batch forms are the hottest code of a source stage: each is one comprehension for good data, and
only a batch that fails is walked again to find the item.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from mustela.serdes.base import Serde, SerdeError, bad_bytes, bad_value, wrong_type

__all__ = [
    "BoolSerde",
    "BytesSerde",
    "Float32Serde",
    "FloatSerde",
    "Int16Serde",
    "Int32Serde",
    "IntSerde",
    "StrSerde",
    "UUIDSerde",
    "VoidSerde",
]

_FAILURES = (AttributeError, TypeError, ValueError, OverflowError, struct.error, SerdeError)


class StrSerde(Serde[str]):
    r"""Text as UTF-8, as Kafka's StringSerializer writes it.

    Example:
        >>> StrSerde().serialize("né")
        b'n\xc3\xa9'
    """

    name = "str"
    immutable = True

    def serialize(self, value: str | None) -> bytes | None:
        """Return the UTF-8 bytes of the text."""
        if value is None:
            return None
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "str", _str_fix(value))
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            problem = f"a lone surrogate at character {error.start} has no UTF-8 form"
            fix = "clean the text at its source: text.encode(errors='replace').decode()"
            raise bad_value(self, value, problem, fix) from None

    def deserialize(self, data: bytes | None) -> str | None:
        """Return the text of the UTF-8 bytes."""
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 at byte {error.start}"
            raise bad_bytes(self, data, problem, "read the topic with bytes") from None

    def serialize_many(self, values: Sequence[str | None]) -> list[bytes | None]:
        """Serialize a list of texts."""
        encode = str.encode
        try:
            return [None if value is None else encode(value) for value in values]
        except _FAILURES as error:
            self._raise_at(self.serialize, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[str | None]:
        """Deserialize a list of texts."""
        decode = bytes.decode
        try:
            return [None if item is None else decode(item) for item in data]
        except _FAILURES as error:
            self._raise_at(self.deserialize, data, error)


def _str_fix(value: object) -> str:
    return "value.decode()" if isinstance(value, bytes) else "str(value), or declare its own serde"


_BYTES_OR_NONE = {bytes, type(None)}


class BytesSerde(Serde[bytes]):
    """Bytes, unchanged.

    Example:
        >>> BytesSerde().deserialize(b"as is")
        b'as is'
    """

    name = "bytes"
    immutable = True

    def serialize(self, value: bytes | None) -> bytes | None:
        """Return the bytes unchanged."""
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            return bytes(value)
        raise wrong_type(self, value, "bytes", "bytes(value) or text.encode()")

    def deserialize(self, data: bytes | None) -> bytes | None:
        """Return the bytes unchanged."""
        return data

    def serialize_many(self, values: Sequence[bytes | None]) -> list[bytes | None]:
        """Check a list of bytes."""
        if not {*map(type, values)} <= _BYTES_OR_NONE:
            return super().serialize_many(values)
        return list(values)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the list's items unchanged."""
        return list(data)


class IntSerde(Serde[int]):
    r"""Integers as Kafka's long: 8 bytes, big endian, signed.

    Negative numbers sort after positive ones by their bytes, as in Kafka.

    Example:
        >>> IntSerde().serialize(258)
        b'\x00\x00\x00\x00\x00\x00\x01\x02'
    """

    name = "int"
    immutable = True
    _layout: ClassVar[struct.Struct] = struct.Struct(">q")

    def serialize(self, value: int | None) -> bytes | None:
        """Return the big-endian bytes of the integer."""
        if value is None:
            return None
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise wrong_type(self, value, "int", f"int(value), or the serde {_hint(value)}")
        try:
            return self._layout.pack(value)
        except struct.error:
            bits = self._layout.size * 8
            fix = "keep it in range" + (", or use int" if bits < 64 else ', str or "msgpack"')
            raise bad_value(self, value, f"it does not fit into {bits} bits", fix) from None

    def deserialize(self, data: bytes | None) -> int | None:
        """Return the integer of the big-endian bytes."""
        if data is None:
            return None
        if len(data) != self._layout.size:
            raise _wrong_length(self, data, self._layout.size)
        return self._layout.unpack(data)[0]

    def serialize_many(self, values: Sequence[int | None]) -> list[bytes | None]:
        """Serialize a list of integers."""
        pack, one = self._layout.pack, self.serialize
        try:
            return [pack(value) if value.__class__ is int else one(value) for value in values]
        except _FAILURES as error:
            self._raise_at(one, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[int | None]:
        """Deserialize a list of integers."""
        unpack = self._layout.unpack
        try:
            return [None if item is None else unpack(item)[0] for item in data]
        except _FAILURES as error:
            self._raise_at(self.deserialize, data, error)


class Int32Serde(IntSerde):
    r"""Integers as Kafka's int: 4 bytes, big endian, signed.

    Example:
        >>> Int32Serde().deserialize(b"\xff\xff\xff\xfe")
        -2
    """

    name = "int32"
    _layout = struct.Struct(">i")


class Int16Serde(IntSerde):
    r"""Integers as Kafka's short: 2 bytes, big endian, signed.

    Example:
        >>> Int16Serde().serialize(7)
        b'\x00\x07'
    """

    name = "int16"
    _layout = struct.Struct(">h")


class FloatSerde(Serde[float]):
    r"""Floats as Kafka's double: 8 bytes, IEEE 754, big endian.

    An int is accepted if a float holds it exactly.

    Example:
        >>> FloatSerde().serialize(1.5)
        b'?\xf8\x00\x00\x00\x00\x00\x00'
    """

    name = "float"
    immutable = True
    _layout: ClassVar[struct.Struct] = struct.Struct(">d")

    def serialize(self, value: float | None) -> bytes | None:
        """Return the IEEE 754 bytes of the float."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "float", f"float(value), or the serde {_hint(value)}")
        try:
            if isinstance(value, int) and float(value) != value:
                problem = "a float cannot hold it exactly"
                raise bad_value(
                    self, value, problem, "float(value) if the loss is intended, or int"
                )
            return self._layout.pack(value)
        except OverflowError:
            raise bad_value(self, value, "it is too large", "keep it in range") from None

    def deserialize(self, data: bytes | None) -> float | None:
        """Return the float of the IEEE 754 bytes."""
        if data is None:
            return None
        if len(data) != self._layout.size:
            raise _wrong_length(self, data, self._layout.size)
        return self._layout.unpack(data)[0]

    def serialize_many(self, values: Sequence[float | None]) -> list[bytes | None]:
        """Serialize a list of floats."""
        pack, one = self._layout.pack, self.serialize
        try:
            return [pack(value) if value.__class__ is float else one(value) for value in values]
        except _FAILURES as error:
            self._raise_at(one, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[float | None]:
        """Deserialize a list of floats."""
        unpack = self._layout.unpack
        try:
            return [None if item is None else unpack(item)[0] for item in data]
        except _FAILURES as error:
            self._raise_at(self.deserialize, data, error)


class Float32Serde(FloatSerde):
    """Floats as Kafka's float: 4 bytes, IEEE 754, big endian; further digits are rounded away.

    Example:
        >>> Float32Serde().deserialize(Float32Serde().serialize(0.5))
        0.5
    """

    name = "float32"
    _layout = struct.Struct(">f")


class BoolSerde(Serde[bool]):
    r"""Booleans as one byte, 1 or 0, as Kafka's BooleanSerializer writes them.

    Example:
        >>> BoolSerde().serialize_many([True, False])
        [b'\x01', b'\x00']
    """

    name = "bool"
    immutable = True

    def serialize(self, value: bool | None) -> bytes | None:
        """Return one byte, 1 for True and 0 for False."""
        if value is None:
            return None
        if value is True:
            return b"\x01"
        if value is False:
            return b"\x00"
        raise wrong_type(self, value, "bool", "bool(value)")

    def deserialize(self, data: bytes | None) -> bool | None:
        """Return the boolean of one byte."""
        if data is None:
            return None
        if data == b"\x01":
            return True
        if data == b"\x00":
            return False
        raise bad_bytes(self, data, "a boolean is one byte, 0 or 1")


class UUIDSerde(Serde[UUID]):
    """UUIDs as their text of 36 characters in UTF-8, as Kafka's UUIDSerializer writes them.

    Example:
        >>> UUIDSerde().serialize(UUID(int=1))
        b'00000000-0000-0000-0000-000000000001'
    """

    name = "uuid"
    immutable = True

    def serialize(self, value: UUID | None) -> bytes | None:
        """Return the text form of the UUID."""
        if value is None:
            return None
        if not isinstance(value, UUID):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type(self, value, "UUID", "uuid.UUID(value)")
        return str(value).encode()

    def deserialize(self, data: bytes | None) -> UUID | None:
        """Return the UUID of its text form."""
        if data is None:
            return None
        if len(data) != 36 or data.count(b"-") != 4:
            raise bad_bytes(self, data, "a UUID is text of 36 characters")
        try:
            return UUID(data.decode("ascii"))
        except ValueError:
            raise bad_bytes(self, data, "a UUID is text of 36 characters") from None


class VoidSerde(Serde[None]):
    """Only null: for topics whose keys or values are always null.

    Example:
        >>> VoidSerde().serialize_many([None, None])
        [None, None]
    """

    name = "void"
    immutable = True

    def serialize(self, value: None) -> bytes | None:
        """Return None; any value is an error."""
        if value is not None:
            raise wrong_type(self, value, "None", "declare the serde of the values")
        return None

    def deserialize(self, data: bytes | None) -> None:
        """Return None; any bytes are an error."""
        if data is not None:
            raise bad_bytes(self, data, "only null is expected here")
        return None


def _wrong_length(serde: Serde[int] | Serde[float], data: bytes, size: int) -> SerdeError:
    sizes = {2: "int16", 4: "int32 or float32", 8: "int or float"}
    other = sizes.get(len(data))
    fix = f"read the topic with {other}" if other else "if it is text, read the topic with str"
    return bad_bytes(serde, data, f"it takes {size} bytes", fix)


def _hint(value: object) -> str:
    name = type(value).__name__
    return name if name in ("str", "float", "bytes", "bool", "int", "UUID") else f"of {name}"
