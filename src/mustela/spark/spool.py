"""What tasks leave on the host's disk for each other and the driver, where all share one.

Records on their way to a lane, and rows for Kafka on their way to the driver, only pass through
Spark's JVM, which copies them several times. On one host a task writes what is large to a file
instead and sends the file's name: Spark's shuffle carries names, and the JVM never sees the bytes.

Of rows for Kafka, values that are not small stand in the file as they are, and the driver reads
each when it is its turn: to pack and unpack them all would be a quarter of what a stateless epoch
costs. The files live as long as their epoch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

from mustela.errors import EnvironmentFault
from mustela.plan.epoch import Program
from mustela.spark.frames import FrameColumns, pack_columns, unpack_columns
from mustela.state.interfaces import Token

__all__ = [
    "Spool",
    "SpoolGoneError",
    "SpoolReader",
    "StoredValues",
    "clear",
    "clear_others",
    "forget",
    "spool_dir",
]

_HERE, _THERE, _APART = b"\x00", b"\x01", b"\x02"
"""What stands in place of what was kept: itself; where it is; where it is, its values apart."""
_LEAST = 32 * 1024
_APART_LEAST = 128
"""Values that are smaller on average are packed, and unpacked, faster than read one by one."""
_WRITE_ITEMS = 1024
"""As many buffers as Linux takes at once."""
_READ_BYTES = 256 * 1024


class SpoolGoneError(EnvironmentFault):
    """The output that the tasks of an epoch left is gone."""

    code = "SPOOL_GONE"


class Spool:
    """Keeps the large bodies of one task.

    Args:
        root: The program's spool directory; empty where driver and workers share no disk.
        token: The epoch.
        stage: The task's stage.
        task: The task.
    """

    def __init__(self, root: str, token: Token, stage: int, task: int) -> None:
        self._path = Path(root) / _name(token) / f"{stage}-{task}" if root else None
        self._end = 0
        self._fd = -1

    def keep_bytes(self, parts: Sequence[bytes]) -> bytes:
        """Return what to send in place of bytes: themselves, or where they are."""
        size = sum(map(len, parts))
        if self._path is None or size < _LEAST:
            return b"".join((_HERE, *parts))
        start = self._end
        for first in range(0, len(parts), _WRITE_ITEMS):
            self._write(parts[first : first + _WRITE_ITEMS])
        return _THERE + f"{start}:{size}:{self._path}".encode()

    def keep(self, columns: FrameColumns) -> bytes:
        """Return what to send in place of rows: themselves, or where they are."""
        if self._path is None:
            return self.keep_bytes([pack_columns(columns)])
        values: Any = columns.values
        try:
            sizes = list(map(len, values))
            total = sum(sizes)
        except TypeError:  # None has no length; to look for it first takes longer
            sizes = [-1 if value is None else len(value) for value in values]
            total = sum(size for size in sizes if size > 0)
            values = [value or b"" for value in values]
        if total < max(_LEAST, _APART_LEAST * len(sizes)):
            return self.keep_bytes([pack_columns(columns)])
        head = pack_columns(columns._replace(values=sizes))  # type: ignore[arg-type]
        start = self._end
        self._write([head])
        for first in range(0, len(values), _WRITE_ITEMS):
            self._write(values[first : first + _WRITE_ITEMS])
        return _APART + f"{start}:{len(head)}:{total}:{self._path}".encode()

    def _write(self, parts: Sequence[bytes]) -> None:
        if self._fd < 0:
            assert self._path is not None
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
        size = sum(map(len, parts))
        written = os.writev(self._fd, parts)
        if written < size:  # the disk has just become full, which the next write says
            view = memoryview(b"".join(parts))[written:]
            while view:
                view = view[os.write(self._fd, view) :]
        self._end += size

    def close(self) -> None:
        """Close the file; its bytes stay."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class StoredValues(Sequence["bytes | None"]):
    """A column of values that stand in a file one behind the other.

    An iterator reads each value when it is asked for it; a file has one iterator at a time.

    Args:
        file: The file.
        start: Where the first value begins.
        sizes: The values' sizes in bytes; -1 for None.
    """

    def __init__(self, file: BinaryIO, start: int, sizes: list[int]) -> None:
        self._file = file
        self._start = start
        self._sizes = sizes
        self._begins: list[int] = []

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._sizes)

    def __iter__(self) -> Iterator[bytes | None]:
        """Read all of them."""
        self._file.seek(self._start)
        return map(self._read if -1 in self._sizes else self._file.read, self._sizes)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> StoredValues: ...
    def __getitem__(self, index: int | slice) -> bytes | StoredValues | None:
        """Read a value, or return a part of the column, which is not read yet."""
        if not self._begins:
            sizes = (max(0, size) for size in self._sizes)
            self._begins = list(accumulate(sizes, initial=self._start))
        if isinstance(index, int):
            row = range(len(self._sizes))[index]
            self._file.seek(self._begins[row])
            return self._read(self._sizes[row])
        first, stop, step = index.indices(len(self._sizes))
        assert step == 1, "parts have no gaps"
        return StoredValues(self._file, self._begins[first], self._sizes[first:stop])

    def _read(self, size: int) -> bytes | None:
        return None if size < 0 else self._file.read(size)


