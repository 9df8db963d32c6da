"""Lambdas that only change their argument and return nothing."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final

__all__ = ["only_changes"]

_IN_PLACE: Final = frozenset(
    {
        *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
        *("extendleft", "insert", "intersection_update", "remove", "reverse", "sort", "update"),
    }
)
"""Methods with which Python's collections change in place and return None."""


def only_changes(code: CodeType) -> bool:
    """Say whether a function only calls one method that changes its last argument.

    Example:
        >>> only_changes((lambda key, value, seen: seen.append(value)).__code__)
        True
        >>> only_changes((lambda key, value, seen: seen.append(value) or seen).__code__)
        False
    """
    steps = [
        step
        for step in dis.get_instructions(code)
        if step.opname not in {"RESUME", "NOP", "COPY_FREE_VARS"}
    ]
    if len(steps) < 4 or any("JUMP" in step.opname for step in steps):
        return False
    loaded, method, call, end = steps[0], steps[1], steps[-2], steps[-1]
    last = code.co_varnames[: code.co_argcount][-1:]
    return (
        end.opname == "RETURN_VALUE"
        and "CALL" in call.opname
        and loaded.opname.startswith("LOAD_FAST")
        and (loaded.argval,) == last
        and method.opname in {"LOAD_METHOD", "LOAD_ATTR"}
        and method.argval in _IN_PLACE
    )
