"""Parked records, in order of arrival, and the calls made for them.

Layout, format 1. What first bytes mean: see layout.py.

- ``00 n``: the next sequence number of the key group, eight bytes.
- ``00 p``: how many records of the key group wait, eight bytes; counted where it is missing.
- ``01``, record key: how many records of the key wait, where they wait for each other.
- ``02``, length of the record key (four bytes, all ones for null), record key, sequence number
  (eight bytes): a record, as its owner wrote it.
- ``03``, sequence number: the record's call is running: key and owner.
- ``04``, sequence number: it is the record's turn, but its call is not running yet: key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from mustela.state.kinds.layout import RowView, key_row, key_rows
from mustela.state.store_kind import StoreKind

__all__ = ["PARKING", "PARKING_FORMAT", "Parked", "ParkedPlace", "ParkingRows"]

PARKING_FORMAT: Final = 1

PARKING: Final = StoreKind(name="parking")
"""Only the step that owns such a store can read it."""

_NEXT: Final = b"\x00n"
_PARKED: Final = b"\x00p"
_RECORD: Final = b"\x02"
_CALLED: Final = b"\x03"
_READY: Final = b"\x04"
_BEHIND: Final = b"\x05"
_NULL: Final = b"\xff\xff\xff\xff"
_SEQUENCE_BYTES: Final = 8


class ParkedPlace(NamedTuple):
    """The place of a waiting record."""

    key: bytes | None
    sequence: int


class Parked(NamedTuple):
    """A record whose turn it is.

    Attributes:
        place: Its place.
        owner: The owner of its call; None if it is not running yet.
        data: The record.
    """

    place: ParkedPlace
    owner: str | None
    data: bytes


class _Called(msgspec.Struct, frozen=True, array_like=True):
    key: bytes | None
    owner: str


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_CALL: Final = msgspec.msgpack.Decoder(_Called).decode
_KEY: Final = msgspec.msgpack.Decoder(bytes | None).decode


def _number(value: int) -> bytes:
    return value.to_bytes(_SEQUENCE_BYTES, "big")


def _head(key: bytes | None) -> bytes:
    return _RECORD + (_NULL if key is None else len(key).to_bytes(4, "big") + key)


class ParkingRows:
    """The parked records of one key group.

    Args:
        view: The rows of the store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="p", kind="parking"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("p")
        >>> parking = ParkingRows(view)
        >>> first, second = parking.add([(b"k", b"one"), (b"k", b"two")])
        >>> parking.set_count(b"k", 2)
        >>> parking.call(first, "me")
        >>> list(parking.called())
        [Parked(place=ParkedPlace(key=b'k', sequence=0), owner='me', data=b'one')]
        >>> parking.remove(first)
        >>> parking.queue(b"k", limit=10)
        [(ParkedPlace(key=b'k', sequence=1), b'two')]
    """

    def __init__(self, view: RowView) -> None:
        self.view = view

    @property
    def parked(self) -> int:
        """How many records of the key group wait."""
        stored = self.view.get(_PARKED)
        if stored is not None:
            return int.from_bytes(stored, "big")
        return sum(key[:1] == _RECORD for key, _ in self.view.range(_RECORD, _CALLED))

    @parked.setter
    def parked(self, number: int) -> None:
        self.view.put(_PARKED, _number(number))

    def counts(self, keys: Sequence[bytes]) -> list[int]:
        """Return how many records of each key wait."""
        found = self.view.getmulti(key_rows(keys))
        return [0 if stored is None else int.from_bytes(stored, "big") for stored in found]

    def set_count(self, key: bytes, count: int) -> None:
        """Set how many records of a key wait."""
        self.view.put(key_row(key), _number(count) if count else None)

    def add(self, records: Sequence[tuple[bytes | None, bytes]]) -> list[ParkedPlace]:
        """Add records after all others; return their places."""
        if not records:
            return []
        stored = self.view.get(_NEXT)
        first = 0 if stored is None else int.from_bytes(stored, "big")
        places = [ParkedPlace(key, first + nth) for nth, (key, _) in enumerate(records)]
        rows: dict[bytes, bytes | None] = {
            _row(place): data for place, (_, data) in zip(places, records, strict=True)
        }
        rows[_NEXT] = _number(first + len(records))
        self.view.put_many(rows)
        return places

    def call(self, place: ParkedPlace, owner: str) -> None:
        """Note that a record's call is running."""
        mark = _number(place.sequence)
        self.view.put(_CALLED + mark, _ENCODE(_Called(place.key, owner)))
        self.view.put(_READY + mark, None)

    def make_ready(self, place: ParkedPlace) -> None:
        """Note that it is a record's turn, and its call must be made."""
        self.view.put(_READY + _number(place.sequence), _ENCODE(place.key))

    def remove(self, place: ParkedPlace) -> None:
        """Remove a record whose turn it was."""
        mark = _number(place.sequence)
        self.view.put_many([(_row(place), None), (_CALLED + mark, None), (_READY + mark, None)])

    def called(self) -> Iterator[Parked]:
        """Iterate over the records whose calls are running, oldest first."""
        found = [
            (ParkedPlace(call.key, int.from_bytes(stored[1:], "big")), call.owner)
            for stored, data in self.view.range(_CALLED, _READY)
            if stored[:1] == _CALLED
            for call in (_CALL(data),)
        ]
        return self._with_records(found)

    def ready(self, limit: int) -> Iterator[Parked]:
        """Iterate over the records whose calls must be made, oldest first."""
        rows = islice(self.view.range(_READY, _BEHIND), limit)
        found = [
            (ParkedPlace(_KEY(data), int.from_bytes(stored[1:], "big")), None)
            for stored, data in rows
        ]
        return self._with_records(found)

    @property
    def waits(self) -> bool:
        """Return whether it is the turn of any record."""
        return self.view.first(_CALLED, _BEHIND) is not None

    def queue(self, key: bytes, *, after: int = -1, limit: int) -> list[tuple[ParkedPlace, bytes]]:
        """Return the next records of a key after the one with sequence number ``after``."""
        head = _head(key)
        rows = self.view.range(head + _number(after + 1), head + b"\xff" * _SEQUENCE_BYTES)
        return [
            (ParkedPlace(key, int.from_bytes(stored[-_SEQUENCE_BYTES:], "big")), data)
            for stored, data in islice(rows, limit)
        ]

    def _with_records(self, found: Sequence[tuple[ParkedPlace, str | None]]) -> Iterator[Parked]:
        rows: Iterable[bytes | None] = self.view.getmulti([_row(place) for place, _ in found])
        for (place, owner), data in zip(found, rows, strict=True):
            assert data is not None, place
            yield Parked(place, owner, data)


def _row(place: ParkedPlace) -> bytes:
    return _head(place.key) + _number(place.sequence)
