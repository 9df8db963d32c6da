"""Encoding columns of values with msgspec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

__all__ = ["Encoder", "encode_each"]

_LARGE_BYTES: Final = 768
"""From so many bytes on, values go through a buffer of their own: there it is quicker."""

_FEW: Final = 8
"""For fewer values it does not matter."""


class Encoder(Protocol):
    """What an encoder of msgspec has."""

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """Return the bytes of a value."""
        ...

    @property
    def encode_into(self) -> Callable[[Any, bytearray], None]:
        """Put them into a buffer, in place of what is there."""
        ...


def encode_each(encoder: Encoder, values: Sequence[Any]) -> list[bytes | None]:
    """Return what an encoder makes of each value; None stays None.

    For each value, the encoder begins with 512 bytes and makes them more as it goes. Large values
    are so moved several times, into memory that the system has to clear first. One buffer for all
    keeps its size, and what comes out has the right one at once.

    Example:
        >>> import msgspec
        >>> encode_each(msgspec.json.Encoder(), [{"total": 30}, None])
        [b'{"total":30}', None]
    """
    encode = encoder.encode
    if len(values) < _FEW or not _is_large(encode, values):
        return [None if value is None else encode(value) for value in values]
    write, buffer, found = encoder.encode_into, bytearray(), list[bytes | None]()
    for value in values:
        if value is None:
            found.append(None)
        else:
            write(value, buffer)
            found.append(bytes(buffer))
    return found


def _is_large(encode: Callable[[Any], bytes], values: Sequence[Any]) -> bool:
    """Take the first value for what all are like."""
    first = next((value for value in values if value is not None), None)
    return first is not None and len(encode(first)) >= _LARGE_BYTES
