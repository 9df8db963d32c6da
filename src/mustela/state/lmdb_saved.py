"""Copies on disk of environments on tmpfs: what a clean stop leaves for the next start.

A copy is an environment like any other, with its own description: whose it is, which epoch it
holds, up to where in the changelogs. So nothing has to be known about a copy to read it back: one
that is older than the last commit is brought forward by what came behind it, and one that is
damaged or another's is rebuilt, as on disk.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mustela.state.directories import make_private, remove_tree
from mustela.state.lmdb_files import DATA_FILE, reported

__all__ = ["fetch", "save"]


def save(root: Path, path: Path, copy: Path) -> None:
    """Put a copy of an environment's files in the place of an older one.

    Args:
        root: Where copies live.
        path: The environment, closed and clean.
        copy: Where its copy goes.
    """
    make_private(root, copy.parent)
    _replace(path, copy, durable=True)


def fetch(copy: Path, path: Path) -> bool:
    """Bring a copy back, if there is one; return whether there was."""
    if not (copy / DATA_FILE).is_file():
        return False
    _replace(copy, path, durable=False)
    return True


def _replace(source: Path, target: Path, *, durable: bool) -> None:
    """Copy an environment beside its place, then put it there: it is all there, or not at all."""
    # What a kill leaves of it is deleted by the next start, by this part of its name.
    fresh = target.with_name(f"{target.name}.dead-{os.getpid()}-copy")
    with reported(target):
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            fresh.mkdir(mode=0o700)
            shutil.copyfile(source / DATA_FILE, fresh / DATA_FILE)
            (fresh / DATA_FILE).chmod(0o600)
            if durable:
                _sync(fresh / DATA_FILE)
            remove_tree(target)
            fresh.rename(target)
            if durable:
                _sync(target.parent)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
