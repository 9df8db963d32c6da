"""Objects with fields: taken apart, and put together again without pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

__all__ = ["field_values", "rebuild"]

_CLASSES_KEPT = 1024


def field_values(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, a Struct or a NamedTuple by name.

    Example:
        >>> from typing import NamedTuple
        >>> class Point(NamedTuple):
        ...     x: int
        >>> field_values(Point(1))
        {'x': 1}
    """
    return {name: getattr(value, name) for name in _names(value.__class__)}


def rebuild(cls: type[Any], fields: Mapping[str, Any]) -> Any:
    """Make an object of its fields.

    A field that the class no longer has is dropped; one that is new takes its default. The
    constructor runs, and then every stored field is set to what was stored, whatever the
    constructor made of it.

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
    if dataclasses.is_dataclass(cls):
        given = _constructor_names(cls)
        made = cls(**{name: value for name, value in known.items() if name in given})
        for name, value in known.items():
            # Past a frozen class's __setattr__: the object is not out of our hands yet.
            object.__setattr__(made, name, value)
        return made
    return cls(**known)


@lru_cache(maxsize=_CLASSES_KEPT)
def _names(cls: Any) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return tuple(cls._fields)


@lru_cache(maxsize=_CLASSES_KEPT)
def _constructor_names(cls: Any) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(cls) if field.init)
