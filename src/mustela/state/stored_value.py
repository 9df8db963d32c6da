"""The error for a row of a store that the program cannot read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from mustela.serdes.base import Serde, SerdeError
from mustela.serdes.meaning import serde_format, serde_shape, shape_text
from mustela.state.interfaces import StoreSpec

__all__ = ["StoredValueError", "unreadable"]

_FIELDS_SHOWN_MAX = 20
_KEY_SHOWN_MAX = 40


class StoredValueError(SerdeError):
    """A row of a store cannot be decoded by the serde that the program has for it.

    ``fields`` holds ``store``, ``key`` (its bytes, or None) and the fields of `SerdeError`.
    """

    code = "STORED_VALUE"


def unreadable(
    spec: StoreSpec,
    serde: Serde[Any],
    error: SerdeError,
    keys: Sequence[bytes] | None = None,
) -> StoredValueError:
    """Return the error for a row that cannot be decoded.

    Args:
        spec: The store.
        serde: The serde that failed.
        error: Its error, whose ``index`` is the row's place among ``keys``.
        keys: The keys of the rows, if known.
    """
    index: int = error.fields.get("index", 0)
    key = keys[index] if keys is not None and index < len(keys) else None
    shape = serde_shape(serde)
    wanted = shape_text(json.loads(shape)) if shape else serde_format(serde)
    evidence: dict[str, object] = {} if key is None else {"key": _show_key(spec, key)}
    evidence |= {"row": _seen(serde, error.fields.get("data")), "program": wanted}
    evidence["problem"] = error.what
    return StoredValueError(
        f"store {spec.name!r} has a row that cannot be read as {wanted}",
        evidence=evidence,
        why="an earlier version of the program wrote it with another type, or another serde",
        fix=_fix(error),
        fields={**error.fields, "store": spec.name, "key": key},
    )


def _fix(error: SerdeError) -> str:
    """Return the fix: that of a failed upgrade, or a general one."""
    if error.fix is not None and "version" in error.fields:
        return error.fix
    return (
        "change the type back, give each new field a default, or upgrade the rows with"
        " Materialized(version=2, upgrade=...); mustela reset starts again without the old rows"
    )


def _show_key(spec: StoreSpec, key: bytes) -> str:
    """Return a key as the program sees it, if it can be decoded."""
    try:
        text = repr(key if spec.key_serde is None else spec.key_serde.deserialize(key))
    except Exception:  # noqa: BLE001 - a serde of the user's may raise anything
        text = repr(key)
    return text if len(text) <= _KEY_SHOWN_MAX else f"{text[:_KEY_SHOWN_MAX]}…"


def _seen(serde: Serde[Any], data: object) -> str:
    """Describe the bytes without showing their contents."""
    if not isinstance(data, bytes):
        return "unknown"
    if serde_format(serde).startswith("json"):
        try:
            return _plain_shape(msgspec.json.decode(data))
        except msgspec.DecodeError:
            pass
    return f"{len(data)} bytes"


def _plain_shape(value: object) -> str:
    """Return the shape of plain data, as far as one value shows it."""
    if isinstance(value, dict):
        fields = list(cast("dict[str, object]", value).items())
        told = [f"{name}: {_plain_shape(inner)}" for name, inner in fields[:_FIELDS_SHOWN_MAX]]
        return f"({', '.join(told)}{', …' if len(fields) > _FIELDS_SHOWN_MAX else ''})"
    if isinstance(value, list):
        items = cast("list[object]", value)
        return f"list[{_plain_shape(items[0])}]" if items else "list"
    return "None" if value is None else type(value).__name__
