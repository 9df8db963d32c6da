"""The type that a function returns, as far as its annotation or its code shows it.

A type found in this way counts less than one that the user states. It is used only where nothing is
stated and the serde for Python's types would not do: for the user's own classes, and at sinks.
Stores of Python's own types keep the same format with or without it.
"""

from __future__ import annotations

import abc
import dis
import functools
import inspect
import types
import typing
from collections import abc as collections
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final, Literal, get_args, get_origin

from mustela.errors import UsageError
from mustela.serdes.base import Serde
from mustela.serdes.resolve import plain_type, resolve_serde
from mustela.serdes.shape import is_class_by_path
from mustela.serdes.structs import is_structured
from mustela.serdes.values import holds

__all__ = [
    "UNKNOWN",
    "Part",
    "given_type",
    "is_read",
    "made_class",
    "marked_serde",
    "needs_serde",
    "part_type",
    "read_fold",
    "read_serde",
]

UNKNOWN: Final = typing.Any
"""Stands for a type that is not known."""

Part = Literal["all", "key", "value", "each", "each_key", "each_value"]
"""Which part of a function's result is meant: all of it, one half of a pair, or the same for each
item that it returns."""

_MANY: Final = frozenset(
    {
        *(list, set, frozenset, collections.Iterable, collections.Iterator, collections.Generator),
        *(collections.Collection, collections.Sequence, collections.Set),
    }
)
_RETURNS: Final = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_NO_EFFECT: Final = frozenset({"KW_NAMES", "PRECALL", "NOP", "CACHE", "EXTENDED_ARG", "PUSH_NULL"})
_READ_MARK: Final = "_read_from_a_function"


def given_type(function: object) -> Any:
    """Return the type of what a function returns, `UNKNOWN` if it cannot be told.

    It is read from the function's annotation, or is the class itself if the function is a class.

    Example:
        >>> def length(text: str) -> int:
        ...     return len(text)
        >>> given_type(length), given_type(lambda text: text.upper())
        (<class 'int'>, typing.Any)
    """
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(function, type):
        return function if _gives_itself(function) else UNKNOWN  # pyright: ignore
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        function = inspect.getattr_static(type(function), "__call__", None)
        if not isinstance(function, FunctionType):
            return UNKNOWN
    found = plain_type(_annotation(function))
    return UNKNOWN if found is type(None) else found


def part_type(spec: Any, part: Part) -> Any:
    """Return the type of a part of what a function returns.

    Example:
        >>> part_type(tuple[str, int], "value"), part_type(list[tuple[str, int]], "each_key")
        (<class 'int'>, <class 'str'>)
    """
    if part.startswith("each"):
        spec = _each(spec)
        part = {"each_key": "key", "each_value": "value"}.get(part, "all")  # pyright: ignore[reportAssignmentType]
    if part != "all":
        pair = get_args(spec)
        if get_origin(spec) is not tuple or len(pair) != 2 or pair[1] is Ellipsis:
            return UNKNOWN
        spec = pair[part == "value"]
    found = plain_type(spec)
    return UNKNOWN if found is type(None) else found


def read_serde(function: object, part: Part = "all", *, key: bool = False) -> Serde[Any] | None:
    """Return the serde for the class that a function is annotated to return.

    Returns:
        None if there is no annotation or no serde is known, and for Python's own types, which keep
        their default format.
    """
    spec = part_type(given_type(function), part)
    if not needs_serde(spec):
        return None
    return marked_serde(spec, key=key)


def read_fold(adder: object, initializer: object) -> Serde[Any] | None:
    """Return the serde of aggregates: read from the adder, or else from the initializer."""
    return read_serde(adder) or read_serde(initializer)


def marked_serde(spec: Any, *, key: bool) -> Serde[Any] | None:
    """Return a serde for a type that was read, None if none is known."""
    if spec is UNKNOWN:
        return None
    try:
        serde = resolve_serde(spec, key=key)
    except (UsageError, TypeError):
        return None
    object.__setattr__(serde, _READ_MARK, True)
    return serde


def is_read(serde: object) -> bool:
    """Say whether a serde was read from a function and not given by the user."""
    return bool(getattr(serde, _READ_MARK, False))


def needs_serde(spec: Any) -> bool:
    """Say whether values of a type can only be kept by a declared serde.

    Example:
        >>> needs_serde(dict[str, int]), needs_serde(list[SimpleNamespace])
        (False, True)
    """
    return any(_is_users(cls) for cls in _classes(spec))


