"""The Python type of what an Avro schema describes, for its columns."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Optional, TypedDict
from uuid import UUID

__all__ = ["type_of_schema"]

_DEPTH_MAX: Final = 16
_PLAIN: Final = MappingProxyType[str, Any](
    {
        "string": str,
        "enum": str,
        "int": int,
        "long": int,
        "float": float,
        "double": float,
        "boolean": bool,
        "bytes": bytes,
        "fixed": bytes,
        "null": type(None),
    }
)
_LOGICAL: Final = MappingProxyType[str, Any](
    {
        "timestamp-millis": datetime,
        "timestamp-micros": datetime,
        "date": date,
        "time-millis": time,
        "time-micros": time,
        "decimal": Decimal,
        "uuid": UUID,
    }
)


def type_of_schema(schema: Any, depth: int = 0) -> Any:
    """Return a type that has the fields of a schema; Any where Python's types have no like.

    Args:
        schema: The schema, as JSON has it.
        depth: How deep it lies within another one.

    Example:
        >>> type_of_schema(["null", {"type": "array", "items": "long"}])
        typing.Optional[list[int]]
        >>> record = {"type": "record", "name": "Shop", "fields": [{"name": "n", "type": "int"}]}
        >>> type_of_schema(record).__annotations__
        {'n': <class 'int'>}
    """
    if depth > _DEPTH_MAX:
        return Any
    if isinstance(schema, str):
        return _PLAIN.get(schema, Any)
    if isinstance(schema, list):
        return _union(schema, depth)  # pyright: ignore[reportUnknownArgumentType]
    kind = schema.get("type")
    logical = _LOGICAL.get(schema.get("logicalType", ""))
    if logical is not None:
        return logical
    if kind == "record":
        fields = {
            each["name"]: type_of_schema(each["type"], depth + 1) for each in schema["fields"]
        }
        return TypedDict(str(schema["name"]), fields)  # type: ignore[operator]  # pyright: ignore
    if kind == "array":
        return list[type_of_schema(schema["items"], depth + 1)]  # type: ignore[misc]
    if kind == "map":
        return dict[str, type_of_schema(schema["values"], depth + 1)]  # type: ignore[misc]
    return type_of_schema(kind, depth + 1) if isinstance(kind, dict | list) else _plain(kind)


def _plain(kind: Any) -> Any:
    return _PLAIN.get(str(kind), Any)


def _union(schemas: list[Any], depth: int) -> Any:
    rest = [each for each in schemas if each != "null"]
    if len(rest) != 1:
        return Any
    one = type_of_schema(rest[0], depth + 1)
    return one if len(rest) == len(schemas) else Optional[one]  # noqa: UP045 - made when run
