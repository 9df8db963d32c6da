"""Copies on disk of environments on tmpfs, saved by a clean stop for the next start.

A copy is an environment like any other, with its own description: its application, epoch and
changelog positions. So nothing has to be known about a copy to read it back: one that is older than
the last commit catches up from the changelogs, and a damaged or foreign one is rebuilt, as on disk.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mustela.state.codec import FLAT_FILE
from mustela.state.directories import make_private, remove_tree
from mustela.state.lmdb_files import DATA_FILE, reported

__all__ = ["fetch", "save"]


def save(root: Path, path: Path, copy: Path) -> None:
    """Save a copy of an environment's files, replacing an older one.

    Args:
        root: The directory of copies.
        path: The environment, closed and clean.
        copy: The path of its copy.
    """
    make_private(root, copy.parent)
    _replace(path, copy, durable=True)


def fetch(copy: Path, path: Path) -> bool:
    """Read a copy back, if there is one; return whether there was."""
    if _file_of(copy) is None:
        return False
    _replace(copy, path, durable=False)
    return True


def _replace(source: Path, target: Path, *, durable: bool) -> None:
    """Copy an environment next to its place, then rename it: it is complete or absent."""
    # The next start deletes what a kill left of it, recognized by this part of its name.
    fresh = target.with_name(f"{target.name}.dead-{os.getpid()}-copy")
    with reported(target):
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            fresh.mkdir(mode=0o700)
            name = _file_of(source) or DATA_FILE
            shutil.copyfile(source / name, fresh / name)
            (fresh / name).chmod(0o600)
            if durable:
                _sync(fresh / name)
            remove_tree(target)
            fresh.rename(target)
            if durable:
                _sync(target.parent)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _file_of(place: Path) -> str | None:
    """Return the file that holds an environment: LMDB's, or all rows of a small one."""
    return next((name for name in (DATA_FILE, FLAT_FILE) if (place / name).is_file()), None)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
