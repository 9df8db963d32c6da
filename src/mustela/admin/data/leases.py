"""Snapshots that live from page to page, so that the pages of one question show one epoch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from mustela.queries.snapshot import Snapshot

__all__ = ["Leases", "Lent", "Source"]

HELD_MAX: Final = 4
"""So many snapshots live from page to page at most; with more, the one used longest ago ends."""
IDLE_S: Final = 10.0
"""A snapshot that no page was asked of for so long, in seconds, ends."""
HELD_S: Final = 60.0
"""A snapshot ends after so long, in seconds, as it keeps disk pages from being reused."""


class Source(Protocol):
    """What gives out snapshots: `mustela.queries.queries.Queries`."""

    def snapshot(
        self, *, lifetime: timedelta, min_epoch: int | None = None, timeout: timedelta
    ) -> Snapshot:
        """Return a view of all stores as of the newest committed epoch."""
        ...


@dataclass(slots=True)
class _Lease:
    shown: Snapshot
    begun: float
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False


class Leases:
    """Keeps snapshots by their epoch, a few and not for long.

    Args:
        source: Where they come from.
        now: Monotonic time, in seconds.
    """

    def __init__(self, source: Source, now: Callable[[], float]) -> None:
        self._source = source
        self._now = now
        self._lock = threading.Lock()
        self._held: dict[int, _Lease] = {}

    @contextlib.contextmanager
    def shown(
        self, epoch: int | None, *, min_epoch: int | None = None, timeout_s: float = 0.0
    ) -> Generator[Lent]:
        """Give a snapshot: that of an epoch if it still lives, otherwise the newest.

        Args:
            epoch: The epoch of the page before.
            min_epoch: The epoch that must be committed.
            timeout_s: How long to wait for that, and for a snapshot that another request reads.
        """
        self.sweep()
        lease = self._taken(epoch, timeout_s)
        if lease is None:
            shown = self._snapshot(min_epoch, timeout_s)
            now = self._now()
            lease = _Lease(shown, now, now)
            lease.lock.acquire()
        lent = Lent(lease.shown)
        try:
            yield lent
        finally:
            lease.used = self._now()
            self._give_back(lease, keep=lent.keep)
            lease.lock.release()

    def take(self) -> Snapshot:
        """Return the newest snapshot, which the caller ends."""
        return self._snapshot(None, 0.0)

    def _snapshot(self, min_epoch: int | None, timeout_s: float) -> Snapshot:
        lifetime, timeout = timedelta(seconds=HELD_S), timedelta(seconds=timeout_s)
        return self._source.snapshot(lifetime=lifetime, min_epoch=min_epoch, timeout=timeout)

    def sweep(self) -> None:
        """End the snapshots that have lived long enough."""
        now = self._now()
        with self._lock:
            for lease in list(self._held.values()):
                old = now - lease.used > IDLE_S or now - lease.begun > HELD_S
                if old and lease.lock.acquire(blocking=False):
                    self._end(lease)
                    lease.lock.release()

    def close(self) -> None:
        """End all that nobody reads."""
        with self._lock:
            for lease in list(self._held.values()):
                if lease.lock.acquire(blocking=False):
                    self._end(lease)
                    lease.lock.release()

    def _taken(self, epoch: int | None, timeout_s: float) -> _Lease | None:
        with self._lock:
            lease = None if epoch is None else self._held.get(epoch)
        if lease is None or not lease.lock.acquire(timeout=max(0.0, timeout_s)):
            return None
        if lease.ended:
            lease.lock.release()
            return None
        return lease

    def _give_back(self, lease: _Lease, *, keep: bool) -> None:
        with self._lock:
            other = self._held.get(lease.shown.epoch)
            if lease.ended:
                return
            if not keep or other not in (None, lease):
                if other is not lease:
                    self._end(lease)
                return
            self._held[lease.shown.epoch] = lease
            idle = sorted(self._held.values(), key=lambda each: each.used)
            for each in idle[: max(0, len(idle) - HELD_MAX)]:
                if each is not lease and each.lock.acquire(blocking=False):
                    self._end(each)
                    each.lock.release()

    def _end(self, lease: _Lease) -> None:
        lease.ended = True
        if self._held.get(lease.shown.epoch) is lease:
            del self._held[lease.shown.epoch]
        lease.shown.close()


class Lent:
    """A snapshot for one request.

    Attributes:
        shown: The snapshot.
        keep: Set it if a next page may follow.
    """

    def __init__(self, shown: Snapshot) -> None:
        self.shown = shown
        self.keep = False
