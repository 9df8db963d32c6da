"""The bytes of Kafka's requests and answers: the flexible form, and what is used of it here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException

__all__ = [
    "NO_TAGS",
    "Answer",
    "Api",
    "compact_array",
    "compact_bytes",
    "compact_string",
    "frame",
    "plain_string",
    "uvarint",
]

NO_TAGS = b"\0"
_CLIENT_ID = "mustela"
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(">" + form) for form in "bhiq")
_VARINT_BYTES_MAX = 5
T = TypeVar("T")


class Api(NamedTuple):
    """A request of Kafka's, in one version.

    Attributes:
        key: Its number.
        version: Its version.
        name: Kafka's name for it.
        flexible: Whether its headers and its body have tags.
    """

    key: int
    version: int
    name: str
    flexible: bool = True


def uvarint(number: int) -> bytes:
    """Encode a number that is not negative, seven bits a byte."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact_string(text: str | None) -> bytes:
    """Encode a text, or None."""
    return compact_bytes(None if text is None else text.encode())


def compact_bytes(data: bytes | None) -> bytes:
    """Encode bytes behind their length, or None."""
    return b"\0" if data is None else uvarint(len(data) + 1) + data


def compact_array(items: Iterable[bytes]) -> bytes:
    """Encode items that are encoded already."""
    found = list(items)
    return uvarint(len(found) + 1) + b"".join(found)


def plain_string(text: str) -> bytes:
    """Encode a text as requests that are not flexible have it."""
    data = text.encode()
    return _INT16.pack(len(data)) + data


def frame(api: Api, correlation: int, body: Sequence[bytes]) -> bytes:
    """Put the length and the header in front of the parts of a request's body."""
    head = struct.pack(">hhi", api.key, api.version, correlation) + plain_string(_CLIENT_ID)
    if api.flexible:
        head += NO_TAGS
    return b"".join((_INT32.pack(len(head) + sum(map(len, body))), head, *body))


class Answer:
    """Reads an answer from its beginning to its end.

    Raises:
        KafkaException: From each method, if the answer ends too early.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int8(self) -> int:
        """Read a number of one byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read a number of two bytes."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read a number of four bytes."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read a number of eight bytes."""
        return self._number(_INT64)

    def uvarint(self) -> int:
        """Read a number of one to five bytes."""
        number = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise _malformed(more="a number has more than five bytes")

    def data(self) -> bytes | None:
        """Read bytes, or None."""
        length = self.uvarint()
        return self._take(length - 1) if length else None

    def string(self) -> str | None:
        """Read a text, or None."""
        data = self.data()
        return None if data is None else data.decode()

    def plain_string(self) -> str | None:
        """Read a text, or None, of an answer that is not flexible."""
        length = self.int16()
        return None if length < 0 else self._take(length).decode()

    def array(self, item: Callable[[], T]) -> list[T]:
        """Read as many items as are said to be there; none where there is no array."""
        return [item() for _ in range(max(0, self.uvarint() - 1))]

    def plain_array(self, item: Callable[[], T]) -> list[T]:
        """The same of an answer that is not flexible."""
        return [item() for _ in range(max(0, self.int32()))]

    def tags(self) -> dict[int, Answer]:
        """Read the tagged fields; most are of no interest."""
        found: dict[int, Answer] = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = Answer(self._take(self.uvarint()))
        return found

    def _number(self, form: struct.Struct) -> int:
        return form.unpack(self._take(form.size))[0]

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _malformed(more=f"byte {end} of an answer of {len(self._data)} bytes")
        data = self._data[self._at : end]
        self._at = end
        return data


def _malformed(*, more: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._BAD_MSG, more))  # pyright: ignore[reportPrivateUsage]
