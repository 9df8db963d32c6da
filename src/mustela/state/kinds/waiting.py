"""Waiting rows: records of a stream join that have no partner yet, until their window closes.

Layout, format 2. What an epoch changes goes to blocks: a few rows however many records there are,
here and in the changelog. A block lists records that start waiting, and earlier records that were
found: they have a partner, and wait no more. Its key is the first closing time in it (see
layout.py), its number and the last closing time (eight bytes each). Its value is a msgpack array of
five: the times of closing, in order; a byte for each entry, which is the rank of the side (0 right,
1 left) and 2 more for a record that was found; the record keys; the array of the values, as bytes
that are decoded only when needed, empty for records that were found; and, where blocks were merged,
the number of the block that each entry came in, as records of one place keep the order in which
they came.

So what closes next is at the front, and a block is written once and deleted once, when all of it is
done. The row ``006e`` says how much is done of partly done blocks: the number of the next block, a
closing time, and the number of the first block that it does not apply to (eight bytes each); in the
blocks before that one, everything that closes before that time is done.

An epoch reads the blocks that begin before its end. With small epochs and records out of order by
much more than an epoch, these are many blocks, each mostly not done: then they are merged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import add, attrgetter
from struct import Struct
from typing import Final

import msgspec

from mustela.state.kinds.layout import (
    TIME_MIN,
    first_row,
    pack_time,
    time_rows,
    unpack_time,
)
from mustela.state.overlay import StoreOverlay

__all__ = ["FIRST_KEY", "FOUND", "WAITING_FORMAT", "WaitingBlock", "WaitingPlace", "WaitingRows"]

WAITING_FORMAT = 2

BLOCK_ROWS: Final = 128
"""Maximum number of entries of a block, so that little of a partly done block is read again."""

BLOCK_BYTES_MAX: Final = 65_536
"""The maximum size of the keys and values of a block. A larger entry is alone in its block."""

PARTS_MAX: Final = 16
"""Maximum number of partly done blocks; more are merged."""

FOUND: Final = 2
"""Added to the rank of a record that was found."""

WaitingPlace = tuple[int, int, bytes]
"""The closing time, the rank of the side (0 right, 1 left), and the record key."""

FIRST_KEY: Final = b"\x00m"
"""The key of the time before which no record waits, where event time is that of each record."""

_NEXT: Final = b"\x00n"
_STATE: Final = Struct(">QqQ")
_NUMBER: Final = Struct(">Q")
_NUMBER_AT, _LAST_AT = 8, 16

_Columns = tuple[list[int], bytes, list[bytes], bytes, list[int]]
_Kept = tuple[WaitingPlace, bytes, int]
"""The place of a waiting record, its value, and the number of the block that it arrived in."""
_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], _Columns] = msgspec.msgpack.Decoder(_Columns).decode
_decode_values: Callable[[bytes], list[bytes]] = msgspec.msgpack.Decoder(list[bytes]).decode


class WaitingBlock:
    """A block in memory.

    Attributes:
        place: Its key.
        number: Blocks count up, in the order in which they were written.
        last: The last closing time.
        closes: The closing times, in order.
        marks: The rank of each entry's side, and `FOUND` more if the record was found.
        keys: The record keys.
    """

    __slots__ = (
        "_came",
        "_packed",
        "_values",
        "closes",
        "keys",
        "last",
        "marks",
        "number",
        "place",
    )

    def __init__(self, place: bytes, packed: bytes) -> None:
        self.place = place
        self.number: int = _NUMBER.unpack_from(place, _NUMBER_AT)[0]
        self.last = unpack_time(place[_LAST_AT:])
        self.closes, self.marks, self.keys, self._packed, self._came = _decode(packed)
        self._values: list[bytes] | None = None

    def value(self, row: int) -> bytes:
        """Return the value of an entry."""
        if self._values is None:
            self._values = _decode_values(self._packed)
        return self._values[row]

    def came(self, row: int) -> int:
        """Return the number of the block that an entry arrived in, in order of arrival."""
        return self._came[row] if self._came else self.number

    def entries(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield closing time, mark and key of some entries."""
        part = slice(start, stop)
        return zip(self.closes[part], self.marks[part], self.keys[part], strict=True)


