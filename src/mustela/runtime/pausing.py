"""An application that is to do nothing for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["Pausing"]

_LOOK_S: Final = 1.0
"""How often a paused application looks whether it can still say that it lives."""


class Pausing:
    """Whether an application is to pause.

    Args:
        changed: Is notified when that changes.

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
        """Ask it to pause, or to go on."""
        with self._changed:
            self.is_asked = wanted
            self._changed.notify_all()

    def wait(self, ends: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
        """Wait until the pause is over.

        Args:
            ends: Whether it is over for another reason.
            meanwhile: Is called now and then.
        """
        over = False
        while not over:
            with self._changed:
                over = self._changed.wait_for(lambda: not self.is_asked or ends(), _LOOK_S)
            meanwhile()
