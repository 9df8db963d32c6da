"""When a worker looks for garbage: between tasks, and for a small part of its time.

Python looks whenever enough objects were made, Spark after each task, and both found next to
nothing in what a task leaves: tasks drop their batches, and only cycles need a look.

What they dropped stays with the C library, as long as something above it is in use. It is given
back to the system when a task comes to stay: what was before may have been a backlog.
"""

from __future__ import annotations

import ctypes
import gc
from time import process_time
from typing import Final

__all__ = ["GarbageLooks"]

_WORTH: Final = 50.0
"""A look is due when the process has worked so many times as long as the last one took."""


class GarbageLooks:
    """Looks for garbage when that is due.

    Once it is in charge, Python itself looks no more.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def take_over(self) -> None:
        """Be in charge from now on, in this process."""
        gc.disable()

    def freeze(self) -> None:
        """Look, and never again at what is left."""
        self._look()
        gc.freeze()

    def between_tasks(self) -> None:
        """Look, unless little was done since the last look."""
        if process_time() >= self._next:
            self._look()

    def give_back(self) -> bool:
        """Give free memory back to the system; return whether there was any.

        It takes milliseconds, and to have the memory again takes as long once more. Where the C
        library has no call for it, nothing happens.

        Example:
            >>> GARBAGE.give_back() in (True, False)
            True
        """
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        return trim is not None and bool(trim(0))

    def _look(self) -> None:
        begun = process_time()
        gc.collect()
        ended = process_time()
        self._next = ended + _WORTH * (ended - begun)


GARBAGE: Final = GarbageLooks()
"""Of this process."""
