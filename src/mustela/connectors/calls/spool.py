"""Outcomes of parked calls on the host's disk, where any process of the application finds them.

A parked call goes on in the process that began it, but the next task of its lane may run in
another one. So its outcome is written to a file: whole, or not at all. Each process that makes
calls holds a lock on a file of its own as long as it lives: the kernel lets go of the lock when the
process dies, however it dies, and others then know that its calls are made no more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mustela.plan.calls import CallOutcome, read_outcome, write_outcome
from mustela.state.locking import hold, is_held

__all__ = [
    "CallSpool",
    "Owner",
    "Spooled",
    "clear_abandoned",
    "host_of",
    "living_owners",
    "waiting_in",
]

_HOST = "host"
_OWNERS = "owners"
_STEPS = "steps"
_ABANDONED_S: Final = 86_400.0


class Spooled(NamedTuple):
    """An outcome that waits in a file."""

    group: int
    call_id: str


class Owner:
    """A process that makes calls, as others see it: alive as long as its lock is held.

    Args:
        root: The directory of the program's calls.
    """

    def __init__(self, root: Path) -> None:
        place = root / _OWNERS
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = f"{host_of(root)}.{_unique()}"
        self._path = place / self.name
        self._fd = hold(self._path)

    def close(self) -> None:
        """Let go: calls of this owner count as lost."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._fd)
            self._fd = -1


def host_of(root: Path) -> str:
    """Return the name of what the processes share that have the same directory of calls.

    It is the directory's, which containers on one machine may each have of their own.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     host_of(Path(place)) == host_of(Path(place))
        True
    """
    note = root / _HOST
    if not note.exists():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = root / f".{_unique()}"
        draft.write_text(_unique(), encoding="ascii")
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, note)
        draft.unlink()
    return note.read_text(encoding="ascii")


def _unique() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - only has to differ from others


def living_owners(root: Path) -> tuple[str, ...]:
    """Return the processes of a host that make calls."""
    try:
        names = sorted(os.listdir(root / _OWNERS))
    except OSError:
        return ()
    found: list[str] = []
    for name in names:
        with contextlib.suppress(OSError):
            if is_held(root / _OWNERS / name):
                found.append(name)
    return tuple(found)


class CallSpool:
    """The outcomes of parked calls of one step.

    Args:
        root: The directory of the program's calls.
        step: The step's name.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     spool = CallSpool(Path(place), "enrich")
        ...     spool.write(3, CallOutcome("a1", 1, b"result"))
        ...     found = list(spool.names())
        ...     found, spool.read(found[0]).result
        ([Spooled(group=3, call_id='a1')], b'result')
    """

    def __init__(self, root: Path, step: str) -> None:
        self._root = root
        self._path = root / _STEPS / step
        self._is_made = False

    def write(self, group: int, outcome: CallOutcome) -> None:
        """Write an outcome.

        Raises:
            OSError: If there is no room; then nothing is written.
        """
        if not self._is_made:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._is_made = True
        draft = self._path / f".{outcome.call_id}"
        draft.write_bytes(write_outcome(outcome))
        draft.rename(self._path / f"{group}-{outcome.call_id}")

    def names(self) -> Iterator[Spooled]:
        """Iterate over the outcomes that wait."""
        return waiting_in(self._path)

    def read(self, name: Spooled) -> CallOutcome | None:
        """Return an outcome, None if it is gone."""
        try:
            return read_outcome((self._path / f"{name.group}-{name.call_id}").read_bytes())
        except FileNotFoundError:
            return None

    def remove(self, name: Spooled) -> None:
        """Forget an outcome."""
        with contextlib.suppress(OSError):
            (self._path / f"{name.group}-{name.call_id}").unlink()

    def is_alive(self, owner: str) -> bool:
        """Say whether the process that is ``owner`` lives, on this host."""
        try:
            return is_held(self._root / _OWNERS / owner)
        except OSError:
            return False

    @staticmethod
    def of_step(root: Path, step: str) -> Path:
        """Return the directory of a step."""
        return root / _STEPS / step

    @staticmethod
    def clear(root: Path) -> None:
        """Delete the calls of a program."""
        shutil.rmtree(root, ignore_errors=True)


def clear_abandoned(place: Path, now_s: float) -> None:
    """Delete the calls of programs that no process has made any for, or changed, for a day.

    Of other programs nobody on this host knows whether they end or only rest.

    Args:
        place: The directory of all programs' calls.
        now_s: Wall-clock time.
    """
    for root in place.iterdir() if place.is_dir() else ():
        parts = [root, root / _OWNERS, root / _STEPS, *(root / _STEPS).glob("*")]
        with contextlib.suppress(OSError):
            touched = max(part.stat().st_mtime for part in parts if part.exists())
            if now_s - touched > _ABANDONED_S and not living_owners(root):
                CallSpool.clear(root)


def waiting_in(path: Path) -> Iterator[Spooled]:
    """Iterate over the outcomes that wait in the directory of a step."""
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in names:
        group, dash, call_id = name.partition("-")
        if dash and group.isdigit():
            yield Spooled(int(group), call_id)
