"""The rows of one store over several key groups."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from mustela.state.kinds.layout import RowView
from mustela.state.ordered import prefix_end

__all__ = [
    "GroupViews",
    "GroupedView",
    "MergedView",
    "StoreView",
    "WholeView",
    "merged",
    "once",
    "ranged",
    "read_ahead",
]

T = TypeVar("T")

_AHEAD: Final = 64
"""How many rows of a key group are read at a time."""

_KEY: Final = itemgetter(0)


class GroupedView(Protocol):
    """The rows of a store, by key group."""

    def of(self, key: bytes) -> RowView:
        """Return the key group of a record key."""
        ...

    def all(self) -> Sequence[RowView]:
        """Return every key group."""
        ...


class StoreView(Protocol):
    """A store's rows as bytes; `StoreOverlay` is one."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        ...

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        ...

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        ...

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``."""
        ...

    def count(self) -> int:
        """Return the number of keys."""
        ...


class WholeView(StoreView, GroupedView, Protocol):
    """Rows that can be found by the record's key and by key group."""


class GroupViews:
    """Key groups that are all available.

    Args:
        views: The rows of each key group.
        group_of: From a record key to its key group.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(StoreSpec(name="t", kind="timer"),))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("t")
        >>> GroupViews({0: view}, lambda key: 0).of(b"apple") is view
        True
    """

    def __init__(self, views: Mapping[int, RowView], group_of: Callable[[bytes], int]) -> None:
        self._views = views
        self._group_of = group_of

    def of(self, key: bytes) -> RowView:
        """Return the key group of a record key."""
        return self._views[self._group_of(key)]

    def all(self) -> Sequence[RowView]:
        """Return every key group."""
        return [self._views[group] for group in sorted(self._views)]


class MergedView:
    """Rows found by the record key itself, as if there were one key group.

    Args:
        groups: The rows, by key group.
    """

    def __init__(self, groups: GroupedView) -> None:
        self._groups = groups

    def of(self, key: bytes) -> RowView:
        """Return the key group of a record key."""
        return self._groups.of(key)

    def all(self) -> Sequence[RowView]:
        """Return every key group."""
        return self._groups.all()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._groups.of(key).get(key)

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order, with one fetch for each key group."""
        views: dict[int, RowView] = {}
        places: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            view = self._groups.of(key)
            views[id(view)] = view
            places.setdefault(id(view), []).append(place)
        found: list[bytes | None] = [None] * len(keys)
        for name, view in views.items():
            mine = places[name]
            for place, value in zip(mine, view.getmulti([keys[i] for i in mine]), strict=True):
                found[place] = value
        return found

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self._groups.of(key).put(key, value)

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        return ranged(self._groups, low, high, reverse=reverse)

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, in key order."""
        rows = self.range(prefix, prefix_end(prefix), reverse=reverse)
        return (row for row in rows if row[0].startswith(prefix))

    def count(self) -> int:
        """Return the number of keys."""
        return sum(view.count() for view in self._groups.all())


def ranged(
    groups: GroupedView, low: bytes | None, high: bytes | None, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the rows of several key groups in key order, each key once.

    A processor may write a key other than its record's, and then several key groups may hold it.
    The row of the key's own group, which `get` returns, wins; otherwise that of the first group.
    """
    runs = [view.range(low, high, reverse=reverse) for view in groups.all()]
    return runs[0] if len(runs) == 1 else once(merge(*runs, reverse=reverse), groups)


def once(rows: Iterator[tuple[bytes, bytes]], groups: GroupedView) -> Iterator[tuple[bytes, bytes]]:
    """Yield each key of ordered rows once: with the row of its own group, else with the first."""
    for key, same in groupby(rows, key=_KEY):
        found = [value for _, value in same]
        own = groups.of(key).get(key) if len(found) > 1 else None
        yield key, found[0] if own is None else own


def read_ahead(
    runs: Sequence[Iterator[tuple[bytes, bytes]]], *, reverse: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Merge the ordered rows of key groups into one order, rows of one key in that of the groups.

    It reads up to `_AHEAD` rows of each key group at a time and sorts them, which takes a fraction
    of the time that a heap takes for each row. So it is for rows that do not change meanwhile.

    Example:
        >>> runs = [iter([(b"a", b"1"), (b"c", b"3")]), iter([(b"b", b"2"), (b"c", b"4")])]
        >>> list(read_ahead(runs))
        [(b'a', b'1'), (b'b', b'2'), (b'c', b'3'), (b'c', b'4')]
    """
    open_runs: list[tuple[Iterator[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]] = [
        (run, []) for run in runs
    ]
    size = 1
    while open_runs:
        edges: list[bytes] = []  # up to the first of them, nothing is missing
        for run, rows in open_runs:
            wanted = size - len(rows)
            rows += islice(run, max(0, wanted))
            if len(rows) >= size:
                edges.append(rows[-1][0])
        found: list[tuple[bytes, bytes]] = []
        edge = (max if reverse else min)(edges, default=None)
        for _, rows in open_runs:
            end = len(rows) if edge is None else _until(rows, edge, reverse=reverse)
            found += rows[:end]
            del rows[:end]
        found.sort(key=_KEY, reverse=reverse)
        yield from found
        if edge is None:
            return
        size = min(size * 2, _AHEAD)


def _until(rows: list[tuple[bytes, bytes]], edge: bytes, *, reverse: bool) -> int:
    """Return how many rows do not lie behind a key."""
    if reverse:
        return len(rows) - bisect_left(rows[::-1], edge, key=_KEY)
    return bisect_right(rows, edge, key=_KEY)


def merged(
    runs: Iterable[Iterator[T]], *, key: Callable[[T], Any], reverse: bool = False
) -> Iterator[T]:
    """Merge the ordered rows of key groups into one order, each place once.

    If several key groups have the same place, the first group's row wins.
    """
    listed = list(runs)
    if len(listed) == 1:
        return listed[0]
    rows = merge(*listed, key=key, reverse=reverse)
    return (next(same) for _, same in groupby(rows, key=key))
