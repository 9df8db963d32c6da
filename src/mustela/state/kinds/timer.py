"""Timers: what fires for a key at some time.

Layout, format 1. Times, and what first bytes mean: see layout.py.

- time, record key, name and the name's length (two bytes): the timer's own bytes. In order of
  time.
- ``01``, record key, name and the name's length: the timer's time, so that registering a timer
  again replaces it.
- ``02`` and one of these rows: the same for a timer by the clock, not by event time.
- ``03`` and a number of four bytes: a schedule, which belongs to the key group and not to a key.

Timers that fire or are deleted are removed in the changelog too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from mustela.state.faults import StoreError
from mustela.state.kinds.layout import (
    KEY_ROW,
    TIME_BYTES,
    TIME_MAX,
    TIME_MIN,
    RowView,
    first_row,
    pack_time,
    time_rows,
    unpack_time,
)
from mustela.state.store_kind import StoreKind

__all__ = ["CLOCK_ROW", "SCHEDULE_ROW", "TIMER", "TIMER_FORMAT", "StoredTimer", "TimerRows"]

TIMER_FORMAT = 1

TIMER: Final = StoreKind(name="timer")
"""Only the step that owns such a store can read it."""

CLOCK_ROW: Final = b"\x02"
"""First byte of the rows of timers by the clock."""

SCHEDULE_ROW: Final = b"\x03"
"""First byte of the row of a schedule."""

_LENGTH_BYTES = 2
_NAME_BYTES_MAX = 65_535


class StoredTimer(NamedTuple):
    """A timer of a key.

    Attributes:
        time: When it fires, in milliseconds.
        key: The record key.
        name: Distinguishes timers of one key.
        data: Bytes that belong to the owner of the store.
    """

    time: int
    key: bytes
    name: bytes = b""
    data: bytes = b""


def _tail(key: bytes, name: bytes) -> bytes:
    if len(name) > _NAME_BYTES_MAX:
        msg = f"the name of a timer has {len(name)} bytes"
        raise StoreError(msg, fix=f"use at most {_NAME_BYTES_MAX}")
    return key + name + len(name).to_bytes(_LENGTH_BYTES, "big")


def _timer(stored: bytes, data: bytes) -> StoredTimer:
    end = len(stored) - _LENGTH_BYTES
    start = end - int.from_bytes(stored[end:], "big")
    return StoredTimer(unpack_time(stored), stored[TIME_BYTES:start], stored[start:end], data)


class TimerRows:
    """The timers of one key group.

    Args:
        view: The rows of the store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="t", kind="timer"),))
        >>> timers = TimerRows(Overlay(MemoryEnvironment(place).snapshot(Committed())).store("t"))
        >>> timers.register_many([StoredTimer(50, b"apple"), StoredTimer(20, b"pear"), StoredTimer(30, b"apple")])
        >>> timers.next_time()
        20
        >>> timers.take_due(30)
        [StoredTimer(time=20, key=b'pear', name=b'', data=b''), StoredTimer(time=30, key=b'apple', name=b'', data=b'')]
    """  # noqa: E501 - the doctest's answer

    def __init__(self, view: RowView) -> None:
        self.view = view

    def register_many(self, timers: Iterable[StoredTimer]) -> None:
        """Set timers, replacing those of the same key and name; the last of several wins."""
        self.change_many({(timer.key, timer.name): timer for timer in timers})

    def change_many(self, changes: Mapping[tuple[bytes, bytes], StoredTimer | None]) -> None:
        """Set and remove timers, with one fetch for all.

        Args:
            changes: The timers by key and name; None removes one, if it is set.
        """
        fresh = {KEY_ROW + _tail(*place): timer for place, timer in changes.items()}
        places = list(fresh)
        rows: dict[bytes, bytes | None] = {}
        same: list[bytes] = []
        for place, stored in zip(places, self.view.getmulti(places), strict=True):
            timer, tail = fresh[place], place[1:]
            head = None if timer is None else pack_time(timer.time)
            if stored is not None and stored != head:
                rows[stored + tail] = None
            if head is None or timer is None:
                if stored is not None:
                    rows[place] = None
                continue
            if stored == head:
                same.append(head + tail)
            rows[place] = head
            rows[head + tail] = timer.data
        if same:
            self.view.getmulti(same)  # unchanged rows are not written
        self.view.put_many(rows)

    def time_of(self, key: bytes, name: bytes = b"") -> int | None:
        """Return when a timer fires, or None if it is not set."""
        stored = self.view.get(KEY_ROW + _tail(key, name))
        return None if stored is None else unpack_time(stored)

    def delete(self, key: bytes, name: bytes = b"") -> bool:
        """Remove a timer; return whether it was set."""
        place = KEY_ROW + _tail(key, name)
        stored = self.view.get(place)
        if stored is None:
            return False
        self.view.put_many({place: None, stored + place[1:]: None})
        return True

    def due(self, until: int = TIME_MAX, *, since: int = TIME_MIN) -> Iterator[StoredTimer]:
        """Iterate over the timers with since <= time <= until, by (time, key, name).

        They are not removed.
        """
        timers = (_timer(stored, data) for stored, data in time_rows(self.view, since, until))
        for _, same in groupby(timers, key=lambda timer: timer.time):
            yield from sorted(same)

    def take_due(self, until: int = TIME_MAX) -> list[StoredTimer]:
        """Remove the timers with time <= until, and return them by (time, key, name)."""
        found = list(self.due(until))
        rows: dict[bytes, bytes | None] = {}
        for timer in found:
            tail = _tail(timer.key, timer.name)
            rows[pack_time(timer.time) + tail] = rows[KEY_ROW + tail] = None
        self.view.put_many(rows)
        return found

    def next_time(self, since: int = TIME_MIN) -> int | None:
        """Return when the first timer with time >= since fires, or None."""
        row = first_row(self.view, since)
        return None if row is None else unpack_time(row[0])
