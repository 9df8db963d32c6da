"""From what a user writes as ``key=`` or ``value=`` to the serde that is meant."""

from __future__ import annotations

import difflib
from types import UnionType
from typing import Any, NewType, Union, get_args, get_origin
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
    type(None): "void",
    None: "void",
    dict: "dict",
    list: "list",
    object: "json",
    Any: "json",
}


def serde_names() -> list[str]:
    """Return the names that `resolve_serde` knows."""
    return sorted(_by_name(key=False))


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
        spec: A type (``str``, ``int``, ``float``, ``bytes``, ``bool``, ``UUID``, ``dict``,
            ``list``, ``None``, a dataclass, a ``msgspec.Struct``, a NamedTuple, a TypedDict, a
            pydantic model), a name (``"json"``), or a serde, which is returned as it is.
        key: Whether it is for keys. JSON and msgpack then sort what has no order of its own, so
            that equal keys are equal bytes.

    Raises:
        UnknownSerdeError: If nothing is known by that type or name.
        SerdeTypeError: If it is a structured type with a field that cannot be encoded.

    Example:
        >>> resolve_serde(int)
        <IntSerde int>
        >>> resolve_serde("json") == resolve_serde("json")
        True
    """
    if isinstance(spec, Serde):
        return spec  # pyright: ignore[reportUnknownVariableType]
    if isinstance(spec, str):
        found = _by_name(key=key).get(spec.lower())
        if found is None:
            raise _unknown_name(spec)
        return found
    spec = plain_type(spec)
    name = _NAME_OF_TYPE.get(spec) if _is_hashable(spec) else None
    if name is not None:
        return _by_name(key=key)[name]
    if is_structured(spec):
        return structured_serde(spec, sort_keys=key)
    raise _unknown_type(spec)


def _is_hashable(spec: object) -> bool:
    try:
        hash(spec)
    except TypeError:
        return False
    return True


def _unknown_name(name: str) -> UnknownSerdeError:
    names = serde_names()
    close = difflib.get_close_matches(name.lower(), names, n=1)
    fix = f"did you mean {close[0]!r}?" if close else "give a type or a serde of your own"
    return UnknownSerdeError(
        f"no serde is called {name!r}", evidence={"known": ", ".join(names)}, fix=fix
    )


def _unknown_type(spec: object) -> UnknownSerdeError:
    if isinstance(spec, type) and issubclass(spec, Serde):
        return UnknownSerdeError(
            f"{type_name(spec)} is a class of serdes, not a serde",  # pyright: ignore[reportUnknownArgumentType]
            fix=f"make one: {spec.__name__}()",
        )
    told = type_name(spec) if isinstance(spec, type) else f"{type_name(type(spec))} {spec!r:.60}"
    return UnknownSerdeError(
        f"no serde is known for {told}",
        evidence={"known": ", ".join(serde_names())},
        why="bytes in topics and stores need a format that is declared, never a pickle",
        fix='use a dataclass or a msgspec.Struct, "json", "msgpack", or a Serde of your own',
    )
