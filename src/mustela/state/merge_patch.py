"""Partial updates of documents: JSON merge patches, as RFC 7396 has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mustela.state.faults import StoreError

__all__ = ["merge_patch", "patched"]


def merge_patch(target: Any, patch: Any) -> Any:
    """Return a document with a patch merged into it; neither of them is changed.

    A member of the patch replaces that of the document, None removes it, and an object is merged
    into the one that is there. Everything else, a list too, is replaced whole.

    Example:
        >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
        {'b': {'c': 4, 'd': 3}}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged: dict[Any, Any] = dict(target) if isinstance(target, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType]
    for name, value in patch.items():  # pyright: ignore[reportUnknownVariableType]
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def patched(value: Any, patch: object) -> Any:
    """Return a value with a patch merged into it, of the value's type; None counts as ``{}``.

    Args:
        value: A dict, or an object of a dataclass, a msgspec Struct or a pydantic model.
        patch: A mapping from names to new values, to None, or to patches of what is inside.

    Raises:
        StoreError: If the patch is not a mapping, the value not a document, or the result does not
            fit the value's type.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Shop:
        ...     city: str
        ...     size: int = 0
        >>> patched(Shop("Rome", 3), {"city": "Oslo", "size": None})
        Shop(city='Oslo', size=0)
    """
    if not isinstance(patch, Mapping):
        msg = f"{patch!r:.60} is not a patch"
        raise StoreError(msg, fix='pass a dict of what changes: patch(key, {"city": "Oslo"})')
    if value is None or isinstance(value, Mapping):
        return merge_patch(value, patch)
    return _typed(value, patch)  # pyright: ignore[reportUnknownArgumentType]


def _typed(value: Any, patch: Mapping[Any, Any]) -> Any:
    kind = value.__class__
    try:
        if hasattr(kind, "model_validate"):  # pydantic
            return kind.model_validate(merge_patch(value.model_dump(), patch))
        document = msgspec.to_builtins(value, builtin_types=_KEPT)
        if isinstance(document, Mapping):
            return msgspec.convert(merge_patch(document, patch), kind, builtin_types=_KEPT)
    except (TypeError, ValueError) as error:
        msg = f"a {kind.__name__} cannot be patched with {patch!r:.60}: {error}"
        raise StoreError(msg, fix="leave each field a value of its type, or its default") from error
    msg = f"a value of type {kind.__name__} cannot be patched"
    fix = "use compute(key, function), or values that are dicts, dataclasses, Structs or models"
    raise StoreError(msg, why="only documents have parts with names", fix=fix)


_KEPT = (bytes, bytearray)
