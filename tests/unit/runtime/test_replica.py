"""A replica beside a model of an application: its changelogs, its epochs topic, and compaction."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka import copies as copies_module
from mustela.connectors.kafka.tail import TailRow
from mustela.model import TopicPartition
from mustela.queries.errors import EpochNotReachedError, StateUnavailableError
from mustela.queries.queries import Queries, Sent
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.record.epoch_delta import token_of
from mustela.runtime.record.epoch_record import EpochRecord, GroupState, StoreState
from mustela.runtime.replica.edition import ReplicaEdition
from mustela.runtime.replica.replica import Replica, Sources
from mustela.state.faults import StateNotReadyError
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
        del wait_s
        return self.all_new()

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


@contextmanager
def replicas(application: Application) -> Iterator[Callable[[], Replica]]:
    """Make replicas of one directory; each is there instead of the last one."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        made: list[Replica] = []

        def between(
            _client: Any, _topic: str, group: int, start: int, end: int, **more: Any
        ) -> Any:
            rows = application.read(group, start, end)
            more["on_chunk"](len(rows))
            return [(row.key, row.value) for row in rows]

        patch.setattr(copies_module, "read_between", between)

        def make() -> Replica:
            while made:
                made.pop().close(clean=False)
            sources = Sources(
                admin=Admin(),  # type: ignore[arg-type]
                tail=Tail(application),
                feed=Feed(application),
            )
            settings = settings_for(Path(place), state_dir=str(Path(place) / "state"))
            made.append(Replica(settings, PLAN, examine=lambda: None, sources=sources))
            return made[-1]

        yield make
        while made:
            made.pop().close(clean=False)


def edition_of(replica: Replica) -> ReplicaEdition | None:
    """Return what a replica shows, if it shows anything."""
    try:
        found = replica.newest()
    except StateUnavailableError:
        return None
    assert isinstance(found, ReplicaEdition)
    return found


def shown(replica: Replica, application: Application) -> tuple[int, Rows] | None:
    """Return the epoch that a replica shows, with the rows of its store."""
    edition = edition_of(replica)
    if edition is None:
        return None
    views = [edition.open(STAGE.index, group) for group in range(GROUPS)]
    rows = {key: value for view in views for key, value in view.range("counts", None, None)}
    for view in views:
        view.close()
    life = int(edition.record.life.removeprefix("life-"))
    assert rows == application.states[life, 1, edition.epoch]
    return edition.epoch, rows


def caught_up(replica: Replica) -> None:
    """Let a replica go on until there is nothing new."""
    while replica.step():
        pass


KEYS = st.sampled_from([bytes([n]) for n in range(12)])
EPOCHS = st.dictionaries(KEYS, st.none() | st.binary(min_size=1, max_size=2), max_size=6)
HAPPENINGS = st.one_of(
    st.tuples(st.just("commit"), EPOCHS),
    st.tuples(st.just("abort"), st.integers(0, GROUPS - 1)),
    st.tuples(st.just("compact"), st.integers(0, GROUPS - 1)),
)
STEPS = st.lists(
    HAPPENINGS
    | st.tuples(st.just("step"), st.lists(HAPPENINGS, max_size=4))
    | st.tuples(st.just("kill"), st.none())
    | st.tuples(st.just("reset"), st.none()),
    max_size=25,
)


def happening(application: Application, what: str, told: Any) -> None:
    """Let one thing happen to an application."""
    if what == "commit":
        application.commit(told)
    elif what == "abort":
        application.abort(told, 2)
    elif what == "compact":
        application.compact(told)


@given(STEPS)
def test_what_a_replica_shows_is_what_some_epoch_committed(steps: list[tuple[str, Any]]) -> None:
    """Also where compaction runs while it reads, where it is killed, and after a reset; at rest it
    shows the newest epoch."""
    application = Application()
    with replicas(application) as make:
        replica, newest = make(), 0
        for what, told in steps:
            if what == "step":
                application.during = [
                    lambda other=other: happening(application, *other) for other in told
                ]
                replica.step()
                application.during = []
                found = shown(replica, application)
                assert found is None or found[0] >= newest
                newest = newest if found is None else found[0]
            elif what == "kill":
                replica, newest = make(), 0
            elif what == "reset":
                application.begin_life()
                replica, newest = make(), 0
            else:
                happening(application, what, told)
        application.commit({b"\x00": b"last"})
        caught_up(replica)
        found = shown(replica, application)
        assert found is not None
        assert found[0] == application.record.epoch


