"""The Avro schema of a Python type, and the parts of a schema on which stored values depend."""

from __future__ import annotations

import dataclasses
import enum
import re
import types
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

import msgspec

from mustela.serdes.base import type_name
from mustela.serdes.schemas.faults import SchemaTypeError
from mustela.serdes.shape import is_attrs_class, is_named_tuple

# Schemas are JSON, whose types are known only at run time.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

__all__ = ["NO_DEFAULT", "avro_schema", "avro_shape"]

NO_DEFAULT: Final[Any] = object()
_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS: Final = MappingProxyType[Any, Any](
    {
        type(None): "null",
        str: "string",
        int: "long",
        float: "double",
        bool: "boolean",
        bytes: "bytes",
        Decimal: "string",
        timedelta: "string",
        UUID: {"type": "string", "logicalType": "uuid"},
        date: {"type": "int", "logicalType": "date"},
        datetime: {"type": "long", "logicalType": "timestamp-micros"},
        time: {"type": "long", "logicalType": "time-micros"},
    }
)
_SHAPES: Final = MappingProxyType(
    {
        "null": "None",
        "string": "str",
        "int": "int",
        "long": "int",
        "float": "float",
        "double": "float",
        "boolean": "bool",
        "bytes": "bytes",
    }
)


def avro_schema(spec: Any, namespace: str = "") -> Any:
    """Return the Avro schema of a type, as JSON has it.

    Args:
        spec: A dataclass, a ``msgspec.Struct``, an attrs class, a TypedDict, a pydantic model, or
            one of Python's own types.
        namespace: The namespace of the records.

    Raises:
        SchemaTypeError: If Avro has no type for it.

    Example:
        >>> @dataclasses.dataclass
        ... class Order:
        ...     total: int
        ...     note: str | None = None
        >>> for field in avro_schema(Order, "shop")["fields"]:
        ...     print(field)
        {'name': 'total', 'type': 'long'}
        {'name': 'note', 'type': ['null', 'string'], 'default': None}
    """
    return _Schemas(namespace).of(spec, "")


class _Schemas:
    """Turns types into schemas; a named type is written out once."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._known: dict[str, Any] = {}

    def of(self, spec: Any, at: str, default: Any = NO_DEFAULT) -> Any:
        origin, inside = get_origin(spec), get_args(spec)
        if getattr(origin, "__name__", "") == "Annotated" or hasattr(spec, "__metadata__"):
            return self.of(inside[0], at, default)
        if origin in (Union, types.UnionType):
            return self._union(inside, at, default)
        if origin is Literal:
            return self._one_of({type(one) for one in inside}, at)
        if origin in (list, set, frozenset) or (origin is tuple and inside[1:] == (...,)):
            return {"type": "array", "items": self.of(inside[0], f"{at}[]")}
        if origin is dict:
            if inside[0] is not str:
                raise _no_schema(spec, at, "keys of an Avro map are strings")
            return {"type": "map", "values": self.of(inside[1], f"{at}[]")}
        if isinstance(spec, type) and issubclass(spec, enum.Enum):
            return self._enum(spec, at)
        if spec in _SCALARS:
            return _SCALARS[spec]
        if _has_fields(spec):
            return self._record(spec, at)
        raise _no_schema(spec, at, "Avro has no type for it")

    def _union(self, inside: tuple[Any, ...], at: str, default: Any) -> list[Any]:
        # A default is of the first branch, so None comes first unless there is another default.
        first = [one for one in inside if one is type(None)]
        rest = [one for one in inside if one is not type(None)]
        ordered = first + rest if default is NO_DEFAULT or default is None else rest + first
        return [self.of(one, at) for one in ordered]

    def _one_of(self, kinds: set[type[Any]], at: str) -> Any:
        found = [_SCALARS[kind] for kind in kinds if kind in _SCALARS]
        if len(kinds) != 1 or not found:
            raise _no_schema(Literal, at, "its values are not of one type")
        return found[0]

    def _enum(self, cls: type[enum.Enum], at: str) -> Any:
        values = [member.value for member in cls]
        if not all(isinstance(one, str) and _SYMBOL.fullmatch(one) for one in values):
            return self._one_of({type(one) for one in values}, at)
        return self._named(cls, lambda: {"type": "enum", "symbols": values}, at)

    def _record(self, cls: Any, at: str) -> Any:
        def fields() -> dict[str, Any]:
            return {"type": "record", "fields": [self._field(*one, at) for one in _fields(cls)]}

        return self._named(cls, fields, at)

    def _field(self, name: str, spec: Any, default: Any, at: str) -> dict[str, Any]:
        field = {"name": name, "type": self.of(spec, f"{at}.{name}", default)}
        plain = _plain_default(default)
        return field if plain is NO_DEFAULT else {**field, "default": plain}

    def _named(self, cls: Any, body: Any, at: str) -> Any:
        name = f"{self._namespace}.{cls.__name__}" if self._namespace else cls.__name__
        known = self._known.get(name)
        if known is cls:
            return name
        if known is not None:
            raise _no_schema(cls, at, f"another type is called {name}")
        self._known[name] = cls
        told = {"name": cls.__name__}
        if self._namespace:
            told["namespace"] = self._namespace
        return {**told, **body()}


def _has_fields(cls: Any) -> bool:
    if is_typeddict(cls):
        return True
    if not isinstance(cls, type) or is_named_tuple(cls):
        return False
    return (
        dataclasses.is_dataclass(cls)
        or issubclass(cls, msgspec.Struct)
        or is_attrs_class(cls)
        or hasattr(cls, "__pydantic_fields__")
    )


def _fields(cls: Any) -> Iterator[tuple[str, Any, Any]]:
    """Iterate over name, type and default of a class's fields."""
    hints = get_type_hints(cls, include_extras=True)
    if hasattr(cls, "__pydantic_fields__"):
        for name, info in cls.__pydantic_fields__.items():
            default = info.get_default(call_default_factory=True)
            default = NO_DEFAULT if info.is_required() else default
            yield info.serialization_alias or info.alias or name, info.annotation, default
    elif is_typeddict(cls):
        for name, hint in hints.items():
            yield name, hint, NO_DEFAULT
    elif issubclass(cls, msgspec.Struct):
        for one in msgspec.structs.fields(cls):
            made = _made(one.default, one.default_factory, msgspec.NODEFAULT)
            yield one.encode_name, one.type, made
    elif is_attrs_class(cls):
        for one in cls.__attrs_attrs__:
            plain = type(one.default).__name__ not in {"_Nothing", "Factory"}
            yield one.name, hints[one.name], one.default if plain else NO_DEFAULT
    else:
        for one in dataclasses.fields(cls):
            made = _made(one.default, one.default_factory, dataclasses.MISSING)
            yield one.name, hints[one.name], made


