"""The parent of the workers, started before Spark asks for it.

It imports for a third of a second, while the JVM starts. What Spark starts later, as its own child
with pipes to talk through, finds it by a socket in the JVM's directory, hands it these pipes and
the environment, and stays only as a process that Spark can watch and end: it becomes a ``cat`` that
reads until the parent of the workers and all of them are gone.

Where none waits, what Spark has started is the parent of the workers itself.

Until Spark asks, the driver may ask: for one worker, which runs what epochs there are before Spark
is up (`mustela.spark.before_spark`). It asks through the pipe that is the parent's standard input,
which nobody else has.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import IO, Final

from mustela.processes import is_ready, peer_of

__all__ = ["EARLY", "EarlyDaemon", "hand_over", "wait_for_spark"]

EARLY: Final = "MUSTELA_EARLY_DAEMON"
"""The variable by which the JVM's children learn of the socket."""

_MODULE: Final = "mustela.spark.daemon"
_LENGTH: Final = struct.Struct("!I")
_STREAMS: Final = (0, 1, 2)
_TAKEN: Final = b"k"
_WAIT_S: Final = 10.0
_PATH_MAX: Final = 100
"""Of a socket's name in the file system; the system takes 107 bytes."""
_TASK_MAX: Final = 1 << 20
"""Bytes that wait in the pipe, so that the driver never does; what is longer is left to Spark."""
_PR_SET_PDEATHSIG: Final = 1


class EarlyDaemon:
    """The parent of the workers, as the driver has started it.

    Args:
        process: The process; it ends when its standard input is closed and Spark has not asked.
        worker: Is at its end when the worker that the driver has asked for has ended, or there will
            be none.
    """

    def __init__(self, process: subprocess.Popen[bytes], worker: int) -> None:
        self._process = process
        self._worker = worker
        weakref.finalize(self, os.close, worker)

    @classmethod
    def start(
        cls,
        path: Path,
        variables: Mapping[str, str],
        prepare: Callable[[], object],
        *,
        piped: bool = False,
    ) -> EarlyDaemon | None:
        """Start it; None where its socket would have too long a name.

        Args:
            path: The socket at which it waits, in a directory of this user alone.
            variables: Its environment while it imports.
            prepare: Called in the new process.
            piped: Whether what it writes before Spark asks is `errors`; else it is this process'.
        """
        if len(os.fsencode(path)) > _PATH_MAX:
            return None
        worker, theirs = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, "--early", str(path), str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE if piped else None,
                env=dict(variables),
                preexec_fn=prepare,
                pass_fds=[theirs],
            )
        except BaseException:
            os.close(worker)
            raise
        finally:
            os.close(theirs)
        return cls(process, worker)

    def drop(self) -> None:
        """End it: nobody will ask for it."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def errors(self) -> IO[bytes] | None:
        """What it and its worker write, until Spark asks."""
        return self._process.stderr

    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ask(self, task: bytes) -> None:
        """Have it make a worker for a task, if Spark has not asked before; only once.

        Raises:
            OSError: If it does not take tasks any more, or none of this length.
        """
        if len(task) > _TASK_MAX - _LENGTH.size:
            msg = f"a task of {len(task)} bytes"
            raise OSError(msg)
        if self._process.stdin is None or self._process.stdin.closed:
            msg = "it was ended"
            raise OSError(msg)
        pipe = self._process.stdin.fileno()
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _TASK_MAX)
        _write(pipe, _LENGTH.pack(len(task)) + task)

    def has_ended(self, wait_s: float) -> bool:
        """Wait for the end of the worker that was asked for; return whether it came."""
        return is_ready(self._worker, wait_s)


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


def wait_for_spark(
    path: Path, prepare: Callable[[], object], run: Callable[[bytes], object], life: int
) -> int | None:
    """Prepare, and wait until Spark asks; then go on with its pipes and its environment.

    Args:
        path: Where to wait.
        prepare: What takes long.
        run: Runs a task of the driver's, in a process of its own.
        life: An end of a pipe: whoever has it is the driver's worker, or may become its parent.

    Returns:
        The connection to who asked, which lasts as long as this process and all of its children,
        or None if the driver is gone.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(1)
        os.set_inheritable(life, False)
        prepare()
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                task = _read_task()
                if task is None:
                    return None
                _fork(task, run)
                life = _let_go(life)
                continue
            asking, _ = listening.accept()
            if _is_ours(asking):
                break
            asking.close()
        path.unlink()
    _let_go(life)
    _take(asking)
    return asking.detach()


def _let_go(end: int) -> int:
    """Close an end of a pipe that is open, and return what stands for none."""
    if end >= 0:
        os.close(end)
    return -1


def _read_task() -> bytes | None:
    """Return what the driver asks for; None if it is gone."""
    head = _read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    task = _read(length)
    return task if len(task) == length else None


def _read(length: int) -> bytes:
    came = bytearray()
    while len(came) < length and (more := os.read(0, length - len(came))):
        came += more
    return bytes(came)


def _fork(task: bytes, run: Callable[[bytes], object]) -> None:
    """Run a task in a child, which ends with this process."""
    parent = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for it
    if os.fork():
        return
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            nowhere = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nowhere, 0)
            os.dup2(2, 1)  # as Spark does it: what functions print is no answer
            with suppress(BrokenPipeError):
                run(task)
            code = 0
    finally:
        os._exit(code)


def _take(asking: socket.socket) -> None:
    """Take over what Spark's child has."""
    head, files, _, _ = socket.recv_fds(asking, _LENGTH.size, len(_STREAMS))
    (length,) = _LENGTH.unpack(head)
    with asking.makefile("rb") as stream:
        told = json.loads(stream.read(length))  # all of it, or who asks is gone
    for stream, file in zip(_STREAMS, files, strict=True):
        os.dup2(file, stream)
        os.close(file)
    os.environ.clear()
    os.environ.update(told["environment"])
    os.chdir(told["directory"])
    sys.argv[1:] = told["arguments"]
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [entry for entry in added if entry and entry not in sys.path]
    asking.sendall(_TAKEN)


def hand_over(path: Path, arguments: Sequence[str]) -> bool:
    """Let the one that waits at a socket take the place of this process; False if none does.

    If it does, this call does not return until all of its processes are gone.
    """
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_WAIT_S)
        try:
            asking.connect(str(path))
            if not _is_ours(asking):
                return False
            told = {
                "environment": dict(os.environ),
                "directory": os.getcwd(),
                "arguments": list(arguments),
            }
            said = json.dumps(told).encode()
            socket.send_fds(asking, [_LENGTH.pack(len(said))], _STREAMS)
            asking.sendall(said)
            if asking.recv(1) != _TAKEN:
                return False
        except OSError:
            return False
        asking.settimeout(None)
        _stay(asking)
    return True


def _stay(asking: socket.socket) -> None:
    """Do nothing until the other end of a connection is closed, with as little as possible."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    cat = which("cat")
    if cat is not None:
        os.dup2(asking.fileno(), 0)
        os.execv(cat, [cat])
    os.dup2(nowhere, 0)
    while asking.recv(1):
        pass


def _is_ours(peer: socket.socket) -> bool:
    """Whether who is at the other end runs for the same user."""
    _, user = peer_of(peer)
    return user == os.geteuid()
