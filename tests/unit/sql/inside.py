"""Statements without a process of their own: the same code, in a thread, not confined."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from mustela.sql import child, process, spare


class Thread:
    """Stands for the process."""

    def __init__(self, theirs: socket.socket) -> None:
        self._end = theirs.dup()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            child.serve(child.Link(self._end), confine=lambda _memory, _seconds: None)

    def poll(self) -> None:
        """Return None: it lives until it has answered."""

    def kill(self) -> None:
        """Nothing: the other end of the socket is closed next."""

    def wait(self) -> None:
        """Wait for its end."""
        self._thread.join(120)
        self._end.close()


def statements_run_here(patch: Any) -> None:
    """Let statements run in this process, which is fast, and shows nothing of confinement."""
    patch.setattr(spare, "_started", Thread)
    patch.setattr(process, "SPARE", spare.Spare(kept_s=0))
