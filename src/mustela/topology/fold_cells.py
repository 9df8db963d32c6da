"""The functions of a declared aggregate's cells that do not fit into one line.

Each of these is a pure function of the values that were added, whatever their order, except
`newer`, which decides by time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from functools import cmp_to_key
from math import inf, isfinite, isnan
from typing import Any, Final

import msgspec

__all__ = [
    "add_exact",
    "add_ranked",
    "add_top",
    "all_together",
    "best_last",
    "best_of",
    "exact_total",
    "goes_first",
    "itself",
    "merge_top",
    "newer",
    "remove_ranked",
    "subtract_exact",
    "tagged_value",
]

_ENCODE = msgspec.msgpack.Encoder(order="deterministic", enc_hook=repr).encode

_SMALLEST: Final = 1_074
"""The smallest float above zero is two to the power of minus this number."""

Entry = list[Any]
"""[its rank, the value]"""


def all_together(_key: Any, _value: Any) -> str:
    """Return the key under which all records are grouped."""
    return "all"


def itself(value: Any) -> Any:
    """Return a result that is not wrapped in a row."""
    return value


def tagged_value(source: int, value: Any) -> list[tuple[int, Any]]:
    """Return a value with the number of its stream; nothing for a record without a value.

    Example:
        >>> tagged_value(1, "a"), tagged_value(1, None)
        ([(1, 'a')], [])
    """
    return [] if value is None else [(source, value)]


def goes_first(new: Any, old: Any) -> bool:
    """Say which of two values of the same rank is taken: always the one with the lower bytes.

    Example:
        >>> goes_first({"id": 1}, {"id": 2}), goes_first({"id": 2}, {"id": 1})
        (True, False)
    """
    return bool(_ENCODE(new) < _ENCODE(old))


def newer(cell: Entry | None, other: Entry | None) -> Entry | None:
    """Return the entry with the later time; the other one if the times are equal."""
    if cell is None or (other is not None and other[0] >= cell[0]):
        return other
    return cell


def _ascending(left: Entry, right: Entry) -> int:
    if left[0] != right[0]:
        return -1 if left[0] < right[0] else 1
    return _by_bytes(left[1], right[1])


def _descending(left: Entry, right: Entry) -> int:
    if left[0] != right[0]:
        return -1 if left[0] > right[0] else 1
    return _by_bytes(left[1], right[1])


def _by_bytes(left: Any, right: Any) -> int:
    one, other = _ENCODE(left), _ENCODE(right)
    return (one > other) - (one < other)


_KEYS: Final[dict[bool, Callable[[Entry], Any]]] = {
    True: cmp_to_key(_descending),
    False: cmp_to_key(_ascending),
}
_BY_RANK: Final = _KEYS[False]


def add_top(entries: list[Entry], rank: Any, value: Any, number: int, largest: bool) -> None:
    """Add a value to the values with the best ranks, if it is one of them.

    Example:
        >>> entries = []
        >>> for n in [3, 1, 2]:
        ...     add_top(entries, n, f"v{n}", 2, True)
        >>> entries
        [[3, 'v3'], [2, 'v2']]
    """
    if rank != rank:
        return
    if len(entries) >= number:
        last = entries[-1][0]
        if (rank < last) if largest else (rank > last):
            return
    insort(entries, [rank, value], key=_KEYS[largest])
    del entries[number:]


def merge_top(entries: list[Entry], others: list[Entry], number: int, largest: bool) -> None:
    """Add the entries of another partial result."""
    for rank, value in others:
        add_top(entries, rank, value, number, largest)


def add_ranked(entries: list[Entry], rank: Any, value: Any) -> None:
    """Add a value to all values, which are kept in ascending order."""
    if rank == rank:
        insort(entries, [rank, value], key=_BY_RANK)


def remove_ranked(entries: list[Entry], rank: Any, value: Any) -> None:
    """Remove a value; one that was never added is ignored.

    Example:
        >>> entries = []
        >>> add_ranked(entries, 2, "b")
        >>> add_ranked(entries, 1, "a")
        >>> remove_ranked(entries, 2, "b")
        >>> entries
        [[1, 'a']]
    """
    if rank != rank:
        return
    place = bisect_left(entries, _BY_RANK([rank, value]), key=_BY_RANK)
    if place < len(entries) and not _ascending(entries[place], [rank, value]):
        del entries[place]


def best_of(entries: list[Entry], number: int) -> list[Any]:
    """Return the values with the largest ranks; entries are in ascending order.

    Example:
        >>> best_of([[1, "a"], [2, "b"], [2, "c"]], 2)
        ['b', 'c']
    """
    last = entries[-number:]
    more = len(entries) - len(last) - 1
    while more >= 0 and entries[more][0] == last[0][0]:  # of equal ranks the lowest bytes go first
        last.insert(0, entries[more])
        more -= 1
    return [value for _, value in sorted(last, key=_KEYS[True])[:number]]


def best_last(entries: list[Entry]) -> Any:
    """Return the value with the largest rank, None if there are none."""
    return best_of(entries, 1)[0] if entries else None


def add_exact(cell: list[Any] | None, value: Any) -> list[Any]:
    """Add a number to an exact total: floats without rounding, all other numbers as they are.

    A total is [sum of the other numbers, how many they are, sum of the floats in units of the
    smallest float, how many floats there are, how often each float occurs that is not a finite
    number].

    Example:
        >>> cell = None
        >>> for number in (1e100, 0.1, 1):
        ...     cell = add_exact(cell, number)
        >>> exact_total(subtract_exact(cell, 1e100))
        1.1
    """
    return _exact(cell, value, 1)


def subtract_exact(cell: list[Any] | None, value: Any) -> list[Any]:
    """Remove a number: the total is then what it would be without it."""
    return _exact(cell, value, -1)


def _exact(cell: list[Any] | None, value: Any, times: int) -> list[Any]:
    cell = [None, 0, 0, 0, {}] if cell is None else cell
    if not isinstance(value, float):
        more = value if times > 0 else -value
        cell[0] = more if cell[0] is None else cell[0] + more
        cell[1] += times
        if not cell[1]:
            cell[0] = None
        return cell
    cell[3] += times
    if isfinite(value):
        numerator, denominator = value.as_integer_ratio()
        cell[2] += times * (numerator << (_SMALLEST - denominator.bit_length() + 1))
        return cell
    name = "nan" if isnan(value) else str(value)
    left = cell[4].get(name, 0) + times
    cell[4] = {**cell[4], name: left}
    if not left:
        del cell[4][name]
    return cell


def exact_total(cell: list[Any] | None) -> Any:
    """Return the total, rounded once; 0 if there is no value."""
    if cell is None:
        return 0
    others, _, units, floats, odd = cell
    if not floats:
        return 0 if others is None else others
    if odd:
        total = sum(float(name) * number for name, number in odd.items())
    else:
        try:
            total = units / (1 << _SMALLEST)
        except OverflowError:
            total = inf if units > 0 else -inf
    return total if others is None else others + total
