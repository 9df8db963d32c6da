"""The table that the benchmark of queries asks, its questions, and what is right.

Imported by Mustela's program too: it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterable, Iterator

CITIES = ("Oslo", "Rome", "Lima", "Kyiv", "Cork", "Bonn", "Pune", "Graz", "Brno", "Faro")
RANGE_ROWS = 1_000
_NOTE = "left at the door of the house beside"
_MASK = (1 << 64) - 1

Row = tuple[str, str, int]
"""Key, city and total: a row without its note, which no question wants."""
Sums = dict[str, tuple[int, int]]
"""Rows and total by city."""


def key_of(number: int) -> str:
    """Return the key of a row."""
    return f"order-{number:09}"


def row_of(number: int) -> Row:
    """Return a row."""
    mixed = number * 2_654_435_761 % 4_294_967_296
    return key_of(number), CITIES[mixed % len(CITIES)], mixed >> 12


def records(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of the topic, in no order of their keys."""
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        key, city, total = row_of(number)
        value = {"city": city, "total": total, "note": f"{_NOTE} {number}"}
        yield key.encode(), json.dumps(value).encode()


def told(rows: Iterable[Row]) -> str:
    """Return what tells rows from others, in whichever order they are."""
    count = found = 0
    for key, city, total in rows:
        count += 1
        found += zlib.crc32(f"{key}|{city}|{total}".encode()) * (total + 1)
    return f"{count} rows, {found & _MASK:x}"


def told_sums(sums: Iterable[tuple[str, int, int]]) -> str:
    """Return what tells sums from others."""
    return json.dumps(sorted((city, int(rows), int(total)) for city, rows, total in sums))


class Right:
    """What must be answered.

    Args:
        count: The rows of the table.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def get(self, key: str) -> str:
        """Return what tells the row of a key."""
        return told([row_of(int(key[6:]))])

    def range(self, low: str) -> str:
        """Return what tells the rows from a key on."""
        first = int(low[6:])
        return told(row_of(number) for number in range(first, first + RANGE_ROWS))

    def sums(self) -> str:
        """Return what tells the sums by city."""
        found: Sums = {}
        for number in range(self._count):
            _, city, total = row_of(number)
            rows, before = found.get(city, (0, 0))
            found[city] = rows + 1, before + total
        return told_sums((city, *both) for city, both in found.items())

    def scan(self) -> str:
        """Return what tells all rows."""
        return told(row_of(number) for number in range(self._count))


def high_of(low: str) -> str:
    """Return the last key of the range that begins with a key."""
    return key_of(int(low[6:]) + RANGE_ROWS - 1)
