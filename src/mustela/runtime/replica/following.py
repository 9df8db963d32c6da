"""A thread that lets a replica follow its application."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mustela.clock import Clock
from mustela.errors import EnvironmentFault, MustelaError
from mustela.runtime.replica.replica import Replica

__all__ = ["Following", "follow"]

_WAIT_S: Final = 0.1
_TRY_AGAIN_S: Final = 2.0
_JOIN_S: Final = 30.0


def follow(
    replica: Replica,
    done: threading.Event,
    on_error: Callable[[MustelaError], object],
    after: Callable[[], object] = lambda: None,
) -> MustelaError | None:
    """Let a replica follow until it is told to stop, or cannot go on.

    Args:
        replica: The replica.
        done: Ends it.
        on_error: Called with each fault after which it is tried again.
        after: Called after each step that went well.

    Returns:
        Why it cannot go on; None if it was told to stop.
    """
    while not done.is_set():
        try:
            replica.step(_WAIT_S)
        except EnvironmentFault as error:
            on_error(error)
            if not error.retryable:
                return error
            done.wait(_TRY_AGAIN_S)
        except MustelaError as error:
            return error
        else:
            after()
            if replica.record is None:
                done.wait(_WAIT_S)
    return None


class Following:
    """Follows an application in a thread.

    Args:
        replica: The replica; it is closed here.
        clock: Monotonic time.
        on_error: Called with each fault after which it is tried again.
        on_end: Called when it cannot go on.

    Attributes:
        replica: The same.
        lost: Why it cannot go on, if that is so.
        fault: The last fault, until a step has gone well.
        faults: How many there were, by code.
    """

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        *,
        on_error: Callable[[MustelaError], object],
        on_end: Callable[[], object],
    ) -> None:
        self.replica = replica
        self.lost: MustelaError | None = None
        self.fault: MustelaError | None = None
        self.faults: dict[str, int] = {}
        self._clock = clock
        self._on_error = on_error
        self._on_end = on_end
        self._level = clock.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mustela-replica", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and close the replica."""
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        with suppress(MustelaError):
            self.replica.close(clean=True)

    @property
    def is_level(self) -> bool:
        """Whether all epochs that are known are shown."""
        return self.replica.record is not None and not self.replica.behind

    def lag_s(self) -> float:
        """Return for how many seconds an epoch has been known that is not shown yet."""
        return 0.0 if self.is_level else max(0.0, self._clock.monotonic() - self._level)

    def _run(self) -> None:
        try:
            self.lost = follow(self.replica, self._done, self._note, self._stepped)
        finally:
            self._on_end()

    def _note(self, error: MustelaError) -> None:
        self.fault = error
        self.faults = {**self.faults, error.code: self.faults.get(error.code, 0) + 1}
        self._on_error(error)

    def _stepped(self) -> None:
        self.fault = None
        if self.is_level:
            self._level = self._clock.monotonic()
