"""The records of one step that wait for external calls, by key."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from mustela.kernel.calls.parked import WaitingCall, read_waiting
from mustela.model import Headers
from mustela.plan.batch import Order
from mustela.plan.calls import CallRequest
from mustela.state.kinds.parking import ParkedPlace, ParkingRows

__all__ = ["Entry", "KeyQueue"]

_CHUNK: Final = 64
"""How many records of a key are read from the store at a time."""


@dataclass(slots=True, eq=False)
class Entry:
    """A record in the running epoch.

    Attributes:
        group: Its key group.
        key: Its key as bytes.
        waiting: The rest of the record.
        place: Where it is parked; None if it arrived in this epoch.
        owner: The task that makes its call, according to the store; None if there is none.
        listed: Whether the store marks it as the record whose turn it is.
        queue: The queue of its key; None if it waits for no other record.
    """

    group: int
    key: bytes | None
    waiting: WaitingCall
    place: ParkedPlace | None = None
    owner: str | None = None
    listed: bool = False
    queue: KeyQueue | None = None

    @property
    def headers(self) -> Headers:
        """The record's headers."""
        return self.waiting.record_headers

    @property
    def order(self) -> Order:
        """The record's order."""
        return self.waiting.record_order

    def request(self) -> CallRequest:
        """Return the call to make for the record."""
        waiting = self.waiting
        return CallRequest(
            waiting.call_id,
            self.group,
            self.key,
            waiting.value,
            waiting.timestamp,
            self.headers,
        )


@dataclass(slots=True, eq=False)
class KeyQueue:
    """The records of one key: one call at a time, in order.

    Attributes:
        parking: The parked records of the key group.
        group: The key group.
        key: The key.
        parked: Records after the head that are in the store and have not been read yet.
        before: How many records of the key the store had before the epoch.
        head: The record whose turn it is.
        taken: Parked records read from the store, after the head.
        fresh: Records of this epoch, after all others.
        order: The order of the last result forwarded in this epoch.
    """

    parking: ParkingRows
    group: int
    key: bytes
    parked: int = 0
    before: int = 0
    head: Entry | None = None
    taken: deque[Entry] = field(default_factory=deque[Entry])
    fresh: deque[Entry] = field(default_factory=deque[Entry])
    order: Order | None = None
    _last: int = -1

    def lead(self, entry: Entry) -> None:
        """Note the parked record whose turn it is."""
        assert entry.place is not None
        self.head, self._last = entry, entry.place.sequence
        entry.queue = self

    def advance(self) -> Entry | None:
        """Return the next record and make it the head, unless there is a head already."""
        if self.head is not None:
            return None
        if not self.taken and self.parked:
            self._take()
        if self.taken:
            self.head = self.taken.popleft()
        elif self.fresh:
            self.head = self.fresh.popleft()
        return self.head

    @property
    def count(self) -> int:
        """How many records wait."""
        return (self.head is not None) + len(self.taken) + self.parked + len(self.fresh)

    def next_order(self, order: Order) -> Order:
        """Return an order for a result that does not precede the key's earlier results.

        Records of a key may have come from several partitions, in different epochs.
        """
        if self.order is not None and order < self.order:
            time = self.order[0]
            order = (time, *order[1:])
            if order < self.order:
                order = (time + 1, *order[1:])
        self.order = order
        return order

    def _take(self) -> None:
        rows = self.parking.queue(self.key, after=self._last, limit=_CHUNK)
        assert rows, (self.key, self._last, self.parked)
        for place, data in rows:
            entry = Entry(self.group, self.key, read_waiting(data), place, queue=self)
            self.taken.append(entry)
            self._last = place.sequence
        self.parked -= len(rows)
