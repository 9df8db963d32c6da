"""Statements without a process of their own: the same code, in a thread, not confined."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from mustela.sql import child, process


class Thread:
    """Stands for the process."""

    def __init__(self) -> None:
        self.end, theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, args=(theirs,), daemon=True)
        self._thread.start()

    def _serve(self, theirs: socket.socket) -> None:
        with theirs, contextlib.suppress(OSError, EOFError):
            child.serve(
                child.Link(theirs),
                ready=child.ready_engine,
                confine=lambda _memory, _seconds: None,
            )

    def stop(self) -> None:
        """End it."""
        self.end.close()
        self._thread.join(120)


class Threads:
    """Stands for what forks processes."""

    def take(self) -> Thread:
        """Return one that nobody else has."""
        return Thread()


def statements_run_here(patch: Any) -> None:
    """Let statements run in this process, which is fast, and shows nothing of confinement."""
    patch.setattr(process, "SERVER", Threads())
