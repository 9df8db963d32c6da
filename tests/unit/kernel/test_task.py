"""The tasks of an epoch, over records and environments in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.task import LaneGroup, LaneTask, LoggedRows, Lookups, SourceTask
from mustela.kernel.wiring import WiredPlan
from mustela.plan.batch import Batch
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.keygroups import key_group, lane_of_group, lanes_by_group
from mustela.plan.plan import Stage
from mustela.plan.ranges import LeftOut, RangeReport, RawChunk, SourceRange
from mustela.plan.time import AT_ONCE, NOTHING_DUE
from mustela.state.faults import StateNotReadyError
from mustela.state.interfaces import Committed, Condition, Token
from mustela.state.memory import MemoryEnvironment
from tests.unit.plan.test_epoch import program

TOKEN = Token(1, 1, 0)
TIMES = (10, 20, 60, 70)


class Site:
    """A topic with a record at each of `TIMES`, and environments that hold nothing yet."""

    def __init__(self, *, breaks: bool = False) -> None:
        self._program = program()
        self.wired = WiredPlan(self._program.plan)
        self.lanes = self._program.lanes
        self.key_groups = self._program.key_groups
        self.lane_of = lanes_by_group(self.lanes, self.key_groups)
        self.options = KernelOptions(key_groups=self.key_groups)
        self.breaks = breaks
        self.begun: list[list[int]] = []
        self.environments: dict[int, MemoryEnvironment] = {}
        self.closed: list[int] = []

    def chunks(self, source_range: SourceRange, *, goes_on: bool) -> Iterator[RawChunk]:
        del goes_on
        offsets = list(range(source_range.start, source_range.end))
        lines: list[bytes | None] = [f"line {offset}".encode() for offset in offsets]
        yield RawChunk(offsets, [b"k"] * len(offsets), lines, [TIMES[n] for n in offsets])

    def begin_batch(self, source_range: SourceRange, offsets: Sequence[int]) -> None:
        del source_range
        self.begun.append(list(offsets))

    def lookups(self, stage: Stage, restored: dict[str, int]) -> AbstractContextManager[Lookups]:
        del stage, restored
        return nullcontext(Lookups({}, None))

    def open_groups(
        self, stage: Stage, groups: Sequence[int], restored: dict[str, int]
    ) -> Iterator[LaneGroup]:
        del restored
        for group in groups:
            if self.breaks and self.environments:
                raise StateNotReadyError("gone")
            environment = MemoryEnvironment(self._program.environment(stage.index, group))
            self.environments[group] = environment
            snapshot: Any = environment.snapshot(Committed())
            close = snapshot.close

            def closed(group: int = group, close: Any = close) -> None:
                self.closed.append(group)
                close()

            snapshot.close = closed
            yield LaneGroup(environment, Committed(), snapshot)


def order(*ranges: SourceRange, **more: Any) -> EpochOrder:
    return EpochOrder(token=TOKEN, ranges=(ranges,), marks={}, now_ms=0, **more)


def read(site: Site, epoch: EpochOrder) -> tuple[list[StageOutput], RangeReport]:
    report = TaskReport(stage=0, task=0)
    outputs = [runner.take_output() for runner in SourceTask(site, epoch, report).run()]
    return outputs, report.ranges[0]


def words(outputs: Sequence[StageOutput]) -> list[bytes]:
    batches = [b for output in outputs for some in output.exchanges.values() for b in some]
    return [key for batch in batches for key in batch.key_bytes or ()]


def test_a_range_is_read_up_to_its_moment() -> None:
    """The record at that moment is seen, and left to the epoch that reads it."""
    outputs, seen = read(Site(), order(SourceRange(0, 0, 0, 4, until=60)))
    assert sorted(words(outputs)) == [b"0", b"1", b"line"]  # combined
    assert (seen.end, seen.records, seen.next_ms, seen.max_timestamp) == (2, 2, 60, 20)


@pytest.mark.parametrize(("until", "counted"), [(60, {"bad": 1}), (1_000, {"bad": 2})])
def test_records_are_given_up_by_the_epoch_that_reads_them(
    until: int, counted: dict[str, int]
) -> None:
    """One that lies after the moment of a cut is given up once: not by this epoch as well."""
    why = (("mustela.error.code", b"X"),)
    spans = tuple(LeftOut(0, 0, offset, offset, why, "bad") for offset in (1, 3))
    site = Site()
    outputs, _ = read(site, order(SourceRange(0, 0, 0, 4, until=until), left_out=spans))
    letters = [offset for output in outputs for offset in output.dead_letters.values]
    assert letters == [b"line 1", b"line 3"][: counted["bad"]]
    assert sum(output.counters["bad"] for output in outputs) == counted["bad"]
    assert site.begun == [[0, 2]]


def received() -> dict[str, list[Batch]]:
    """What a source task sends of all records."""
    site = Site()
    name = next(iter(site.wired.exchanges))
    outputs, _ = read(site, order(SourceRange(0, 0, 0, 4)))
    return {name: [b for output in outputs for b in output.exchanges.get(name, ())]}


def run_lane(site: Site, epoch: EpochOrder, lane: int) -> tuple[list[LoggedRows], TaskReport]:
    report = TaskReport(stage=1, task=lane)
    given = list(LaneTask(site, epoch, report, received(), ()).run())
    return [rows for rows in given if isinstance(rows, LoggedRows)], report


def test_a_lane_writes_a_pending_for_each_key_group_that_changed() -> None:
    """And the changelogs hear of the same rows."""
    site = Site()
    logged, report = run_lane(site, order(), 0)
    keys = [b"line", b"0", b"1", b"2", b"3"]
    groups = sorted({key_group(key, 8) for key in keys})
    assert report.wrote == groups == sorted(site.environments) == site.closed
    assert sorted(key for rows in logged for key, _ in rows.rows) == sorted(keys)
    for environment in site.environments.values():
        assert environment.condition(Committed(token=TOKEN)) is Condition.FOLDABLE


def test_a_lane_opens_only_its_own_key_groups_that_are_due() -> None:
    """Each belongs to one lane."""
    opened: list[set[int]] = []
    dues = tuple(AT_ONCE if group % 2 else NOTHING_DUE for group in range(8))
    for lane in range(2):
        site = Site()
        report = TaskReport(stage=1, task=lane)
        list(LaneTask(site, replace(order(), due={1: dues}), report, {}, ()).run())
        opened.append(set(site.environments))
        assert {lane_of_group(group, 2, 8) for group in site.environments} == {lane}
        assert report.wrote == []
    assert sorted(opened[0] | opened[1]) == [1, 3, 5, 7]


def test_what_a_lane_has_opened_is_closed_when_it_fails() -> None:
    """Nothing is written then."""
    site = Site(breaks=True)
    with pytest.raises(StateNotReadyError):
        run_lane(site, order(), 0)
    assert site.closed == list(site.environments)
    assert len(site.closed) == 1


def test_a_task_says_what_went_through_each_of_its_steps() -> None:
    """In and out; what is read beyond the moment of a cut counts for the epoch that reads it."""
    site = Site()
    report = TaskReport(stage=0, task=0)
    list(SourceTask(site, order(SourceRange(0, 0, 0, 4, until=60)), report).run())
    first = site.wired.plan.stages[0].steps[0].name
    assert report.measured.taken[first] == 2
    assert report.measured.given[first] == 4  # two words a line
    _, lane = run_lane(Site(), order(), 0)
    counted = site.wired.plan.stages[1].steps[0].name
    assert lane.measured.taken[counted] == sum(map(len, received()[counted_input(site)]))
    sink = site.wired.plan.stages[1].steps[-1].name
    assert lane.measured.taken[sink] == lane.measured.given[sink] == 5


def counted_input(site: Site) -> str:
    return next(iter(site.wired.exchanges))


def test_steps_that_share_a_store_are_counted_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """They run as one, record by record; what passes between them counts all the same."""
    from collections import Counter

    from mustela import StreamsBuilder, TopologyTestDriver
    from mustela.kernel.stage import StageRunner
    from mustela.plan.measured import Measured
    from mustela.processors import ContextualProcessor
    from mustela.stores import Stores

    class Twice(ContextualProcessor):
        def process(self, record: Any) -> None:
            self.context.forward(record)
            self.context.forward(record)

    class Once(ContextualProcessor):
        def process(self, record: Any) -> None:
            self.context.forward(record)

    taken: Counter[str] = Counter()
    given: Counter[str] = Counter()
    real = StageRunner.measure

    def noted(self: StageRunner, measured: Measured) -> None:
        real(self, measured)
        taken.update(measured.taken)
        given.update(measured.given)

    monkeypatch.setattr(StageRunner, "measure", noted)
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("s")
    builder.add_state_store(Stores.key_value_store_builder(supplier, key=str, value=str))
    lines = builder.stream("lines", key=str, value=str)
    first = lines.process(Twice, stores=["s"], name="first")
    second = first.process(Once, stores=["s"], name="second")
    second.to("out", key=str, value=str, name="written")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("lines").pipe_value_list(["a", "b", "c"])
    assert (taken["first"], given["first"]) == (3, 6)
    assert (taken["second"], given["second"]) == (6, 6)
    assert (taken["written"], given["written"]) == (6, 6)
