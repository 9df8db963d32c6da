"""The functions that topologies name; java/Functions.java says the same in Java."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.model import Windowed

__all__ = [
    "add",
    "flat_pairs",
    "flat_values",
    "foreign_key",
    "holds",
    "join",
    "map_key",
    "map_pair",
    "map_value",
    "merge",
    "null",
    "subtract",
    "text",
]

_LETTERS_MAX = 4


def null(value: Any) -> str:
    """Return a value as Java prints it in a sum of texts."""
    return "null" if value is None else str(value)


def text(key: Any) -> Any:
    """Return what functions see of a key: a windowed one is its text."""
    if isinstance(key, Windowed):
        return f"[{key.key}@{key.start}/{key.end}]"
    return key


def holds(name: str, key: Any, value: str | None) -> bool:
    """Answer a predicate."""
    match name:
        case "even":
            return value is None or len(value) % 2 == 0
        case "key_a":
            return key is not None and "a" in text(key)
        case "has_1":
            return value is not None and "1" in value
        case _:
            raise AssertionError(name)


def map_value(name: str, key: Any, value: str | None) -> str | None:
    """Map a value."""
    match name:
        case "tag":
            return None if value is None else value + "'"
        case "fill":
            return "nil" if value is None else value
        case "drop_2":
            return None if value is not None and "2" in value else value
        case "with_key":
            return f"{null(text(key))}={null(value)}"
        case "length":
            return None if value is None else str(len(value))
        case _:
            raise AssertionError(name)


def map_key(name: str, key: Any, value: str | None) -> str | None:
    """Make a key of key and value."""
    match name:
        case "same":
            return text(key)
        case "by_value":
            return value[0] if value else None
        case "upper":
            return None if key is None else text(key).upper()
        case "one":
            return "x"
        case "initial":
            return None if key is None else text(key).replace("[", "")[0]
        case _:
            raise AssertionError(name)


def map_pair(name: str, key: Any, value: str | None) -> tuple[str | None, str | None]:
    """Make a pair of key and value."""
    match name:
        case "swap":
            return map_key("by_value", key, value), text(key)
        case "upper_tag":
            return map_key("upper", key, value), map_value("tag", key, value)
        case "same_value":
            return text(key), value
        case "by_value":
            return map_key("by_value", key, value), value
        case "one":
            return "x", value
        case _:
            raise AssertionError(name)


def flat_values(name: str, value: str | None) -> Sequence[str | None]:
    """Make any number of values of one."""
    if name == "twice":
        return [value, None if value is None else value + "2"]
    assert name == "letters", name
    return [*(value or "")][:_LETTERS_MAX]


def flat_pairs(name: str, key: Any, value: str | None) -> list[tuple[str | None, str | None]]:
    """Make any number of pairs of one."""
    values = flat_values(name, value)
    return [pair for one in values for pair in ((key, one), (map_key("by_value", key, one), one))]


def add(name: str, key: Any, value: str | None, total: str | None) -> str | None:
    """Fold a value into an aggregate."""
    match name:
        case "concat":
            return f"{null(total)},{null(value)}"
        case "drop_3":
            return None if value is not None and "3" in value else f"{null(total)},{null(value)}"
        case "last":
            return value
        case _:
            raise AssertionError(name)


def subtract(name: str, key: Any, value: str | None, total: str) -> str:
    """Take a value out of an aggregate, visibly."""
    return total if name == "last" else f"{null(total)}-{null(value)}"


def merge(left: str | None, right: str | None) -> str:
    """Merge the aggregates of two sessions."""
    return f"{null(left)}|{null(right)}"


def join(left: str | None, right: str | None) -> str:
    """Join two values."""
    return f"{null(left)}+{null(right)}"


def foreign_key(name: str, value: str) -> str | None:
    """Take the key of another table's row out of a value."""
    if name == "initial":
        return None if not value or value[0].isdigit() else value[0]
    assert name == "always", name
    return value[0] if value else "a"
