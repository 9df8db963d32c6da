"""A thread pool without threads: what runs ahead runs at once, or when it is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.world import current_world

__all__ = ["SimExecutor"]


class _Work:
    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._work = work
        self._arguments = arguments
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Do the work, unless it is done."""
        if self._done:
            return
        self._done = True
        try:
            self._result = self._work(*self._arguments)
        except Exception as error:  # noqa: BLE001 - it is told to who waits
            self._error = error

    def result(self) -> Any:
        """Return what the work gave, or raise what it raised."""
        self.run()
        if self._error is not None:
            raise self._error
        return self._result


class SimExecutor:
    """Takes the place of `concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, _count: int, thread_name_prefix: str = "") -> None:
        """There are no threads."""

    def submit(self, work: Callable[..., Any], *arguments: Any) -> _Work:
        """Take work: it runs before what the caller does next, or after."""
        taken = _Work(work, arguments)
        if current_world().random.random() < 0.5:
            taken.run()
        return taken

    def shutdown(self) -> None:
        """There is nothing to wait for."""
