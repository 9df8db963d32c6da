"""Objects with fields: taken apart and rebuilt without pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mustela.serdes.shape import is_attrs_class

__all__ = ["field_values", "rebuild"]

_CLASSES_KEPT = 1024


def field_values(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, a Struct, an attrs class or a NamedTuple by name.

    Example:
        >>> from typing import NamedTuple
        >>> class Point(NamedTuple):
        ...     x: int
        >>> field_values(Point(1))
        {'x': 1}
    """
    return {name: getattr(value, name) for name in _names(value.__class__)}


def rebuild(cls: type[Any], fields: Mapping[str, Any]) -> Any:
    """Make an object from its fields.

    A field that the class no longer has is dropped; a new field takes its default. The constructor
    runs, and then every stored field is set to its stored value, whatever the constructor made of
    it.

    Raises:
        TypeError: If a new field has no default.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> rebuild(Point, {"x": 1, "gone": 2})
        Point(x=1, y=0)
    """
    known = {name: fields[name] for name in _names(cls) if name in fields}
    if issubclass(cls, msgspec.Struct):
        made: Any = cls(**known)
        for name, value in known.items():
            msgspec.structs.force_setattr(made, name, value)
        return made
    if dataclasses.is_dataclass(cls) or is_attrs_class(cls):
        arguments = _arguments(cls)
        made = cls(**{arguments[name]: known[name] for name in known if name in arguments})
        for name, value in known.items():
            # Bypass a frozen class's __setattr__: nobody else has the object yet.
            object.__setattr__(made, name, value)
        return made
    return cls(**known)


@lru_cache(maxsize=_CLASSES_KEPT)
def _names(cls: Any) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if is_attrs_class(cls):
        return tuple(field.name for field in cls.__attrs_attrs__)
    return tuple(cls._fields)


@lru_cache(maxsize=_CLASSES_KEPT)
def _arguments(cls: Any) -> dict[str, str]:
    """Return, by field name, the name of the constructor's argument."""
    if is_attrs_class(cls):
        return {field.name: field.alias for field in cls.__attrs_attrs__ if field.init}
    return {field.name: field.name for field in dataclasses.fields(cls) if field.init}
