"""Checks that a hook, a health indicator or a handler is a function that can simply be called."""

from __future__ import annotations

import inspect
from typing import Any

from mustela.errors import Origin, UsageError

__all__ = ["HookKindError", "place_of", "refuse_kind"]


class HookKindError(UsageError):
    """An object given as a hook, a health indicator or a handler cannot be called as one."""

    code = "APP_HOOK_KIND"


def refuse_kind(function: Any, role: str, *, arguments: int) -> None:
    """Refuse an object that cannot be called with this number of arguments.

    Raises:
        HookKindError: If it is a coroutine function, not a function, or takes other arguments.
    """
    name = getattr(function, "__name__", type(function).__name__)
    shape = "(error)" if arguments else "()"
    if not callable(function):
        what = f"{role} takes a function, not {type(function).__name__}"
        raise HookKindError(what, fix=f"decorate a function: @app.{role} above def …{shape}")
    if inspect.iscoroutinefunction(function):
        what = f"the function {name} of {role} is a coroutine function"
        raise HookKindError(
            what,
            at=place_of(function),
            why="the application's thread runs no event loop, so that it would never be awaited",
            fix=f"write def {name}{shape} and, if need be, asyncio.run(…) in it",
        )
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError as error:
        what = f"the function {name} of {role} cannot be called as {name}{shape}: {error}"
        raise HookKindError(
            what,
            at=place_of(function),
            fix=f"write def {name}{shape}",
        ) from None
    except ValueError:
        return  # a C function may have no signature


def place_of(function: Any) -> Origin | None:
    """Return where a function is defined, if it is written in Python."""
    code = getattr(function, "__code__", None)
    return None if code is None else Origin(code.co_filename, code.co_firstlineno)
