"""Serdes of windowed keys in Kafka's own byte formats.

A time-windowed key is the key's own bytes, then eight bytes of the window's start. A session's is
the key's own bytes, then eight bytes of its end and eight of its start. Times are big-endian
milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from datetime import timedelta
from struct import Struct
from typing import Any, TypeVar

from mustela.errors import UsageError
from mustela.model import TIME_MAX, SessionWindowed, Windowed
from mustela.serdes.base import (
    Serde,
    SerdeError,
    SerdePlace,
    bad_bytes,
    bad_value,
    type_name,
    wrong_type,
)
from mustela.serdes.resolve import resolve_serde
from mustela.spans import span_ms

__all__ = ["SessionWindowedSerde", "WindowSizeError", "WindowedSerde"]

K = TypeVar("K")

_TIME = Struct(">q")
_TIMES = Struct(">qq")


class WindowSizeError(UsageError):
    """The window size of a serde is not a time span."""

    code = "SERDE_WINDOW_SIZE"


def _size_ms(size: timedelta) -> int:
    try:
        return span_ms("WindowedSerde", "window_size", size, error=WindowSizeError)
    except WindowSizeError as error:
        error.fix = "pass the window_size with which the windows were created"
        raise


def _is_windowed(value: object) -> bool:
    return isinstance(value, Windowed)


class _KeySerde(Serde[Windowed[K]]):
    """What both kinds share: the serde of the key inside."""

    inner: Serde[Any]

    def __eq__(self, other: object) -> bool:
        """Compare by class, name, and the serde inside."""
        return super().__eq__(other) and getattr(other, "inner", None) == self.inner

    def __hash__(self) -> int:
        """Hash by class and name."""
        return super().__hash__()

    def bound(self, place: SerdePlace, registry: Mapping[str, str]) -> Serde[Windowed[K]]:
        """Return the serde with the inner one bound to a place."""
        inner = self.inner.bound(place, registry)
        if inner is self.inner:
            return self
        made = copy(self)
        object.__setattr__(made, "inner", inner)
        return made

    def _key_bytes(self, value: Any) -> bytes:
        if not _is_windowed(value):
            fix = "write the keys of a windowed aggregation, or Windowed(key, start, end)"
            raise wrong_type(self, value, "a Windowed key", fix)
        data = self.inner.serialize(value.key)
        if data is None:
            raise bad_value(self, value, "the key inside is None", "give the record a key")
        return data

    def _split(self, data: bytes) -> bytes:
        """Return the bytes of the key inside.

        Raises:
            SerdeError: If there are too few bytes for the times after the key.
        """
        if len(data) < self.group_suffix:
            problem = f"a windowed key has at least {self.group_suffix}"
            raise bad_bytes(self, data, problem)
        return data[: -self.group_suffix]

    def _inner_many(self, values: Sequence[Windowed[K] | None]) -> list[bytes | None]:
        keys: list[Any] = [None if value is None else value.key for value in values]
        found = self.inner.serialize_many(keys)
        if None in found and found.count(None) != values.count(None):
            what = f"serde {self.name} cannot encode a {type_name(Windowed)} without a key"
            raise SerdeError(what, fields={"serde": self.name, "data": None})
        return found


class WindowedSerde(_KeySerde[K]):
    r"""Keys of tumbling, hopping, sliding and unlimited windows, as Kafka's TimeWindowedSerde.

    Args:
        inner: Type or serde of the keys inside.
        window_size: From a window's start to its end, which is not in the bytes: the size of time
            windows, the time difference of sliding ones, None for unlimited windows.

    Example:
        >>> serde = WindowedSerde(str, window_size=timedelta(milliseconds=10))
        >>> serde.serialize(Windowed("a", 256, 266))
        b'a\x00\x00\x00\x00\x00\x00\x01\x00'
        >>> serde.deserialize(b"a\x00\x00\x00\x00\x00\x00\x01\x00")
        Windowed(key='a', start=256, end=266)
    """

    def __init__(self, inner: type[K] | Serde[K] | str, *, window_size: timedelta | None) -> None:
        self.inner = resolve_serde(inner, key=True)
        self.size_ms = TIME_MAX if window_size is None else _size_ms(window_size)
        self.name = f"windowed({self.inner.name},{self.size_ms})"
        self.immutable = self.inner.immutable
        self.group_suffix = _TIME.size
        self.freeze()

    def serialize(self, value: Windowed[K] | None) -> bytes | None:
        """Return the key's bytes and the window's start."""
        return None if value is None else self._key_bytes(value) + _TIME.pack(value.start)

    def deserialize(self, data: bytes | None) -> Windowed[K] | None:
        """Return the key in its window."""
        if data is None:
            return None
        key: Any = self.inner.deserialize(self._split(data))
        start = _TIME.unpack(data[-8:])[0]
        return Windowed(key, start, min(start + self.size_ms, TIME_MAX))

    def serialize_many(self, values: Sequence[Windowed[K] | None]) -> list[bytes | None]:
        """Serialize a list of windowed keys."""
        pack = _TIME.pack
        try:
            return [
                None if value is None or data is None else data + pack(value.start)
                for value, data in zip(values, self._inner_many(values), strict=True)
            ]
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.serialize, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Windowed[K] | None]:
        """Deserialize a list of windowed keys."""
        size, unpack = self.size_ms, _TIME.unpack
        try:
            keys: list[Any] = self.inner.deserialize_many(
                [None if item is None else item[:-8] for item in data]
            )
            starts = [0 if item is None else unpack(item[-8:])[0] for item in data]
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.deserialize, data, error)
        return [
            None if item is None else Windowed(key, start, min(start + size, TIME_MAX))
            for item, key, start in zip(data, keys, starts, strict=True)
        ]


class SessionWindowedSerde(_KeySerde[K]):
    r"""Keys of sessions, as Kafka's SessionWindowedSerde.

    Args:
        inner: Type or serde of the keys inside.

    Example:
        >>> serde = SessionWindowedSerde(str)
        >>> serde.serialize(Windowed("a", 1, 2))
        b'a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01'
    """

    def __init__(self, inner: type[K] | Serde[K] | str) -> None:
        self.inner = resolve_serde(inner, key=True)
        self.name = f"session-windowed({self.inner.name})"
        self.immutable = self.inner.immutable
        self.group_suffix = _TIMES.size
        self.freeze()

    def serialize(self, value: Windowed[K] | None) -> bytes | None:
        """Return the key's bytes, the session's end and its start."""
        if value is None:
            return None
        return self._key_bytes(value) + _TIMES.pack(value.end, value.start)

    def deserialize(self, data: bytes | None) -> Windowed[K] | None:
        """Return the key in its session."""
        if data is None:
            return None
        key: Any = self.inner.deserialize(self._split(data))
        end, start = _TIMES.unpack(data[-16:])
        return SessionWindowed(key, start, end)

    def serialize_many(self, values: Sequence[Windowed[K] | None]) -> list[bytes | None]:
        """Serialize a list of windowed keys."""
        pack = _TIMES.pack
        try:
            return [
                None if value is None or data is None else data + pack(value.end, value.start)
                for value, data in zip(values, self._inner_many(values), strict=True)
            ]
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.serialize, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[Windowed[K] | None]:
        """Deserialize a list of windowed keys."""
        unpack = _TIMES.unpack
        try:
            keys: list[Any] = self.inner.deserialize_many(
                [None if item is None else item[:-16] for item in data]
            )
            times = [(0, 0) if item is None else unpack(item[-16:]) for item in data]
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.deserialize, data, error)
        return [
            None if item is None else SessionWindowed(key, start, end)
            for item, key, (end, start) in zip(data, keys, times, strict=True)
        ]
