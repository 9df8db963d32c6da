"""The JSON Schema of ``mustela.yaml``, written from the model."""

from __future__ import annotations

import types
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from mustela.config.aliases import aliases
from mustela.config.reference import kind_of
from mustela.config.settings import setting_keys
from mustela.config.units import show_duration

__all__ = ["settings_schema"]

_DOTTED: Final = r"^[^.]+(\.[^.]+)+$"
_PLAIN: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    Path: "string",
    type(None): "null",
}


def settings_schema() -> dict[str, Any]:
    """Return the schema: sections nested, dotted names and Kafka Streams' names beside them.

    Example:
        >>> schema = settings_schema()
        >>> schema["properties"]["commit_interval"]["type"]
        ['string', 'number']
        >>> sorted(schema["properties"]["stall"]["properties"])
        ['action', 'after']
    """
    root = _section()
    for key, owner in setting_keys().items():
        *sections, name = key.split(".")
        here = root
        for section in sections:
            here = here["properties"].setdefault(section, _section())
        here["properties"][name] = _leaf(owner.model_fields[name])
    root["patternProperties"] = {_DOTTED: {}}
    for name, alias in aliases().items():
        means = alias.why if alias.setting is None else f"the same as {alias.setting}"
        root["properties"].setdefault(name, {"description": means})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mustela.yaml",
        "description": "The settings of a Mustela application.",
        **root,
    }


def _section() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _leaf(field: FieldInfo) -> dict[str, Any]:
    kind = kind_of(field)
    found: dict[str, Any]
    if kind in ("duration", "size"):
        found = {"type": ["string", "number" if kind == "duration" else "integer"]}
        if type(None) in get_args(field.annotation):
            found["type"].append("null")
    else:
        found = _type(field.annotation)
    if not field.is_required() and field.default is not None and _is_plain(field.default):
        value: Any = field.default
        found["default"] = show_duration(value) if isinstance(value, timedelta) else value
    return {**found, "description": field.description or ""}


def _type(spec: Any) -> dict[str, Any]:
    origin = get_origin(spec)
    if origin is Literal:
        return {"enum": list(get_args(spec))}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(part) for part in get_args(spec)]}
    if hasattr(spec, "__metadata__"):
        return _type(get_args(spec)[0])
    if spec is Any:
        return {"type": "string"}
    name = _PLAIN.get(spec)
    if name is not None:
        return {"type": name}
    return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool | timedelta)
