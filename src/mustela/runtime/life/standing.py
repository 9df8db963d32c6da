"""The application's state and the requests to it, for all threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from mustela.clock import Clock
from mustela.runtime.caught_up import CaughtUp
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.events import AppState, Listener, Said, StateChanged
from mustela.runtime.listeners import Listeners
from mustela.runtime.pausing import Pausing

__all__ = ["HISTORY_MAX", "Standing"]

HISTORY_MAX: Final = 50
"""How many changes of state are remembered."""


class Standing:
    """The application's state, and the requests to it.

    Args:
        clock: Wall-clock time.
        listeners: The listeners; others may be added later.

    Attributes:
        state: The state.
        history: The last `HISTORY_MAX` changes of state, oldest first.
        changed: Notified when the state or a request changes.
        stopping: Whether the running life should end.
        pausing: Whether it should pause.
        fan: All listeners.
        waiting: Callers that wait until everything is read.
        life: How often another life was requested, and started.
        hands_over: Whether the running life ends in favour of a standby.
        has_handed_over: Whether the last life ended so.
        is_promoted: Set when a standby is to take over at once.

    Example:
        >>> from mustela.clock import ManualClock
        >>> standing = Standing(ManualClock(1_000), [])
        >>> standing.set(AppState.STARTING)
        >>> standing.state.value, standing.history[0].before.value
        ('starting', 'created')
    """

    def __init__(self, clock: Clock, listeners: list[Listener]) -> None:
        self._clock = clock
        self.state = AppState.CREATED
        self.history: tuple[StateChanged, ...] = ()
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        self.pausing = Pausing(self.changed)
        self.fan = Listeners(listeners)
        self.waiting: list[CaughtUp] = []
        self.life = 0
        self._again = False
        self.hands_over = False
        self.is_promoted = threading.Event()
        self.has_handed_over = False

    def reset(self) -> None:
        """Prepare for a new life after the last one."""
        with self.changed:
            self.life += 1
            self._again = False
            self.hands_over = False
            self.is_promoted.clear()
            self.stopping.clear()
            self.pausing.is_asked = False

    def set(self, state: AppState) -> None:
        """Enter a state, and notify all listeners."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        event = StateChanged(state=state, before=self.state, at=at)
        with self.changed:
            self.state = state
            self.history = (*self.history, event)[-HISTORY_MAX:]
            self.changed.notify_all()
        self.fan.on_event(event)

    def say(self, text: str) -> None:
        """Send a message to all listeners."""
        self.fan.on_event(Said(text=text))

    def ask_to_stop(self) -> None:
        """Ask the running life to end, and start no other."""
        self._ask(again=False)

    def ask_to_restart(self) -> None:
        """Ask the running life to end, and start another one."""
        self._ask(again=True)

    def ask_to_hand_over(self, *, waits: bool) -> None:
        """Ask the running life to end at its epoch's end, in favour of a standby.

        Args:
            waits: Whether this instance is the standby then; otherwise it stops.
        """
        with self.changed:
            self.hands_over = True
        self._ask(again=waits)

    def _ask(self, *, again: bool) -> None:
        with self.changed:
            self._again = again
            self.stopping.set()
            self.changed.notify_all()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody wants something of the running life."""
        return self.stopping.is_set() or self.pausing.is_asked or bool(self.waiting)

    @property
    def is_to_end(self) -> bool:
        """Whether the application was asked to stop, and not to restart."""
        return self.stopping.is_set() and not self._again

    def begin_again(self) -> bool:
        """Return whether another life was requested; if so, it may start now."""
        with self.changed:
            is_asked = self._again
            if is_asked:
                self.reset()
        return is_asked

    def begin_standby(self) -> bool:
        """Return whether a life that waits may follow one that was replaced; nothing is paused."""
        with self.changed:
            if self.stopping.is_set():
                return False
            self.reset()
        return True

    def wait(self, holds: Callable[[], bool], timeout: timedelta | None) -> bool:
        """Wait until a condition holds, or the timeout expires; return whether it holds."""
        with self.changed:
            return self.changed.wait_for(
                holds, None if timeout is None else timeout.total_seconds()
            )

    def tell_waiting(self, asked: Iterable[CaughtUp], coordinator: Coordinator) -> None:
        """Release the callers that waited for what is now committed."""
        committed = coordinator.state.sources.next_offsets
        with self.changed:
            for waiting in asked:
                waiting.see(coordinator.ends, committed)
            self.changed.notify_all()
