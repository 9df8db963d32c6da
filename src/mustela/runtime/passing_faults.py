"""How long transient faults are tolerated, such as a broker that does not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mustela.clock import Clock
from mustela.errors import EnvironmentFault

__all__ = ["PassingFaults"]

_PAUSE_S = 0.2

T = TypeVar("T")


class PassingFaults:
    """Tolerates transient faults for a limited time without a success.

    Args:
        clock: Monotonic time.
        limit: Seconds after the first fault in a row.

    Example:
        >>> from mustela.clock import ManualClock
        >>> faults = PassingFaults(ManualClock(), limit=60.0)
        >>> faults.is_tried
        False
    """

    def __init__(self, clock: Clock, *, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._since: float | None = None

    @property
    def is_tried(self) -> bool:
        """Whether a fault is being tolerated."""
        return self._since is not None

    def note(self, fault: EnvironmentFault) -> None:
        """Note a fault; raise it if it is permanent, or has lasted too long."""
        if not fault.retryable:
            raise fault
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since > self._limit:
            raise fault

    def clear(self) -> None:
        """Note a success."""
        self._since = None

    def retry(self, act: Callable[[], T], on_fault: Callable[[BaseException], None]) -> T:
        """Call ``act`` until it succeeds, tolerating transient faults.

        Args:
            act: The action; it must be repeatable.
            on_fault: Called with each tolerated fault.

        Raises:
            EnvironmentFault: The fault that was not tolerated.
        """
        while True:
            try:
                result = act()
            except EnvironmentFault as fault:
                self.note(fault)
                on_fault(fault)
                self._clock.sleep(_PAUSE_S)
            else:
                self.clear()
                return result
