"""The rows of a key-value store that has indexes, and finding rows by them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from mustela.state.faults import IndexTakenError, StoreError
from mustela.state.index import Line, Lines
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.indexing import Indexer, key_of
from mustela.state.kinds.layout import RowView
from mustela.state.kinds.record_rows import RecordRows
from mustela.state.ordered import merge_layers, prefix_end
from mustela.state.overlay import StoreOverlay

__all__ = ["IndexReader", "IndexedRows"]

K = TypeVar("K")
S = TypeVar("S")

_FEW: Final = 16
_ROWS_AT_ONCE: Final = 64


class IndexedRows(RecordRows):
    """The rows of one key group under the record keys' own bytes, with the lines of indexes.

    The lines of committed rows are in the environment, which writes them with the rows. Those of
    rows that this epoch writes are here.

    Args:
        view: The rows of the store.
        spec: The store.
    """

    def __init__(self, view: RowView, spec: StoreSpec) -> None:
        super().__init__(view)
        self.indexer = Indexer(spec)
        self._epoch = view if isinstance(view, StoreOverlay) else None
        self._fresh: dict[bytes, Lines] = {} if self._epoch is None else self._epoch.fresh_lines
        # What follows is kept from the first time that lines are read on; before, all is fresh.
        self._since: dict[bytes, int] = {}
        self._turn = 0
        self._dirty: set[bytes] = set()
        self._placed: dict[bytes, Lines] = {}
        self._order: list[Line] = []
        self.get = view.get
        self.getmulti = view.getmulti
        self.range = view.range
        self.first = view.first
        self.count = view.count

    def load(self, keys: Sequence[bytes]) -> None:
        """Fetch what will be read; over an overlay."""
        assert self._epoch is not None, self.view
        self._epoch.load(keys)

    def before_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values that ``keys`` had before the epoch; over an overlay."""
        assert self._epoch is not None, self.view
        return self._epoch.before_many(keys)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes; see `put_many`."""
        # `put_many` for one row, because this is called for each record.
        lines = self.indexer.lines(key, value)
        if self.indexer.unique:
            self._check_free({key: lines})
        self.view.put(key, value)
        if self._epoch is not None:
            self._fresh[key] = lines
            if self._turn:
                self._dirty.add(key)
                if key not in self._since:
                    self._since[key] = self._turn

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys, in their order; None deletes.

        Raises:
            IndexEntryError: If an index has no place for one of them; none is written then.
            IndexTakenError: If a unique index has the entry for another key.
        """
        written = dict(rows)
        fresh = {key: self.indexer.lines(key, row) for key, row in written.items()}
        if self.indexer.unique:
            self._check_free(fresh)
        self.view.put_many(written)
        if self._epoch is not None:
            self._fresh.update(fresh)
            if self._turn:
                self._dirty.update(fresh)
                for key in fresh:
                    self._since.setdefault(key, self._turn)

    def lines(self, low: bytes, high: bytes | None, *, reverse: bool = False) -> Iterator[Line]:
        """Iterate over the lines with low <= place < high, as they are now."""
        view: Any = self.view
        below: Iterator[Line] = view.lines(low, high, reverse=reverse)
        if self._fresh:
            if not self._turn:
                self._since = dict.fromkeys(self._fresh, 0)
                self._dirty = set(self._fresh)
            above = self._above(low, high)
            # Rows that are written while this goes on do not vanish from it.
            since, turn = self._since, self._turn
            self._turn = never = turn + 1
            kept = (line for line in below if since.get(key_of(line), never) > turn)
            below = merge_layers(kept, above[::-1] if reverse else above, reverse=reverse)
        return (line for line in below if high is None or line[0] < high)

    def _above(self, low: bytes, high: bytes | None) -> list[Line]:
        """Return the lines of this epoch's rows."""
        if len(self._dirty) > _FEW:
            self._order = sorted(line for lines in self._fresh.values() for line in lines)
        else:
            for key in self._dirty:
                for line in self._placed.get(key, ()):
                    del self._order[bisect_left(self._order, line)]
                for line in self._fresh[key]:
                    insort(self._order, line)
        self._placed.update((key, self._fresh[key]) for key in self._dirty)
        self._dirty.clear()
        start = bisect_left(self._order, (low,))
        stop = len(self._order) if high is None else bisect_left(self._order, (high,))
        return self._order[start:stop]

    def _check_free(self, fresh: Mapping[bytes, Lines]) -> None:
        taken: dict[bytes, bytes] = {}
        for key, lines in fresh.items():
            for line in lines:
                place = line[0][: int.from_bytes(line[1], "big")]
                if not any(map(place.startswith, self.indexer.unique)):
                    continue
                holders = map(key_of, self.lines(place, prefix_end(place)))
                other = next((one for one in holders if one != key and one not in fresh), None)
                other = taken.setdefault(place, key) if other is None else other
                if other != key:
                    raise self._taken(place, key, other)

    def _taken(self, place: bytes, key: bytes, other: bytes) -> IndexTakenError:
        spec, shown = self.indexer.spec, self.indexer.shown
        name = place.partition(b"\x00")[0].decode()
        return IndexTakenError(
            f"unique index {name!r} of store {spec.name!r} has the entry of key {shown(key)!r} "
            f"for key {shown(other)!r} already",
            why="a unique index has one key for each entry",
            fix="delete the other row first, or leave out unique=True",
            fields={"store": spec.name, "index": name},
        )


