"""Clients of ``GET /stores/{store}/changes``: what they were sent adds up to each epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from mustela.client.asking import RemoteChange
from mustela.client.client import Client
from mustela.client.errors import RemoteRefusedError, RemoteUnavailableError
from tests.faults.reads.book import Place
from tests.faults.reads.dealt import dealt
from tests.faults.reads.program import KEYS, Shape

__all__ = ["FOLLOWED", "Followed", "Follower"]

FOLLOWED = ("keyed", "expiring", "window", "session", "versioned")
"""The layouts of stores whose changes can be followed."""
LOOKS_MAX = 24
TIMEOUT = timedelta(seconds=5)
_GONE = (404, 410)
"""A store of a release that has not started, and changes that are not kept any more."""

Change = RemoteChange[str, Any]
Look = dict[str, Any]


class Followed:
    """What a client holds of a store by the changes that it was sent.

    Args:
        store: The store.
        layout: How its rows are kept.
        prefix: What the keys that it follows begin with; None for all.

    Attributes:
        epoch: The epoch of which it has everything; None before it has any.
    """

    def __init__(self, store: str, layout: str, prefix: str | None) -> None:
        self.store = store
        self.prefix = prefix
        self._is_session = layout == "session"
        self.epoch: int | None = None
        self._whole: dict[Place, Any] = {}
        self._coming: dict[Place, Any] = {}
        self._open: tuple[str, int] | None = None
        self._begun: set[str] = set()

    def again(self) -> None:
        """The connection has ended: go on from the last epoch of which everything came."""
        self._coming, self._open = dict(self._whole), None

    def take(self, change: Change) -> Iterator[Look]:
        """Take a change; yield what is held of the epochs that it completes."""
        if change.kind == "ready":
            if self._open != ("snapshot", change.epoch):
                self._coming = {}  # a snapshot without rows
            self._whole, self._open = dict(self._coming), None
            before, self.epoch = None, change.epoch
            yield self._look(before)
            return
        part = ("snapshot" if change.kind == "snapshot" else "change", change.epoch)
        if part != self._open:
            yield from self._done()
            self._open, self._begun = part, set()
            if part[0] == "snapshot":
                self._coming = {}
        self._put(change)

    def _done(self) -> Iterator[Look]:
        if self._open is not None and self._open[0] == "change":
            before, self.epoch = self.epoch, self._open[1]
            self._whole = dict(self._coming)
            yield self._look(before)

    def _put(self, change: Change) -> None:
        row = change.row
        assert row is not None
        if self._is_session and row.key not in self._begun:
            # All sessions of a key come with one of them.
            self._begun.add(row.key)
            self._coming = {at: kept for at, kept in self._coming.items() if at[0] != row.key}
        place = (row.key, row.start, row.end)
        if change.kind == "deleted":
            self._coming.pop(place, None)
        else:
            self._coming[place] = row.value

    def _look(self, before: int | None) -> Look:
        rows = [[*place, value] for place, value in self._whole.items()]
        held = {"store": self.store, "prefix": self.prefix or "", "rows": rows, "before": before}
        return {"epoch": self.epoch, "held": held}


class Follower:
    """Follows one store after the other.

    Args:
        address: Where it asks.
        token: What it asks with.
        shapes: The stores that are there in every release.
        rng: For what is random.
    """

    def __init__(
        self, address: str, token: str, shapes: Mapping[str, Shape], rng: random.Random
    ) -> None:
        self._client = Client(address, token=token, timeout=TIMEOUT)
        self._layouts = {n: shape.layout for n, shape in shapes.items() if shape.layout in FOLLOWED}
        self._stores = dealt(self._layouts, rng)
        self._random = rng
        self._followed: Followed | None = None
        self._left = 0

    def looks(self) -> Iterator[Look]:
        """Yield what is held after each epoch that changed a store, for some epochs.

        Raises:
            RemoteUnavailableError: If the server does not answer; the next call goes on there.
        """
        if self._followed is None:
            store = next(self._stores)
            prefix = self._random.choice((None, None, KEYS[0][:2], KEYS[-1][:2]))
            self._followed = Followed(store, self._layouts[store], prefix)
            self._left = self._random.randrange(LOOKS_MAX // 4, LOOKS_MAX)
        followed = self._followed
        followed.again()
        changes = self._client.store(followed.store, key=str).changes(
            prefix=followed.prefix, since=followed.epoch
        )
        try:
            for change in changes:
                for look in followed.take(change):
                    yield look
                    self._left -= 1
                if self._left <= 0:
                    self._followed = None
                    return
        except RemoteRefusedError as error:
            if error.fields.get("status") not in _GONE:
                raise
            self._followed = None
        except RemoteUnavailableError:
            if followed.epoch is None:
                self._followed = None
            raise

    def close(self) -> None:
        """End the connections."""
        self._client.close()
