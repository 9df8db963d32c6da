"""Locks of a host: one process at a time restores a key group, or follows a global table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.simulation.world import current_life, current_world

__all__ = ["SimLock"]

_STEP_S = 0.005


class SimLock:
    """Takes the place of `mustela.state.locking.WriteLock`.

    Args:
        path: The lock file, on the machine of the process that asks.
        timeout_ms: How long to try; no process of the simulated world holds one for so long.
    """

    def __init__(self, path: Path, timeout_ms: int) -> None:
        self._path = str(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for a ``with`` block; the kernel frees that of a process that is gone."""
        world, life = current_world(), current_life()
        holders = life.machine.locks
        while (holder := holders.get(self._path)) and holder is not life and not holder.dead:
            world.happened["lock of another process"] += 1
            world.sleep(life, _STEP_S)
        holders[self._path] = life
        try:
            yield
        finally:
            if holders.get(self._path) is life:
                del holders[self._path]
