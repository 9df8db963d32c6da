"""A model of an application for replicas: its changelogs, its epochs topic, and compaction."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mustela.connectors.kafka import copies as copies_module
from mustela.connectors.kafka.tail import TailRow
from mustela.model import TopicPartition
from mustela.runtime.record.epoch_delta import token_of
from mustela.runtime.record.epoch_record import EpochRecord, GroupState, StoreState
from mustela.runtime.replica.replica import Replica, Sources
from mustela.runtime.status.change_ring import ChangeRing
from tests.unit.runtime.plans import GROUPS, settings_for, some_state, word_count_plan

PLAN = word_count_plan()
STAGE = next(stage for stage in PLAN.stages if stage.stores)
LOG = "app-counts-changelog"
Rows = dict[bytes, bytes]


class Application:
    """An application that commits epochs of one store, and what brokers hold of it."""

    def __init__(self) -> None:
        self.life = 0
        self.begin_life()
        self.states: dict[tuple[int, int, int], Rows] = {}
        self.during: list[Callable[[], None]] = []

    def begin_life(self) -> None:
        """Forget everything, as after a reset."""
        self.life += 1
        self.logs: list[list[TailRow]] = [[] for _ in range(GROUPS)]
        self.ends = [0] * GROUPS
        self.rows: Rows = {}
        self.records: list[EpochRecord] = []
        state = some_state(PLAN, epoch=0)
        self.record = msgspec.structs.replace(
            state.to_record(0),
            incarnation=1,
            attempt=0,
            life=f"life-{self.life}",
            groups={STAGE.identity: [None] * GROUPS},
            changelog_ends={"counts": [0] * GROUPS},
            stores={"counts": StoreState(logged=True, changelog_id=f"id-{self.life}")},
        )

    def commit(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Commit an epoch."""
        epoch = self.record.epoch + 1
        groups = list(self.record.groups[STAGE.identity])
        ends = list(self.record.changelog_ends["counts"])
        for group in sorted({key[0] % GROUPS for key in rows}):
            self._write(group, {key: rows[key] for key in rows if key[0] % GROUPS == group})
            groups[group] = GroupState(1, epoch, 0, epoch)
            ends[group] = self.ends[group] - 1  # before the marker
        for key, value in rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.record = msgspec.structs.replace(
            self.record,
            epoch=epoch,
            time_ms=epoch,
            groups={STAGE.identity: groups},
            changelog_ends={"counts": ends},
        )
        self.records.append(self.record)
        self.states[self.life, *token_of(self.record)[:2]] = dict(self.rows)

    def _write(self, group: int, rows: Mapping[bytes, bytes | None]) -> None:
        at = self.ends[group]
        self.logs[group] += [TailRow(at + n, *row) for n, row in enumerate(rows.items())]
        self.ends[group] = at + len(rows) + 1

    def abort(self, group: int, count: int) -> None:
        """Write rows that are aborted: they take offsets."""
        self.ends[group] += count + 1

    def compact(self, group: int) -> None:
        """Keep the last row of each key."""
        last = {row.key: row.offset for row in self.logs[group]}
        self.logs[group] = [row for row in self.logs[group] if last[row.key] == row.offset]

    def happen(self) -> None:
        """Let something happen between two requests of the replica."""
        if self.during:
            self.during.pop(0)()

    # -- what a replica asks

    def read(self, group: int, start: int, end: int) -> list[TailRow]:
        """Return rows of a changelog."""
        self.happen()
        return [row for row in self.logs[group] if start <= row.offset < end]


class Feed:
    """The epochs topic."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._at: int | None = None

    def new(self, wait_s: float) -> Sequence[EpochRecord]:
        found = self.all_new()
        if not found and wait_s:
            threading.Event().wait(0.005)  # whoever follows without end lets others run
        return found

    def all_new(self) -> Sequence[EpochRecord]:
        records = self._application.records
        start = max(0, len(records) - 1) if self._at is None else self._at
        self._at = len(records)
        return records[start:]

    def close(self) -> None:
        self._at = None


class Tail:
    """The changelogs' ends."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._from: dict[TopicPartition, int] = {}

    def follow(self, starts: Mapping[TopicPartition, int]) -> None:
        self._from.update(starts)

    def take(self, place: TopicPartition, end: int) -> Sequence[TailRow]:
        start, self._from[place] = self._from[place], end
        return self._application.read(place.partition, start, end)

    def close(self) -> None:
        self._from = {}


class Admin:
    """What the broker says of topics."""

    def describe(self, topics: Any) -> dict[str, Any]:
        return dict.fromkeys(topics)

    def cluster_id(self) -> str:
        return "cluster"

    def configs(self, topics: Any) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}

    def offsets_for_times(self, times: Mapping[Any, int]) -> dict[Any, int]:
        return dict.fromkeys(times, 0)

    def close(self) -> None:
        """Nothing is open."""


def sources_of(application: Application) -> Sources:
    """Return what a replica of a model reads."""
    return Sources(
        admin=Admin(),  # type: ignore[arg-type]
        tail=Tail(application),
        feed=Feed(application),
    )


@contextmanager
def bulk_reads(application: Application) -> Iterator[None]:
    """Let whole key groups be restored from a model."""

    def between(_client: Any, _topic: str, group: int, start: int, end: int, **more: Any) -> Any:
        rows = application.read(group, start, end)
        more["on_chunk"](len(rows))
        return [(row.key, row.value) for row in rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies_module, "read_between", between)
        yield


@contextmanager
def replicas(
    application: Application, changes: ChangeRing | None = None
) -> Iterator[Callable[[], Replica]]:
    """Make replicas of one directory; each is there instead of the last one.

    Args:
        application: What they follow.
        changes: Gets what they change.
    """
    with tempfile.TemporaryDirectory() as place, bulk_reads(application):
        made: list[Replica] = []

        def make() -> Replica:
            while made:
                made.pop().close(clean=False)
            settings = settings_for(Path(place), state_dir=str(Path(place) / "state"))
            sources = sources_of(application)
            made.append(
                Replica(settings, PLAN, examine=lambda: None, sources=sources, changes=changes)
            )
            return made[-1]

        yield make
        while made:
            made.pop().close(clean=False)
