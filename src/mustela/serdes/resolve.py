"""From what a user writes as ``key=`` or ``value=`` to the serde that is meant."""

from __future__ import annotations

import difflib
import enum
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import ModuleType, UnionType
from typing import Any, Final, NewType, Union, get_args, get_origin
from uuid import UUID

from mustela.errors import UsageError
from mustela.serdes.base import Serde, type_name
from mustela.serdes.json import JsonSerde
from mustela.serdes.msgpack import MsgpackSerde
from mustela.serdes.primitives import (
    BoolSerde,
    BytesSerde,
    Float32Serde,
    FloatSerde,
    Int16Serde,
    Int32Serde,
    IntSerde,
    StrSerde,
    UUIDSerde,
    VoidSerde,
)
from mustela.serdes.scalars import (
    DateSerde,
    DatetimeSerde,
    DecimalSerde,
    EnumSerde,
    TimedeltaSerde,
)
from mustela.serdes.schemas.by_name import (
    REGISTERED,
    is_message,
    message_serde,
    registered_by_name,
)
from mustela.serdes.structs import is_structured, structured_serde

__all__ = ["UnknownSerdeError", "plain_type", "resolve_serde", "serde_names"]


class UnknownSerdeError(UsageError):
    """Something that is neither a type with a serde, nor a serde's name, nor a serde."""

    code = "SERDE_UNKNOWN"


def _by_name(*, key: bool) -> dict[str, Serde[Any]]:
    return {
        "str": StrSerde(),
        "string": StrSerde(),
        "int": IntSerde(),
        "long": IntSerde(),
        "int32": Int32Serde(),
        "integer": Int32Serde(),
        "int16": Int16Serde(),
        "short": Int16Serde(),
        "float": FloatSerde(),
        "double": FloatSerde(),
        "float32": Float32Serde(),
        "bytes": BytesSerde(),
        "bool": BoolSerde(),
        "boolean": BoolSerde(),
        "uuid": UUIDSerde(),
        "decimal": DecimalSerde(equal=key),
        "date": DateSerde(),
        "datetime": DatetimeSerde(),
        "timedelta": TimedeltaSerde(),
        "void": VoidSerde(),
        "none": VoidSerde(),
        "json": JsonSerde(sort_keys=key),
        "dict": JsonSerde(dict, sort_keys=key),
        "list": JsonSerde(list, sort_keys=key),
        "msgpack": MsgpackSerde(sort_keys=key),
    }


_NAME_OF_TYPE: dict[object, str] = {
    str: "str",
    int: "int",
    float: "float",
    bytes: "bytes",
    bool: "bool",
    UUID: "uuid",
    Decimal: "decimal",
    date: "date",
    datetime: "datetime",
    timedelta: "timedelta",
    type(None): "void",
    None: "void",
    dict: "dict",
    list: "list",
    object: "json",
    Any: "json",
}


def serde_names() -> list[str]:
    """Return the names that `resolve_serde` knows."""
    return sorted([*_by_name(key=False), *REGISTERED])


def plain_type(spec: Any) -> Any:
    """Return what a type is apart from its names, its notes, and from None.

    Null stands for None in every serde, so that ``Order | None`` is ``Order``.

    Example:
        >>> from typing import Optional
        >>> plain_type(Optional[int])
        <class 'int'>
    """
    while True:
        origin, inside = get_origin(spec), get_args(spec)
        if isinstance(spec, NewType):
            spec = spec.__supertype__
        elif origin is None and hasattr(spec, "__value__"):  # type Name = ...
            spec = spec.__value__
        elif origin in (Union, UnionType) and type(None) in inside:
            spec = Union[tuple(one for one in inside if one is not type(None))]  # noqa: UP007
        else:
            return spec


