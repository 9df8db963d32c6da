"""Python values as what JSON can hold, for those who read them outside of Python."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Set as AnySet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from mustela.model import Windowed
from mustela.serdes.shape import is_class_with_fields, is_named_tuple

__all__ = ["NOT_A_NUMBER", "UnshownValueError", "plain_float", "plain_value"]

_DEPTH_MAX: Final = 200
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
NOT_A_NUMBER: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats that JSON cannot hold, by the text that stands for them."""


class UnshownValueError(ValueError):
    """A value has a part that cannot be shown in JSON; the text names its type, not the value."""


def plain_value(value: Any) -> Any:
    """Return a value as dicts with string keys, lists, strings, numbers, booleans and None.

    Bytes become base64, moments and spans of time ISO 8601, and the floats that JSON cannot hold
    ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. Whole numbers of more than 64 bits become text,
    and a dict with keys that are not text, numbers or the like becomes a list of pairs. It is for
    reading: from the result the type cannot be told.

    Raises:
        UnshownValueError: If a part of it is of a type that it does not know, or lies too deep.

    Example:
        >>> plain_value({"seen": {3, 1}, "at": b"raw", 7: Decimal("1.50")})
        {'seen': [1, 3], 'at': 'cmF3', '7': '1.50'}
        >>> plain_value(Windowed("a", 0, 10))
        {'key': 'a', 'start': 0, 'end': 10}
    """
    return _plain(value, 0)


def plain_float(value: float) -> float | str:
    """Return a float, or the text for one that JSON cannot hold.

    Example:
        >>> plain_float(0.5), plain_float(math.inf)
        (0.5, 'Infinity')
    """
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_TEXTS: Final[dict[type[Any], Callable[[Any], str]]] = {
    bytes: lambda value: b64encode(value).decode(),
    bytearray: lambda value: b64encode(value).decode(),
    memoryview: lambda value: b64encode(value).decode(),
    UUID: str,
    Decimal: str,
    datetime: lambda value: _moment(value),
    date: lambda value: value.isoformat(),
    time: lambda value: value.isoformat(),
    timedelta: lambda value: msgspec.json.encode(value)[1:-1].decode(),
}


def _moment(value: datetime) -> str:
    if value.utcoffset() is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return value.isoformat()


def _plain(value: Any, depth: int) -> Any:
    cls = cast("Any", type(value))
    if value is None or cls in (bool, str):
        return value
    if cls is int:
        return value if _INT_MIN <= value <= _INT_MAX else str(value)
    if cls is float:
        return plain_float(value)
    if depth > _DEPTH_MAX:
        msg = f"it has more than {_DEPTH_MAX} levels"
        raise UnshownValueError(msg)
    if isinstance(value, Enum):
        return _plain(value.value, depth + 1)
    for known, text in _TEXTS.items():
        if isinstance(value, known):
            return text(value)
    return _compound(value, depth + 1)


def _compound(value: Any, depth: int) -> Any:
    if isinstance(value, Windowed):
        window = cast("Windowed[Any]", value)
        return {"key": _plain(window.key, depth), "start": window.start, "end": window.end}
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), depth)
    if isinstance(value, AnySet):
        return _in_order([_plain(item, depth) for item in cast("AnySet[Any]", value)])
    if not is_named_tuple(type(value)) and hasattr(value, "__iter__") and hasattr(value, "__len__"):
        if isinstance(value, str):
            return str.__str__(value)
        return [_plain(item, depth) for item in value]
    return _with_fields(value, depth)


def _mapping(value: Mapping[Any, Any], depth: int) -> Any:
    keys = [_plain(key, depth) for key in value]
    plain = [_plain(item, depth) for item in value.values()]
    if all(isinstance(key, str | int | float | bool | None) for key in keys):
        texts = [_key_text(key) for key in keys]
        if len(set(texts)) == len(texts):
            return dict(zip(texts, plain, strict=True))
    return [[key, item] for key, item in zip(keys, plain, strict=True)]


def _key_text(key: str | float | None) -> str:
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def _in_order(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=msgspec.json.encode)


def _with_fields(value: Any, depth: int) -> Any:
    cls = cast("Any", type(value))
    if is_named_tuple(cls):
        return {name: _plain(getattr(value, name), depth) for name in cls._fields}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and hasattr(cls, "__pydantic_validator__"):
        return _plain(dump(mode="json", by_alias=True), depth)
    if is_class_with_fields(cls):
        names = _field_names(cls)
        return {said: _plain(getattr(value, name), depth) for name, said in names}
    if hasattr(value, "DESCRIPTOR") and hasattr(value, "SerializeToString"):
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, int | float):  # a subclass
        return _plain(int(value) if isinstance(value, int) else float(value), depth)
    msg = f"it holds a {cls.__qualname__}"
    raise UnshownValueError(msg)


def _field_names(cls: Any) -> list[tuple[str, str]]:
    """Return the fields of a class, each with its name in JSON."""
    if issubclass(cls, msgspec.Struct):
        return list(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    fields: Any = getattr(cls, "__attrs_attrs__", None) or tuple(
        getattr(cls, "__dataclass_fields__", {}).values()
    )
    return [(field.name, field.name) for field in fields]
