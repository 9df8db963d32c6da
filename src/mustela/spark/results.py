"""The rows that came back to the driver: in memory up to a bound, then on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from mustela.kernel.core.output import Place
from mustela.plan.sealed import SealedPart
from mustela.spark.frames import (
    OWNED,
    PLACED,
    ROWS,
    SEALED,
    Frame,
    FrameColumns,
    unpack,
    unpack_placed,
    unpack_sealed,
)
from mustela.spark.spool import SpoolReader

__all__ = ["FrameStore"]


class FrameStore:
    """Frames of one epoch, in the order of their senders.

    Args:
        limit: Bytes that stay in memory; what is beyond goes to a temporary file.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory = 0
        self._spools = SpoolReader()
        self._file: IO[bytes] | None = None
        self._entries: list[tuple[int, tuple[int, int, int], str, bytes | tuple[int, int]]] = []
        self.size = 0

    def add(self, frame: Frame, data: bytes) -> None:
        """Keep a frame."""
        self.size += len(data)
        kept: bytes | tuple[int, int] = data
        if self._memory + len(data) > self._limit:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="mustela-epoch-")  # noqa: SIM115 - closed by close()
            kept = (self._file.tell(), len(data))
            self._file.write(data)
        else:
            self._memory += len(data)
        self._entries.append((frame.kind, frame.place, frame.name, kept))

    def columns(self, kind: int) -> Iterator[tuple[str, FrameColumns]]:
        """Yield the frames of a kind, with their names, in the order of their senders."""
        for _, name, body in self._bodies(kind):
            yield name, self._spools.fetch(body)

    def sink_rows(self) -> Iterator[FrameColumns | SealedPart]:
        """Yield sink rows, in the order of their senders, whether they are put together or not."""
        for kind, _, body in self._bodies(ROWS, SEALED, OWNED):
            if kind in (SEALED, OWNED):
                yield unpack_sealed(self._spools.fetch_bytes(body))
            else:
                yield self._spools.fetch(body)

    def _bodies(self, *kinds: int) -> Iterator[tuple[int, str, bytes]]:
        entries = sorted(
            (entry for entry in self._entries if entry[0] in kinds), key=lambda entry: entry[1]
        )
        for kind, _, name, kept in entries:
            if isinstance(kept, tuple):
                assert self._file is not None
                self._file.seek(kept[0])
                kept = self._file.read(kept[1])
            yield kind, name, unpack(kept).body

    def placed(self) -> Iterator[tuple[str, FrameColumns, list[Place]]]:
        """Yield rows that are to be sorted, with their steps and what they are sorted by."""
        for _, name, body in self._bodies(PLACED):
            yield name, *unpack_placed(self._spools.fetch_bytes(body))

    def view(self, kind: int, and_then: Sequence[FrameColumns] = ()) -> _View:
        """Return the frames of a kind, and then some more; each iteration begins anew."""
        return _View(self, kind, and_then)

    def named(self, kind: int) -> _NamedView:
        """Return the frames of a kind with their names; each iteration begins anew."""
        return _NamedView(self, kind)

    def close(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._spools.close()
        if self._file is not None:
            self._file.close()
            self._file = None


class _View:
    def __init__(self, store: FrameStore, kind: int, and_then: Sequence[FrameColumns]) -> None:
        self._store = store
        self._kind = kind
        self._and_then = and_then

    def __iter__(self) -> Iterator[Any]:
        if self._kind == ROWS:
            yield from self._store.sink_rows()
        else:
            for _, columns in self._store.columns(self._kind):
                yield columns
        yield from self._and_then


class _NamedView:
    def __init__(self, store: FrameStore, kind: int) -> None:
        self._store = store
        self._kind = kind

    def __iter__(self) -> Iterator[tuple[str, FrameColumns]]:
        yield from self._store.columns(self._kind)
