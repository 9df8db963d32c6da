"""What is known about the types of values, and about rows that are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from mustela.errors import UsageError
from mustela.serdes.base import Serde
from mustela.serdes.json import JsonSerde
from mustela.serdes.primitives import (
    BoolSerde,
    BytesSerde,
    FloatSerde,
    IntSerde,
    StrSerde,
    UUIDSerde,
)
from mustela.serdes.rows import RowMaker, RowSerde

__all__ = ["WHOLE_TYPES", "or_none", "row_maker", "whole_type"]

WHOLE_TYPES: Final[Mapping[type[Serde[Any]], type[Any]]] = MappingProxyType(
    {
        BoolSerde: bool,
        BytesSerde: bytes,
        FloatSerde: float,
        IntSerde: int,
        StrSerde: str,
        UUIDSerde: UUID,
    }
)


def row_maker(names: tuple[str, ...], types: tuple[Any, ...]) -> RowMaker:
    """Return the maker of rows with fields of the given types."""
    maker = RowMaker(names, types)
    try:
        RowSerde(maker)
    except UsageError:  # a type that JSON does not know: reported when such a row is written
        return RowMaker(names, tuple(Any for _ in types))
    return maker


def whole_type(value: Serde[Any] | None) -> Any:
    """Return the type of a serde's values, ``Any`` if it is not known."""
    if value is None:
        return Any
    if isinstance(value, RowSerde):
        return value.row
    if isinstance(value, JsonSerde):
        return value.expected or Any
    return WHOLE_TYPES.get(type(value)) or getattr(value, "type", None) or Any


def or_none(kind: Any) -> Any:
    """Return the type of a value that may be missing."""
    return kind if kind is Any else kind | None
