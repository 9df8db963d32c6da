"""Those who watch an application, and what it says where one of them raises."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from mustela.errors import UsageError
from mustela.runtime.events import Event, Listener

__all__ = ["ListenerError", "Listeners"]


class ListenerError(UsageError):
    """A listener of the application raised."""

    code = "APP_LISTENER"


class Listeners:
    """Several listeners, told one after the other.

    Args:
        listeners: Who is told; others may be added later.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners

    def on_event(self, event: Event) -> None:
        """Tell all of an event.

        Raises:
            ListenerError: If one of them raises.
        """
        for listener in self._listeners:
            with _named(listener, "on_event"):
                listener.on_event(event)

    def on_error(self, error: BaseException) -> None:
        """Tell all of something that failed and is tried again.

        Raises:
            ListenerError: If one of them raises.
        """
        for listener in self._listeners:
            with _named(listener, "on_error"):
                listener.on_error(error)


@contextmanager
def _named(listener: Listener, method: str) -> Generator[None]:
    """Say whose fault it is if a listener raises."""
    try:
        yield
    except Exception as error:
        msg = f"the listener {type(listener).__name__} raised {type(error).__name__}: {error}"
        raise ListenerError(
            msg,
            why="listeners are called between epochs; what they raise ends the application",
            fix=f"handle the error inside {type(listener).__name__}.{method}",
        ) from error
