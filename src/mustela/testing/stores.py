"""The stores of a topology under test, as its tests see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from mustela.plan.keygroups import key_group
from mustela.state.index import index_table
from mustela.state.interfaces import Rows, Snapshot, StoreSpec
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.kinds.layout import RowView
from mustela.state.kinds.opening import open_store
from mustela.state.kinds.typed import AnyStore
from mustela.state.kinds.views import MergedView
from mustela.testing.cluster import JobResult, MemoryCluster, Place
from mustela.testing.faults import TestDriverError

__all__ = ["DriverStores"]

S = TypeVar("S")

Commit = Callable[[JobResult], object]


class DriverGroupView:
    """The committed rows of one store in one key group; each write is a separate epoch.

    Args:
        cluster: The durable side.
        place: The store's stage, and the key group.
        name: The store.
        commit: Commits writes.
    """

    def __init__(self, cluster: MemoryCluster, place: Place, name: str, commit: Commit) -> None:
        self._cluster = cluster
        self._place = place
        self._name = name
        self._commit = commit

    def _snapshot(self) -> Snapshot:
        cluster = self._cluster
        return cluster.environment(self._place).snapshot(cluster.committed(self._place))

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self.getmulti([key])[0]

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        snapshot = self._snapshot()
        try:
            return snapshot.getmulti(self._name, keys)
        finally:
            snapshot.close()

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self.put_many({key: value})

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys."""
        self._write(sorted(dict(rows).items()), logged=True)

    def expire(self, keys: Iterable[bytes]) -> None:
        """Remove expired rows, without writing to the changelog."""
        self._write([(key, None) for key in sorted(set(keys))], logged=False)

    def _write(self, rows: Rows, *, logged: bool) -> None:
        if not rows:
            return
        cluster, place = self._cluster, self._place
        changes = {self._name: rows}
        result = JobResult(cluster.next_token(), cluster.watermark)
        environment = cluster.environment(place)
        environment.write_pending(result.token, cluster.committed(place), changes)
        result.changes[place] = changes if logged else {}
        self._commit(result)

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order, as of the time of the call."""
        return self._range(self._name, low, high, reverse=reverse)

    def lines(
        self, low: bytes, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the lines of the store's indexes, as of the time of the call."""
        return self._range(index_table(self._name), low, high, reverse=reverse)

    def _range(
        self, table: str, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        snapshot = self._snapshot()
        try:
            return iter(list(snapshot.range(table, low, high, reverse=reverse)))
        finally:
            snapshot.close()

    def first(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would yield."""
        return next(self.range(low, high, reverse=reverse), None)

    def count(self) -> int:
        """Return the number of keys."""
        snapshot = self._snapshot()
        try:
            return snapshot.count(self._name)
        finally:
            snapshot.close()


class _Groups:
    """One store over all key groups."""

    def __init__(self, views: Sequence[RowView], suffix: int) -> None:
        self._views = views
        self._suffix = suffix

    def of(self, key: bytes) -> RowView:
        return self._views[key_group(key, len(self._views), suffix=self._suffix)]

    def all(self) -> Sequence[RowView]:
        return self._views


class _WholeStore(MergedView):
    """The rows of all key groups, wherever they are.

    A processor may write a key other than its record's; the row is then in the key group of the
    record's key.
    """

    def __init__(self, groups: _Groups) -> None:
        super().__init__(groups)
        self._all = groups

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._holder(key).get(key)

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        return [self.get(key) for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key`` where it is, or where it belongs; None deletes."""
        self._holder(key).put(key, value)

    def count(self) -> int:
        """Return the number of keys."""
        return sum(1 for _ in self.range())

    def _holder(self, key: bytes) -> RowView:
        own = self._all.of(key)
        views = [own, *self._all.all()]
        return next((view for view in views if view.get(key) is not None), own)


class DriverStores:
    """Opens the stores of a topology under test.

    Args:
        cluster: The durable side.
        commit: Commits writes.
    """

    def __init__(self, cluster: MemoryCluster, commit: Commit) -> None:
        self._cluster = cluster
        self._commit = commit

    @property
    def names(self) -> list[str]:
        """The names of all stores."""
        whole = [table.store.name for table in self._cluster.plan.global_tables]
        return sorted([*self._cluster.plan.stores, *whole])

    def take(self, name: str, shown: Callable[[Any, StoreSpec], S]) -> S:
        """Return a store as one of the public store classes.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is of another kind.
        """
        return shown(*self._find(name))

    def key_value(self, name: str) -> KeyValueStore[Any, Any]:
        """Return a key-value store without timestamps.

        Raises:
            TestDriverError: If there is no store of that name, or it is of another kind.
        """
        rows, spec = self._find(name)
        kind = spec.traits
        if kind.by_key:
            return KeyValueStore(rows, spec)
        msg = f"store {name!r} is a {spec.kind} store"
        raise TestDriverError(
            msg,
            why="only the step that owns it can interpret it" if kind.store is None else None,
            fix=_way_to(spec),
            fields={"store": name, "kind": spec.kind},
        )

    def any(self, name: str) -> AnyStore:
        """Return a store with the interface of its kind."""
        rows, spec = self._find(name)
        return self.key_value(name) if spec.traits.store is None else open_store(rows, spec)

    def readable(self) -> list[str]:
        """Return the names of the stores that a user can read."""
        return [name for name in self.names if self._find(name)[1].traits.store is not None]

    def unexpiring(self) -> list[str]:
        """Return the names of the stores without expiry, whose contents are exact."""
        return [name for name in self.readable() if self._find(name)[1].traits.by_key]

    def rows(self, name: str) -> list[tuple[bytes, bytes]]:
        """Return the stored rows of a store, of all key groups, in order."""
        groups, _ = self._find(name)
        return sorted(row for view in groups.all() for row in view.range())

    def _find(self, name: str) -> tuple[_WholeStore, StoreSpec]:
        found = self._cluster.plan.stores.get(name)
        for table in self._cluster.plan.global_tables:
            if table.store.name == name:
                groups = _Groups([self._cluster.global_topics.views()[name]], 0)
                return _WholeStore(groups), table.store
        if found is None:
            known = ", ".join(self.names) or "none"
            msg = f"the topology has no store {name!r}"
            raise TestDriverError(msg, evidence={"stores": known}, fields={"store": name})
        stage, spec = found
        views = [
            DriverGroupView(self._cluster, (stage, group), name, self._commit)
            for group in range(self._cluster.key_groups)
        ]
        suffix = 0 if spec.key_serde is None else spec.key_serde.group_suffix
        rows = spec.traits.rows
        return _WholeStore(_Groups([rows(view, spec) for view in views], suffix)), spec


def _way_to(spec: StoreSpec) -> str | None:
    """Return the fix for a store opened as the wrong kind."""
    kind = spec.traits
    if kind.store is None:
        return None
    own = f"get_{kind.getter}_store, or " if kind.getter else ""
    return f"take it with {own}get_state_store"
