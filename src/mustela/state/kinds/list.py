"""List stores: every record of a key, in segments of time; what a join of two streams keeps.

Layout, format 1. A row's key is the start of a segment of time (see layout.py) and the record key.
Its value is a packed array of entries, each (timestamp, sequence, value or nil, flags), in the
order in which they were appended. Appending does not decode; a record's window needs a few
segments, so what a whole batch looks for is one `getmulti`. Segments are dropped whole.

A row that has grown too long is sealed when more entries come: it moves to the key ``02``, segment
start, its number from 1 on (four bytes), record key, and is never written again. The list's own row
then begins with ``c1`` and the number of sealed rows (four bytes), followed by the entries that
came since. So a key with a great many records costs an epoch no more to write than any other.

Rows go to the changelog by the segment (see `mustela.state.log_chunks`), and the store keeps an
empty row for each of these chunks. Segments that expire are removed in the changelog too, which is
compacted and never deletes by age: what may still be joined must survive, however long nothing
comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from mustela.state.kinds.layout import (
    TIME_BYTES,
    TIME_MAX,
    TIME_MIN,
    RowView,
    first_row,
    pack_time,
    time_key,
    time_rows,
    unpack_time,
)
from mustela.state.kinds.list_bytes import Packed, grow, sealed_places, whole_lists
from mustela.state.kinds.packed import EMPTY, pack_rows
from mustela.state.log_chunks import CHUNK, SEALED

__all__ = ["LIST_FORMAT", "Entry", "ListRows"]

LIST_FORMAT = 1


class Entry(NamedTuple):
    """One record of a list.

    Attributes:
        timestamp: Milliseconds.
        sequence: Tells entries of one key and time apart; the owner of the store counts it.
        value: The value's bytes, or None.
        flags: Bits that belong to the owner of the store.
    """

    timestamp: int
    sequence: int
    value: bytes | None
    flags: int = 0


def _time_of(entry: Packed) -> int:
    return entry[0]


class ListRows:
    """The lists of one key group, as bytes.

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
        >>> lists.append_many({b"apple": [(5, 0, b"x", 0), (150, 1, b"y", 0)]})
        >>> lists.read_many([b"apple", b"pear"], [0, 0], [120, 120])
        [[(5, 0, b'x', 0)], []]
    """

    def __init__(self, view: RowView, *, segment_ms: int) -> None:
        assert segment_ms > 0, segment_ms
        self.view = view
        self.segment_ms = segment_ms

    def segments(self, from_: int, to: int) -> range:
        """Return the starts of the segments that hold from_ <= time <= to."""
        length = self.segment_ms
        return range(from_ // length * length, to + 1, length)

    def append_many(self, entries: Mapping[bytes, Sequence[Packed]]) -> None:
        """Append entries to the lists of many keys, with one fetch."""
        length = self.segment_ms
        fresh: dict[bytes, list[Packed]] = {}
        for key, more in entries.items():
            for entry in more:
                place = time_key(entry[0] // length * length, key)
                if place in fresh:
                    fresh[place].append(entry)
                else:
                    fresh[place] = [entry]
        places = list(fresh)
        rows: dict[bytes, bytes] = {}
        for place, packed in zip(places, self.view.getmulti(places), strict=True):
            more = [pack_rows([entry])[len(EMPTY) :] for entry in fresh[place]]
            rows.update(grow(place, packed, more))
        self.view.put_many(rows.items())

    def read_many(
        self, keys: Sequence[bytes], froms: Sequence[int], tos: Sequence[int]
    ) -> list[list[Packed]]:
        """Return for each key its entries with from <= timestamp <= to.

        They come by timestamp, those of one timestamp as they were appended. One fetch for all
        keys, and each segment is decoded once.
        """
        spans = [self.segments(low, high) for low, high in zip(froms, tos, strict=True)]
        places = [
            [time_key(start, key) for start in span] for key, span in zip(keys, spans, strict=True)
        ]
        wanted = list(dict.fromkeys(place for mine in places for place in mine))
        lists = whole_lists(self._load(wanted), wanted, self._load)
        decoded = {place: _sorted(entries) for place, entries in lists.items()}
        found: list[list[Packed]] = []
        for mine, low, high in zip(places, froms, tos, strict=True):
            entries: list[Packed] = []
            for place in mine:
                segment = decoded.get(place)
                if segment is not None:
                    if segment[0][0] >= low and segment[-1][0] <= high:
                        entries += segment
                    else:
                        entries += [entry for entry in segment if low <= entry[0] <= high]
            found.append(entries)
        return found

    def replace(self, key: bytes, segment: int, entries: Sequence[Packed]) -> None:
        """Set the entries of a key in the segment that starts at ``segment``; none deletes it."""
        assert segment % self.segment_ms == 0, segment
        place = time_key(segment, key)
        for sealed in sealed_places(place, self.view.get(place)):
            self.view.put(sealed, None)
        self.view.put(place, pack_rows(entries) if entries else None)

    def scan(
        self, from_: int = TIME_MIN, to: int = TIME_MAX
    ) -> Iterator[tuple[int, bytes, list[Packed]]]:
        """Iterate over (segment start, record key, entries), by segment, then by key.

        Args:
            from_: Segments that hold this time or later ones.
            to: Segments that hold this time or earlier ones.
        """
        low = from_ if from_ == TIME_MIN else from_ // self.segment_ms * self.segment_ms
        for stored, packed in time_rows(self.view, low, to):
            (entries,) = whole_lists({stored: packed}, [stored], self._load).values()
            yield unpack_time(stored), stored[TIME_BYTES:], _sorted(entries)

    def first_segment(self) -> int | None:
        """Return the start of the oldest segment, or None."""
        row = first_row(self.view)
        return None if row is None else unpack_time(row[0])

    def expire_before(self, bound: int, *, limit: int | None = None) -> int:
        """Remove the segments that end at or below ``bound``; return how many rows that were.

        Args:
            bound: What is older is asked for no more.
            limit: Lists to remove at most, the oldest first; the next call goes on behind them.
        """
        newest = bound - self.segment_ms
        if first_row(self.view, to=newest) is None:
            return 0
        end = pack_time(newest + 1)
        chunks = self._until(CHUNK, end)
        segments = {chunk[1 : 1 + TIME_BYTES] for chunk in chunks}
        most = None if limit is None else limit + 1
        over = [stored for stored, _ in islice(time_rows(self.view, to=newest), most)]
        if limit is not None and len(over) > limit:
            over.pop()  # it says to the next call that there is more
            chunks = []
        else:
            over += self._until(SEALED, end)
        in_chunks = {
            stored
            for stored in over
            if (stored[1 : 1 + TIME_BYTES] if stored[:1] == SEALED else stored[:TIME_BYTES])
            in segments
        }
        self.view.expire(in_chunks)
        self.view.put_many(dict.fromkeys([*chunks, *(set(over) - in_chunks)]))
        return len(over)

    def _until(self, head: bytes, end: bytes) -> list[bytes]:
        """Return the keys that begin with a byte and the time of a segment before ``end``."""
        bound = head + end
        return [stored for stored, _ in self.view.range(head, bound) if stored < bound]

    def _load(self, places: Sequence[bytes]) -> dict[bytes, bytes | None]:
        return dict(zip(places, self.view.getmulti(places), strict=True))


def _sorted(entries: list[Any]) -> list[Packed]:
    """Bring entries into the order of time; most are already."""
    entries.sort(key=_time_of)
    return entries
