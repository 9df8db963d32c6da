"""What the stores' files take of a process's memory.

LMDB maps its files. A page that was read stays in the map of each process that read it, and counts
as its memory, though it is the system's cache of the file, which the system takes back as it likes.
A worker in time comes to hold the whole state in that way. So it lets go of these pages now and
then: those that it reads again are mapped again, several at once, from the same cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

from mustela.state.lmdb_files import DATA_FILE

__all__ = ["MAPPED_MAX", "let_go_of_mapped_files"]

MAPPED_MAX: Final = 48 << 20
"""Bytes of files that may stay in the map of a process; its own code is a part of them."""

_STATM: Final = Path("/proc/self/statm")
_MAPS: Final = Path("/proc/self/maps")
_SHARED: Final = 2


def let_go_of_mapped_files(most: int = MAPPED_MAX) -> int:
    """Take the pages of the stores' files out of this process's map, if it holds many.

    Reading goes on as before, also in a snapshot that is open: what is read is mapped again.

    Args:
        most: Bytes of files that may stay mapped.

    Returns:
        How many files' pages were let go of; 0 where a process cannot see its own map.
    """
    library = _library()
    if library is None or _mapped_bytes() <= most:
        return 0
    return sum(library.madvise(*area, mmap.MADV_DONTNEED) == 0 for area in _areas())


@cache
def _library() -> Any:
    if not (_MAPS.exists() and hasattr(mmap, "MADV_DONTNEED")):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


def _mapped_bytes() -> int:
    """Return how much of files is in the map now."""
    return int(_STATM.read_text().split()[_SHARED]) * mmap.PAGESIZE


def _areas() -> list[tuple[int, int]]:
    """Return the start and the length of each map of a store's file."""
    found: list[tuple[int, int]] = []
    for line in os.fsdecode(_MAPS.read_bytes()).splitlines():
        if line.endswith(f"/{DATA_FILE}"):
            fields = line.split(None, 2)
            if fields[1] == "r--s":  # shared and never written through: nothing can be lost
                start, end = (int(bound, 16) for bound in fields[0].split("-"))
                found.append((start, end - start))
    return found
