"""The successive lives of an application in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mustela.config.lifetime import RestartSettings
from mustela.errors import InvariantError, MustelaError
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.events import AppState, Failed, UncaughtAnswer
from mustela.runtime.life.hooks import Hooks
from mustela.runtime.life.standing import Standing
from mustela.runtime.life.uncaught import Uncaught
from mustela.runtime.shortage import shortage_of

__all__ = ["Lives", "OneLife", "named"]


class OneLife(Protocol):
    """A life, from its claim to its end."""

    def live(self) -> None:
        """Run until it is asked to stop.

        Raises:
            MustelaError: If it cannot continue.
        """
        ...


class Lives:
    """Runs lives in succession.

    Args:
        standing: The application's state, and the requests to it.
        hooks: Run before and after all of its lives.
        uncaught: Decides what to do about an error.
        limits: Returns the limits of restarts.
        is_standby: Returns whether a life that was replaced is followed by one that waits.
    """

    def __init__(
        self,
        standing: Standing,
        hooks: Hooks,
        uncaught: Uncaught,
        limits: Callable[[], RestartSettings],
        is_standby: Callable[[], bool] = bool,
    ) -> None:
        self._is_standby = is_standby
        self._standing = standing
        self._hooks = hooks
        self._uncaught = uncaught
        self._limits = limits
        self._failed: list[BaseException] = []

    def run(self, begin: Callable[[], OneLife]) -> BaseException | None:
        """Run lives until the last one; return the error that ended it.

        Args:
            begin: Creates a life.
        """
        error = self._caught(lambda: self._hooks.run("start"))
        if error is None:
            error = self._all(begin)
        else:
            self.answer(error)
        self._hooks.run_all("stop", self._note)
        self._hooks.run_all("stopped", self._note)
        return error or next(iter(self._failed), None)

    def started(self) -> None:
        """Run the hooks after the start; call it when epochs can run."""
        self._hooks.run("started")

    def ending(self, error: BaseException | None) -> None:
        """Run the hooks before the stop, if this life is the last; call it before it drains.

        Args:
            error: The error that ends the life.
        """
        if error is None:
            is_last = self._standing.is_to_end
        else:
            is_last = self.answer(error) is not UncaughtAnswer.RESTART
        if is_last:
            self._hooks.run_all("stop", self._note)

    def _note(self, error: BaseException) -> None:
        """Keep the error of a hook while the application stops: it stops all the same."""
        self._failed.append(error)
        self._standing.fan.on_event(Failed(error=error, answer=UncaughtAnswer.SHUTDOWN))

    def answer(self, error: BaseException, *, may_skip: bool = False) -> UncaughtAnswer:
        """Return what to do about an error."""
        if self._waits_again(error):
            return UncaughtAnswer.RESTART
        return self._uncaught.answer(error, self._limits(), may_skip=may_skip)

    def _all(self, begin: Callable[[], OneLife]) -> BaseException | None:
        while True:
            error = self._caught(lambda: begin().live())
            if error is not None and not self._rises(error):
                return error
            if error is None and not self._standing.begin_again():
                return None
            self._standing.set(AppState.STARTING)

    def _rises(self, error: BaseException) -> bool:
        """Return whether another life follows a failed one, after waiting until it may."""
        if self.answer(error) is not UncaughtAnswer.RESTART:
            return self._standing.begin_again()
        if self._waits_again(error):
            self._standing.say(f"waits as a standby: {_first_line(error)}")
            return self._standing.begin_standby() or self._standing.begin_again()
        seconds = self._uncaught.pause_s(self._limits())
        self._standing.say(f"starts again in {seconds:g} s after an error: {_first_line(error)}")
        self._standing.stopping.wait(seconds)
        return self._standing.begin_again() or not self._standing.stopping.is_set()

    def _waits_again(self, error: BaseException) -> bool:
        """Whether the next life waits while the instance lives that took over."""
        fenced = isinstance(error, FencedError)
        return fenced and self._is_standby() and not self._standing.stopping.is_set()

    def _caught(self, act: Callable[[], None]) -> BaseException | None:
        try:
            act()
        except MustelaError as error:
            return error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it must reach the user
            return named(error)
        return None


def named(error: BaseException) -> MustelaError:
    """Return a `MustelaError` for an unexpected error."""
    if isinstance(error, MustelaError):
        return error
    found = shortage_of(error) or InvariantError(
        f"the application ended with {type(error).__name__}: {error}",
        fix="this is a bug in Mustela: please report it",
    )
    found.__cause__ = error
    return found


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
