"""A replica beside a model of an application: its changelogs, its epochs topic, and compaction."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.clock import ManualClock
from mustela.connectors.kafka.tail import TailRow
from mustela.queries.errors import EpochNotReachedError, StateUnavailableError
from mustela.queries.queries import Queries, Sent
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.replica.edition import ReplicaEdition
from mustela.runtime.replica.replica import Replica
from mustela.runtime.status.change_ring import ChangeRing
from mustela.state.faults import StateNotReadyError
from tests.unit.runtime.followed import PLAN, STAGE, Application, Rows, replicas
from tests.unit.runtime.plans import GROUPS


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


class Follower:
    """Keeps a copy of the store by its changes, from a snapshot on."""

    def __init__(self) -> None:
        self.ring = ChangeRing(ManualClock(1_000_000))
        self.ring.follow("counts")
        self.copy: Rows = {}
        self.epoch = -1
        self.snapshots = 0

    def look(self, shown: tuple[int, Rows]) -> None:
        """Follow to what the replica shows now, or begin again."""
        epoch, rows = shown
        found = None if self.epoch < 0 else self.ring.after("counts", self.epoch)
        if found is None:
            self.copy, self.snapshots = dict(rows), self.snapshots + 1
        for each in found or ():
            for group in each.rows["counts"].values():
                for key, row in group:
                    if row is None:
                        self.copy.pop(key, None)
                    else:
                        self.copy[key] = row
        self.epoch = epoch
        assert self.copy == rows


@given(STEPS)
def test_who_follows_the_changes_of_a_replica_has_what_it_shows(
    steps: list[tuple[str, Any]],
) -> None:
    """Epoch by epoch, or several at once, or with a new snapshot where rows were not seen."""
    application, follower = Application(), Follower()
    with replicas(application, follower.ring) as make:
        replica = make()
        for what, told in [*steps, ("step", [])]:
            if what == "step":
                application.during = [
                    lambda other=other: happening(application, *other) for other in told
                ]
                replica.step()
                application.during = []
                found = shown(replica, application)
                if found is not None:
                    follower.look(found)
            elif what in ("kill", "reset"):
                if what == "reset":
                    application.begin_life()
                    follower.epoch = -1
                replica = make()
            else:
                happening(application, what, told)


def test_a_replica_that_follows_needs_no_second_snapshot() -> None:
    """Not for one epoch, nor for several at once."""
    application, follower = Application(), Follower()
    with replicas(application, follower.ring) as make:
        replica = make()
        for number in range(6):
            application.commit({bytes([number]): b"1", b"\x09": bytes([number + 1])})
            if number in (0, 1, 4, 5):
                caught_up(replica)
                found = shown(replica, application)
                assert found is not None
                follower.look(found)
    assert (follower.snapshots, follower.epoch) == (1, 6)


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
