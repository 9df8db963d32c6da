"""Ends snapshots at their deadlines, whether somebody uses them or not."""

from __future__ import annotations

import threading
from typing import Final

from mustela.clock import Clock
from mustela.queries.errors import SnapshotLimitError
from mustela.queries.snapshot import Snapshot

__all__ = ["SNAPSHOTS_MAX", "SnapshotKeeper"]

SNAPSHOTS_MAX: Final = 100
"""How many snapshots and iterations may be open at once: LMDB has a table of readers."""

_AGAIN_S = 0.1
_LINGER_S = 5.0


class SnapshotKeeper:
    """Knows the open snapshots of a source.

    A thread ends those whose deadline has passed; it runs only while snapshots are open.

    Args:
        clock: Monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        lock = threading.RLock()  # a dropped iteration may close its snapshot anywhere
        self._changed, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._open: dict[int, Snapshot] = {}
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def check_room(self) -> None:
        """Refuse another snapshot if too many are open.

        Raises:
            SnapshotLimitError: If there are `SNAPSHOTS_MAX`.
        """
        if len(self._open) >= SNAPSHOTS_MAX:
            msg = f"{SNAPSHOTS_MAX} snapshots are open"
            raise SnapshotLimitError(
                msg,
                why="each of them and each iteration over a store keeps old state readable",
                fix="use snapshots and iterators in with blocks, so that they are closed",
            )

    def add(self, snapshot: Snapshot) -> None:
        """Watch a snapshot."""
        with self._changed:
            self._open[id(snapshot)] = snapshot
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="mustela-snapshots", daemon=True
                )
                self._thread.start()
            elif snapshot.deadline < self._next:
                self._changed.notify_all()

    def forget(self, snapshot: Snapshot) -> None:
        """Watch a snapshot no longer."""
        with self._changed:
            self._open.pop(id(snapshot), None)
            self._ended.notify_all()

    def wait_for_end(self, snapshot: Snapshot, seconds: float) -> bool:
        """Wait until a snapshot has ended; return False if the time is up first."""
        with self._ended:
            return self._ended.wait_for(lambda: id(snapshot) not in self._open, seconds)

    def close(self) -> None:
        """End all snapshots."""
        for snapshot in list(self._open.values()):
            snapshot.end()

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = self._clock.monotonic()
                first = min((known.deadline for known in self._open.values()), default=None)
                self._next = now + _LINGER_S if first is None else first
                wait = max(self._next - now, 0.0)
                if wait and not self._changed.wait(wait) and not self._open:
                    self._thread = None
                    return
                late = [
                    known
                    for known in self._open.values()
                    if known.deadline <= self._clock.monotonic()
                ]
            # Outside of the lock: a snapshot that closes calls `forget`.
            ended = [snapshot.expire() for snapshot in late]
            if not all(ended):
                with self._changed:
                    self._changed.wait(_AGAIN_S)
