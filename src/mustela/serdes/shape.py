"""What is known about a declared type without a value."""

from __future__ import annotations

import dataclasses
import enum
import types
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

__all__ = [
    "classes_within",
    "field_types",
    "is_attrs_class",
    "is_class_by_path",
    "is_class_with_fields",
    "is_deeply_immutable",
    "is_named_tuple",
]

_SIMPLE = frozenset(
    {
        *(str, int, float, bool, bytes, complex, type(None)),
        *(UUID, Decimal, datetime, date, time, timedelta),
    }
)


def field_types(cls: Any) -> list[Any]:
    """Return the types of a class's fields; none if its hints cannot be read."""
    try:
        return list(get_type_hints(cls).values())
    except (NameError, TypeError):
        return []


def is_deeply_immutable(spec: Any) -> bool:
    """Whether no value of a type can be changed in place, at any depth.

    Example:
        >>> is_deeply_immutable(tuple[int, ...]), is_deeply_immutable(tuple[list[int], ...])
        (True, False)
    """
    return _immutable(spec, frozenset())


def _immutable(spec: Any, seen: frozenset[Any]) -> bool:
    if spec in _SIMPLE or spec is Ellipsis:
        return True
    origin = get_origin(spec)
    if origin is Literal:
        return True
    if origin in (tuple, frozenset, Union, types.UnionType):
        return all(_immutable(argument, seen) for argument in get_args(spec))
    if not isinstance(spec, type) or origin is not None:
        return False
    if spec in seen or issubclass(spec, enum.Enum):
        return True
    if not _is_frozen(spec):
        return False
    hints = field_types(spec)
    return bool(hints) and all(_immutable(hint, seen | {spec}) for hint in hints)


def is_named_tuple(cls: Any) -> bool:
    """Whether a class was made by NamedTuple or namedtuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")  # pyright: ignore[reportUnknownArgumentType]


def is_class_with_fields(cls: Any) -> bool:
    """Whether a class is a dataclass, a Struct, an attrs class or a NamedTuple."""
    if not isinstance(cls, type):
        return False
    return (
        dataclasses.is_dataclass(cls)
        or issubclass(cls, msgspec.Struct)
        or is_named_tuple(cls)
        or is_attrs_class(cls)  # pyright: ignore[reportUnknownArgumentType]
    )


def is_attrs_class(cls: Any) -> bool:
    """Whether a class was made by attrs, without importing attrs."""
    return isinstance(cls, type) and "__attrs_attrs__" in vars(cls)


def _is_frozen(cls: Any) -> bool:
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_config__.frozen
    if dataclasses.is_dataclass(cls):
        parameters: Any = getattr(cls, "__dataclass_params__", None)
        return bool(parameters.frozen)
    if is_attrs_class(cls):
        return _cannot_be_set(cls)
    return is_named_tuple(cls)


def _cannot_be_set(cls: Any) -> bool:
    """Whether an attrs class is frozen, which only its __setattr__ shows."""
    return "frozen" in getattr(cls.__setattr__, "__name__", "")


def classes_within(cls: Any) -> list[type[Any]]:
    """Return the classes that a type names: itself, its fields' and its arguments'.

    Example:
        >>> @dataclasses.dataclass
        ... class Line:
        ...     count: int
        >>> classes_within(dict[str, list[Line]])[0].__name__
        'Line'
    """
    found: list[type[Any]] = []
    todo: list[Any] = [cls]
    while todo:
        spec = todo.pop()
        arguments = get_args(spec)
        if arguments:
            todo.extend(arguments)
        elif isinstance(spec, type) and spec not in found and is_class_by_path(spec):
            found.append(spec)
            todo.extend(field_types(spec))
    return found


def is_class_by_path(cls: Any) -> bool:
    """Whether values of a class are stored as the class's path and their fields."""
    return is_class_with_fields(cls) or (isinstance(cls, type) and issubclass(cls, enum.Enum))
