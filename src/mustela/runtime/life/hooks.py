"""The user's functions that run before and after an application starts and stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from mustela.errors import EnvironmentFault, MustelaError
from mustela.runtime.hook_kinds import place_of, refuse_kind

__all__ = ["HookError", "Hooks", "Moment"]

Moment = Literal["start", "started", "stop", "stopped"]
Hook = Callable[[], Any]


class HookError(EnvironmentFault):
    """A hook of the application raised."""

    code = "APP_HOOK"


class Hooks:
    """The hooks of one application; those of each moment run once, in the order they were added.

    Example:
        >>> hooks = Hooks()
        >>> hooks.add("start", lambda: print("connected"))
        >>> hooks.run("start")
        connected
        >>> hooks.run("start")
    """

    def __init__(self) -> None:
        self._hooks: dict[Moment, list[Hook]] = {}
        self._done: set[Moment] = set()

    def add(self, moment: Moment, hook: Hook) -> None:
        """Add a function to call at a moment.

        Raises:
            HookKindError: If it is a coroutine function, not a function, or needs arguments.
        """
        refuse_kind(hook, f"on_{moment}", arguments=0)
        self._hooks.setdefault(moment, []).append(hook)

    def reset(self) -> None:
        """Let all of them run once again."""
        self._done.clear()

    def run(self, moment: Moment) -> None:
        """Run the hooks of a moment; stop at the first that raises.

        Raises:
            MustelaError: The error that a hook raised.
        """
        if moment in self._done:
            return
        self._done.add(moment)
        for hook in self._hooks.get(moment, ()):
            error = _call(moment, hook)
            if error is not None:
                raise error

    def run_all(self, moment: Moment, on_error: Callable[[BaseException], None]) -> None:
        """Run all hooks of a moment, whatever one of them raises.

        Args:
            moment: The moment.
            on_error: Called with each error raised.
        """
        if moment in self._done:
            return
        self._done.add(moment)
        for hook in self._hooks.get(moment, ()):
            error = _call(moment, hook)
            if error is not None:
                on_error(error)


def _call(moment: Moment, hook: Hook) -> MustelaError | None:
    try:
        hook()
    except MustelaError as error:
        return error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        name = getattr(hook, "__name__", type(hook).__name__)
        failed = HookError(
            f"the hook {name} of on_{moment} raised {type(error).__name__}: {error}",
            at=place_of(hook),
            why="an application does not run without what its hooks prepare"
            if moment in ("start", "started")
            else "the application itself has stopped as it should",
            fix=f"correct what {name} needs, and start the application again",
        )
        failed.__cause__ = error
        return failed
    return None
