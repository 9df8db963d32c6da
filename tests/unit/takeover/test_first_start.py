"""An application that was never started is begun for rows that come first, once, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import TransactionAborted
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime.record.epoch_record import EpochRecord, decode_epoch_record, epochs_topic
from mustela.runtime.repairs.repair import Repair, Sight
from mustela.runtime.repairs.upgrading import imported_into
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.takeover.first_start import started
from tests.unit.runtime.fakes import FakeAdmin, FakeLog, FakeSink, world_of
from tests.unit.runtime.plans import GROUPS, settings_for, word_count_plan

PLAN = word_count_plan()
LINES = [TopicPartition("lines", n) for n in range(2)]
STORE = ("counts", next(stage.identity for stage in PLAN.stages if stage.stores))
EPOCHS, CHANGELOG = epochs_topic("app"), "app-counts-changelog"
STEPS = ("reopen", "begin", "tracked", "commit")


class Broker(FakeSink):
    """Topics, and a log of epochs that what is committed appears in."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.admin = FakeAdmin({"lines": 2, "counts": 1}, first={LINES[0]: 3}, ends={LINES[0]: 9})
        self.world = world_of(self.admin, clock=ManualClock(60_000), sink=self)
        log: Any = self.world.epochs
        self.log: FakeLog = log
        self.settings = settings_for(directory)
        self.repair = Repair(self.settings, self.world)

    def commit(self) -> None:
        super().commit()
        for row in self.sent:
            if row["topics"] == EPOCHS:
                self.log.records.append(decode_epoch_record(row["values"][0]))

    def fail(self, step: str, at: int) -> None:
        """Let the n-th of these calls from now on be the last of its process."""
        left = [at]

        def die(name: str) -> None:
            self.calls.append(name)
            left[0] -= name == step
            if not left[0]:
                self._call = FakeSink._call.__get__(self)  # type: ignore[method-assign]
                raise TransactionAborted("killed")

        self._call = die  # type: ignore[method-assign]

    def start(self) -> Sight:
        """Begin the application if it has no record, as the import does."""
        sight = self.repair.look()
        recovery = Recovery(self.settings, PLAN, self.world)
        recovery.examine()
        return sight if sight.record else started(recovery, self.repair, sight)

    def import_rows(self) -> EpochRecord:
        """Begin it, and import two rows."""
        sight = self.start()
        self.repair.fence(sight)
        return self.repair.import_rows(sight, STORE, [(1, [(b"a", b"1")]), (3, [(b"b", b"2")])])


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_the_record_is_that_of_a_first_start_that_read_nothing(broker: Broker) -> None:
    """Offsets where it will read, every store with its changelog, no rows; rows come after it."""
    record = broker.start().record
    assert record is not None
    assert (record.incarnation, record.epoch) == (1, 0)
    assert [part.end for part in record.partitions] == [3, 0]
    assert record.key_groups == GROUPS
    assert record.fingerprint == PLAN.fingerprint
    assert record.changelog_ends == {"counts": [0] * GROUPS}
    assert record.stores["counts"].changelog_id == f"id-{CHANGELOG}"
    assert record.life
    assert {spec.name for spec in broker.admin.created} >= {EPOCHS, CHANGELOG}
    assert [row["topics"] for rows in broker.committed for row in rows] == [EPOCHS]
    imported = broker.import_rows()
    assert (imported.incarnation, imported.epoch) == (2, 1)
    assert imported.partitions == record.partitions
    assert [end > 0 for end in imported.changelog_ends["counts"]] == [False, True, False, True]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_import_that_is_killed_is_taken_up_again(broker: Broker, step: str, at: int) -> None:
    """Whatever it came to: rows are there with the record that tells of them, or not at all."""
    broker.fail(step, at)
    try:
        broker.import_rows()
        whole = True
    except TransactionAborted:
        whole = False
    written = [row for rows in broker.committed for row in rows if row["topics"] == CHANGELOG]
    assert bool(written) is whole
    if not whole:
        record = broker.import_rows()
        assert len(broker.log.records) == 2
        first = broker.log.records[0]
        ends = {group: record.changelog_ends["counts"][group] for group in (1, 3)}
        assert record == imported_into(first, *STORE, ends, now_ms=60_000)
    written = [row for rows in broker.committed for row in rows if row["topics"] == CHANGELOG]
    assert [row["keys"] for row in written] == [[b"a"], [b"b"]]


def test_an_application_that_was_started_meanwhile_is_left_alone(broker: Broker) -> None:
    """Its record is not written over; the next attempt sees it."""
    sight = broker.repair.look()
    other = broker.start().record
    recovery = Recovery(broker.settings, PLAN, broker.world)
    with pytest.raises(MustelaError) as caught:
        started(recovery, broker.repair, sight)
    assert caught.value.code == "EPOCH_RECORD_MOVED"
    assert broker.log.records == [other]


def test_rows_without_a_record_are_in_the_way(broker: Broker) -> None:
    """As they are in that of a start; nothing is created."""
    broker.admin.partitions[CHANGELOG] = GROUPS
    broker.admin.ends[TopicPartition(CHANGELOG, 2)] = 5
    with pytest.raises(MustelaError) as caught:
        broker.start()
    assert caught.value.code == "STATE_WITHOUT_RECORD"
    assert not broker.admin.created
