"""A versioned table as a join sees it: the version valid at a record's own time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.isolate import copy_column
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import N
from mustela.kernel.tables.versions import versioned_rows
from mustela.plan.batch import Batch, Order
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import EmptySnapshot
from mustela.state.kinds.versioned import VersionedRows
from mustela.state.overlay import StoreOverlay
from mustela.topology.table_lookup import TableLookup

__all__ = ["VersionedLookup", "versions_before"]


class _Before(EmptySnapshot):
    """A store's rows before the epoch, as a snapshot to write over.

    It has no ranges: expired history is only removed in the store itself.
    """

    def __init__(self, store: StoreOverlay) -> None:
        self._store = store

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return the value of ``key`` before the epoch."""
        del store
        return self._store.before(key)

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` before the epoch."""
        del store
        return self._store.before_many(keys)


def versions_before(store: StoreOverlay, spec: StoreSpec) -> VersionedRows:
    """Return the versions of a key group before the epoch; what is put into them is discarded."""
    return versioned_rows(StoreOverlay(spec.name, _Before(store)), spec)


class VersionedLookup:
    """The versions of one table, with each change applied at its place between the records.

    A table in the same stage has already put the epoch's versions when the join runs. So the join
    puts them again, one by one, over the versions before the epoch, and discards the result.

    Args:
        operator: The join.
        lookup: Where the versions are.
    """

    def __init__(self, operator: KeyedOperator[N], lookup: TableLookup) -> None:
        self._lookup = lookup
        self._store = operator.lane_store(lookup.store)
        self._codec = StoreCodec(lookup.store, lookup.store.value_serde or ValueSerde())
        self._rows: dict[int, VersionedRows] = {}

    def answer(
        self,
        places: Sequence[Order],
        keys: list[bytes],
        times: Sequence[int],
        changes: Batch,
        changed: list[bytes],
    ) -> list[Any]:
        """Return, for each lookup, the value valid at its time, and apply the changes.

        Args:
            places: The place of each lookup among the changes, ascending.
            keys: The key of each lookup.
            times: The time of each lookup.
            changes: Changes of the table, in order.
            changed: Their keys.
        """
        causes = changes.order or []
        encoded = self._codec.encode_many(changes.values, changes.timestamps) if changed else []
        since = changes.timestamps
        mine: dict[StoreOverlay, tuple[list[int], list[int]]] = {}
        for nth, column in enumerate((keys, changed)):
            for view, rows in self._store.by_group(column):
                mine.setdefault(view, ([], []))[nth].extend(rows)
        found: list[bytes | None] = [None] * len(keys)
        for view, (asked, told) in mine.items():
            versions = self._versions(view)
            start = 0
            for run, end in _runs([causes[row] for row in told], [places[row] for row in asked]):
                if told_now := [told[n] for n in run]:
                    versions.put_many(
                        [changed[row] for row in told_now],
                        [encoded[row] for row in told_now],
                        [since[row] for row in told_now],
                    )
                now = asked[start:end]
                start = end
                held = versions.as_of_many([keys[n] for n in now], [times[n] for n in now])
                for row, version in zip(now, held, strict=True):
                    found[row] = None if version is None else version.value
            if told and self._lookup.own:
                versions.expire()
        return copy_column(self._codec.decode_many(found)[0])

    def _versions(self, view: StoreOverlay) -> VersionedRows:
        spec = self._lookup.store
        if self._lookup.own:
            return versioned_rows(view, spec)
        rows = self._rows.get(id(view))
        if rows is None:
            rows = self._rows[id(view)] = versions_before(view, spec)
        return rows


def _runs(causes: Sequence[Order], places: Sequence[Order]) -> Iterator[tuple[range, int]]:
    """Divide changes and lookups into runs: some changes, then the lookups after them.

    Yields:
        The changes of a run, and where its lookups end.

    Example:
        >>> list(_runs([(1,), (2,), (9,)], [(0,), (3,), (4,)]))
        [(range(0, 0), 1), (range(0, 2), 3), (range(2, 3), 3)]
    """
    change = 0
    question = 0
    while change < len(causes) or question < len(places):
        start = change
        if question < len(places):
            place = places[question]
            while change < len(causes) and causes[change] <= place:
                change += 1
            until = causes[change] if change < len(causes) else None
            while question < len(places) and (until is None or places[question] < until):
                question += 1
        else:
            change = len(causes)
        yield range(start, change), question
