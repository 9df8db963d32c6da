"""Where an application is in its life, and what is asked of it: any thread may look and ask."""

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
"""So many changes of state are remembered."""


class Standing:
    """Where an application is, and what is asked of it.

    Args:
        clock: Wall-clock time.
        listeners: Who is told; others may be added later.

    Attributes:
        state: The state.
        history: The last `HISTORY_MAX` changes of state, the oldest first.
        changed: Is notified when the state, or what is asked, changes.
        stopping: Whether the life that runs is to end.
        pausing: Whether it is to pause.
        fan: All listeners.
        waiting: Who waits until everything is read.
        life: How often another life was asked for, and began.

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

    def reset(self) -> None:
        """Let a new life begin after the last one."""
        with self.changed:
            self.life += 1
            self._again = False
            self.stopping.clear()
            self.pausing.is_asked = False

    def set(self, state: AppState) -> None:
        """Come into a state, and tell everybody."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        event = StateChanged(state=state, before=self.state, at=at)
        with self.changed:
            self.state = state
            self.history = (*self.history, event)[-HISTORY_MAX:]
            self.changed.notify_all()
        self.fan.on_event(event)

    def say(self, text: str) -> None:
        """Tell those who watch something."""
        self.fan.on_event(Said(text=text))

    def ask_to_stop(self) -> None:
        """Ask the life that runs to end, and no other to begin."""
        self._ask(again=False)

    def ask_to_restart(self) -> None:
        """Ask the life that runs to end, and another one to begin."""
        self._ask(again=True)

    def _ask(self, *, again: bool) -> None:
        with self.changed:
            self._again = again
            self.stopping.set()
            self.changed.notify_all()

    @property
    def is_to_end(self) -> bool:
        """Whether somebody asked the application to stop, and not to start again."""
        return self.stopping.is_set() and not self._again

    def begin_again(self) -> bool:
        """Whether another life was asked for; if so, it may begin now."""
        with self.changed:
            is_asked = self._again
            if is_asked:
                self.reset()
        return is_asked

    def wait(self, holds: Callable[[], bool], timeout: timedelta | None) -> bool:
        """Wait until something holds, or the time is up; return whether it holds."""
        with self.changed:
            return self.changed.wait_for(
                holds, None if timeout is None else timeout.total_seconds()
            )

    def tell_waiting(self, asked: Iterable[CaughtUp], coordinator: Coordinator) -> None:
        """Let go of those who wait for what is committed now."""
        committed = coordinator.state.sources.next_offsets
        with self.changed:
            for waiting in asked:
                waiting.see(coordinator.ends, committed)
            self.changed.notify_all()