def _made(default: Any, factory: Any, missing: Any) -> Any:
    if default is not missing:
        return default
    return NO_DEFAULT if factory is missing else factory()


def _plain_default(default: Any) -> Any:
    """Return a default as a schema holds it; no default if JSON cannot hold it."""
    if default is NO_DEFAULT:
        return default
    if isinstance(default, bytes):
        return default.decode("latin-1")
    if isinstance(default, datetime | date | time):
        return NO_DEFAULT
    if hasattr(default, "model_dump"):
        return default.model_dump(mode="json")
    try:
        return msgspec.json.decode(msgspec.json.encode(default))
    except (TypeError, ValueError):
        return NO_DEFAULT


def _no_schema(spec: Any, at: str, why: str) -> SchemaTypeError:
    told = type_name(spec) if isinstance(spec, type) else str(spec)
    return SchemaTypeError(
        f"{told} has no Avro schema",
        evidence={"field": at.removeprefix(".")} if at else None,
        why=why,
        fix="declare a type that Avro has, or give the schema: AvroSerde(..., schema=…)",
    )


def avro_shape(schema: Any) -> Any:
    """Return the shape of a schema's values, as `mustela.serdes.meaning` compares them.

    Example:
        >>> avro_shape(["null", {"type": "array", "items": "long"}])
        ['union', 'None', ['list', 'int']]
    """
    return _shape_of(schema, ())


def _shape_of(schema: Any, inside: tuple[str, ...]) -> Any:
    match schema:
        case str():
            last = schema.rpartition(".")[2]
            return ["inside", inside.index(last)] if last in inside else _SHAPES.get(schema, last)
        case list():
            return ["union", *sorted((_shape_of(one, inside) for one in schema), key=str)]
        case {"logicalType": str(logical)}:
            return logical
        case {"type": "record" | "error", "name": name, "fields": fields}:
            last = name.rpartition(".")[2]
            within = (last, *inside)
            listed = [
                [one["name"], _shape_of(one["type"], within), "=" if "default" in one else ""]
                for one in fields
            ]
            return {"class": last, "fields": listed, "form": "map"}
        case {"type": "array", "items": items}:
            return ["list", _shape_of(items, inside)]
        case {"type": "map", "values": values}:
            return ["dict", "str", _shape_of(values, inside)]
        case {"type": "enum", "symbols": symbols}:
            return ["enum", *symbols]
        case {"type": inner}:
            return f"{schema['size']} bytes" if inner == "fixed" else _shape_of(inner, inside)
        case _:
            return "any"
