"""Keeps branches from seeing each other's changes: a column of mutable values is copied."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from typing import Any, Final
from uuid import UUID

from mustela.model import SessionWindowed, Windowed
from mustela.plan.batch import Batch

__all__ = ["copy_column", "copy_value", "for_branch", "is_immutable_column", "isolated"]

_IMMUTABLE: Final[frozenset[type[Any]]] = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, range,
        Decimal, Fraction, UUID, datetime, date, time, timedelta, timezone,
    }
)  # fmt: skip
_NESTED: Final[frozenset[type[Any]]] = frozenset({tuple, frozenset, Windowed, SessionWindowed})


def is_immutable_column(column: Sequence[Any]) -> bool:
    """Return whether no value of the column can be changed in place.

    Example:
        >>> is_immutable_column(["a", 1, None, ("b", (2.0,))])
        True
        >>> is_immutable_column([("a", [1])])
        False
    """
    types = set(map(type, column))
    if types <= _IMMUTABLE:
        return True
    others = types - _IMMUTABLE
    if not all(kind in _NESTED or issubclass(kind, Enum) for kind in others):
        return False
    inner = list(chain.from_iterable(v for v in column if type(v) in _NESTED))
    return is_immutable_column(inner)


def _copy_list(value: list[Any]) -> list[Any]:
    return [item if type(item) in _IMMUTABLE else _copy(item) for item in value]


def _copy_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item if type(item) in _IMMUTABLE else _copy(item) for key, item in value.items()}


_COPIERS: Final[dict[type[Any], Callable[[Any], Any]]] = {list: _copy_list, dict: _copy_dict}


def _copy(value: Any) -> Any:
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _IMMUTABLE:
        return value
    return _COPIERS.get(kind, copy.deepcopy)(value)


def copy_value(value: Any) -> Any:
    """Return a copy that shares nothing mutable with ``value``.

    Example:
        >>> order = {"items": [1]}
        >>> copy_value(order)["items"].append(2)
        >>> order
        {'items': [1]}
    """
    try:
        return _copy(value)
    except RecursionError:  # a value that contains itself
        return copy.deepcopy(value)


def isolated(value: Any) -> Any:
    """Return the value itself if it is immutable, otherwise a copy that shares nothing with it.

    Example:
        >>> order = {"items": [1]}
        >>> isolated(order) is order, isolated("text")
        (False, 'text')
    """
    return value if type(value) in _IMMUTABLE else copy_value(value)


def copy_column(column: list[Any]) -> list[Any]:
    """Return the column itself if its values are immutable, otherwise a copy of each value."""
    return column if is_immutable_column(column) else copy_value(column)


def for_branch(batch: Batch) -> Batch:
    """Return the batch for one more reader, whose changes to it stay in its branch."""
    keys = copy_column(batch.keys)
    values = keys if batch.values is batch.keys else copy_column(batch.values)
    olds = None if batch.olds is None else copy_column(batch.olds)
    if keys is batch.keys and values is batch.values and olds is batch.olds:
        return batch
    return batch.with_changes(values, olds, keys=keys)
