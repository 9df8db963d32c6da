"""List stores: all records of a key for some time, as kept by a join of two streams.

Layout, format 2. What an epoch adds goes to blocks (see list_blocks.py): a few large rows however
many keys there are, here and in the changelog. A lookup of keys reads the blocks of the requested
time. That is fast while an epoch looks up about as many keys as these blocks hold. Otherwise, with
small epochs and long windows, blocks are settled, a few at a time: their entries move to the lists
of their keys.

A list's row has for its key the start of a segment of time (see layout.py) and the record key, for
its value a packed array of entries, each (timestamp, number of the block, value). A row that has
grown too long is sealed when more entries come: it moves to the key ``02``, segment start, its
number from 1 on (four bytes), record key, and is never written again. The list's own row then
begins with ``c1`` and the number of sealed rows (four bytes), followed by the entries added since.
So a key with very many records costs no more to write than any other.

Lists exist only in this copy: the changelog has the blocks that they were made from, and a copy
restored from it has only blocks. Expired blocks are deleted in the changelog too, which is
compacted and never deletes by age: records that may still be joined must survive, however long no
record arrives. The row ``006e`` holds the number of the next block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice, pairwise
from operator import itemgetter, le, sub
from struct import Struct
from typing import Final

from mustela.state.kinds.layout import (
    TIME_BYTES,
    TIME_MAX,
    first_row,
    pack_time,
    time_key,
    time_keys,
    time_rows,
)
from mustela.state.kinds.list_blocks import (
    BLOCK,
    SETTLED,
    Head,
    OpenColumns,
    block_key,
    cut,
    head_of,
    open_block,
    pack_block,
    values_of,
)
from mustela.state.kinds.list_bytes import (
    SEALED,
    Packed,
    grow_many,
    pack_entries,
    whole_lists,
)
from mustela.state.overlay import StoreOverlay
from mustela.state.store_kind import StoreKind

__all__ = ["LIST", "LIST_FORMAT", "KeyRows", "ListRows"]

LIST_FORMAT = 2

LIST: Final = StoreKind(
    name="list", prefix=TIME_BYTES, takes=frozenset({"segment_ms"}), needs="segment_ms"
)
"""Only the step that owns such a store can read it."""

KeyRows = tuple[list[int], list[bytes]]
"""The times and values of a key's records, in time order, then in order of arrival."""

LOOK_ROWS: Final = 16
"""Looking up a key in a list takes as long as reading this many entries of a block."""

BLOCK_ROWS: Final = 50
"""Opening a block takes as long as reading this many of its entries."""

SETTLED_PART: Final = 16
"""The share of blocks settled at a time when they cost too much to read; at least one block."""

BLOCKS_PER_SEGMENT: Final = 16
"""A block covers at most this part of a segment, so that blocks of a time are close together."""

_NEXT: Final = b"\x00n"
_NUMBER: Final = Struct(">Q")
_BEYOND: Final = b"\xff"
_place_in_order = itemgetter(0, 1)
_Block = tuple[bytes, Head, OpenColumns]


