"""The listeners of an application; an exception that one of them raises is only logged."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from mustela.runtime.events import Event, Listener

__all__ = ["Listeners"]

_LOGGED_TIMES: Final = frozenset({1, 10, 100, 1_000, 10_000, 100_000})
"""How often the same listener must have raised to be logged again: each epoch may call it."""


class Listeners:
    """Calls several listeners in turn.

    Args:
        listeners: The listeners; others may be added later.

    Example:
        >>> class Notes(Listener):
        ...     def on_error(self, error):
        ...         print("noted:", error)
        >>> Listeners([Notes()]).on_error(RuntimeError("the broker does not answer"))
        noted: the broker does not answer
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self._raised = Counter[tuple[str, str]]()

    def on_event(self, event: Event) -> None:
        """Pass an event to all listeners."""
        for listener in tuple(self._listeners):
            self._tell(listener, "on_event", lambda one: one.on_event(event))

    def on_error(self, error: BaseException) -> None:
        """Pass an error that will be retried to all listeners."""
        for listener in tuple(self._listeners):
            self._tell(listener, "on_error", lambda one: one.on_error(error))

    def _tell(self, listener: Listener, method: str, tell: Callable[[Listener], None]) -> None:
        try:
            tell(listener)
        except (Exception, SystemExit) as error:
            name = type(listener).__name__
            self._raised[name, method] += 1
            times = self._raised[name, method]
            if times in _LOGGED_TIMES:
                again = "" if times == 1 else f" ({times} times now)"
                logging.getLogger("mustela.listeners").error(
                    "the listener %s raised %s: %s%s; the application goes on. Handle the error "
                    "inside %s.%s",
                    name,
                    type(error).__name__,
                    error,
                    again,
                    name,
                    method,
                    exc_info=error if times == 1 else None,
                )
