"""Checks of user functions: can they be called with what they will be given?"""

from __future__ import annotations

import dis
import inspect
from collections import Counter, deque
from collections.abc import Callable
from types import CodeType
from typing import Any

from mustela.api.errors import FunctionError, InitializerError
from mustela.api.in_place import only_changes
from mustela.errors import Origin

__all__ = ["check_function", "check_initializer", "function_name", "gives_nothing"]

_ITERATED = frozenset(
    {
        *("flat_map", "flat_map_values", "flat_map_values_with_key"),
        *("process_async", "scheduled", "transact"),
    }
)
"""The methods that iterate over what their functions return."""


_COLLECTIONS: tuple[object, ...] = (list, set, dict, bytearray, Counter, deque)
"""Initializers whose collections have methods that change them in place and return None."""

_FOLDS = frozenset({"adder", "aggregator", "merger", "subtractor"})
"""The roles of functions that take an aggregate and must return the next one."""


def check_function(
    function: object, arguments: tuple[str, ...], *, role: str, verb: str, at: Origin
) -> None:
    """Check that a function takes the arguments that a step will call it with.

    A function whose parameters cannot be inspected, as for some of Python's own, is accepted.

    Args:
        function: What the user gave.
        arguments: Names of the arguments with which it will be called.
        role: What the function is to the step, as in ``mapper``.
        verb: The step's method.
        at: The user's line.

    Raises:
        FunctionError: If it cannot be called with these arguments, or is a coroutine or a generator
            function where nobody awaits or iterates the result.
    """
    wanted = f"({', '.join(arguments)})"
    if not callable(function):
        msg = f"{verb} needs a function as its {role}, not {_shown(function)}"
        raise FunctionError(
            msg,
            at=at,
            why=f"the {role} is called as {role}{wanted}, for each record",
            fix=f"pass a function of {wanted}, such as a lambda or the name of a def",
            fields={"role": role, "verb": verb},
        )
    _check_kind(function, role=role, verb=verb, at=at)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        msg = f"{verb} cannot call its {role} {_told(function)}: it takes {signature}, not {wanted}"
        raise FunctionError(
            msg,
            evidence={"takes": signature, "gets": wanted},
            at=at,
            why=f"{verb} calls {role}{wanted}",
            fix=_fix(signature, arguments, verb, role),
            fields={"role": role, "verb": verb, "arguments": arguments},
        ) from None
    if role in _FOLDS and gives_nothing(function):
        raise _nothing(function, arguments, role=role, verb=verb, at=at)


def gives_nothing(function: object) -> bool:
    """Say whether a function is written with ``def`` and never returns a value.

    Example:
        >>> def add(key, value, aggregate):
        ...     aggregate.append(value)
        >>> gives_nothing(add)
        True
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_name == "<lambda>":
        return False
    before, ways = None, 0
    for step in dis.get_instructions(code):
        if step.opname in {"RETURN_VALUE", "RETURN_CONST"}:
            if step.opname == "RETURN_VALUE" and step.is_jump_target:
                return False  # several branches meet here, each with a value
            told = step if step.opname == "RETURN_CONST" else before
            if told is None or told.argval is not None or not told.opname.endswith("_CONST"):
                return False
            ways += 1
        before = step
    return ways > 0


def _is_lambda_that_changes(function: object) -> bool:
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and code.co_name == "<lambda>" and only_changes(code)


def _nothing(
    function: object, arguments: tuple[str, ...], *, role: str, verb: str, at: Origin
) -> FunctionError:
    aggregate = next((name for name in arguments if name == "aggregate"), "result")
    fix = f"end it with: return {aggregate}"
    if _is_lambda_that_changes(function):
        fix = "return the aggregate, as lambda key, value, items: [*items, value] does"
    return FunctionError(
        f"{verb}'s {role} {_told(function)} never returns a value",
        at=at,
        why=f"what the {role} returns is the new aggregate; None deletes the row, so no key would"
        " ever have one",
        fix=fix,
        fields={"role": role, "verb": verb},
    )


def _check_kind(function: object, *, role: str, verb: str, at: Origin) -> None:
    """Check that calling a function yields its result: it is not a coroutine or a generator."""
    awaited = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if awaited and "async" not in verb:
        what, why = "a coroutine", "nobody would await it"
        fix = f"use {verb.replace('map_values', 'map_values_async')}, or a plain function"
        if not verb.startswith("map_values"):
            fix = "pass a plain function; calls to the outside are for map_values_async"
    elif inspect.isgeneratorfunction(function) and verb not in _ITERATED:
        what, why = "a generator", "nobody would iterate it"
        fix = "return a value instead of yielding it; flat_map and flat_map_values take several"
    else:
        return
    msg = f"{verb} cannot take {what} as its {role}: {_told(function)}"
    raise FunctionError(
        msg,
        at=at,
        why=f"{verb} takes what its {role} returns, and {why}",
        fix=fix,
        fields={"role": role, "verb": verb},
    )


def check_initializer(initializer: object, *, verb: str, at: Origin, adder: object = None) -> None:
    """Check that an initializer is a function without arguments.

    Args:
        initializer: What the user gave.
        verb: The step's method.
        at: The user's line.
        adder: The function that is called with the aggregates that it makes, if known.

    Raises:
        InitializerError: If it is not a function.
        FunctionError: If it needs arguments, or makes collections that the adder only changes.
    """
    if callable(initializer):
        check_function(initializer, (), role="initializer", verb=verb, at=at)
        if initializer in _COLLECTIONS and _is_lambda_that_changes(adder):
            arguments = ("key", "value", "aggregate")
            raise _nothing(adder, arguments, role="adder", verb=verb, at=at)
        return
    by_type = type(initializer)
    empty = by_type in {list, dict, set, tuple, str, int, float, bytes} and not initializer
    fix = by_type.__name__ if empty else f"lambda: {_shown(initializer)}"
    msg = f"{verb} needs a function that makes the first value, not {_shown(initializer)}"
    raise InitializerError(
        msg,
        at=at,
        why="each key begins with its own value; one object would be shared by all keys",
        fix=f"pass {fix}",
        fields={"verb": verb},
    )


def function_name(function: Callable[..., Any] | None) -> str | None:
    """Return the name that the author gave to a function, None for a lambda."""
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) and name.isascii() and name.isidentifier() else None


def _fix(signature: inspect.Signature, arguments: tuple[str, ...], verb: str, role: str) -> str:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(parameter.kind in kinds for parameter in signature.parameters.values())
    if verb in {"map_values", "flat_map_values"} and count == 2:
        return f"use {verb}_with_key, which calls it with (key, value)"
    if verb in {"map_values_with_key", "flat_map_values_with_key"} and count == 1:
        return f"use {verb.removesuffix('_with_key')}, which calls it with (value)"
    if role == "foreign_key" and count == 2:
        return "give it as foreign_key_with_key=, which is called with (key, value)"
    if role == "foreign_key_with_key" and count == 1:
        return "give it as foreign_key=, which is called with (value)"
    if not arguments:
        return "let it take no arguments"
    return f"let it take {len(arguments)}: lambda {', '.join(arguments)}: ..."


def _told(function: object) -> str:
    name = getattr(function, "__qualname__", None) or repr(function)
    return str(name).rsplit("<locals>.", 1)[-1]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
