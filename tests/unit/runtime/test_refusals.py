"""A stop that no restart goes past: what was seen is in the epoch record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import TransactionFailed
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.record.epoch_record import EpochRecord, decode_epoch_record
from mustela.runtime.repairs import edits
from mustela.runtime.repairs.repair import Repair
from tests.integration.no_engine import NoEngine, Silent
from tests.unit.runtime.fakes import FakeAdmin, FakeSink, world_of
from tests.unit.runtime.plans import GROUPS, settings_for, word_count_plan

LINES = TopicPartition("lines", 0)
TOPICS = {"lines": 1, "counts": 1, "app-epochs": 1, "app-counts-changelog": GROUPS}


class Host:
    """Where an application is started again and again; its logs name no leader epochs.

    Args:
        home: A directory.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.admin = FakeAdmin(dict(TOPICS), ends={LINES: 10})
        self.clock = ManualClock(60_000)
        self.sink = FakeSink()
        self.record: EpochRecord | None = None

    def start(self) -> Coordinator:
        engine: Any = NoEngine()
        loop = Coordinator(
            settings_for(self.home, auto_offset_reset="latest"),
            word_count_plan(),
            engine,
            clock=self.clock,
            listener=Silent(),
            world=self.world(),
        )
        loop.prepare()
        return loop

    def world(self) -> Any:
        records = [self.record] if self.record else []
        return world_of(self.admin, *records, clock=self.clock, sink=self.sink)

    def end(self, loop: Coordinator) -> None:
        """Let the source lose records while the application runs; that ends it."""
        self.admin.ends[LINES] = 7
        assert not loop.run_once()
        self.clock.advance(6_000)
        with pytest.raises(MustelaError) as raised:
            loop.run_once()
        assert raised.value.code == "SOURCE_TRUNCATED"
        ((value,),) = [row["values"] for row in self.sink.committed[-1]]
        self.record = decode_epoch_record(value)

    def accept(self) -> None:
        """Do what ``mustela offsets accept app --truncated`` does."""
        assert self.record is not None
        views = Repair(settings_for(self.home), self.world()).look().views
        assert views[LINES].trouble == "the log was truncated"
        self.record = edits.edited(self.record, edits.accept_broker(views), now_ms=1)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_source_that_grew_again_after_it_stopped_an_application_stops_it_again(
    host: Host,
) -> None:
    """A supervisor that starts it again decides nothing; a person does, and it goes on there."""
    host.end(host.start())
    host.admin.ends[LINES] = 30
    for _ in range(2):
        with pytest.raises(MustelaError) as raised:
            host.start()
        assert raised.value.code == "SOURCE_TRUNCATED"
        assert raised.value.evidence == {"lines-0": "read to 10, now differs from 7 on"}
    host.accept()
    loop = host.start()
    assert loop.state.sources.next_offsets == {LINES: 7}
    assert loop.state.to_record(1).truncated == []


def test_an_offset_that_a_person_names_ends_the_refusal_too(host: Host) -> None:
    """Of that partition; what else was lost still waits for somebody to decide."""
    host.end(host.start())
    host.admin.ends[LINES] = 30
    assert host.record is not None
    more = [*host.record.truncated, ("lines", 1, 4)]
    host.record = msgspec.structs.replace(host.record, truncated=more)
    views = Repair(settings_for(host.home), host.world()).look().views
    edit = edits.move(views, {LINES: 20})
    assert edits.edited(host.record, edit, now_ms=1).truncated == [("lines", 1, 4)]
    assert edits.edited(host.record, edits.Edit(), now_ms=1).truncated == more


def test_a_refusal_that_cannot_be_committed_is_a_stop_all_the_same(host: Host) -> None:
    """The error is that of the source."""
    loop = host.start()
    host.sink._failures["commit"] = [TransactionFailed("no", fix="none")]
    host.end(loop)
    assert host.record is not None
    assert host.record.truncated == []


def test_offsets_without_a_leader_epoch_get_one_at_a_start(host: Host) -> None:
    """So what an older version wrote is compared from then on; of an old format nobody can tell."""
    host.record = host.start().state.to_record(1)
    assert [part.leader_epoch for part in host.record.partitions] == [-1]
    host.admin.leaders = {LINES: 4}
    host.admin.settings["lines"] = {"message.format.version": "0.10.2-IV0"}
    assert host.start().state.sources.leaders == {}
    host.admin.settings["lines"] = {"message.format.version": "3.0-IV1"}
    assert host.start().state.sources.leaders == {LINES: 4}
    host.admin.ends[LINES] = 30
    assert host.start().state.sources.leaders == {LINES: 4}
