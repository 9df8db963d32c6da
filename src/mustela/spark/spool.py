"""Large bodies of frames on the host's disk, where workers and driver share one.

Rows for Kafka only pass through Spark's JVM on their way to the driver. On one host a task writes
large ones to a file instead and sends the file's name: the JVM never sees the bytes, and the
driver reads them one part at a time. The files live as long as their epoch.
"""

from __future__ import annotations

import os
import shutil
from io import RawIOBase
from pathlib import Path

from mustela.errors import EnvironmentFault
from mustela.state.interfaces import Token

__all__ = ["Spool", "SpoolGoneError", "clear", "clear_others", "fetch", "forget"]

_HERE, _THERE = b"\x00", b"\x01"
_LEAST = 32 * 1024


class SpoolGoneError(EnvironmentFault):
    """Rows of an epoch are no longer where its tasks left them."""

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

    def keep(self, body: bytes) -> bytes:
        """Return what to send in place of ``body``: itself, or where it is."""
        if self._path is None or len(body) < _LEAST:
            return _HERE + body
        if self._fd < 0:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
        start, view = self._end, memoryview(body)
        while view:
            written = os.write(self._fd, view)
            view = view[written:]
        self._end += len(body)
        return _THERE + f"{start}:{len(body)}:{self._path}".encode()

    def close(self) -> None:
        """Close the file; its bytes stay."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def fetch(kept: bytes) -> bytes:
    """Return the body that `Spool.keep` was given.

    Raises:
        SpoolGoneError: If its file was deleted.
    """
    if kept[:1] == _HERE:
        return kept[1:]
    start, size, path = kept[1:].decode().split(":", 2)
    try:
        with Path(path).open("rb", buffering=0) as file:
            return _read(file, int(start), int(size))
    except FileNotFoundError as error:
        msg = f"{path} is gone"
        raise SpoolGoneError(
            msg,
            why="a newer instance of the application clears the directory, or something else did",
            fix="see that nothing deletes files of a running application",
        ) from error


def _read(file: RawIOBase, start: int, length: int) -> bytes:
    file.seek(start)
    data = file.read(length) or b""
    while len(data) < length:
        more = file.read(length - len(data))
        assert more, f"{file} is shorter than its task said"
        data += more
    return data


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