class ListRows:
    """The lists of one key group, as bytes; for one epoch.

    Args:
        view: The rows of the store.
        segment_ms: Length of a segment; the same for the life of a store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="j", kind="list", segment_ms=100),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("j")
        >>> lists = ListRows(view, segment_ms=100)
        >>> lists.append([b"apple", b"fig", b"apple"], [5, 6, 150], [b"x", b"y", b"z"])
        >>> lists.read([b"apple", b"pear"], [0, 0], [120, 120])
        {b'apple': ([5], [b'x'])}
    """

    def __init__(self, view: StoreOverlay, *, segment_ms: int) -> None:
        assert segment_ms > 0, segment_ms
        self.view = view
        self.segment_ms = segment_ms
        self._width = segment_ms // BLOCKS_PER_SEGMENT
        data = view.get(_NEXT)
        self._next = self._first_fresh = 0 if data is None else _NUMBER.unpack(data)[0]

    # --- writing ------------------------------------------------------------------------------

    def append(self, keys: Sequence[bytes], times: Sequence[int], values: Sequence[bytes]) -> None:
        """Add entries, one for each key, in order of arrival."""
        if not keys:
            return
        if not all(map(le, times, islice(times, 1, None))):
            order = sorted(range(len(times)), key=times.__getitem__)
            pick = itemgetter(*order)
            keys, times, values = pick(keys), pick(times), pick(values)
        blocks: dict[bytes, bytes] = {}
        for part in cut(keys, times, values, self._width):
            head = Head(times[part.stop - 1], self._next, times[part.start])
            blocks[block_key(head)] = pack_block(keys[part], times[part], values[part])
            self._next += 1
        self.view.put_many(blocks)
        self.view.put(_NEXT, _NUMBER.pack(self._next))

    def _settle(self, blocks: Iterable[_Block], size: int) -> None:
        """Move some entries, those of the oldest blocks, to the lists of their keys."""
        least = size // SETTLED_PART
        settled = 0
        for place, head, (keys, times, values) in sorted(blocks, key=_number_of):
            if settled and settled >= least:
                return
            if head.number >= self._first_fresh:  # it must be in the changelog first
                continue
            length = self.segment_ms
            places = time_keys([time // length * length for time in times], keys)
            entries = pack_entries(times, head.number, values_of(values))
            rows: dict[bytes, bytes | None] = {**grow_many(places, self._load(places), entries)}
            rows[place] = None
            rows[SETTLED + place[1:]] = b""
            self.view.put_unlogged(rows)
            settled += len(keys) + BLOCK_ROWS

    # --- reading ------------------------------------------------------------------------------

    def read(
        self, keys: Sequence[bytes], lows: Sequence[int], highs: Sequence[int]
    ) -> dict[bytes, KeyRows]:
        """Return at least the entries of keys between two times, both ends included.

        Args:
            keys: The keys; one may come more than once.
            lows: The earliest requested time of each key.
            highs: The latest requested time, at most a segment's length after the earliest.
        """
        if not keys:
            return {}
        wanted = set(keys)
        lists = self._settled_lists(keys, lows, highs)
        found: dict[bytes, KeyRows] = {}
        mixed: set[bytes] = set()
        for _, head, (block_keys, times, packed) in self._blocks(lows, highs):
            if wanted.isdisjoint(block_keys):
                continue  # as with most of them: their values need not be unpacked
            values = values_of(packed)
            there = compress(range(len(block_keys)), map(wanted.__contains__, block_keys))
            for row in there:
                key, time = block_keys[row], times[row]
                if key in lists:
                    lists[key].append((time, head.number, values[row]))
                elif (known := found.get(key)) is None:
                    found[key] = [time], [values[row]]
                else:
                    if time < known[0][-1]:
                        mixed.add(key)
                    known[0].append(time)
                    known[1].append(values[row])
        for key in mixed:
            times, values = found[key]
            order = sorted(range(len(times)), key=times.__getitem__)
            found[key] = [times[row] for row in order], [values[row] for row in order]
        for key, entries in lists.items():
            entries.sort(key=_place_in_order)
            found[key] = [entry[0] for entry in entries], [entry[2] for entry in entries]
        return found

    def _blocks(self, lows: Sequence[int], highs: Sequence[int]) -> list[_Block]:
        """Return the blocks of the requested times, in the order of their numbers.

        If they are too many for the request, some are settled for the next time.
        """
        blocks: dict[bytes, _Block] = {}
        for low, high, looks in _spans(lows, highs):
            mine: list[_Block] = []
            size = 0
            for place, packed in self._between(BLOCK, low, high + self._width):
                head = head_of(place)
                if head.first > high:
                    continue
                block = blocks.get(place) or (place, head, open_block(packed))
                blocks[place] = block
                mine.append(block)
                size += len(block[2][0]) + BLOCK_ROWS
            if size > looks * LOOK_ROWS:
                self._settle(mine, size)
        return sorted(blocks.values(), key=_number_of)

    def _settled_lists(
        self, keys: Sequence[bytes], lows: Sequence[int], highs: Sequence[int]
    ) -> dict[bytes, list[Packed]]:
        """Return the entries in the lists of keys, as far as there are lists."""
        if self.view.first(SETTLED, SETTLED + _BEYOND) is None:
            return {}
        length = self.segment_ms
        firsts = [low // length * length for low in lows]
        lasts = [high // length * length for high in highs]
        segments = {
            start
            for start in set(firsts).union(lasts)
            if first_row(self.view, start, start) is not None
        }
        places = {
            time_key(start, key)
            for starts in (firsts, lasts)
            for start, key in zip(starts, keys, strict=True)
            if start in segments
        }
        lists: dict[bytes, list[Packed]] = {}
        for place, entries in whole_lists(self._load(places), places, self._load).items():
            key = place[TIME_BYTES:]
            if key in lists:
                lists[key] += entries
            else:
                lists[key] = entries
        return lists

    # --- the end ------------------------------------------------------------------------------

    def expire_before(self, bound: int, *, limit: int | None = None) -> int:
        """Remove blocks all of whose entries are older than ``bound``, and segments of lists.

        Args:
            bound: Older entries are no longer requested.
            limit: Maximum number of lists to remove, oldest first; the next call continues after
                them.

        Returns:
            How many rows were removed.
        """
        view = self.view
        over = [place for place, _ in self._between(BLOCK, None, bound - 1)]
        settled = [place for place, _ in self._between(SETTLED, None, bound - 1)]
        if over or settled:
            view.put_many(dict.fromkeys([*over, *(BLOCK + place[1:] for place in settled)]))
            view.expire(settled)
        newest = bound - self.segment_ms
        lists = [place for place, _ in islice(time_rows(view, to=newest), limit)]
        if lists and (limit is None or len(lists) < limit):
            lists += [place for place, _ in self._between(SEALED, None, newest)]
        view.expire(lists)
        return len(over) + len(settled) + len(lists)

    def _between(self, head: bytes, low: int | None, high: int) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows whose keys are a byte and a time of a span, both ends included."""
        end = head + pack_time(min(high, TIME_MAX - 1) + 1)
        begin = head if low is None else head + pack_time(low)
        return (row for row in self.view.range(begin, end) if row[0] < end)

    def _load(self, places: Iterable[bytes]) -> Mapping[bytes, bytes | None]:
        wanted = list(dict.fromkeys(places))
        return dict(zip(wanted, self.view.getmulti(wanted), strict=True))


def _number_of(block: _Block) -> int:
    return block[1].number


def _spans(lows: Sequence[int], highs: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield time spans that cover all requests, and the number of requests in each.

    Requests much further apart than any one is long are separate, so that a late record does not
    force reading everything since.
    """
    longest = max(0, max(map(sub, highs, lows)))
    first, last, step = min(lows), max(lows), longest + 1
    # As a rule requests are close together, and finding that takes less than sorting them.
    if len({low // step for low in lows}) == last // step - first // step + 1:
        yield first, last + longest, len(lows)
        return
    ordered = sorted(lows)
    ends = [len(ordered)]
    if max(map(sub, ordered[1:], ordered), default=0) > longest:
        gaps = enumerate(pairwise(ordered), 1)
        ends[:0] = [row for row, (one, other) in gaps if other - one > longest]
    start = 0
    for end in ends:
        yield ordered[start], ordered[end - 1] + longest, end - start
        start = end
