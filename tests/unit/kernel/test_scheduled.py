"""The operator of scheduled sources, alone in a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mustela.api.schedule import CatchUp, EverySchedule
from mustela.api.scheduled import Tick
from mustela.errors import InvariantError
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.stage import StageRunner
from mustela.model import Record
from mustela.plan.batch import Batch
from mustela.plan.keygroups import schedule_group
from mustela.plan.plan import Exchange, Stage
from mustela.plan.step import Step
from mustela.plan.time import NEVER, Due, EpochTime
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from mustela.topology.scheduled import ScheduledSourceNode
from tests.unit.kernel.stages import ANY

GROUPS = 4
HOME = schedule_group("beat", GROUPS)
PROGRESS = StoreSpec(name="beat-schedule", kind="key_value")


def number(tick: Tick) -> list[tuple[Any, Any]]:
    return [(tick.number, tick.timestamp)]


def source(function: Callable[[Tick], Any] = number, **changes: Any) -> ScheduledSourceNode:
    node = ScheduledSourceNode(
        name="beat",
        function=function,
        schedule=EverySchedule(every_ms=100),
        catch_up=CatchUp.all(),
        progress=PROGRESS,
    )
    return replace(node, **changes)


class Place:
    """The key groups of one lane, from epoch to epoch."""

    def __init__(self, node: ScheduledSourceNode, *groups: int) -> None:
        self.groups = groups or (HOME,)
        self._node = node
        self._epoch = 0
        self._committed: dict[int, Committed] = {}
        self._environments = {
            group: MemoryEnvironment(
                EnvironmentSpec(
                    application_id="app", stage="s", group=group, groups=GROUPS, stores=(PROGRESS,)
                )
            )
            for group in self.groups
        }

    def epoch(
        self, now_ms: int, *, commits: bool = True, triggered: tuple[str, ...] = ()
    ) -> tuple[StageOutput, dict[int, Due]]:
        """Run one epoch; return what left and when the key groups want to run next."""
        overlays = {
            group: Overlay(place.snapshot(self._committed.get(group, Committed())))
            for group, place in self._environments.items()
        }
        state = LaneState(overlays, key_groups=GROUPS)
        step = Step(name="beat", inputs=(), node=self._node)
        out = Exchange(name="out", step="beat", key=ANY, target=2, keep_null_keys=True)
        runner = StageRunner(
            Stage(index=1, steps=(step,), exchanges=(out,), stores=(PROGRESS,)),
            topics=(),
            options=KernelOptions(key_groups=GROUPS),
            state=state,
            time=EpochTime(now_ms=now_ms, triggered=triggered),
        )
        runner.run({})
        runner.finish()
        due = runner.due_times(self.groups)
        self._epoch += 1
        token = Token(1, self._epoch, 0)
        changes = state.changes()
        state.close()
        for group, rows in changes.items() if commits else ():
            before = self._committed.get(group, Committed())
            self._environments[group].write_pending(token, before, rows)
            self._committed[group] = Committed(token=token)
        return runner.take_output(), due


def batch(output: StageOutput) -> Batch:
    return Batch.concatenate(output.exchanges.get("out", []))


def told(output: StageOutput) -> list[tuple[Any, Any]]:
    found = batch(output)
    return list(zip(found.keys, found.values, strict=True))


def test_a_schedule_begins_with_its_first_epoch() -> None:
    """It emits nothing then, and says when the first tick is."""
    place = Place(source())
    output, due = place.epoch(130)
    assert told(output) == []
    assert due == {HOME: Due(NEVER, 200)}
    output, due = place.epoch(199)
    assert told(output) == []
    assert due == {HOME: Due(NEVER, 200)}


def test_an_epoch_that_is_not_committed_leaves_the_tick_to_the_next() -> None:
    """What is remembered is written with what is emitted."""
    place = Place(source())
    place.epoch(0)
    for _ in range(2):
        output, _ = place.epoch(250, commits=False)
        assert told(output) == [(1, 100), (2, 200)]
    output, due = place.epoch(310)
    assert told(output) == [(1, 100), (2, 200), (3, 300)]
    assert due == {HOME: Due(NEVER, 400)}
    assert output.counters["ticks:beat"] == 3
    assert told(place.epoch(310)[0]) == []


def test_a_clock_that_goes_back_repeats_nothing() -> None:
    """A tick that was handled is done with, whatever the clock says later."""
    place = Place(source())
    place.epoch(0)
    assert told(place.epoch(250)[0]) == [(1, 100), (2, 200)]
    output, due = place.epoch(120)
    assert told(output) == []
    assert due == {HOME: Due(NEVER, 300)}


def test_rows_are_ordered_by_their_ticks() -> None:
    """The order is total and names no topic; a pair has the tick's time, a record its own."""

    def several(tick: Tick) -> list[Any]:
        return [("a", 1), Record(key="b", value=2, timestamp=7, headers=(("h", b"x"),))]

    place = Place(source(several))
    place.epoch(0)
    output, _ = place.epoch(200)
    rows = batch(output)
    assert rows.timestamps == [100, 7, 200, 7]
    assert rows.headers == [(), (("h", b"x"),), (), (("h", b"x"),)]
    assert rows.order is not None
    assert [place[0] for place in rows.order] == [100, 100, 200, 200]
    assert rows.order == sorted(set(rows.order))
    assert rows.context(0).topic is None


def test_only_the_lane_of_its_key_group_has_the_schedule() -> None:
    """Other lanes run the same stage and do nothing."""
    others = tuple(group for group in range(GROUPS) if group != HOME)
    place = Place(source(), *others)
    for now in (0, 500):
        output, due = place.epoch(now, triggered=("beat",))
        assert told(output) == []
        assert set(due.values()) == {Due(NEVER, NEVER)}


def test_a_tick_by_a_tests_word_leaves_the_schedule_alone() -> None:
    """It is numbered like the others, behind those that are due."""
    place = Place(source())
    place.epoch(0)
    assert told(place.epoch(120, triggered=("beat",))[0]) == [(1, 100), (2, 120)]
    assert told(place.epoch(130, triggered=("other",))[0]) == []
    output, due = place.epoch(200)
    assert told(output) == [(3, 200)]
    assert due == {HOME: Due(NEVER, 300)}


def test_a_store_that_no_engine_opened_is_our_mistake() -> None:
    """It is not the user's function that failed, whatever the handler is."""
    place = Place(source(lambda tick: [tick.store("counts")], reads=("counts",)))
    place.epoch(0)
    with pytest.raises(InvariantError, match="'counts'"):
        place.epoch(100)