class IndexReader(Generic[K, S]):
    """The rows of a key-value store by one of its indexes: what ``store.by(name)`` gives.

    Rows come in the order of their entries, then of their keys' bytes, and are fetched as the
    iteration goes on. A row that is deleted meanwhile is left out.

    Example:
        >>> from mustela import Stores
        >>> from mustela.testing import MockProcessorContext
        >>> people = Stores.persistent_key_value_store("people")
        >>> people = Stores.key_value_store_builder(people, key=str, value=dict)
        >>> people = people.with_index(city="city", age=lambda person: person["age"])
        >>> store = MockProcessorContext().add_state_store(people)
        >>> store.put("ann", {"city": "Rome", "age": 30})
        >>> store.put("bob", {"city": "Oslo", "age": 25})
        >>> store.put("cid", {"city": "Rome", "age": 20})
        >>> [key for key, person in store.by("city").get("Rome")]
        ['ann', 'cid']
        >>> list(store.by("age").keys(21, reverse=True))
        ['ann', 'bob']
    """

    def __init__(
        self, groups: Any, name: str, key: Callable[[bytes], K], shown: Callable[[bytes], S]
    ) -> None:
        views: list[Any] = list(groups.all()) if hasattr(groups, "all") else [groups]
        if not all(hasattr(view, "lines") and hasattr(view, "indexer") for view in views):
            msg = f"rows cannot be found by index {name!r} here"
            fix = "give the store this index, and read it in a processor or with app.store(…)"
            raise StoreError(msg, why="only declared keys, or no indexes, are in reach", fix=fix)
        self._views = views
        self._name = name
        self._place: Callable[..., bytes] = views[0].indexer.place
        self._place(name)
        self._key = key
        self._shown = shown

    def get(self, entry: Any) -> Iterator[tuple[K, S]]:
        """Iterate over the keys and values with an entry."""
        place = self._place(self._name, entry)
        return self._rows(place, prefix_end(place), reverse=False)

    def one(self, entry: Any) -> tuple[K, S] | None:
        """Return the first key and value with an entry, or None; of a unique index the only one."""
        return next(self.get(entry), None)

    def range(
        self, low: Any = None, high: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, S]]:
        """Iterate over low <= entry <= high; None leaves a side open.

        Args:
            low: The lowest entry.
            high: The highest entry.
            reverse: Begin with the highest.
        """
        return self._rows(*self._bounds(low, high), reverse=reverse)

    def keys(self, low: Any = None, high: Any = None, *, reverse: bool = False) -> Iterator[K]:
        """Iterate over the keys alone, as `range` does; no row is read."""
        lines = self._lines(*self._bounds(low, high), reverse=reverse)
        return (self._key(key_of(line)) for line, _ in lines)

    def count(self, low: Any = None, high: Any = None) -> int:
        """Return how many rows `range` gives; lines are counted, and no row is read."""
        return sum(1 for _ in self._lines(*self._bounds(low, high), reverse=False))

    def _bounds(self, low: Any, high: Any) -> tuple[bytes, bytes | None]:
        place, name = self._place, self._name
        start = place(name) if low is None else place(name, low)
        return start, prefix_end(place(name) if high is None else place(name, high))

    def _lines(
        self, low: bytes, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[Line, Any]]:
        runs = [_with(view.lines(low, high, reverse=reverse), view) for view in self._views]
        return runs[0] if len(runs) == 1 else merge(*runs, key=_line_of, reverse=reverse)

    def _rows(self, low: bytes, high: bytes | None, *, reverse: bool) -> Iterator[tuple[K, S]]:
        lines = self._lines(low, high, reverse=reverse)
        while part := list(islice(lines, _ROWS_AT_ONCE)):
            wanted: dict[int, list[bytes]] = {}
            for line, view in part:
                wanted.setdefault(id(view), []).append(key_of(line))
            views = {id(view): view for _, view in part}
            found = {
                (at, key): row
                for at, keys in wanted.items()
                for key, row in zip(keys, views[at].getmulti(keys), strict=True)
            }
            for line, view in part:
                key = key_of(line)
                row = found[id(view), key]
                if row is not None:
                    yield self._key(key), self._shown(row)


def _with(lines: Iterator[Line], view: Any) -> Iterator[tuple[Line, Any]]:
    return ((line, view) for line in lines)


def _line_of(found: tuple[Line, Any]) -> Line:
    return found[0]
