"""The parent of the workers at its work: it forks one for each connection that Spark makes.

It does what PySpark's own daemon does, over a socket in the file system, and one thing more. What
it imported is shared with the workers at first; whatever they touch becomes their own, and the
parent is left with pages that nobody else needs. So when it was asked for nothing for a while, it
becomes `mustela.spark.dozing`, with the same process, sockets and children, and next to no memory.
Asked again, that one becomes a parent with everything imported, which takes a third of a second.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from mustela.spark import dozing

__all__ = ["AGAIN", "Sockets", "Worker", "can_serve", "open_sockets", "serve"]

AGAIN: Final = "--again"
"""The first argument of a parent that one which dozed has become."""

_MODULE: Final = "mustela.spark.daemon"
_NUMBER: Final = struct.Struct("!i")
_QUIET_S: Final = 2.0
_RETRY_S: Final = 1.0
_BACKLOG: Final = 1024

Worker = Callable[[socket.socket, bool], int]
"""Runs a task that comes over a connection; 0 for another one to follow."""


class Sockets(NamedTuple):
    """What stays open while a parent dozes.

    Attributes:
        listening: Where Spark connects.
        held: Tells the process that Spark has started that this one lives; -1 if there is none.
    """

    listening: socket.socket
    held: int

    @classmethod
    def of(cls, arguments: list[str]) -> Sockets:
        """Return those that arguments name by number."""
        listening, held = (int(number) for number in arguments)
        for number in (listening, held):
            if number >= 0:
                os.set_inheritable(number, False)
        return cls(socket.socket(fileno=listening), held)

    @property
    def arguments(self) -> list[str]:
        """Their numbers."""
        return [str(self.listening.fileno()), str(self.held)]


def can_serve() -> bool:
    """Whether Spark asks for workers over a socket in the file system, as it does by default."""
    return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"


def open_sockets(held: int) -> Sockets:
    """Open the socket for Spark, and tell it where that is.

    Args:
        held: As in `Sockets`.
    """
    os.setpgid(0, 0)  # the workers are ended as a group
    path = Path(os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"]) / f".{secrets.token_hex(16)}.sock"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen(_BACKLOG)
    name = os.fsencode(path)
    _say(_NUMBER.pack(len(name)) + name)
    return Sockets(listening, held)


def _say(what: bytes) -> None:
    with os.fdopen(os.dup(1), "wb") as out:
        out.write(what)


def serve(sockets: Sockets, worker: Worker) -> None:
    """Fork a worker for each connection, end those that Spark names, and end with Spark.

    This does not return.

    Args:
        sockets: Where Spark connects.
        worker: Runs the tasks that come over a connection, until it returns anything but 0.
    """
    path = sockets.listening.getsockname()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    dozing.end_when_told(path)
    poller = select.poll()
    for number in (0, sockets.listening.fileno()):
        poller.register(number, select.POLLIN)
    try:
        while True:
            ready = [number for number, _ in poller.poll(_QUIET_S * 1000)]
            if not ready and _has_workers():
                _doze(sockets, path)
            if 0 in ready:
                dozing.end_worker(path)
            if sockets.listening.fileno() in ready:
                _fork(sockets, worker)
    except BaseException:  # noqa: BLE001 - the workers end with this process, whatever ends it
        traceback.print_exc()
    finally:
        dozing.end(path, 1)


def _has_workers() -> bool:
    """Whether a child lives: nobody waits for them, so none is left when all have ended."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _doze(sockets: Sockets, path: str) -> None:
    back = [sys.executable, "-m", _MODULE, AGAIN, *sockets.arguments, *sys.argv[1:]]
    kept = [number for number in (sockets.listening.fileno(), sockets.held) if number >= 0]
    for number in kept:
        os.set_inheritable(number, True)
    script = [sys.executable, "-I", "-S", dozing.__file__]
    dozing.become([*script, str(sockets.listening.fileno()), path, *back])


def _fork(sockets: Sockets, worker: Worker) -> None:
    connection, _ = sockets.listening.accept()
    with connection:
        try:
            child = _retried_fork()
        except OSError as error:
            connection.sendall(_NUMBER.pack(error.errno or 1))
            return
        if not child:
            sockets.listening.close()
            _work(connection, worker)


def _retried_fork() -> int:
    try:
        return os.fork()
    except BlockingIOError:
        time.sleep(_RETRY_S)
        return os.fork()


def _work(connection: socket.socket, worker: Worker) -> None:
    """Be a worker until Spark closes the connection."""
    from pyspark.util import enable_faulthandler

    code = 1
    try:
        with enable_faulthandler():
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
            connection.sendall(_NUMBER.pack(os.getpid()))
            reuse = os.environ.get("SPARK_REUSE_WORKER")
            while worker(connection, True) == 0 and reuse:
                pass
            _await_end(connection)
            code = 0
    except BaseException:  # noqa: BLE001 - nothing may go on as the parent
        traceback.print_exc()
    finally:
        os._exit(code)


def _await_end(connection: socket.socket) -> None:
    try:
        while connection.recv(1024):
            pass
    except OSError:
        pass
