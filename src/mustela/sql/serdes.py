"""The column of what a serde reads."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from mustela.serdes.documents import form_of
from mustela.serdes.primitives import (
    BoolSerde,
    BytesSerde,
    FloatSerde,
    IntSerde,
    StrSerde,
    UUIDSerde,
)
from mustela.serdes.row_versions import UpgradingSerde
from mustela.serdes.rows import RowSerde
from mustela.serdes.scalars import (
    DateSerde,
    DatetimeSerde,
    DecimalSerde,
    EnumSerde,
    TimedeltaSerde,
)
from mustela.sql.avro import type_of_schema
from mustela.sql.libraries import arrow
from mustela.sql.types import Form, form_of_type

__all__ = ["declared_type", "form_of_serde", "is_scalar"]

_SCALARS: Final[tuple[tuple[type[Any], Any], ...]] = (
    (StrSerde, str),
    (BytesSerde, bytes),
    (BoolSerde, bool),
    (IntSerde, int),
    (FloatSerde, float),
    (UUIDSerde, UUID),
    (DecimalSerde, Decimal),
    (DateSerde, date),
    (DatetimeSerde, datetime),
    (TimedeltaSerde, timedelta),
)


def declared_type(serde: Any) -> Any:
    """Return the type that a serde reads; None if it declares none."""
    if isinstance(serde, UpgradingSerde):
        serde = serde.current
    if isinstance(serde, RowSerde):
        return serde.row
    if isinstance(serde, EnumSerde):
        return serde.type
    for cls, declared in _SCALARS:
        if isinstance(serde, cls):
            return declared
    declared = getattr(serde, "type", None)
    schema = getattr(serde, "schema", None)
    if declared is None and schema is not None and getattr(serde, "kind", "") == "AVRO":
        return type_of_schema(json.loads(schema.text))
    return declared


def is_scalar(serde: Any) -> bool:
    """Whether what a serde reads has no parts."""
    return isinstance(serde, tuple(cls for cls, _ in _SCALARS))


def form_of_serde(serde: Any) -> Form:
    """Return one column for all of a key or a value: a struct if its type has fields.

    What has no declared type is text in JSON.

    Args:
        serde: Of the keys or the values.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> [str(form_of_serde(resolve_serde(spec)).type) for spec in (int, dict)]
        ['int64', 'string']
    """
    declared = declared_type(serde)
    if declared is not None:
        return form_of_type(declared)
    to_document = form_of(serde).to_document
    return Form(arrow().string(), lambda value: msgspec.json.encode(to_document(value)).decode())
