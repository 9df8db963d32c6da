"""An application at rest: it waits for its first record, and looks around seldom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mustela.errors import EnvironmentFault
from mustela.model import TopicPartition
from mustela.plan.time import NEVER
from mustela.runtime.epoch.run import Run
from mustela.topology.async_calls import AsyncNode

__all__ = ["Rest"]

_AFTER_S: Final = 1.0
"""Without work for so long it is at rest: to begin waiting costs a little, too."""
_LOOK_EVERY_S: Final = 1.0
"""So often all else is looked at."""
_TIME_EVERY_S: Final = 0.2
"""So often where partitions may become idle, and event time may advance by that."""
_STEP_S: Final = 0.1
"""So often it looks whether anybody wants something of it."""
_LEAST_S: Final = 0.05
"""A shorter rest is none."""


class Rest:
    """Lets the loop wait for a record instead of looking for one twenty times a second.

    Args:
        run: The state shared by the parts of the loop.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._since: float | None = None

    def ends(self) -> None:
        """Note that there is work."""
        self._since = None
        if self._run.world.bell is not None:
            self._run.world.bell.hush()

    def wait(self, ends: Mapping[TopicPartition, int], is_wanted: Callable[[], bool]) -> bool:
        """Wait until there may be something to do, if the application is at rest.

        Args:
            ends: Of each log that is looked at, the end at the last look.
            is_wanted: Returns whether somebody wants something of the loop.

        Returns:
            False if it is not at rest, or what may come next is no record: then the loop pauses as
            it does between epochs.
        """
        run, clock = self._run, self._run.clock
        if self._since is None:
            self._since = clock.monotonic()
        bell, seconds = run.world.bell, self._longest()
        if bell is None or seconds < _LEAST_S or not ends or is_wanted():
            return False
        until = clock.monotonic() + seconds
        try:
            while (left := until - clock.monotonic()) > 0 and not is_wanted():
                if bell.wait(ends, min(left, _STEP_S)):
                    self.ends()
                    break
        except EnvironmentFault as fault:
            run.listener.on_error(fault)
            self.ends()
            return False
        return True

    def _longest(self) -> float:
        """Return for how many seconds nothing but a record can be the next thing to do."""
        run = self._run
        look, first = run.look, run.due.first
        since = run.clock.monotonic() if self._since is None else self._since
        if (
            run.clock.monotonic() - since < _AFTER_S
            or look is None
            or look.unread
            or run.failures
            or run.faults.is_tried
            or self._calls()
        ):
            return 0.0
        longest = _LOOK_EVERY_S if first.event_ms == NEVER else _TIME_EVERY_S
        return min(longest, (first.wall_ms - run.clock.now_ms()) / 1000)

    def _calls(self) -> bool:
        """Whether answers of calls to the outside may come at any time."""
        stages = self._run.plan.stages
        return any(isinstance(step.node, AsyncNode) for stage in stages for step in stage.steps)
