"""The stores of a topology under test, as queries read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mustela.model import TopicPartition
from mustela.queries.source import Edition, StorePlace, places_in
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot, Token
from mustela.state.memory import MemoryEnvironment
from mustela.testing.cluster import MemoryCluster

__all__ = ["DriverSource"]

_COPIED = Token(1, 1, 0)


class DriverSource:
    """Gives out what the test driver has committed.

    Args:
        cluster: The durable side.
        check: Called before each reading.
    """

    def __init__(self, cluster: MemoryCluster, check: Callable[[], None]) -> None:
        self._cluster = cluster
        self._check = check

    def newest(self) -> Edition:
        """Return the newest edition."""
        self._check()
        return _DriverEdition(self._cluster)

    def wait(self, holds: Callable[[Edition], bool], seconds: float) -> bool:
        """Return whether the newest edition meets a condition; waiting would change nothing."""
        del seconds
        return holds(self.newest())


class _DriverEdition:
    """What is committed as of one epoch."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._marks = dict(cluster.marks)
        self._offsets = dict(cluster.offsets)
        value = cluster.watermark.value
        self.epoch = cluster.epoch
        self.watermark = None if value < 0 else value

    @property
    def stores(self) -> Mapping[str, StorePlace]:
        """All stores by name."""
        plan = self._cluster.plan
        found = places_in(plan, self._cluster.key_groups)
        for number, table in enumerate(plan.global_tables):
            place = StorePlace(spec=table.store, stage=-1 - number, groups=1, wanders=False)
            found[table.store.name] = place
        return found

    def mark(self, stage: int, group: int) -> object:
        """Return what identifies the state of a key group."""
        return self._marks.get((stage, group), Committed())

    def open(self, stage: int, group: int) -> Snapshot:
        """Open a view of the state of a key group."""
        cluster = self._cluster
        if stage < 0:
            return self._copy(-1 - stage)
        committed = self._marks.get((stage, group), Committed())
        return cluster.environment((stage, group)).snapshot(committed)

    def has_read(self, sent: Mapping[TopicPartition, int]) -> bool:
        """Return whether the records at these offsets, and all before them, are in this state."""
        return all(self._offsets.get(place.topic, 0) > offset for place, offset in sent.items())

    def _copy(self, number: int) -> Snapshot:
        store = self._cluster.plan.global_tables[number].store
        spec = EnvironmentSpec(
            application_id="test", stage="global", group=0, groups=1, stores=(store,)
        )
        rows = list(self._cluster.global_topics.views()[store.name].range())
        environment = MemoryEnvironment(spec)
        environment.write_pending(_COPIED, Committed(), {store.name: rows})
        return environment.snapshot(Committed(token=_COPIED))