def test_an_epoch_whose_rows_were_compacted_meanwhile_is_not_shown() -> None:
    """The newer row of a key is part of the next epoch: until then the key is missing."""
    application = Application()
    key = b"\x00"
    application.commit({key: b"1"})
    with replicas(application) as make:
        replica = make()
        caught_up(replica)
        application.commit({key: b"2"})

        def newer() -> None:
            application.commit({key: b"3", b"\x01": b"x"})
            application.compact(0)

        application.during = [newer]
        assert replica.step()
        assert replica.record is None
        assert replica.step()
        assert shown(replica, application) == (3, {key: b"3", b"\x01": b"x"})


def test_a_view_stays_as_it_is_while_the_replica_goes_on() -> None:
    """Its epoch is that at which it was opened; an epoch long gone cannot be opened any more."""
    application = Application()
    application.commit({b"\x00": b"1", b"\x01": b"1"})
    with replicas(application) as make:
        replica = make()
        caught_up(replica)
        edition = edition_of(replica)
        assert edition is not None
        view = edition.open(STAGE.index, 0)
        for n in range(3):
            application.commit({b"\x00": b"%d" % n})
            caught_up(replica)
        assert view.get("counts", b"\x00") == b"1"
        view.close()
        with pytest.raises(StateNotReadyError):
            edition.open(STAGE.index, 0)
        assert shown(replica, application) == (4, {b"\x00": b"2", b"\x01": b"1"})


def test_queries_read_a_replica_and_wait_for_what_was_sent() -> None:
    """By the names and types of its program, at the newest epoch that is shown."""
    application = Application()
    with replicas(application) as make:
        replica = make()
        queries = Queries(replica)
        with pytest.raises(StateUnavailableError):
            queries.stores()
        application.commit({b"\x00": b"1"})
        caught_up(replica)
        assert [info.name for info in queries.stores()] == ["counts"]
        queries.wait(1, timedelta(0))
        with pytest.raises(EpochNotReachedError):
            queries.wait(2, timedelta(0))
        read = application.record.partitions[0]
        queries.wait(Sent({read.place: read.end - 1}), timedelta(0))
        with pytest.raises(EpochNotReachedError):
            queries.wait(Sent({read.place: read.end}), timedelta(0))


def test_a_replica_goes_on_from_its_directory() -> None:
    """Only what was committed since is read."""
    application = Application()
    application.commit({bytes([n]): b"1" for n in range(8)})
    with replicas(application) as make:
        caught_up(make())
        application.commit({b"\x01": b"2"})
        read: list[tuple[int, int]] = []
        whole = application.read

        def noted(group: int, start: int, end: int) -> list[TailRow]:
            read.append((group, start))
            return whole(group, start, end)

        application.read = noted  # type: ignore[method-assign]
        replica = make()
        caught_up(replica)
        found = shown(replica, application)
        assert found is not None
        assert found[1][b"\x01"] == b"2"
        assert read == [(1, 2)]


def test_a_run_that_takes_over_from_a_replica_restores_nothing() -> None:
    """Each key group is as the state that a run begins with wants it."""
    application = Application()
    for n in range(3):
        application.commit({bytes([k]): b"%d" % n for k in range(n, 8)})
    with replicas(application) as make:
        replica = make()
        caught_up(replica)
        state = CommittedState(plan=PLAN, key_groups=GROUPS, lanes=1)
        state.groups = application.record.groups
        state.changelog_ends = application.record.changelog_ends
        copies: Any = replica._copies
        for index, marks in state.marks().items():
            stage = PLAN.stages[index]
            assert all(copies.is_current(stage, g, mark) for g, mark in enumerate(marks))
