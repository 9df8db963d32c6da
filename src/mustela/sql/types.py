"""The column of a Python type, and how its values are put into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import Enum
from typing import Any, Final, cast, get_type_hints

import msgspec
from msgspec import inspect

from mustela.serdes.plain_values import plain_value
from mustela.sql.libraries import arrow

__all__ = ["Field", "Form", "fields_of", "form_of_type", "json_form", "json_text"]

Convert = Callable[[Any], Any]

DECIMAL_DIGITS: Final = 38
DECIMAL_PLACES: Final = 9
_PLACES: Final = Decimal(1).scaleb(-DECIMAL_PLACES)
_CONTEXT: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)
_DEPTH_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Form:
    """What values are in a column.

    Attributes:
        type: The type in Arrow.
        convert: Makes what Arrow takes of a value that is not None; None to take it as it is.
    """

    type: Any
    convert: Convert | None = None

    def of(self, value: Any) -> Any:
        """Return what Arrow takes of a value."""
        return value if value is None or self.convert is None else self.convert(value)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record.

    Attributes:
        name: Its name in JSON, and in SQL.
        attribute: Its name in Python.
        type: Its type in Python.
    """

    name: str
    attribute: str
    type: Any

    def of(self, record: Any) -> Any:
        """Return the field of a record: an attribute, or the entry of a dict."""
        if isinstance(record, Mapping):
            return cast("Mapping[str, Any]", record).get(self.name)
        return getattr(record, self.attribute, None)


def fields_of(declared: Any) -> tuple[Field, ...]:
    """Return the fields of a type; none if it is not a record.

    Args:
        declared: A dataclass, a Struct, an attrs class, a TypedDict, a NamedTuple, a pydantic
            model, or any other type.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     total: int
        >>> [field.name for field in fields_of(Order)], fields_of(int)
        (['total'], ())
    """
    models = getattr(declared, "model_fields", None)
    if models is not None and hasattr(declared, "__pydantic_validator__"):
        return tuple(
            Field(field.serialization_alias or field.alias or name, name, field.annotation)
            for name, field in models.items()
        )
    try:
        info = inspect.type_info(declared)
        hints = get_type_hints(declared) if isinstance(declared, type) else {}
    except (TypeError, NameError):
        return ()
    if not isinstance(info, _RECORDS):
        return ()
    return tuple(
        Field(field.encode_name, field.name, hints.get(field.name, Any)) for field in info.fields
    )


_RECORDS: Final = (
    inspect.StructType,
    inspect.DataclassType,
    inspect.NamedTupleType,
    inspect.TypedDictType,
)


def form_of_type(declared: Any, depth: int = 0) -> Form:
    """Return the column of a type; what SQL has no type for is text in JSON.

    Args:
        declared: The type in Python.
        depth: How deep it lies within another one.

    Example:
        >>> str(form_of_type(int).type), str(form_of_type(list[str] | None).type)
        ('int64', 'list<item: string>')
    """
    if depth > _DEPTH_MAX:
        return json_form()
    fields = fields_of(declared)
    if fields:
        return _struct(fields, depth)
    try:
        info = inspect.type_info(declared)
    except (TypeError, NameError):
        return json_form()
    return _form(info, depth)


def json_form() -> Form:
    """Return the column of values that are shown as JSON."""
    return Form(arrow().string(), json_text)


def json_text(value: Any) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(plain_value(value)).decode()


def _form(info: Any, depth: int) -> Form:
    if isinstance(info, inspect.UnionType):
        return _union(info, depth)
    if isinstance(info, inspect.Metadata):
        return _form(info.type, depth)
    made = _SCALARS.get(cast("type[Any]", type(info)))
    if made is not None:
        return made(arrow())
    if isinstance(info, inspect.EnumType):
        return _enum([member.value for member in info.cls])
    if isinstance(info, inspect.LiteralType):
        return _enum(list(info.values))
    if isinstance(info, _LISTS):
        return _list(_inner(info.item_type, depth))
    if isinstance(info, inspect.DictType) and isinstance(info.key_type, inspect.StrType):
        return _map(_inner(info.value_type, depth))
    return json_form()


_LISTS: Final = (
    inspect.ListType,
    inspect.VarTupleType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.CollectionType,
)


def _inner(info: Any, depth: int) -> Form:
    if isinstance(info, inspect.CustomType):
        return form_of_type(info.cls, depth + 1)
    if isinstance(info, _RECORDS):
        return form_of_type(info.cls, depth + 1)
    return _form(info, depth + 1)


def _union(info: inspect.UnionType, depth: int) -> Form:
    rest = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    if len(rest) == 1:
        return _inner(rest[0], depth)
    if rest and all(isinstance(each, inspect.IntType | inspect.FloatType) for each in rest):
        return Form(arrow().float64())
    return json_form()


def _struct(fields: tuple[Field, ...], depth: int) -> Form:
    pa = arrow()
    parts = [(field, form_of_type(field.type, depth + 1)) for field in fields]
    made = pa.struct([pa.field(field.name, form.type) for field, form in parts])
    return Form(made, lambda value: {each.name: form.of(each.of(value)) for each, form in parts})


def _list(item: Form) -> Form:
    return Form(arrow().list_(item.type), lambda value: [item.of(each) for each in value])


def _map(item: Form) -> Form:
    pa = arrow()

    def convert(value: Any) -> Any:
        return [(key, item.of(each)) for key, each in value.items()]

    return Form(pa.map_(pa.string(), item.type), convert)


def _enum(values: list[Any]) -> Form:
    pa = arrow()
    if all(isinstance(value, str) for value in values):
        return Form(pa.string(), lambda value: str.__str__(_plain(value)))
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return Form(pa.int64(), lambda value: int(_plain(value)))
    return json_form()


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def decimal_form(pa: Any) -> Form:
    """Return the column of decimal numbers."""
    return Form(pa.decimal128(DECIMAL_DIGITS, DECIMAL_PLACES), _rounded)


def _rounded(value: Decimal) -> Decimal:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -DECIMAL_PLACES:
        return value.quantize(_PLACES, context=_CONTEXT)
    return value


def duration_form(pa: Any) -> Form:
    """Return the column of spans of time."""
    return Form(pa.duration("us"), lambda value: value // timedelta(microseconds=1))


_SCALARS: Final[dict[type[Any], Callable[[Any], Form]]] = {
    inspect.BoolType: lambda pa: Form(pa.bool_()),
    inspect.IntType: lambda pa: Form(pa.int64()),
    inspect.FloatType: lambda pa: Form(pa.float64()),
    inspect.StrType: lambda pa: Form(pa.string()),
    inspect.BytesType: lambda pa: Form(pa.binary()),
    inspect.DateTimeType: lambda pa: Form(pa.timestamp("us", tz="UTC")),
    inspect.DateType: lambda pa: Form(pa.date32()),
    inspect.TimeType: lambda pa: Form(pa.time64("us"), lambda value: value.replace(tzinfo=None)),
    inspect.TimeDeltaType: duration_form,
    inspect.UUIDType: lambda pa: Form(pa.string(), str),
    inspect.DecimalType: decimal_form,
    inspect.NoneType: lambda pa: Form(pa.string()),
}
