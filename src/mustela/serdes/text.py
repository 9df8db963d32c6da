"""Values as people write them: from text to a value of a serde, and back to text."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, get_type_hints
from uuid import UUID

import msgspec

from mustela.serdes.base import Serde

__all__ = ["fields_from_text", "from_text", "to_text"]

_NULL = "null"

_SCALARS: Final[dict[str, type[Any]]] = {
    "bool": bool,
    "bytes": bytes,
    "date": date,
    "datetime": datetime,
    "decimal": Decimal,
    "float": float,
    "float32": float,
    "int": int,
    "int16": int,
    "int32": int,
    "str": str,
    "timedelta": timedelta,
    "uuid": UUID,
}
"""The types of serdes that hold only one, by the serdes' names."""


def from_text(text: str, serde: Serde[Any]) -> Any:
    """Return the value of a text.

    Numbers, dates and UUIDs are written as in JSON without quotes, text as it is or in double
    quotes; everything else is JSON.

    Args:
        text: What a person wrote.
        serde: What the value is for; it gives the type.

    Raises:
        ValueError: If the text is not a value of the serde's type.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> from_text("7", resolve_serde(int)), from_text("7", resolve_serde(str))
        (7, '7')
        >>> from_text('{"a": [1]}', resolve_serde("json"))
        {'a': [1]}
    """
    return _typed(text, _type_of(serde))


def fields_from_text(fields: Mapping[str, str | None], serde: Serde[Any]) -> Any:
    """Return the value whose fields are written as text; a dict, if the serde declares no class.

    Raises:
        ValueError: If a field's text is not of its type, or a field is missing.

    Example:
        >>> from dataclasses import dataclass
        >>> from mustela.serdes.resolve import resolve_serde
        >>> @dataclass
        ... class Order:
        ...     customer: str
        ...     amount: int
        >>> fields_from_text({"customer": "12", "amount": "3"}, resolve_serde(Order))
        Order(customer='12', amount=3)
    """
    cls = _type_of(serde)
    hints = _hints(cls)
    made = {
        name: None if text is None else _typed(text, hints.get(name))
        for name, text in fields.items()
    }
    return made if cls is None else _converted(made, cls)


def to_text(value: Any) -> str:
    """Return a value as text, in the form that `from_text` reads.

    Example:
        >>> to_text("ann"), to_text(""), to_text(2.0), to_text(None), to_text({"a": (1, None)})
        ('ann', '""', '2.0', 'null', '{"a": [1, null]}')
    """
    if value is None:
        return _NULL
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        plain = value and value == value.strip() and value != _NULL and value[0] != '"'
        return value if plain and value.isprintable() else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    plain_value = msgspec.to_builtins(value, enc_hook=_builtins, str_keys=True)
    if isinstance(plain_value, str):
        return plain_value
    return json.dumps(plain_value, ensure_ascii=False)


def _type_of(serde: Serde[Any]) -> Any:
    declared = getattr(serde, "type", None)
    return _SCALARS.get(serde.name.partition(":")[0]) if declared is None else declared


def _typed(text: str, cls: Any) -> Any:
    if cls is bytes:
        return text.encode()
    if cls is None or cls is Any:
        return _loose(text)
    written = _unquoted(text)
    try:
        # Dates, numbers, enums: msgspec reads them from text if it is not strict.
        return written if cls is str else msgspec.convert(written, cls, strict=False)
    except (msgspec.ValidationError, TypeError):
        return _converted(_loose(text), cls)


def _converted(value: Any, cls: Any) -> Any:
    validate = getattr(cls, "model_validate", None)
    try:
        return msgspec.convert(value, cls, strict=False) if validate is None else validate(value)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(str(error)) from None


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except (NameError, TypeError):
        return {}


def _loose(text: str) -> Any:
    """Return a text as JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _unquoted(text: str) -> str:
    loose = _loose(text) if text.startswith('"') else text
    return loose if isinstance(loose, str) else text


def _builtins(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump()
