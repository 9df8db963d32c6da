"""A custom store that counts many different items in little room: a count-min sketch."""

from __future__ import annotations

from hashlib import blake2b
from itertools import starmap
from typing import Any, Final

from mustela.api.custom_stores import CustomStore, query_method
from mustela.api.errors import BadOptionError
from mustela.api.origin import user_origin
from mustela.state.ordered_value import ordered_bytes

__all__ = ["CountMin"]

_TOTAL: Final = b"t"
_COUNTER: Final = b"c"
_WIDTH_MAX: Final = 1 << 24
_DEPTH_MAX: Final = 16


class CountMin(CustomStore):
    """Counts of items for each key, never too low, in a bounded number of rows.

    An estimate is too high by at most ``total * 2.72 / width``, but for one item in ``2.72 **
    depth``: with the defaults, by 0.14 % of the total for 98 of 100 items. A key has at most
    ``width * depth`` rows, however many items it has.

    Layout of a key's map, format 1: ``t`` is the sum of the counts; ``c``, a line in one byte and a
    column in three have the counter of that place. Numbers are eight bytes.

    Attributes:
        width: Columns of counters.
        depth: Lines of counters.

    Raises:
        BadOptionError: If one of them is not positive, or too large.

    Example:
        >>> from mustela.testing import MockProcessorContext
        >>> clicks = MockProcessorContext().add_state_store(CountMin().builder("clicks", key=str))
        >>> for page in ("home", "shop", "home"):
        ...     clicks.add("ann", page)
        >>> clicks.estimate("ann", "home"), clicks.estimate("ann", "cart"), clicks.total("ann")
        (2, 0, 3)
    """

    width: int = 2000
    depth: int = 4

    def __post_init__(self) -> None:
        for name, value, most in (
            ("width", self.width, _WIDTH_MAX),
            ("depth", self.depth, _DEPTH_MAX),
        ):
            if type(value) is not int or not 0 < value <= most:
                msg = f"CountMin cannot have {name}={value!r}"
                fix = f"pass a whole number from 1 to {most}"
                raise BadOptionError(msg, at=user_origin(), fix=fix, fields={"option": name})

    def add(self, key: Any, item: Any, count: int = 1) -> None:
        """Count an item.

        Args:
            key: The record key.
            item: What `mustela.stores.ordered_bytes` takes.
            count: How often it came; 0 or more.

        Raises:
            StoreError: If the item is of another type.
        """
        if count < 0:
            msg = f"CountMin cannot count {count}: its estimates would be too low"
            raise ValueError(msg)
        rows = self.rows(key)
        places = [_TOTAL, *self._places(item)]
        found = zip(places, rows.get_many(places), strict=True)
        rows.put_many({place: _pack(_count(row) + count) for place, row in found})

    @query_method
    def estimate(self, key: Any, item: Any) -> int:
        """Return about how often an item was counted: not less often than it was."""
        return min(map(_count, self.rows(key).get_many(self._places(item))))

    @query_method
    def total(self, key: Any) -> int:
        """Return the sum of the counts of all items of a key."""
        return _count(self.rows(key).get(_TOTAL))

    def _places(self, item: Any) -> list[bytes]:
        data = blake2b(ordered_bytes(item), digest_size=16).digest()
        start, step = int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big") | 1
        columns = ((line, (start + line * step) % self.width) for line in range(self.depth))
        return list(starmap(_place, columns))


def _place(line: int, column: int) -> bytes:
    return _COUNTER + bytes((line,)) + column.to_bytes(3, "big")


def _count(row: bytes | None) -> int:
    return 0 if row is None else int.from_bytes(row, "big")


def _pack(count: int) -> bytes:
    return count.to_bytes(8, "big")
