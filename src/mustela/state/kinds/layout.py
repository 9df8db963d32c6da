"""What the layouts of the kinds share: time as ordered bytes, and the meaning of first bytes.

In stores whose stored keys are more than a record's key, the first byte of a stored key says what
the row is. From 0x40 up it is the first byte of a time, so those rows are in time order. Below are
rows found by key, and a few rows specific to the kind:

- ``00`` alone: the stream time of the key group, kept by the operator that uses the store.
- ``00`` and a letter: a number specific to the kind, such as a count.
- ``01`` and a record key: the row that is looked up by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, Protocol

from mustela.state.faults import StoreError
from mustela.state.index import index_table
from mustela.state.interfaces import Snapshot

__all__ = [
    "KEY_ROW",
    "STREAM_TIME",
    "TIME_BYTES",
    "TIME_MAX",
    "TIME_MIN",
    "EmptySnapshot",
    "RowView",
    "SnapshotView",
    "first_row",
    "is_by_time",
    "key_row",
    "key_rows",
    "pack_time",
    "read_only",
    "time_key",
    "time_keys",
    "time_rows",
    "unpack_time",
]

STREAM_TIME: Final = b"\x00"
"""The key of an operator's stream time of a key group; no kind has a row with this key."""

KEY_ROW: Final = b"\x01"
"""First byte of a row that is looked up by record key."""

TIME_BYTES: Final = 8
TIME_MIN: Final = -(1 << 62)
TIME_MAX: Final = (1 << 63) - 1

_TIME = Struct(">Q")
_SIGN = 1 << 63
_ORDERED_FROM: Final = 0x40


class RowView(Protocol):
    """The rows of one store in one key group; `StoreOverlay` is one."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        ...

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        ...

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys."""
        ...

    def expire(self, keys: Iterable[bytes]) -> None:
        """Remove expired rows, without writing to the changelog."""
        ...

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        ...

    def first(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would yield."""
        ...

    def count(self) -> int:
        """Return the number of keys."""
        ...


class EmptySnapshot:
    """The committed state of a key group without rows."""

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return None."""
        del store, key
        return None

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return None for each key."""
        del store
        return [None] * len(keys)

    def range(
        self, store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield nothing."""
        del store, low, high, reverse
        return iter(())

    def prefix(
        self, store: str, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield nothing."""
        del store, prefix, reverse
        return iter(())

    def count(self, store: str) -> int:
        """Return 0."""
        del store
        return 0

    def close(self) -> None:
        """Do nothing: nothing is open."""


class SnapshotView:
    """One store of a snapshot, for reading.

    Args:
        snapshot: The committed state of one key group.
        store: The store's name.
    """

    __slots__ = ("_snapshot", "_store")

    def __init__(self, snapshot: Snapshot, store: str) -> None:
        self._snapshot = snapshot
        self._store = store

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._snapshot.get(self._store, key)

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        return self._snapshot.getmulti(self._store, keys)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Refuse: committed state is read-only.

        Raises:
            StoreError: Always.
        """
        del key, value
        raise read_only(self._store)

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Refuse, as `put` does.

        Raises:
            StoreError: Always.
        """
        del rows
        raise read_only(self._store)

    def expire(self, keys: Iterable[bytes]) -> None:
        """Refuse, as `put` does.

        Raises:
            StoreError: Always.
        """
        del keys
        raise read_only(self._store)

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        return self._snapshot.range(self._store, low, high, reverse=reverse)

    def first(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would yield."""
        return next(self.range(low, high, reverse=reverse), None)

    def lines(
        self, low: bytes, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the lines of the store's indexes."""
        return self._snapshot.range(index_table(self._store), low, high, reverse=reverse)

    def count(self) -> int:
        """Return the number of keys."""
        return self._snapshot.count(self._store)


def read_only(store: str) -> StoreError:
    """Return the error for a write to a read-only store."""
    return StoreError(
        f"store {store!r} can only be read here", fix="write it in the step that owns it"
    )


def pack_time(time: int) -> bytes:
    r"""Return milliseconds as eight bytes that sort like the times.

    Example:
        >>> pack_time(1), pack_time(-1) < pack_time(0) < pack_time(256)
        (b'\x80\x00\x00\x00\x00\x00\x00\x01', True)
    """
    return _TIME.pack(time + _SIGN)


def unpack_time(stored: bytes) -> int:
    """Return the time that a stored key begins with."""
    return _TIME.unpack_from(stored)[0] - _SIGN


def time_key(time: int, key: bytes) -> bytes:
    """Return the stored key of a row that sorts by time, then by key."""
    return _TIME.pack(time + _SIGN) + key


def time_keys(times: Sequence[int], keys: Sequence[bytes]) -> list[bytes]:
    """Return the stored keys of many rows; fast for repeated times.

    Example:
        >>> time_keys([5, 5], [b"a", b"b"]) == [time_key(5, b"a"), time_key(5, b"b")]
        True
    """
    pack, some = _TIME.pack, set(times)
    if len(some) * 2 > len(times):
        return [pack(time + _SIGN) + key for time, key in zip(times, keys, strict=True)]
    heads = {time: pack(time + _SIGN) for time in some}
    return [heads[time] + key for time, key in zip(times, keys, strict=True)]


def is_by_time(key: bytes) -> bool:
    """Return whether a stored key begins with a time."""
    return bool(key) and key[0] >= _ORDERED_FROM


def key_row(key: bytes) -> bytes:
    """Return the stored key of the row that is looked up by a record key."""
    return KEY_ROW + key


def key_rows(keys: Sequence[bytes]) -> list[bytes]:
    """Return the stored keys of the rows that are looked up by record keys."""
    head = KEY_ROW
    return [head + key for key in keys]


def time_bounds(from_: int, to: int) -> tuple[bytes, bytes | None]:
    """Return low and, not included, high for the rows of from_ <= time <= to."""
    low = pack_time(max(from_, TIME_MIN))
    return low, None if to >= TIME_MAX else pack_time(max(to, TIME_MIN - 1) + 1)


def time_rows(
    view: RowView, from_: int = TIME_MIN, to: int = TIME_MAX, *, reverse: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the rows that begin with a time from_ <= time <= to, by time, then by key."""
    low, high = time_bounds(from_, to)
    if high is not None and low >= high:
        return iter(())
    rows = view.range(low, high, reverse=reverse)
    return rows if high is None else (row for row in rows if row[0] < high)


def first_row(
    view: RowView, from_: int = TIME_MIN, to: int = TIME_MAX, *, reverse: bool = False
) -> tuple[bytes, bytes] | None:
    """Return the first row that `time_rows` would yield."""
    low, high = time_bounds(from_, to)
    if high is not None and low >= high:
        return None
    row = view.first(low, high, reverse=reverse)
    if row is None or high is None or row[0] < high:
        return row
    return next(time_rows(view, from_, to, reverse=reverse), None)
