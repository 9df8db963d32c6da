"""Places where the stores of a test driver's application are read without it.

A replica follows its changelogs and epochs, as brokers would hold them, and writes LMDB's files in
a directory of state. That is then what a stopped application leaves: it is read as it lies there,
and once more from the changelogs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from mustela import TopologyTestDriver
from mustela.config.settings import Settings
from mustela.connectors.kafka import copies
from mustela.connectors.kafka.tail import TailRow
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic
from mustela.queries.source import StateSource
from mustela.runtime.record.epoch_record import EpochRecord, GroupState, StoreState
from mustela.runtime.replica.committed_state import committed_state
from mustela.runtime.replica.replica import Replica, Sources
from tests.unit.runtime.followed import Admin
from tests.unit.runtime.plans import settings_for, some_state

__all__ = ["Brokers"]

_APPLICATION = "app"


class Brokers:
    """What brokers hold of the application of a test driver, for replicas.

    Args:
        driver: The driver.
        directory: For state.
        patch: Undoes what is patched: bulk reads, and what a process that comes once connects to.
    """

    def __init__(
        self, driver: TopologyTestDriver, directory: Path, patch: pytest.MonkeyPatch
    ) -> None:
        self._cluster: Any = driver._cluster  # pyright: ignore[reportPrivateUsage]
        self.records: list[EpochRecord] = []
        self._stores = {
            changelog_topic(_APPLICATION, spec.log_name): name
            for name, (_, spec) in self._cluster.plan.stores.items()
        }
        groups = self._cluster.key_groups
        self._settings: Settings = settings_for(
            directory, application_id=_APPLICATION, key_groups=groups, state_dir=str(directory)
        )
        patch.setattr(copies, "read_between", self._read_between)
        patch.setattr(Sources, "of", lambda _settings: self._sources())

    def commit(self) -> None:
        """Write the record of the newest epoch."""
        cluster = self._cluster
        logged = [name for name, (_, spec) in cluster.plan.stores.items() if spec.logged]
        blank = some_state(cluster.plan, epoch=cluster.epoch).to_record(0)
        self.records.append(
            msgspec.structs.replace(
                blank,
                key_groups=cluster.key_groups,
                groups={
                    stage.identity: [self._state(stage.index, at) for at in self._groups]
                    for stage in cluster.plan.stages
                    if stage.stores
                },
                changelog_ends={
                    store: [len(cluster.changelogs.get((store, at), ())) for at in self._groups]
                    for store in logged
                },
                stores={store: StoreState(logged=True, changelog_id="id") for store in logged},
            )
        )

    def replica(self, stack: ExitStack) -> Replica:
        """Return a replica that shows the newest epoch; ``step`` brings it to later ones."""
        replica = Replica(self._settings, self._cluster.plan, examine=lambda: None)
        stack.callback(replica.close)
        assert replica.step()
        return replica

    def left(self, stack: ExitStack, only: Literal["directory", "changelogs"]) -> StateSource:
        """Return what a process that comes once reads."""
        plan = self._cluster.plan
        return stack.enter_context(
            committed_state(self._settings, plan, examine=lambda: None, say=str, only=only)
        )

    @property
    def _groups(self) -> range:
        return range(self._cluster.key_groups)

    def _state(self, stage: int, group: int) -> GroupState | None:
        committed = self._cluster.marks.get((stage, group))
        if committed is None or committed.token is None:
            return None
        token = committed.token
        return GroupState(token.incarnation, token.epoch, token.attempt, committed.time_ms)

    # -- what a replica asks

    def _sources(self) -> Sources:
        return Sources(admin=Admin(), tail=_Tail(self), feed=_Feed(self))  # type: ignore[arg-type]

    def rows(self, topic: str, group: int, start: int, end: int) -> list[TailRow]:
        """Return rows of a changelog."""
        log = self._cluster.changelogs.get((self._stores[topic], group), [])
        return [TailRow(at, *log[at]) for at in range(start, min(end, len(log)))]

    def _read_between(
        self, _client: Any, topic: str, group: int, start: int, end: int, **more: Any
    ) -> list[tuple[bytes, bytes | None]]:
        rows = self.rows(topic, group, start, end)
        more["on_chunk"](len(rows))
        return [(row.key, row.value) for row in rows if row.key is not None]


class _Feed:
    """The epochs topic."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._at: int | None = None

    def new(self, wait_s: float) -> Sequence[EpochRecord]:
        del wait_s
        return self.all_new()

    def all_new(self) -> Sequence[EpochRecord]:
        records = self._brokers.records
        start = max(0, len(records) - 1) if self._at is None else self._at
        self._at = len(records)
        return records[start:]

    def close(self) -> None:
        self._at = None


class _Tail:
    """The changelogs, from where they are followed."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._from: dict[TopicPartition, int] = {}

    def follow(self, starts: Mapping[TopicPartition, int]) -> None:
        self._from.update(starts)

    def take(self, place: TopicPartition, end: int) -> Sequence[TailRow]:
        start, self._from[place] = self._from[place], end
        return self._brokers.rows(place.topic, place.partition, start, end)

    def close(self) -> None:
        self._from = {}
