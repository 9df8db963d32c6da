"""A custom store that ranks members by score: ranks and pages in log n."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, NamedTuple

from mustela.api.custom_stores import CustomStore, query_method
from mustela.serdes.values import ValueSerde
from mustela.state.faults import StoreError
from mustela.state.kinds.row_map import OrderedRows
from mustela.state.ordered_value import descending, ordered_bytes

__all__ = ["Leaderboard", "Ranked"]

_MEMBER: Final = b"m"
_LEVEL: Final = b"v"
_COUNT_BYTES: Final = 8
_BITS: Final = 4
"""Of 16 entries of a level, one is in the level above it."""

_LEVELS: Final = 12
_PAGE_MAX: Final = 10_000

_Bytes = ValueSerde()


class Ranked(NamedTuple):
    """A member of a leaderboard: the first has rank 1."""

    rank: int
    member: Any
    score: int | float


class Leaderboard(CustomStore):
    """Members of each key's board by score, the highest first; of equal scores by member.

    A rank, and the beginning of a page, are found in log n, because entries are counted: a skip
    list whose levels are chosen by a hash of the entry, so that the same members and scores are
    always the same rows.

    Layout of a key's map, format 1: ``m`` and a member is the member's place in the order: its
    score, descending, and the member. ``v 0`` and a place has the member and its score. ``v`` and a
    level above 0, and a place, has how many entries there are from there to the next place of that
    level; at level n are the places whose hash ends in 4n zero bits, and the empty place.

    Example:
        >>> from mustela.testing import MockProcessorContext
        >>> board = MockProcessorContext().add_state_store(Leaderboard().builder("best", key=str))
        >>> for player, points in [("ann", 30), ("bob", 50), ("cid", 20)]:
        ...     board.set("chess", player, points)
        >>> board.add("chess", "ann", 25)
        55
        >>> board.rank("chess", "bob"), board.page("chess", 1, 2)
        (2, [Ranked(rank=1, member='ann', score=55), Ranked(rank=2, member='bob', score=50)])
    """

    def set(self, key: Any, member: Any, score: float) -> None:
        """Set the score of a member.

        Args:
            key: The record key: the board.
            member: What `mustela.stores.ordered_bytes` takes.
            score: The score.

        Raises:
            StoreError: If it is not a number.
        """
        if isinstance(score, bool) or not isinstance(score, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"{score!r} is not a score"
            raise StoreError(msg, fix="pass an int or a float")
        rows, name = self.rows(key), _MEMBER + ordered_bytes(member)
        place = descending(ordered_bytes(score)) + name[1:]
        before = rows.get(name)
        if before == place:
            return
        if before is not None:
            _take(rows, before)
        rows.put(name, place)
        rows.put(_at(0, place), _Bytes.serialize((member, score)))
        _insert(rows, place)

    def add(self, key: Any, member: Any, points: float) -> int | float:
        """Add to the score of a member, which is 0 if it has none; return the new score."""
        score = (self.score(key, member) or 0) + points
        self.set(key, member, score)
        return score

    def remove(self, key: Any, member: Any) -> None:
        """Remove a member; an absent one is fine."""
        rows, name = self.rows(key), _MEMBER + ordered_bytes(member)
        place = rows.get(name)
        if place is not None:
            _take(rows, place)
            rows.delete(name)

    @query_method
    def score(self, key: Any, member: Any) -> int | float | None:
        """Return the score of a member, or None."""
        rows = self.rows(key)
        place = rows.get(_MEMBER + ordered_bytes(member))
        return None if place is None else _entry(rows.get(_at(0, place)))[1]

    @query_method
    def rank(self, key: Any, member: Any) -> int | None:
        """Return the rank of a member, 1 for the first, or None."""
        rows = self.rows(key)
        place = rows.get(_MEMBER + ordered_bytes(member))
        return None if place is None else 1 + _before(rows, place)

    @query_method
    def page(self, key: Any, rank: int, size: int) -> list[Ranked]:
        """Return members from a rank on.

        Args:
            key: The board.
            rank: The rank of the first one.
            size: How many at most; up to 10,000.

        Raises:
            StoreError: If the rank is below 1, or the size not between 0 and 10,000.
        """
        if rank < 1 or not 0 <= size <= _PAGE_MAX:
            msg = f"there is no page of {size} from rank {rank} on"
            raise StoreError(msg, fix=f"count ranks from 1, and ask for at most {_PAGE_MAX}")
        found = islice(_from(self.rows(key), rank - 1), size)
        return [Ranked(rank + step, *_entry(row)) for step, row in enumerate(found)]

    @query_method
    def size(self, key: Any) -> int:
        """Return how many members a board has."""
        return _size(self.rows(key))


def _entry(row: bytes | None) -> tuple[Any, int | float]:
    return _Bytes.deserialize(row)


def _at(level: int, place: bytes) -> bytes:
    return _LEVEL + bytes((level,)) + place


def _count(row: bytes | None) -> int:
    return int.from_bytes(row or b"", "big")


def _set(rows: OrderedRows, level: int, place: bytes, count: int) -> None:
    rows.put(_at(level, place), count.to_bytes(_COUNT_BYTES, "big"))


def _levels_of(place: bytes) -> int:
    """Return the highest level that an entry is in."""
    number = int.from_bytes(blake2b(place, digest_size=8).digest(), "big") | 1 << _BITS * _LEVELS
    return ((number & -number).bit_length() - 1) // _BITS


def _top(rows: OrderedRows) -> int:
    """Return the highest level of the board; 0 if only the entries are there."""
    found = rows.first(_at(0, b""), _at(_LEVELS + 1, b""), reverse=True)
    return 0 if found is None else found[0][1]


def _node(rows: OrderedRows, level: int, place: bytes) -> tuple[bytes, int]:
    """Return the last counted place of a level that is not after a place, and its count."""
    found = rows.first(_at(level, b""), _at(level, place), reverse=True)
    assert found is not None, level
    return found[0][2:], _count(found[1])


def _between(rows: OrderedRows, level: int, low: bytes, high: bytes) -> int:
    """Count the entries from a place of a level up to another one, which is not included."""
    found = rows.range(_at(level, low), _at(level, high))
    inside = ((row, value) for row, value in found if row != _at(level, high))
    return sum(_count(value) if level else 1 for _, value in inside)


def _insert(rows: OrderedRows, place: bytes) -> None:
    """Count an entry that was just written, from the lowest level up."""
    own, top = _levels_of(place), _top(rows)
    for level in range(top + 1, own + 1):  # levels that the board did not have
        _set(rows, level, b"", _size(rows) - (level == 1))
    for level in range(1, max(own, top) + 1):
        node, count = _node(rows, level, place)
        count += 1
        if level <= own:
            left = _between(rows, level - 1, node, place)
            _set(rows, level, place, count - left)
            count = left
        _set(rows, level, node, count)


def _take(rows: OrderedRows, place: bytes) -> None:
    """Remove an entry, and count it no longer."""
    own, top = _levels_of(place), _top(rows)
    rows.delete(_at(0, place))
    for level in range(1, top + 1):
        node, count = _node(rows, level, place)
        if level <= own:
            rows.delete(_at(level, place))
            node, left = _node(rows, level, place)
            count += left
        _set(rows, level, node, count - 1)


def _size(rows: OrderedRows) -> int:
    top = _top(rows)
    found = rows.prefix(_at(top, b""))
    return sum(_count(value) if top else 1 for _, value in found)


def _before(rows: OrderedRows, place: bytes) -> int:
    """Count the entries before a place."""
    total, node = 0, b""
    for level in range(_top(rows), 0, -1):
        count = 0
        for row, value in rows.range(_at(level, node), _at(level, place)):
            total += count
            node, count = row[2:], _count(value)
    return total + _between(rows, 0, node, place)


def _nodes(rows: OrderedRows, level: int, node: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the places of a level from one on, each with its row."""
    for row, value in rows.range(_at(level, node), _at(level + 1, b"")):
        if row[1] == level:
            yield row[2:], value


def _from(rows: OrderedRows, skipped: int) -> Iterator[bytes]:
    """Iterate over the rows of entries in order, without so many of the first ones."""
    node, left = b"", skipped
    for level in range(_top(rows), 0, -1):
        for place, value in _nodes(rows, level, node):
            node = place
            if left < _count(value):
                break
            left -= _count(value)
        else:
            return
    yield from (value for _, value in islice(_nodes(rows, 0, node), left, None))
