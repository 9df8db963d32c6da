"""Temporary directories of programs, and deleting those that killed programs left."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["delete_abandoned"]


def delete_abandoned(parent: Path, prefix: str, is_abandoned: Callable[[Path], bool]) -> None:
    """Delete this user's directories whose program has ended; links are left alone.

    Args:
        parent: Where they are.
        prefix: What their names begin with.
        is_abandoned: Returns whether the program of a directory has ended.
    """
    for path in parent.glob(f"{prefix}*"):
        if _is_own_directory(path) and is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_own_directory(path: Path) -> bool:
    try:
        there = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid()
