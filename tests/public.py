"""The public names: those of the package, and those of its modules by purpose."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction
from typing import Any

import mustela

__all__ = ["MODULES", "names_of", "public_names"]

MODULES = (
    *("aggregates", "calls", "events", "handlers", "processors", "schemas"),
    *("spark_source", "stores", "streams", "testing", "windows"),
)
"""Modules whose names users import, beside the package itself."""


def names_of(module: str) -> dict[str, Any]:
    """Return what users import from a module."""
    found = vars(import_module(f"mustela.{module}"))
    return {
        name: found[name]
        for name in sorted(found)
        if name[0].isupper() or (isfunction(found[name]) and not name.startswith("_"))
    }


def public_names() -> dict[str, Any]:
    """Return each public name, wherever it is imported from."""
    names = {name: getattr(mustela, name) for name in mustela.__all__}
    for module in MODULES:
        names |= names_of(module)
    return names
