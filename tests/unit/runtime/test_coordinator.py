"""The driver's loop over a broker and an engine that fail where they are told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.connectors.kafka.errors import TransactionAborted
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.ranges import RangeReport
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.engine import EpochOutput
from mustela.runtime.events import EpochDone
from tests.unit.runtime.fakes import FakeAdmin, FakeSink, world_of
from tests.unit.runtime.plans import settings_for, word_count_plan

PLACE = TopicPartition("lines", 0)


class Readers:
    """An engine that reads what it is told to, and makes nothing of it."""

    cores = 1

    def __getattr__(self, _name: str) -> Any:
        return lambda *_given, **_named: None

    def arrivals(self) -> list[Any]:
        return []

    def run(self, order: EpochOrder, _begun: object = None) -> EpochOutput:
        ranges = [
            RangeReport(
                part.topic_index,
                part.partition,
                part.start,
                part.end,
                max_timestamp=5,
                records=7,
                size=70,
            )
            for parts in order.ranges
            for part in parts
        ]
        report = TaskReport(stage=0, task=0, ranges=ranges)
        return EpochOutput(reports=[report], rows=[], changelogs=[], dead_letters=[], size=0)


@dataclass
class Told:
    """What a listener was told."""

    events: list[Any] = field(default_factory=list[Any])
    errors: list[BaseException] = field(default_factory=list[BaseException])

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def on_error(self, error: BaseException) -> None:
        self.errors.append(error)


def test_only_committed_epochs_are_told_and_learned_from(tmp_path: Path) -> None:
    """One that was not would lift the budget again that its failure has halved."""
    sink = FakeSink(commit=[])
    admin = FakeAdmin(partitions={"lines": 1, "counts": 1}, ends={PLACE: 7})
    clock, told, engine = ManualClock(1_000_000), Told(), Readers()
    listener: Any = told
    running: Any = engine
    loop = Coordinator(
        settings_for(tmp_path),
        word_count_plan(),
        running,
        clock=clock,
        listener=listener,
        world=world_of(admin, clock=clock, sink=sink),
    )
    loop.prepare()
    budget = loop.run.budget.records
    sink._failures["commit"] = [TransactionAborted("the coordinator says no")]

    assert loop.run_once()
    assert [str(error).split("\n")[0] for error in told.errors] == ["the coordinator says no"]
    assert not [event for event in told.events if isinstance(event, EpochDone)]
    assert loop.run.budget.records == budget // 2
    assert loop.state.sources.next_offsets == {PLACE: 0}

    assert loop.run_once()
    done = [event for event in told.events if isinstance(event, EpochDone)]
    assert [(event.records, event.lag) for event in done] == [(7, 0)]
    assert loop.state.sources.next_offsets == {PLACE: 7}
    assert not loop.run_once()


@pytest.mark.parametrize(("given", "lanes"), [({}, [2, 6]), ({"lanes": 3}, [3, 3])])
def test_there_are_as_many_lanes_as_cores_and_their_number_is_chosen_between_epochs(
    tmp_path: Path, given: dict[str, int], lanes: list[int]
) -> None:
    """Executors come and go; the number that an epoch ran with is in its record."""
    admin = FakeAdmin(partitions={"lines": 1, "counts": 1}, ends={PLACE: 7})
    clock, orders = ManualClock(1_000_000), list[EpochOrder]()

    class Growing(Readers):
        def run(self, order: EpochOrder, _begun: object = None) -> EpochOutput:
            orders.append(order)
            return super().run(order)

    engine: Any = Growing()
    engine.cores = 2
    listener: Any = Told()
    loop = Coordinator(
        settings_for(tmp_path, **given),
        word_count_plan(),
        engine,
        clock=clock,
        listener=listener,
        world=world_of(admin, clock=clock, sink=FakeSink(commit=[])),
    )
    loop.prepare()
    assert loop.run_once()
    assert loop.state.lanes == lanes[0]
    engine.cores, admin.ends[PLACE] = 6, 14
    clock.advance(10_000)
    assert loop.run_once()
    assert loop.state.lanes == lanes[1]
    assert [order.lanes for order in orders] == lanes
