"""Limits the memory that the stores' files take in a process.

LMDB maps its files. A page that was read stays in the map of each process that read it, and counts
as its memory, though it is the system's page cache, which the system can reclaim at any time. Over
time a worker would map the whole state. So it unmaps these pages from time to time: those that it
reads again are mapped again, several at once, from the same cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

from mustela.state.lmdb_files import DATA_FILE

__all__ = ["MAPPED_MAX", "let_go_of_mapped_files", "mapped_bytes"]

MAPPED_MAX: Final = 48 << 20
"""Bytes of files that may stay mapped in a process, including its own code."""

_MAPS: Final = Path("/proc/self/maps")
_SHARED: Final = 2
_STATM_BYTES: Final = 256
"""More than seven numbers are."""


def let_go_of_mapped_files(most: int = MAPPED_MAX) -> int:
    """Unmap the pages of the stores' files in this process, if there are many.

    Reading works as before, also in an open snapshot: pages that are read are mapped again.

    Args:
        most: Bytes of files that may stay mapped.

    Returns:
        For how many files pages were unmapped; 0 if the process cannot read its own map.
    """
    library = _library()
    if library is None or mapped_bytes() <= most:
        return 0
    return sum(library.madvise(*area, mmap.MADV_DONTNEED) == 0 for area in _areas())


@cache
def _library() -> Any:
    if not (_MAPS.exists() and hasattr(mmap, "MADV_DONTNEED")):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


def mapped_bytes(process: int | str = "self") -> int:
    """Return how many bytes of files a process has mapped, as Linux tells it.

    Raises:
        OSError: If there is no such process.

    Example:
        >>> mapped_bytes() % mmap.PAGESIZE
        0
    """
    told = os.open(f"/proc/{process}/statm", os.O_RDONLY | os.O_CLOEXEC)  # a third of `Path`'s time
    try:
        return int(os.read(told, _STATM_BYTES).split()[_SHARED]) * mmap.PAGESIZE
    finally:
        os.close(told)


def _areas() -> list[tuple[int, int]]:
    """Return the start and the length of each map of a store's file."""
    found: list[tuple[int, int]] = []
    for line in os.fsdecode(_MAPS.read_bytes()).splitlines():
        if line.endswith(f"/{DATA_FILE}"):
            fields = line.split(None, 2)
            if fields[1] == "r--s":  # shared and read-only: nothing can be lost
                start, end = (int(bound, 16) for bound in fields[0].split("-"))
                found.append((start, end - start))
    return found
