"""SIGINT and SIGTERM stop an application, whichever of its threads receives them.

The interpreter runs signal handlers in the main thread only, and only between two bytecode
instructions: a main thread that waits for a lock indefinitely, and is not the thread that the
system interrupted, never runs its handler. But the interpreter always writes a byte for each signal
at once (`signal.set_wakeup_fd`), so a thread that reads those bytes stops the application.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stopped_by_signals"]

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Generator[None]:
    """Call ``stop`` once, in a separate thread, when SIGINT or SIGTERM arrives during the block.

    A second signal ends the process at once, as by default. Outside the main thread, signals are
    not handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    read, write = socket.socketpair()
    write.setblocking(False)
    reader = threading.Thread(target=_watch, args=(read, stop), name="mustela-signals", daemon=True)
    reader.start()
    before = {number: signal.signal(number, _leave_the_next) for number in _NUMBERS}
    fd = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        write.close()


def _leave_the_next(_number: int, _frame: FrameType | None) -> None:
    """Let the next signal end the process."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_DFL)


def _watch(read: socket.socket, stop: Callable[[], None]) -> None:
    """Call ``stop`` at the first signal; run until the end of the block."""
    is_asked = False
    with read:
        while told := read.recv(64):
            if not is_asked and any(number in told for number in _NUMBERS):
                is_asked = True
                stop()
