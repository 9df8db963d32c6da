"""The rows of a store that the bounds of a scan leave: by key, by range, by time, by index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.sql.bounds import Bound
from mustela.sql.columns import Column, Part

__all__ = ["KEYS_MAX", "Range", "range_of", "rows_in", "usable_columns", "versions_in"]

KEYS_MAX: Final = 1_000
"""How many keys are looked up one by one; more of them are a scan."""

_SORTED: Final = (StrSerde, IntSerde)
"""Serdes of keys whose bytes are in the order of their values: text, and numbers that are not
negative."""


@dataclass(slots=True)
class Range:
    """What is read of a store.

    Attributes:
        keys: Single keys; None for a range.
        low: The lowest key; None leaves the side open.
        high: The highest key, included.
        times: The lowest and the highest start of a window, in milliseconds, or the lowest end
            and the highest start of a session.
        index: Name, lowest and highest entry of an index that is read instead.
        empty: Whether no row can meet the bounds.
    """

    keys: list[Any] | None = None
    low: Any = None
    high: Any = None
    times: list[int | None] = field(default_factory=lambda: [None, None])
    index: tuple[str, Any, Any] | None = None
    empty: bool = False

    def told(self) -> list[str]:
        """Return in words what is read of the store."""
        found: list[str] = []
        if self.keys is not None:
            found.append(f"{len(self.keys)} keys" if len(self.keys) != 1 else "1 key")
        elif self.low is not None or self.high is not None:
            found.append("a range of keys")
        if self.times != [None, None]:
            found.append("a range of times")
        if self.index is not None:
            found.append(f"a range of the index {self.index[0]}")
        return found


def usable_columns(
    kind: str, serde: Any, columns: Sequence[Column], indexes: dict[str, str]
) -> frozenset[str]:
    """Return the names of columns whose bounds a scan can use.

    Args:
        kind: The kind of the store.
        serde: The serde of its keys.
        columns: Its columns.
        indexes: The indexes by the names of the columns that they are of.
    """
    found: set[str] = set(indexes)
    for column in columns:
        if column.part in (Part.START, Part.END) or (
            column.part is Part.KEY and column.take is None and isinstance(serde, _SORTED)
        ):
            found.add(column.name)
    if kind == "versioned":
        return frozenset(name for name in found if name == "key")
    return frozenset(found)


def range_of(
    bounds: Sequence[Bound], parts: dict[str, Part], indexes: dict[str, str], window_ms: int | None
) -> Range:
    """Return what is to be read for the bounds of a scan.

    Args:
        bounds: The bounds.
        parts: What the columns are.
        indexes: The indexes by the names of the columns that they are of.
        window_ms: The size of the store's windows, if they have one.
    """
    found = Range()
    sides: dict[str, list[Any]] = {}
    for column, comparison, value in sorted(bounds, key=_lower_first):
        part = parts.get(column)
        if part is Part.KEY:
            _narrow_key(found, comparison, value)
        elif part in (Part.START, Part.END):
            _narrow_times(found, part, comparison, value // 1000, window_ms)
        elif column in indexes:
            _narrow_side(sides.setdefault(column, [None, None]), comparison, value)
    if found.low is not None and found.high is not None and found.low > found.high:
        found.empty = True
    if found.keys is None and found.low is None and found.high is None:
        for column, (low, high) in sides.items():
            if low is not None or high is not None:
                found.index = (indexes[column], low, high)
                break
    return found


def _lower_first(bound: Bound) -> bool:
    return bound[1].startswith("<")


def _narrow_key(found: Range, comparison: str, value: Any) -> None:
    if comparison in ("==", "in"):
        given = value if comparison == "in" else [value]
        if len(given) <= KEYS_MAX:
            known = found.keys
            found.keys = [each for each in given if known is None or each in known]
        return
    if isinstance(value, int):
        _narrow_number(found, comparison, value)
    elif comparison in (">=", ">"):
        found.low = value if found.low is None else max(found.low, value)
    else:
        found.high = value if found.high is None else min(found.high, value)


def _narrow_number(found: Range, comparison: str, value: int) -> None:
    """Use a bound of numbers: the bytes of negative ones come after all others."""
    if comparison in (">=", ">"):
        if value >= 0:
            found.low = value if found.low is None else max(found.low, value)
    elif found.low is not None and value >= 0:
        found.high = value if found.high is None else min(found.high, value)


def _narrow_times(
    found: Range, part: Part, comparison: str, value: int, window_ms: int | None
) -> None:
    low, high = found.times
    if part is Part.END and window_ms is not None:
        part, value = Part.START, value - window_ms
    if window_ms is not None or part is Part.END:
        is_low = part is Part.END or window_ms is not None
        if comparison in ("==", ">=", ">") and is_low:
            low = value if low is None else max(low, value)
    if part is Part.START and comparison in ("==", "<=", "<"):
        high = value if high is None else min(high, value)
    found.times = [low, high]


def _narrow_side(side: list[Any], comparison: str, value: Any) -> None:
    if comparison in ("==", ">=", ">"):
        side[0] = value if side[0] is None else max(side[0], value)
    if comparison in ("==", "<=", "<"):
        side[1] = value if side[1] is None else min(side[1], value)


def rows_in(handle: Any, kind: str, wanted: Range) -> Iterator[tuple[Any, Any]]:
    """Return the rows of a range: keys, or keys in their windows, and what is shown of them.

    Args:
        handle: The store, as a snapshot shows it.
        kind: Its kind.
        wanted: The range.
    """
    if wanted.empty or wanted.keys == []:
        return iter(())
    if kind == "window":
        return _windows(handle.fetch_range, wanted)
    if kind == "session":
        return _windows(handle.find_sessions_range, wanted)
    if wanted.keys is not None:
        keys = wanted.keys
        found = zip(keys, handle.get_many(keys), strict=True)
        return (row for row in found if row[1] is not None)
    if wanted.index is not None:
        name, low, high = wanted.index
        return handle.by(name).range(low, high)
    return handle.range(wanted.low, wanted.high)


def versions_in(handle: Any, wanted: Range) -> Iterator[tuple[Any, Any]]:
    """Return all versions of the keys of a range, by key and by time.

    Args:
        handle: The versioned store, as a snapshot shows it.
        wanted: The range.
    """
    if wanted.empty or wanted.keys == []:
        return iter(())
    if wanted.keys is None:
        return handle.history(wanted.low, wanted.high)
    return chain.from_iterable(handle.history(key, key) for key in wanted.keys)


def _windows(fetch: Any, wanted: Range) -> Iterator[tuple[Any, Any]]:
    if wanted.keys is None:
        return fetch(wanted.low, wanted.high, *wanted.times)
    return chain.from_iterable(fetch(key, key, *wanted.times) for key in wanted.keys)
