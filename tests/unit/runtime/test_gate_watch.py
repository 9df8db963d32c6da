"""What the gate looks for while an application runs."""

from __future__ import annotations

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.truncation import LogPosition
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.plan.ranges import RangeReport
from mustela.runtime.gate.watch import TruncationWatch
from mustela.runtime.record.source_offsets import SourceOffsets
from tests.unit.runtime.fakes import FakeAdmin

PLACE = TopicPartition("lines", 0)
TOPICS = {"lines": 0}


def read_to(offset: int, leader: int = -1) -> SourceOffsets:
    """Return the sources of an application that read so far."""
    sources = SourceOffsets()
    sources.put(PLACE, LogPosition(offset, leader))
    return sources


def report(start: int, end: int, leader: int) -> RangeReport:
    """Return what a task says of a range."""
    return RangeReport(0, 0, start, end, end - start, -1, 0, leader_epoch=leader)


def test_while_it_runs_a_short_source_is_believed_after_a_while() -> None:
    """A leader that was just elected may not know yet how far its log goes."""
    clock = ManualClock()
    watch = TruncationWatch("app", FakeAdmin(), clock)
    read = read_to(10)
    assert watch.see(read, {PLACE: LogPosition(10)})
    assert not watch.see(read, {PLACE: LogPosition(9)})
    clock.advance(4_000)
    assert watch.see(read, {PLACE: LogPosition(11)})
    assert not watch.see(read, {PLACE: LogPosition(9)})
    clock.advance(6_000)
    with pytest.raises(MustelaError) as raised:
        watch.see(read, {PLACE: LogPosition(9)})
    assert raised.value.code == "SOURCE_TRUNCATED"


def test_a_log_is_compared_once_for_each_new_leader() -> None:
    """As long as the leader stays nothing is asked, however often the ends are looked at."""
    logs = FakeAdmin()
    watch = TruncationWatch("app", logs, ManualClock())
    read = read_to(10, leader=3)
    for leader in (3, 3, 4, 4, 5):
        assert watch.see(read, {PLACE: LogPosition(20, leader)})
    assert [asked for asked in logs.compared if asked] == [{PLACE: LogPosition(10, 3)}] * 2


def test_a_log_that_has_grown_past_what_it_lost_is_a_stop() -> None:
    """Its end says nothing; the new leader's answer does."""
    logs = FakeAdmin(kept={PLACE: 7})
    watch = TruncationWatch("app", logs, ManualClock())
    with pytest.raises(MustelaError) as raised:
        watch.see(read_to(10, leader=3), {PLACE: LogPosition(20, 4)})
    assert raised.value.code == "SOURCE_TRUNCATED"
    assert "differs from 7 on" in str(raised.value)


def test_without_a_leader_epoch_nothing_is_asked() -> None:
    """Old records and old brokers name none."""
    logs = FakeAdmin(kept={PLACE: 7})
    watch = TruncationWatch("app", logs, ManualClock())
    assert watch.see(read_to(10), {PLACE: LogPosition(20, 4)})
    assert watch.see(read_to(10, leader=3), {PLACE: LogPosition(20)})
    assert not any(logs.compared)


def test_a_leader_that_came_after_the_look_is_asked_before_the_epoch_is_committed() -> None:
    """Records say in which leader's time they were written."""
    logs = FakeAdmin()
    watch = TruncationWatch("app", logs, ManualClock())
    read = read_to(10, leader=3)
    watch.see(read, {PLACE: LogPosition(20, 3)})
    watch.read(read, TOPICS, [report(10, 20, 3)])
    assert not any(logs.compared)
    watch.read(read, TOPICS, [report(10, 15, 3), report(15, 20, 4)])
    asked = [known for known in logs.compared if known]
    assert asked == [{PLACE: LogPosition(10, 3)}, {PLACE: LogPosition(15, 3)}]
    logs.kept[PLACE] = 12
    with pytest.raises(MustelaError) as raised:
        watch.read(read, TOPICS, [report(10, 15, 4), report(15, 20, 5)])
    assert raised.value.code == "SOURCE_TRUNCATED"


def test_what_was_reached_is_known_by_the_younger_of_leader_and_record() -> None:
    """A control record behind the last record may be of a later leader than the record is."""
    watch = TruncationWatch("app", FakeAdmin(), ManualClock())
    read = read_to(10, leader=3)
    watch.see(read, {PLACE: LogPosition(20, 5)})
    assert watch.reached(read, [PLACE], TOPICS, [report(10, 20, 4)]) == {PLACE: 5}
    assert watch.reached(read, [PLACE], TOPICS, [report(10, 20, 6)]) == {PLACE: 6}
    assert watch.reached(read, [PLACE], TOPICS, [report(10, 20, -1)]) == {PLACE: 5}
    assert watch.reached(read_to(10), [PLACE], TOPICS, [report(10, 20, -1)]) == {}


def test_what_was_reached_without_a_record_is_known_by_the_leader() -> None:
    """Nothing but aborted records lay there, and something else may be written in their place."""
    watch = TruncationWatch("app", FakeAdmin(), ManualClock())
    nothing = report(10, 20, -1)._replace(records=0)
    assert watch.reached(read_to(10), [PLACE], TOPICS, [nothing]) == {}
    watch.see(read_to(10), {PLACE: LogPosition(20, 5)})
    assert watch.reached(read_to(10), [PLACE], TOPICS, [nothing]) == {PLACE: 5}
    both = [nothing, report(15, 20, -1)]
    assert watch.reached(read_to(10), [PLACE], TOPICS, both) == {}
