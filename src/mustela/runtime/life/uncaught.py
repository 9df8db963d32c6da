"""What an application does about an error that would end it: its handler decides, within limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from traceback import extract_tb
from typing import Any

from mustela.clock import Clock
from mustela.config.lifetime import RestartSettings
from mustela.errors import UsageError
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.engine import JobInterruptedError
from mustela.runtime.events import Failed, UncaughtAnswer
from mustela.runtime.life.standing import Standing

__all__ = ["Uncaught", "UncaughtHandler"]

UncaughtHandler = Callable[[BaseException], UncaughtAnswer | str]

_FINAL = (FencedError, UsageError, JobInterruptedError)
"""Errors that the handler is not asked about: another instance runs, the program is wrong, or it
was asked to stop.
"""


class Uncaught:
    """Asks the user's handler about each error once, and enforces the limits on its answers.

    Args:
        standing: Receives messages, and knows whether the application should stop anyway.
        clock: Monotonic time.

    Example:
        >>> from mustela.clock import ManualClock
        >>> clock = ManualClock()
        >>> uncaught = Uncaught(Standing(clock, []), clock)
        >>> uncaught.handler = lambda error: "restart"
        >>> uncaught.answer(RuntimeError("no"), RestartSettings(max=1)).value
        'restart'
        >>> uncaught.answer(RuntimeError("no"), RestartSettings(max=1)).value
        'shutdown'
    """

    def __init__(self, standing: Standing, clock: Clock) -> None:
        self.handler: UncaughtHandler | None = None
        self._standing = standing
        self._clock = clock
        self._restarts = deque[float]()
        self._last: tuple[BaseException, UncaughtAnswer] | None = None

    def answer(
        self, error: BaseException, limits: RestartSettings, *, may_skip: bool = False
    ) -> UncaughtAnswer:
        """Return what to do about an error, and notify all listeners.

        Args:
            error: The error; a second call with it gives the same answer.
            limits: How often the application may restart.
            may_skip: Whether the error names a record that can be left out.
        """
        if self._last is not None and self._last[0] is error:
            return self._last[1]
        answer = self._allowed(self._asked(error), limits, may_skip=may_skip)
        self._last = error, answer
        self._standing.fan.on_event(Failed(error=error, answer=answer))
        return answer

    def pause_s(self, limits: RestartSettings) -> float:
        """Return how long to wait before the restart allowed last, in seconds."""
        tried = max(0, len(self._restarts) - 1)
        return min(
            limits.pause.total_seconds() * 2.0 ** min(tried, 30), limits.pause_max.total_seconds()
        )

    def _asked(self, error: BaseException) -> UncaughtAnswer:
        if self.handler is None or isinstance(error, _FINAL) or self._standing.is_to_end:
            return UncaughtAnswer.SHUTDOWN
        name = getattr(self.handler, "__name__", type(self.handler).__name__)
        answer: Any = None
        try:
            answer = self.handler(error)
            return UncaughtAnswer(answer)
        except (Exception, SystemExit) as failed:  # noqa: BLE001 - it may raise anything
            if isinstance(failed, ValueError) and answer is not None:
                said = f"returned {answer!r}, which is no UncaughtAnswer"
            else:
                last = extract_tb(failed.__traceback__)[-1]
                place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
                said = f"raised {type(failed).__name__}: {failed} ({place})"
            self._standing.say(f"the uncaught-exception handler {name} {said}; shutting down")
            return UncaughtAnswer.SHUTDOWN

    def _allowed(
        self, answer: UncaughtAnswer, limits: RestartSettings, *, may_skip: bool
    ) -> UncaughtAnswer:
        """Return the answer if it can be followed now, otherwise ``SHUTDOWN``."""
        if answer is UncaughtAnswer.SKIP_RECORD and not may_skip:
            self._standing.say(
                "no record can be skipped: the error names none that is still unread"
            )
            return UncaughtAnswer.SHUTDOWN
        if answer is UncaughtAnswer.RESTART:
            now = self._clock.monotonic()
            while self._restarts and now - self._restarts[0] > limits.within.total_seconds():
                self._restarts.popleft()
            if len(self._restarts) >= limits.max:
                self._standing.say(f"restarted {limits.max} times within restart.within: not again")
                return UncaughtAnswer.SHUTDOWN
            self._restarts.append(now)
        return answer