def resolve_serde(spec: Any, *, key: bool = False) -> Serde[Any]:
    """Return the serde that a type, a name or a serde stands for.

    Args:
        spec: A type (``str``, ``int``, ``float``, ``bytes``, ``bool``, ``UUID``, ``Decimal``,
            ``datetime``, ``date``, ``timedelta``, ``None``, an enum, a dataclass, a
            ``msgspec.Struct``, an attrs class, a NamedTuple, a TypedDict, a pydantic model,
            ``dict``, ``list``, ``list[X]``, ``dict[K, V]``, ``tuple[X, ...]``, a union of tagged
            Structs, a class that protoc generated), a name (``"json"``, ``"avro"``), or a serde,
            which is returned as it is.
        key: Whether it is for keys. JSON and msgpack then sort what has no order of its own, so
            that equal keys are equal bytes.

    Raises:
        UnknownSerdeError: If nothing is known by that type or name.
        SerdeTypeError: If it is a structured type with a field that cannot be encoded.
        MissingLibraryError: If its format needs an extra that is not installed.

    Example:
        >>> resolve_serde(int)
        <IntSerde int>
        >>> resolve_serde("json") == resolve_serde("json")
        True
    """
    if isinstance(spec, Serde):
        return spec  # pyright: ignore[reportUnknownVariableType]
    if isinstance(spec, str):
        found = registered_by_name(spec.lower()) or _by_name(key=key).get(spec.lower())
        if found is None:
            raise _unknown_name(spec)
        return found
    spec = plain_type(spec)
    name = _NAME_OF_TYPE.get(spec) if _is_hashable(spec) else None
    if name is not None:
        return _by_name(key=key)[name]
    if isinstance(spec, type) and issubclass(spec, enum.Enum):
        return EnumSerde(spec)
    if is_message(spec):  # pyright: ignore[reportUnknownArgumentType]
        return message_serde(spec)  # pyright: ignore[reportUnknownArgumentType]
    if is_structured(spec):
        return structured_serde(spec, sort_keys=key)
    raise _unknown_type(spec)  # pyright: ignore[reportUnknownArgumentType]


def _is_hashable(spec: object) -> bool:
    try:
        hash(spec)
    except TypeError:
        return False
    return True


_WAYS: Final = (("serialize", "deserialize"), ("encode", "decode"), ("dumps", "loads"))
_UNSAID: Final[dict[object, str]] = {
    tuple: "tuple[int, ...] or tuple[str, int]",
    set: "set[str]",
    frozenset: "frozenset[str]",
}


def _looks_like_serde(spec: object) -> tuple[str, str] | None:
    """Return the methods by which something is a serde to somebody else, None if it is none."""
    if isinstance(spec, type) and is_structured(spec):
        return None
    return next(
        (way for way in _WAYS if all(callable(getattr(spec, name, None)) for name in way)), None
    )


def _not_derived(spec: object, way: tuple[str, str]) -> UnknownSerdeError:
    cls = spec if isinstance(spec, type) else type(spec)
    there, back = way
    fix = f"derive it from mustela.Serde: class {cls.__name__}(Serde[...]), and give it a name"
    if isinstance(spec, ModuleType) or way != _WAYS[0]:
        fix = (
            "write a class derived from mustela.Serde with a name, whose serialize(value) calls "
            f"{there} and whose deserialize(data) calls {back}"
        )
    told = f"module {spec.__name__}" if isinstance(spec, ModuleType) else type_name(cls)
    return UnknownSerdeError(
        f"{told} has {there} and {back}, and is no mustela.Serde",
        why="a Serde has a name, which identifies its format, and maps None to null",
        fix=fix,
    )


def _unknown_name(name: str) -> UnknownSerdeError:
    names = serde_names()
    close = difflib.get_close_matches(name.lower(), names, n=1)
    fix = f"did you mean {close[0]!r}?" if close else "pass a type or your own serde"
    return UnknownSerdeError(
        f"no serde is called {name!r}", evidence={"known": ", ".join(names)}, fix=fix
    )


def _unknown_type(spec: object) -> UnknownSerdeError:
    if isinstance(spec, type) and issubclass(spec, Serde):
        return UnknownSerdeError(
            f"{type_name(spec)} is a class of serdes, not a serde",  # pyright: ignore[reportUnknownArgumentType]
            fix=f"make one: {spec.__name__}()",
        )
    if (way := _looks_like_serde(spec)) is not None:  # pyright: ignore[reportUnknownArgumentType]
        return _not_derived(spec, way)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(spec, type) and spec in _UNSAID:
        return UnknownSerdeError(
            f"{spec.__name__} does not say what it contains",
            why="JSON has only lists; the types of the items say what a list was",
            fix=f"say it: {_UNSAID[spec]}",
        )
    told = type_name(spec) if isinstance(spec, type) else f"{type_name(type(spec))} {spec!r:.60}"
    return UnknownSerdeError(
        f"no serde is known for {told}",
        evidence={"known": ", ".join(serde_names())},
        why="bytes in topics and stores need a declared format, never a pickle",
        fix='use a dataclass or a msgspec.Struct, "json", "msgpack", or your own Serde',
    )
