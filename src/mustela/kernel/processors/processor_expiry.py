"""Expiring rows of processors: those that have expired at the time of a record are hidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mustela.kernel.core.expiry import StoreExpiry
from mustela.kernel.processors.processor_step import ProcessorStep
from mustela.kernel.processors.processor_time import event_time_at
from mustela.state.interfaces import StoreSpec

__all__ = ["ProcessorExpiry"]


class ProcessorExpiry(StoreExpiry):
    """The current time for the rows of a store that processors use.

    Args:
        operator: The step.
        spec: Its store.
    """

    def __init__(self, operator: ProcessorStep, spec: StoreSpec) -> None:
        super().__init__(operator, spec)
        self._operator = operator
        self._before: list[tuple[Callable[[], int] | None, Callable[[], int]]] = []

    def _here(self, group: int) -> int:
        """Return the time of the current record or timer."""
        return event_time_at(self._operator, self.clock, group)

    def _put_at(self, group: int) -> int:
        """Return the timestamp for a put without one: that of the current record or timer."""
        hand = self._operator.hand
        return self.now(group) if self.by_clock or hand is None else hand.timestamp

    def meet(self, group: int, timestamp: int) -> None:
        """Set the current record of a key group, until `leave`."""
        self.clock.move(group, timestamp)
        clock = self.views[group].clock
        self._before.append((clock.now, clock.otherwise))
        clock.now, clock.otherwise = partial(self._here, group), partial(self._put_at, group)

    def leave(self, group: int) -> None:
        """End the current record; the one that led to it, if any, is current again."""
        clock = self.views[group].clock
        clock.now, clock.otherwise = self._before.pop()

    def meet_all(self) -> None:
        """Switch to the timers at the end of the epoch."""
        for group, view in self.views.items():
            view.clock.now = partial(self._here, group)
            view.clock.otherwise = partial(self._put_at, group)

    def end(self) -> None:
        """Remove what has expired, unless a table's step does so and forwards the deletions."""
        for view in self.views.values():
            view.clock.now = None
        if self.store.swept_by is None:
            self.sweep()
        self.save()
