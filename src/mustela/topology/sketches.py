"""Small summaries of many values: how many are distinct, and where their quantiles lie.

Both are pure functions of the values that were added: neither the order of the values nor the way
in which partial summaries were merged changes a bit. So an epoch that is replayed, cut elsewhere or
spread over more lanes gives the same result, and a value removed from the quantiles leaves no
trace. `docs/design/20261123_said_aggregates.md` says what they were compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, exp, inf, isnan, log, sqrt
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

__all__ = [
    "add_distinct",
    "bucket_of",
    "distinct_count",
    "merge_distinct",
    "new_distinct",
    "quantile_of",
]

_BITS: Final = 12
_REGISTERS: Final = 1 << _BITS
_RANKS: Final = 64 - _BITS
_SPARSE_MAX: Final = 1_024
"""How many registers are kept individually; beyond that, a byte for each is smaller."""

_ENCODE = msgspec.msgpack.Encoder(order="deterministic", enc_hook=repr).encode

Registers = dict[int, int] | bytearray


def new_distinct() -> Registers:
    """Return a summary of no values."""
    return {}


def add_distinct(registers: Registers, value: Any) -> Registers:
    """Add a value: HyperLogLog with 4,096 registers, so a standard error of 1.6 percent.

    Args:
        registers: The summary so far; it may be changed.
        value: A value; equal ones of the same type count once.

    Example:
        >>> registers = new_distinct()
        >>> for n in range(1_000):
        ...     registers = add_distinct(registers, n % 100)
        >>> distinct_count(registers)  # about
        101
    """
    digest = xxh3_64_intdigest(_ENCODE(value))
    place = digest & (_REGISTERS - 1)
    rank = _RANKS + 1 - (digest >> _BITS).bit_length()
    if type(registers) is dict:
        if rank > registers.get(place, 0):
            registers[place] = rank
            return registers if len(registers) <= _SPARSE_MAX else _dense(registers)
        return registers
    if rank > registers[place]:
        registers[place] = rank
    return registers


def _dense(registers: Mapping[int, int]) -> bytearray:
    dense = bytearray(_REGISTERS)
    for place, rank in registers.items():
        dense[place] = rank
    return dense


def merge_distinct(left: Registers, right: Registers) -> Registers:
    """Return the summary of both sides' values; the left one may be changed."""
    if isinstance(right, dict):
        items = right.items()
    else:
        items = enumerate(right)
        left = _dense(left) if isinstance(left, dict) else left
    if isinstance(left, dict):
        for place, rank in items:
            if rank > left.get(place, 0):
                left[place] = rank
        return left if len(left) <= _SPARSE_MAX else _dense(left)
    for place, rank in items:
        left[place] = max(left[place], rank)
    return left


def distinct_count(registers: Registers) -> int:
    """Return an estimate of how many distinct values were added.

    It is the estimate of O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches"
    (2017), which needs no correction tables, from one value to billions.
    """
    counts = [0] * (_RANKS + 2)
    if isinstance(registers, dict):
        for rank in registers.values():
            counts[rank] += 1
        counts[0] = _REGISTERS - len(registers)
    else:
        for rank in registers:
            counts[rank] += 1
    estimate = _REGISTERS * _tau(1 - counts[_RANKS + 1] / _REGISTERS)
    for rank in range(_RANKS, 0, -1):
        estimate = 0.5 * (estimate + counts[rank])
    estimate += _REGISTERS * _sigma(counts[0] / _REGISTERS)
    return round(_REGISTERS * _REGISTERS / (2 * log(2)) / estimate) if estimate < inf else 0


def _sigma(share: float) -> float:
    if share == 1:
        return inf
    factor, total = 1.0, share
    while True:
        share *= share
        before = total
        total += share * factor
        factor += factor
        if total == before:
            return total


def _tau(share: float) -> float:
    if share in {0, 1}:
        return 0.0
    factor, total = 1.0, 1 - share
    while True:
        share = sqrt(share)
        before = total
        factor *= 0.5
        total -= (1 - share) ** 2 * factor
        if total == before:
            return total / 3


_SHIFT: Final = 1 << 40
"""Moves the bucket numbers of positive values above that of zero."""

_INFINITE: Final = 1 << 50


def bucket_of(value: Any, accuracy: float) -> int | None:
    """Return the number of a value's bucket, larger for larger values; None for NaN.

    The buckets are those of C. Masson and others, "DDSketch" (2019): each spans a fixed ratio, so
    that every value in one is known within the accuracy.

    Example:
        >>> bucket_of(1_000, 0.01) == bucket_of(1_001, 0.01) < bucket_of(1_100, 0.01)
        True
    """
    number = float(value)
    if number == 0:
        return 0
    if isnan(number):
        return None
    size = abs(number)
    place = _INFINITE if size == inf else _SHIFT + ceil(log(size) / _step(accuracy))
    return place if number > 0 else -place


def _step(accuracy: float) -> float:
    return log((1 + accuracy) / (1 - accuracy))


def quantile_of(buckets: Mapping[int, int], share: float, accuracy: float) -> float | None:
    """Return the value below which the given share of the values lies, None if there are none.

    Args:
        buckets: How many values each bucket holds.
        share: Between 0 and 1.
        accuracy: The accuracy with which the buckets were made: the result is off by at most this
            part of itself.

    Example:
        >>> from collections import Counter
        >>> buckets = Counter(bucket_of(n, 0.01) for n in range(1, 101))
        >>> round(quantile_of(buckets, 0.5, 0.01))
        50
    """
    number = sum(buckets.values())
    if not number:
        return None
    rank, seen = share * (number - 1), 0
    found = 0
    for found in sorted(buckets):
        seen += buckets[found]
        if seen > rank:
            break
    if found == 0:
        return 0.0
    if abs(found) == _INFINITE:
        return inf if found > 0 else -inf
    step = _step(accuracy)
    size = 2 * exp((abs(found) - _SHIFT) * step) / (exp(step) + 1)
    return size if found > 0 else -size
