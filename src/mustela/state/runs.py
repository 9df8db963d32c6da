"""Rows in the order of their keys, also where they are more than memory should hold.

A table that is filled in the order of its keys has full pages and touches each of them once. Filled
in any other order it takes half as much disk again, and memory for every page that a transaction
touches. So what a restore reads is sorted first: in memory where it is little, else as sorted runs
in a file without a name, which are merged.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import methodcaller
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from mustela.state.lmdb_files import reported

__all__ = ["SortedRows", "in_key_order"]

_RUN_ROWS = 40_000
_RUN_BYTES = 8 << 20
"""How many rows, and bytes of rows, are sorted at a time and written in one transaction."""

_RUNS_MAX = 160
_BLOCK_ROWS = 400
_BLOCK_BYTES = 64 << 10
"""Maximum number of runs in a merge, which holds a block of each: ten megabytes."""

_PART_ROWS = 2_000
_AS_TEXT = methodcaller("decode", "latin-1")
"""Sorts bytes as Latin-1 text: the same order, in two thirds of the time."""


class SortedRows(NamedTuple):
    """Rows with their keys ascending, each key once."""

    keys: list[bytes]
    values: list[bytes | None]


_Newest = dict[bytes, bytes | None]
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(SortedRows).decode


def in_key_order(
    rows: Iterable[tuple[bytes, bytes | None]], path: Path
) -> Iterator[tuple[SortedRows, bool]]:
    """Yield rows in key order, the last one of each key, batch by batch.

    If there are very many, they come in several such sequences.

    Args:
        rows: In the order in which they were written.
        path: Their environment; the file is created next to it.

    Yields:
        Rows, and whether they are the last ones; at least one batch.

    Raises:
        StateDiskFullError: If there is no room for the file.
    """
    source = iter(rows)
    newest, size = _take(source)
    following, following_size = _take(source)
    if not following:
        yield _sorted(newest), True
        return
    while newest:
        with _Runs(path) as runs:
            while newest and len(runs) < _RUNS_MAX:
                runs.add(_sorted(newest), size)
                newest, size = following, following_size
                following, following_size = _take(source) if newest else ({}, 0)
            batches = runs.merged()
            batch = next(batches)
            for coming in batches:
                yield batch, False
                batch = coming
        yield batch, not newest


def _take(source: Iterator[tuple[bytes, bytes | None]]) -> tuple[_Newest, int]:
    """Return the newest rows of the next keys, as many as are sorted at a time, and their size."""
    newest: _Newest = {}
    size = 0
    while len(newest) < _RUN_ROWS and size < _RUN_BYTES:
        part = list(islice(source, _PART_ROWS))
        if not part:
            break
        newest.update(part)
        size += sum([len(key) + len(value or b"") for key, value in part])
    return newest, size


def _sorted(newest: _Newest) -> SortedRows:
    keys = sorted(newest, key=_AS_TEXT)
    return SortedRows(keys, list(map(newest.__getitem__, keys)))


@dataclass(slots=True)
class _Run:
    """A sorted run in the file, and how far it has been merged."""

    blocks: Iterator[SortedRows]
    block: SortedRows
    place: int = 0

    def up_to(self, bound: bytes) -> Iterable[tuple[bytes, bytes | None]]:
        """Return the rows with keys up to ``bound``, which is not after the block's last key."""
        keys, values = self.block
        start, self.place = self.place, bisect_right(keys, bound, self.place)
        return zip(keys[start : self.place], values[start : self.place], strict=True)

    def goes_on(self) -> bool:
        """Return whether there are more rows, loading the next block if needed."""
        if self.place < len(self.block.keys):
            return True
        coming = next(self.blocks, None)
        if coming is None:
            return False
        self.block, self.place = coming, 0
        return True


@dataclass(slots=True)
class _Runs:
    """Sorted runs in a separate file, older ones first."""

    path: Path
    _blocks: list[list[int]] = field(default_factory=list[list[int]])
    _file: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self._blocks)

    def __enter__(self) -> _Runs:
        with reported(self.path):
            self._file = tempfile.TemporaryFile(dir=self.path.parent)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, rows: SortedRows, size: int) -> None:
        """Write a run; ``size`` is the size of its rows."""
        assert self._file is not None
        count = len(rows.keys)
        step = max(1, min(_BLOCK_ROWS, count * _BLOCK_BYTES // max(size, 1)))
        starts: list[int] = []
        with reported(self.path):
            for at in range(0, count, step):
                starts.append(self._file.tell())
                part = SortedRows(rows.keys[at : at + step], rows.values[at : at + step])
                self._file.write(_ENCODE(part))
            starts.append(self._file.tell())
        self._blocks.append(starts)

    def _read(self, starts: Sequence[int]) -> Iterator[SortedRows]:
        assert self._file is not None
        for start, end in pairwise(starts):
            yield _DECODE(os.pread(self._file.fileno(), end - start, start))

    def merged(self) -> Iterator[SortedRows]:
        """Yield all rows in key order; for equal keys, the row of the last run."""
        assert self._file is not None
        with reported(self.path):
            self._file.flush()
        blocks = map(self._read, self._blocks)
        runs: list[_Run] = [_Run(coming, next(coming)) for coming in blocks]
        batch = SortedRows([], [])
        size = 0
        while runs:
            bound = min(run.block.keys[-1] for run in runs)
            newest: _Newest = {}
            for run in runs:
                newest.update(run.up_to(bound))
            keys, values = _sorted(newest)
            batch.keys.extend(keys)
            batch.values.extend(values)
            size += sum(map(len, filter(None, values)))
            runs = [run for run in runs if run.goes_on()]
            if not runs or len(batch.keys) >= _RUN_ROWS // 2 or size >= _RUN_BYTES:
                yield batch
                batch, size = SortedRows([], []), 0
