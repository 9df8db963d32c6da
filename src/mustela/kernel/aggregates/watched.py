"""Functions that add to an aggregate, watched for the slip of ending without a ``return``."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any

__all__ = ["MissingReturnWarning", "ends_without_return", "watched"]

_IN_PLACE = frozenset(
    {
        *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
        *("extendleft", "insert", "intersection_update", "remove", "reverse", "sort", "update"),
    }
)
"""Methods by which Python's own collections change and give nothing."""
_RETURNS = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_SAYS_NOTHING = _RETURNS | {"LOAD_CONST", "NOP", "RESUME"}


class MissingReturnWarning(UserWarning):
    """A function that adds to an aggregate ended without a ``return``, and so deleted a row."""


def watched(adder: Callable[..., Any], step: str) -> Callable[..., Any]:
    """Return a function that does what an adder does, and warns once where it ends by mistake.

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
    """Say whether a function has a way on which it ends without a ``return``.

    A lambda has, if all it does is to call a method by which collections change. Where Python
    keeps no columns of instructions (``-X no_debug_ranges``) nothing else is found.

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
    steps = list(dis.get_instructions(code))
    if code.co_name == "<lambda>":
        return _only_changes(steps)
    # What a way without `return` ends with stands where its last statement stands; a `return` has
    # a place of its own.
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


def _only_changes(steps: list[dis.Instruction]) -> bool:
    """Say whether all that is done is one call of a method that changes what it belongs to."""
    works = [step for step in steps if step.opname not in {"RESUME", "NOP", "COPY_FREE_VARS"}]
    if any("JUMP" in step.opname for step in works):
        return False
    calls = len(works) > 3 and works[-1].opname == "RETURN_VALUE" and "CALL" in works[-2].opname
    if not calls or not works[0].opname.startswith("LOAD_FAST"):
        return False
    method = works[1]
    return method.opname in {"LOAD_METHOD", "LOAD_ATTR"} and method.argval in _IN_PLACE


def _has_place(step: dis.Instruction) -> bool:
    return step.positions is not None and step.positions.col_offset is not None


def _warn(adder: Callable[..., Any], step: str) -> None:
    code: CodeType = adder.__code__
    lambda_ = code.co_name == "<lambda>"
    what = "a lambda that only changes the aggregate" if lambda_ else code.co_name
    fix = (
        "Let it give the aggregate, as lambda key, value, items: [*items, value] does"
        if lambda_
        else "Return the aggregate on every way; where a row is to be deleted, say: return None"
    )
    warnings.warn_explicit(
        f"{what} ended without a return in step {step!r}, which deleted the row of a key. {fix}",
        MissingReturnWarning,
        code.co_filename,
        code.co_firstlineno,
        registry=adder.__globals__.setdefault("__warningregistry__", {}),
    )
