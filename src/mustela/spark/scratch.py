"""Directories for what Spark's JVM writes that is not state: shuffles, sockets, broadcasts.

A JVM deletes its own when it ends. One that is killed cannot, and an application that is killed
and started again for months would fill the disk. So each JVM that is started here has a directory
of its own, which this process holds a lock in for as long as it lives, and who starts the next one
deletes all that nobody holds.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from mustela.state.abandoned import delete_abandoned
from mustela.state.locking import hold, is_held

__all__ = ["clear_scratch", "give_back", "take_scratch"]

_PREFIX: Final = "mustela-spark-"
_UNFINISHED: Final = "mustela-new-spark-"
_LOCK: Final = "lock"
_LONGEST: Final = 40
"""Bytes of a parent's path: a socket below it may have 107, of which Spark's name for it takes most
and ours the rest."""

_HELD: Final[dict[Path, tuple[int, int]]] = {}
"""For each directory the process that made it, and the open lock."""


def parent_of_scratch() -> Path:
    """Return where the directories are: among temporary files, or in ``/tmp`` for short names."""
    usual = Path(tempfile.gettempdir())
    return usual if len(os.fsencode(usual)) <= _LONGEST else Path("/tmp")


def take_scratch(parent: Path | None = None) -> Path:
    """Delete what dead processes left, and make a directory for a JVM of this one.

    Args:
        parent: Where; by default among temporary files.

    Returns:
        The directory; it is deleted when this process ends.
    """
    where = parent or parent_of_scratch()
    clear_scratch(where)
    made = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=where))
    lock = hold(made / _LOCK)
    # Under a name that others look for only now that it is locked.
    path = made.rename(made.with_name(_PREFIX + made.name.removeprefix(_UNFINISHED)))
    _HELD[path] = (os.getpid(), lock)
    atexit.register(_give_all_back)
    return path


def give_back(path: Path) -> None:
    """Delete a directory that `take_scratch` made; a fork of its process leaves it alone."""
    maker, lock = _HELD.pop(path)
    if maker == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _give_all_back() -> None:
    for path in list(_HELD):
        give_back(path)


def clear_scratch(parent: Path | None = None) -> None:
    """Delete this user's directories that no process holds."""
    delete_abandoned(parent or parent_of_scratch(), _PREFIX, _is_abandoned)


def _is_abandoned(path: Path) -> bool:
    try:
        return not is_held(path / _LOCK)
    except FileNotFoundError:
        return path.exists()  # somebody began to delete it, and was killed
    except OSError:
        return False
