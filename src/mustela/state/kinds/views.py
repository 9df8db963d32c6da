"""The rows of one store over several key groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from typing import Any, Protocol, TypeVar

from mustela.state.kinds.layout import RowView
from mustela.state.ordered import prefix_end

__all__ = [
    "GroupViews",
    "GroupedView",
    "MergedView",
    "StoreView",
    "WholeView",
    "merged",
    "ranged",
]

T = TypeVar("T")


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
    return runs[0] if len(runs) == 1 else _once(merge(*runs, reverse=reverse), groups)


def _once(
    rows: Iterator[tuple[bytes, bytes]], groups: GroupedView
) -> Iterator[tuple[bytes, bytes]]:
    for key, same in groupby(rows, key=lambda row: row[0]):
        found = [value for _, value in same]
        own = groups.of(key).get(key) if len(found) > 1 else None
        yield key, found[0] if own is None else own


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
