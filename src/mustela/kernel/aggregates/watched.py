"""Detects adders that end without a ``return`` by mistake."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any

from mustela.api.in_place import only_changes

__all__ = ["MissingReturnWarning", "ends_without_return", "watched"]

_RETURNS = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_SAYS_NOTHING = _RETURNS | {"LOAD_CONST", "NOP", "RESUME"}


class MissingReturnWarning(UserWarning):
    """An adder ended without a ``return`` and thereby deleted a row."""


def watched(adder: Callable[..., Any], step: str) -> Callable[..., Any]:
    """Wrap an adder so that it warns once when it ends without a ``return`` by mistake.

    An adder that cannot end without a ``return`` is returned as it is, and costs nothing.

    Args:
        adder: What the user gave.
        step: The step that calls it, for the warning.
    """
    if not ends_without_return(adder):
        return adder
    told: list[bool] = []

    def adding(*given: Any) -> Any:
        found = adder(*given)
        if found is None and not told:
            told.append(True)
            _warn(adder, step)
        return found

    return adding


def ends_without_return(function: object) -> bool:
    """Say whether some path through a function ends without a ``return``.

    A lambda counts if all it does is call a method that mutates a collection. Where Python keeps no
    column positions (``-X no_debug_ranges``), only such lambdas are found.

    Example:
        >>> def add(key, value, seen):
        ...     if value:
        ...         seen.append(value)
        ...         return seen
        >>> ends_without_return(add)
        True
        >>> def drop(key, value, seen):
        ...     return seen if value else None
        >>> ends_without_return(drop)
        False
        >>> ends_without_return(lambda key, value, seen: seen.append(value))
        True
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    if code.co_name == "<lambda>":
        return only_changes(code)
    steps = list(dis.get_instructions(code))
    # An implicit return has the source position of the last statement before it; an explicit
    # `return` has its own.
    statements = {step.positions for step in steps if step.opname not in _SAYS_NOTHING}
    before: dis.Instruction | None = None
    for step in steps:
        if step.opname in _RETURNS:
            told = step if step.opname == "RETURN_CONST" else before
            nothing = told is not None and told.opname.endswith("_CONST") and told.argval is None
            if nothing and _has_place(step) and step.positions in statements:
                return True
        before = step
    return False


def _has_place(step: dis.Instruction) -> bool:
    return step.positions is not None and step.positions.col_offset is not None


def _warn(adder: Callable[..., Any], step: str) -> None:
    code: CodeType = adder.__code__
    lambda_ = code.co_name == "<lambda>"
    what = "a lambda that only changes the aggregate" if lambda_ else code.co_name
    fix = (
        "Return the aggregate, as lambda key, value, items: [*items, value] does"
        if lambda_
        else "Return the aggregate on every path; to delete the row, write: return None"
    )
    warnings.warn_explicit(
        f"{what} ended without a return in step {step!r}, which deleted the row of a key. {fix}",
        MissingReturnWarning,
        code.co_filename,
        code.co_firstlineno,
        registry=adder.__globals__.setdefault("__warningregistry__", {}),
    )