class WaitingRows:
    """The waiting records of one key group, as bytes, for one epoch.

    Args:
        view: The rows of the store.
        width_ms: No block covers a longer time span.
        merges: Whether a found record never waits again under the same key and time, so that the
            order of blocks does not matter.

    Attributes:
        blocks: The blocks that were read.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="w", kind="buffer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("w")
        >>> rows = WaitingRows(view, width_ms=100)
        >>> rows.save(None, [((5, 1, b"apple"), b"x"), ((9, 0, b"fig"), b"y")], [])
        >>> (block,) = WaitingRows(view, width_ms=100).read(8)
        >>> list(block.entries(0, 2)), block.value(1)
        ([(5, 1, b'apple'), (9, 0, b'fig')], b'y')
    """

    def __init__(self, view: StoreOverlay, *, width_ms: int, merges: bool = True) -> None:
        self.view = view
        self.blocks: list[WaitingBlock] = []
        self._width = width_ms
        self._merges = merges
        self._read_until = TIME_MIN
        data = view.get(_NEXT)
        state: tuple[int, int, int] = (0, TIME_MIN, 0) if data is None else _STATE.unpack(data)
        self._next, self._over, self._unsaid = state

    # --- reading ------------------------------------------------------------------------------

    def read(self, until: int) -> list[WaitingBlock]:
        """Read the blocks that begin before ``until`` and have not been read yet; return these."""
        begin, self._read_until = self._read_until, max(self._read_until, until)
        found = [WaitingBlock(*row) for row in time_rows(self.view, begin, until - 1)]
        self.blocks += found
        return found

    def span(self, block: WaitingBlock, low: int, high: int) -> tuple[int, int]:
        """Return which entries of a block are not done and close in low <= time < high."""
        if block.number < self._unsaid and self._over > low:
            low = self._over
        start = bisect_left(block.closes, low)
        return start, bisect_left(block.closes, high, start)

    def next_close(self) -> int | None:
        """Return the earliest time at which something may close; None if nothing waits."""
        self.read(self._over)
        times: list[int] = []
        for block in self.blocks:
            start, stop = self.span(block, TIME_MIN, block.last + 1)
            times += block.closes[start : min(stop, start + 1)]
        row = first_row(self.view, self._read_until)
        if row is not None:
            times.append(unpack_time(row[0]))
        return min(times, default=None)

    # --- writing ------------------------------------------------------------------------------

    def save(
        self,
        over: int | None,
        waiting: Iterable[tuple[WaitingPlace, bytes]],
        found: Iterable[WaitingPlace],
    ) -> None:
        """Write the changes of an epoch.

        Args:
            over: Everything that closes before this is done; all blocks that begin before it were
                read. None if nothing was done.
            waiting: New waiting records with their values, in order per place.
            found: The places of records that no longer wait.
        """
        marks = list(found)
        kept = [(place, value, self._next) for place, value in waiting]
        parts: list[WaitingBlock] = []
        if over is not None:
            assert over <= self._read_until, (over, self._read_until)
            self._over, self._unsaid = over, self._next
            gone = [block.place for block in self.blocks if block.last < over]
            self.blocks = [block for block in self.blocks if block.last >= over]
            self.view.put_many(dict.fromkeys(gone))
            parts = [block for block in self.blocks if block.closes[0] < over]
        if self._merges and len(parts) > PARTS_MAX:
            marks, kept = self._merged(parts, marks, kept)
            self.view.put_many(dict.fromkeys(block.place for block in parts))
            self.blocks = [block for block in self.blocks if block not in parts]
            parts = []
        if marks or kept:
            self._write(marks, kept)
        elif not parts:
            return
        self.view.put(_NEXT, _STATE.pack(self._next, self._over, self._unsaid))

    def _merged(
        self,
        parts: Sequence[WaitingBlock],
        found: Iterable[WaitingPlace],
        waiting: Iterable[_Kept],
    ) -> tuple[list[WaitingPlace], list[_Kept]]:
        """Return what to write so that some blocks can be deleted."""
        marks, kept = dict.fromkeys(found), list[_Kept]()
        there: list[tuple[WaitingPlace, WaitingBlock, int]] = []
        for block in sorted(parts, key=attrgetter("number")):
            start, stop = self.span(block, TIME_MIN, block.last + 1)
            for row, (close, mark, key) in enumerate(block.entries(start, stop), start):
                if mark < FOUND:
                    there.append(((close, mark, key), block, row))
                else:  # an unread block may hold a record of that place
                    marks[close, mark - FOUND, key] = None
        kept += (
            (place, block.value(row), block.came(row))
            for place, block, row in there
            if place not in marks
        )
        kept += waiting
        return list(marks), kept

    def _write(self, found: Sequence[WaitingPlace], waiting: Sequence[_Kept]) -> None:
        closes: list[int] = [close for close, _, _ in found]
        closes += [place[0] for place, _, _ in waiting]
        order = sorted(range(len(closes)), key=closes.__getitem__)
        closes.sort()
        marks = [rank + FOUND for _, rank, _ in found] + [place[1] for place, _, _ in waiting]
        keys = [key for _, _, key in found] + [place[2] for place, _, _ in waiting]
        values = [b""] * len(found) + [value for _, value, _ in waiting]
        came = [self._next] * len(found) + [came for _, _, came in waiting]
        keys, values = [keys[row] for row in order], [values[row] for row in order]
        came = [came[row] for row in order] if min(came) < self._next else []
        marked = bytes([marks[row] for row in order])
        blocks: dict[bytes, bytes] = {}
        for part in _cut(closes, list(map(add, map(len, keys), map(len, values))), self._width):
            times = closes[part]
            place = pack_time(times[0]) + _NUMBER.pack(self._next) + pack_time(times[-1])
            packed = _encode(values[part])
            blocks[place] = _encode((times, marked[part], keys[part], packed, came[part]))
            self._next += 1
        self.view.put_many(blocks)


def _cut(closes: Sequence[int], sizes: Sequence[int], width: int) -> Iterator[slice]:
    """Divide entries in time order into those of one block each."""
    ends = list(accumulate(sizes))
    start = 0
    while start < len(closes):
        before = ends[start - 1] if start else 0
        stop = min(
            start + BLOCK_ROWS,
            bisect_right(ends, before + BLOCK_BYTES_MAX, start),
            bisect_right(closes, closes[start] + width, start),
        )
        stop = max(start + 1, stop)
        yield slice(start, stop)
        start = stop