def made_class(function: object) -> Any:
    """Return the class of the object that a function makes as its last action.

    Only functions without branches are looked at.

    Example:
        >>> from argparse import Namespace
        >>> made_class(lambda text: Namespace(text=text))
        <class 'argparse.Namespace'>
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not isinstance(function, FunctionType):
        return UNKNOWN
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NO_EFFECT]
    returns = [step for step in steps if step.opname in _RETURNS]
    jumps = any(step.is_jump_target or "JUMP" in step.opname for step in steps)
    if jumps or len(returns) != 1 or len(steps) < 3 or steps[-2].opname not in _CALLS:
        return UNKNOWN
    loader = _called(steps[:-2], steps[-2])
    made = UNKNOWN if loader is None else _value_of(loader, function)
    return made if isinstance(made, type) and _gives_itself(made) else UNKNOWN  # pyright: ignore


def _called(before: list[dis.Instruction], call: dis.Instruction) -> dis.Instruction | None:
    """Return the instruction that pushes the called object, which precedes the arguments."""
    count = call.arg or 0
    wanted = {"CALL": count, "CALL_KW": count + 1}.get(call.opname, 1 + (count & 1))
    height = 0
    for step in reversed(before):
        if height == wanted:
            return step
        height += _effect(step)
    return None


def _effect(step: dis.Instruction) -> int:
    """Return by how much an instruction without jumps grows the stack."""
    effect = dis.stack_effect(step.opcode, step.arg)
    if step.opname == "CALL" and "PRECALL" in dis.opmap:
        # Python 3.11 splits a call into two instructions, of which the first has no effect.
        return effect + dis.stack_effect(dis.opmap["PRECALL"], step.arg)
    return effect


def _value_of(loader: dis.Instruction, function: FunctionType) -> Any:
    name = loader.argval
    if loader.opname == "LOAD_GLOBAL":
        return function.__globals__.get(name, UNKNOWN)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if loader.opname == "LOAD_DEREF" and name in cells:
        try:
            return cells[name].cell_contents
        except ValueError:  # not bound yet
            return UNKNOWN
    return UNKNOWN


def _annotation(function: FunctionType) -> Any:
    """Return the annotation of a function's result; `UNKNOWN` if it cannot be read."""
    try:
        said = function.__annotations__.get("return", UNKNOWN)
        if said is UNKNOWN or said is None:
            return UNKNOWN
            # Only the result: other annotations may name what is imported for type checkers alone.
        stub = SimpleNamespace(__annotations__={"return": said})
        names = {
            name: cell.cell_contents
            for name, cell in zip(
                function.__code__.co_freevars, function.__closure__ or (), strict=True
            )
        }
        hints = typing.get_type_hints(stub, function.__globals__, names, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation may be any expression
        return UNKNOWN
    return hints["return"]


def _each(spec: Any) -> Any:
    """Return the type of an iterable's items."""
    inside = get_args(spec)
    origin = get_origin(spec)
    if origin is tuple:
        same = len(set(inside) - {Ellipsis}) == 1
        return inside[0] if same else UNKNOWN
    return inside[0] if origin in _MANY and inside else UNKNOWN


def _gives_itself(cls: type[Any]) -> bool:
    """Say whether calling a class gives an instance of it, as far as can be told."""
    if is_class_by_path(cls) or is_structured(cls):
        return True
    return type(cls).__call__ is type.__call__ and cls.__new__ is object.__new__


def _classes(spec: Any) -> Iterator[type[Any]]:
    inside = get_args(spec)
    if get_origin(spec) is Literal:
        return
    if inside:
        for one in inside:
            yield from _classes(one)
    elif isinstance(spec, type) and spec is not UNKNOWN:
        yield spec  # pyright: ignore[reportUnknownVariableType]


def _is_users(cls: type[Any]) -> bool:
    """Say whether objects of a class can only be kept by a declared serde."""
    if is_class_by_path(cls) or (is_structured(cls) and not typing.is_typeddict(cls)):
        return True
    if cls is object or isinstance(cls, abc.ABCMeta) or getattr(cls, "_is_protocol", False):
        return False  # objects of other classes may count as instances of this one
    return not any(holds(base) for base in cls.__mro__[:-1]) and cls is not types.EllipsisType