class SpoolReader:
    """Reads what tasks kept; its files stay open until it is closed."""

    def __init__(self) -> None:
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self.close()

    def fetch_bytes(self, kept: bytes) -> bytes | memoryview:
        """Return the bytes that `Spool.keep_bytes` was given.

        Raises:
            SpoolGoneError: If their file was deleted.
        """
        if kept[:1] == _HERE:
            return memoryview(kept)[1:]
        start, size, path = kept[1:].decode().split(":", 2)
        file = self._open(path)
        file.seek(int(start))
        data = file.read(int(size))
        assert len(data) == int(size), f"{path} is shorter than its task said"
        return data

    def fetch(self, kept: bytes) -> FrameColumns:
        """Return the rows that `Spool.keep` was given.

        Raises:
            SpoolGoneError: If their file was deleted.
        """
        if kept[:1] != _APART:
            return unpack_columns(self.fetch_bytes(kept))
        start, head, values, path = kept[1:].decode().split(":", 3)
        file = self._open(path)
        begin = int(start) + int(head)
        there = os.fstat(file.fileno()).st_size
        assert there >= begin + int(values), f"{path} is shorter than its task said"
        file.seek(int(start))
        columns = unpack_columns(file.read(int(head)))
        sizes: Any = columns.values
        return columns._replace(values=StoredValues(file, begin, sizes))  # type: ignore[arg-type]

    def _open(self, path: str) -> BinaryIO:
        file = self._files.get(path)
        if file is None:
            try:
                file = Path(path).open("rb", buffering=_READ_BYTES)  # noqa: SIM115 - closed by close()
            except FileNotFoundError as error:
                msg = f"{path} is gone"
                raise SpoolGoneError(
                    msg,
                    why="a newer instance of the application cleared the directory, or something "
                    "else did",
                    fix="make sure that nothing deletes the files of a running application",
                ) from error
            self._files[path] = file
        return file

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def spool_dir(program: Program) -> str:
    """Return where the tasks of a program leave what is large, where all share a disk."""
    return str(Path(program.state_dir) / "~spool" / program.application_id / program.identity)


def forget(root: str, token: Token) -> None:
    """Delete an epoch's files."""
    if root:
        shutil.rmtree(Path(root) / _name(token), ignore_errors=True)


def clear(root: str) -> None:
    """Delete what a program left."""
    if root:
        shutil.rmtree(root, ignore_errors=True)


def clear_others(root: str) -> None:
    """Delete what earlier programs of the application left; they are dead, or replaced."""
    siblings = Path(root).parent
    if root and siblings.is_dir():
        for other in siblings.iterdir():
            if other != Path(root):
                shutil.rmtree(other, ignore_errors=True)


def _name(token: Token) -> str:
    return "-".join(map(str, token))
