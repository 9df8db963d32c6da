"""The stores of a topology under test, as its tests see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge

from mustela.plan.keygroups import key_group
from mustela.state.interfaces import Rows, Snapshot
from mustela.testing.cluster import Cluster, JobResult

__all__ = ["DriverStoreView"]


class DriverStoreView:
    """The committed bytes of one store, over all key groups.

    Args:
        cluster: The durable side.
        stage: The store's stage.
        name: The store.
        commit: Commits what is put, as an epoch of its own.
    """

    def __init__(
        self, cluster: Cluster, stage: int, name: str, commit: Callable[[JobResult], object]
    ) -> None:
        self._cluster = cluster
        self._stage = stage
        self._name = name
        self._commit = commit

    def _snapshot(self, group: int) -> Snapshot:
        place = self._stage, group
        return self._cluster.environment(place).snapshot(self._cluster.committed(place))

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        snapshot = self._snapshot(key_group(key, self._cluster.key_groups))
        try:
            return snapshot.get(self._name, key)
        finally:
            snapshot.close()

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        return [self.get(key) for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``, as an epoch of its own; None deletes."""
        cluster = self._cluster
        place = self._stage, key_group(key, cluster.key_groups)
        changes: dict[str, Rows] = {self._name: [(key, value)]}
        result = JobResult(cluster.next_token(), cluster.watermark, changes={place: changes})
        environment = cluster.environment(place)
        environment.write_pending(result.token, cluster.committed(place), changes)
        self._commit(result)

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        return self._merged(
            lambda snapshot: snapshot.range(self._name, low, high, reverse=reverse), reverse
        )

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, in key order."""
        return self._merged(
            lambda snapshot: snapshot.prefix(self._name, prefix, reverse=reverse), reverse
        )

    def count(self) -> int:
        """Return the number of keys."""
        return sum(1 for _ in self.range())

    def _merged(
        self, read: Callable[[Snapshot], Iterator[tuple[bytes, bytes]]], reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        runs: list[list[tuple[bytes, bytes]]] = []
        for group in range(self._cluster.key_groups):
            snapshot = self._snapshot(group)
            runs.append(list(read(snapshot)))
            snapshot.close()
        return merge(*runs, reverse=reverse)
