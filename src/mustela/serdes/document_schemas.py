"""JSON Schema of declared types, with names that cannot clash."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

__all__ = ["REFERENCE", "Json", "schema_of_type"]

Json = dict[str, Any]

REFERENCE: Final = "#/components/schemas/"
"""Where a description of an API keeps the schemas that others refer to."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


def schema_of_type(declared: Any, place: str) -> tuple[Json, dict[str, Json]]:
    """Return the schema of a type, and the named schemas that it refers to.

    Args:
        declared: A dataclass, a Struct, an attrs class, a TypedDict, a pydantic model, a container
            or a union of them.
        place: What the names begin with, as types of different modules may have the same name.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     total: int
        >>> schema, named = schema_of_type(Order, "orders.value")
        >>> schema, list(named)
        ({'$ref': '#/components/schemas/orders.value.Order'}, ['orders.value.Order'])
    """
    prefix = _NOT_IN_NAMES.sub("_", place) + "."
    try:
        (schema,), named = msgspec.json.schema_components(
            (declared,), ref_template=f"{REFERENCE}{prefix}{{name}}"
        )
        return schema, {prefix + name: each for name, each in named.items()}
    except TypeError:
        return _pydantic_schema(declared, prefix)


def _pydantic_schema(declared: Any, prefix: str) -> tuple[Json, dict[str, Json]]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema: Json = TypeAdapter(declared).json_schema(
            ref_template=f"{REFERENCE}{prefix}{{model}}", by_alias=True
        )
    except (PydanticUserError, TypeError):
        return {}, {}
    named: dict[str, Json] = schema.pop("$defs", {})
    clean = json.loads(json.dumps(schema, default=str))
    return clean, {prefix + name: each for name, each in named.items()}
