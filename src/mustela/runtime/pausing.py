"""Pausing an application."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["Pausing"]

_LOOK_S: Final = 1.0
"""How often, in seconds, a paused application checks that it can still renew its lease."""


class Pausing:
    """Whether an application should pause.

    Args:
        changed: Notified when that changes.

    Example:
        >>> pausing = Pausing(threading.Condition())
        >>> pausing.ask(True)
        >>> pausing.is_asked
        True
        >>> pausing.ask(False)
        >>> pausing.wait(lambda: False, lambda: None)
    """

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self.is_asked = False

    def ask(self, wanted: bool) -> None:
        """Ask it to pause, or to resume."""
        with self._changed:
            self.is_asked = wanted
            self._changed.notify_all()

    def wait(self, ends: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
        """Wait until the pause is over.

        Args:
            ends: Returns whether to stop waiting for another reason.
            meanwhile: Called from time to time.
        """
        over = False
        while not over:
            with self._changed:
                over = self._changed.wait_for(lambda: not self.is_asked or ends(), _LOOK_S)
            meanwhile()
