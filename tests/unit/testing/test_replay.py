"""Epochs that are run again from what was kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from mustela import App, StreamsBuilder
from mustela.calls import AsyncOptions
from mustela.kernel.calls.tape import KeepingDesk
from mustela.kernel.task import LaneTask
from mustela.plan.calls import CallOutcome, CallRequest, CallTape
from mustela.plan.epoch import EpochOrder, Placement, TaskReport
from mustela.plan.plan import Plan
from mustela.plan.ranges import RangeReport, RawChunk, SourceRange
from mustela.runtime.record.history_row import (
    HistoryFormatError,
    HistoryRow,
    HistoryRows,
    Kept,
    history_parts,
    history_row,
    kept_rows,
)
from mustela.runtime.replica.written import Written, WrittenRow
from mustela.state.interfaces import Token
from mustela.testing.job import Job, JobResult
from mustela.testing.replay import InputChangedError, replay
from mustela.testing.replay_texts import Shower, deviations, differences, shown_output
from mustela.testing.taped_calls import TapedDesk
from mustela.topology.async_calls import AsyncNode

G = 2


class Then:
    """A time of which everything is known."""

    def __init__(
        self, values: Sequence[str], logs: Mapping[str, list[tuple[bytes, bytes | None]]]
    ) -> None:
        self.values = values
        self.logs = logs

    def input(self, topic: str, partition: int, start: int, end: int) -> Iterator[RawChunk]:
        rows = range(start, min(end, len(self.values)))
        values = [self.values[at].encode() for at in rows]
        yield RawChunk(list(rows), [b"k" for _ in rows], [*values], [1000] * len(rows))

    def log(self, log: str, group: int, end: int) -> list[tuple[bytes, bytes | None]]:
        return [*self.logs.get(f"{log}/{group}", [])][:end]

    def sink_partitions(self, plan: Plan) -> dict[str, int]:
        return {}


def counting(step: int = 1) -> App:
    app = App("counting", settings={"key_groups": G})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        words = builder.stream("words", key=str, value=str).group_by(lambda _, word: word, key=str)
        counts = words.aggregate(lambda: 0, lambda _k, _v, n: n + step, value=int, store="counts")
        counts.to_stream().to("counts", key=str, value=int)

    return app


def row_of(app: App, end: int, *, epoch: int = 1, read: int | None = None) -> HistoryRow:
    order = EpochOrder(
        token=Token(1, epoch, 0), ranges=((SourceRange(0, 0, 0, end),),), marks={}, now_ms=5
    )
    state = Kept(app.built_plan(), {"counts": [0] * G}, 1, G)
    report = TaskReport(stage=0, task=0)
    report.ranges.append(RangeReport(0, 0, 0, end, end if read is None else read, 1000, 0))
    return history_row(order, state, [report])


def kept(row: HistoryRow, epochs: int = 10) -> HistoryRow:
    """Return a row as the history topic gives it back."""
    (found,) = HistoryRows().take(history_parts(row, epochs))
    return found


def test_an_epoch_runs_again_from_its_row_its_input_and_its_state() -> None:
    """Rows of topics and stores are those of the program, from the state before the epoch."""
    app = counting()
    then = Then(["a", "b", "a"], {})
    first = replay(kept(row_of(app, 3)), app.built_plan(), app.settings, then)
    assert sorted((row.key, row.value) for row in first.rows) == [
        (b"a", (2).to_bytes(8, "big")),
        (b"b", (1).to_bytes(8, "big")),
    ]
    shower = Shower(app.built_plan(), app.built_topology(), app.settings)
    shown = {(one.kind, one.key): one.value for one in shown_output(first, shower)}
    assert shown == {("topic", "a"): 2, ("topic", "b"): 1, ("store", "a"): 2, ("store", "b"): 1}


def test_lanes_have_the_key_groups_that_they_had_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lane learned from its calls is kept under its number."""
    app = counting()
    row = row_of(app, 3)
    placed = EpochOrder(
        token=Token(1, 1, 0),
        ranges=((SourceRange(0, 0, 0, 3),),),
        marks={},
        now_ms=5,
        placement=Placement((1, 0), ("there", "here")),
    )
    report = TaskReport(stage=0, task=0, ranges=[RangeReport(0, 0, 0, 3, 3, 1000, 0)])
    state = Kept(app.built_plan(), {"counts": [0] * G}, 2, G)
    moved = kept(history_row(placed, state, [report]))
    wrote: dict[int, int] = {}
    run_lane = Job._run_lane

    def spy(job: Job, result: JobResult, task: LaneTask, report: TaskReport) -> None:
        run_lane(job, result, task, report)
        wrote.update(dict.fromkeys(report.wrote, report.task))

    monkeypatch.setattr(Job, "_run_lane", spy)
    found = replay(moved, app.built_plan(), app.settings, Then(["a", "b", "c"], {}))
    assert wrote == {0: 1, 1: 0}
    same = replay(kept(row), app.built_plan(), app.settings, Then(["a", "b", "c"], {}))
    assert sorted(found.rows) == sorted(same.rows)  # lanes come one after the other


def test_another_version_of_the_program_shows_its_differences() -> None:
    """Each row that it adds, removes or changes, and each key of a store."""
    old, new = counting(), counting(step=10)
    then, row = Then(["a"], {}), kept(row_of(old, 1))
    outputs = [replay(row, app.built_plan(), app.settings, then) for app in (old, new)]
    showers = [Shower(app.built_plan(), app.built_topology(), app.settings) for app in (old, new)]
    found = list(differences(outputs[0], outputs[1], *showers))
    assert [(one.change, one.either.kind) for one in found] == [
        ("changed", "topic"),
        ("changed", "store"),
    ]
    assert found[0].old is not None
    assert found[0].new is not None
    assert (found[0].old.value, found[0].new.value) == (1, 10)
    assert not list(differences(outputs[0], outputs[0], *showers))


def test_an_input_that_has_lost_records_is_refused_and_a_later_epoch_helps() -> None:
    """An epoch is never run on a part of what it read, as if that were all."""
    app = counting()
    with pytest.raises(InputChangedError) as refused:
        replay(row_of(app, 3), app.built_plan(), app.settings, Then(["a", "b"], {}))
    assert "holds 2 records" in refused.value.what
    assert "replay a later epoch" in str(refused.value.fix)
    later = replay(row_of(app, 2, epoch=2), app.built_plan(), app.settings, Then(["a", "b"], {}))
    assert later.records == 2


def test_rows_of_the_history_come_in_parts_and_replace_those_of_old_epochs() -> None:
    """A row may be larger than a broker takes; keys come again after so many epochs."""
    app = counting()
    row = row_of(app, 1, epoch=13)
    outcome = CallOutcome("call", result=bytes(range(256)) * 10)
    tape = CallTape(completed=[outcome] * 3, left=["other"], polls={-1: 5})
    large = HistoryRows()
    calls = {"stage/0": {"ask": tape}}
    parts = history_parts(msgspec.structs.replace(row, calls=calls), 10)
    assert [key for key, _ in parts] == [b"3/0"]
    (found,) = large.take(parts)
    assert found.calls == calls
    failed = msgspec.structs.replace(row, failure="DATA: no")
    assert history_parts(failed, 10)[0][0] == b"failed/0"
    assert kept_rows([row, failed]) == ({13: row}, failed)


def test_a_row_of_another_format_is_refused_and_the_version_that_wrote_it_reads_it() -> None:
    """It is not taken for something else."""
    ((key, value),) = history_parts(row_of(counting(), 1), 10)
    changed = value[:3] + b"\x63" + value[4:]
    with pytest.raises(HistoryFormatError) as refused:
        list(HistoryRows().take([(key, changed)]))
    assert "the version of Mustela that ran it" in str(refused.value.fix)
    assert next(HistoryRows().take([(key, value)])).epoch == 1


class Calls:
    """The calls of a step, of which some are answered."""

    owner = "host/1"

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, wait_ms: int) -> None:
        pass

    def start(self, request: CallRequest) -> bool:
        self.begun.append(request.call_id)
        return request.call_id != "refused"

    def completed(self, *, wait: bool) -> list[CallOutcome]:
        return [CallOutcome("done")] if "done" in self.begun else []

    def park(self, call_id: str) -> CallOutcome | None:
        return CallOutcome(call_id) if call_id == "late" else None

    def fate(self, call_id: str, owner: str) -> str:
        return "lost" if call_id == "lost" else "running"

    def arrived(self, call_ids: Sequence[str]) -> list[CallOutcome]:
        return [CallOutcome(one) for one in call_ids if one == "old"]

    def sweep(self, groups: object, wanted: object) -> None:
        pass

    def poll_ms(self, age_ms: int | None) -> int:
        return 7 if age_ms is None else 20


class Desk:
    """Makes such calls."""

    def step(self, node: AsyncNode) -> Calls:
        return Calls()


def told(step: Any) -> list[object]:
    """Return what calls answer to the questions of a task."""
    found: list[object] = []
    step.begin(5)
    found.append(step.owner)
    found += [step.start(CallRequest(one, 0, None, None)) for one in ("done", "late", "refused")]
    found.append(step.completed(wait=True))
    found += [step.park("late"), step.park("left"), step.fate("lost", "x"), step.fate("z", "x")]
    found += [step.arrived(["old", "z"]), step.poll_ms(None), step.poll_ms(3)]
    return found


def test_a_tape_of_calls_gives_the_same_answers_without_making_any() -> None:
    """And it knows a call that was never made."""
    app = App("asking")

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        words = builder.stream("words", key=str, value=str)
        words.map_values_async(str.upper, AsyncOptions(), value=str, name="ask").to("out")

    (node,) = [one for one in app.built_topology() if isinstance(one, AsyncNode)]
    made: Any = Desk()
    keeping = KeepingDesk(made)
    first = told(keeping.step(node))
    unknown: set[str] = set()
    desk = TapedDesk(keeping.tapes, unknown)
    assert told(desk.step(node)) == first
    assert not unknown
    assert desk.step(node).start(CallRequest("new", 0, None, None))
    assert unknown == {"new"}


def test_a_replay_is_compared_with_what_is_known_of_what_was_written() -> None:
    """What differs is named; of topics and stores that are not known, nothing is."""
    app = counting()
    made = replay(row_of(app, 2), app.built_plan(), app.settings, Then(["a", "b"], {}))
    shower = Shower(app.built_plan(), app.built_topology(), app.settings)
    traced = (("traceparent", b"00-1-2-01"),)
    rows = [
        WrittenRow(one.topic, one.key, one.value, one.timestamp, traced, 0) for one in made.rows
    ]
    same = Written(rows=rows, changes=dict(made.changes))
    assert deviations(same, made, shower) == (4, [])

    other = rows[0]._replace(value=(9).to_bytes(8, "big"))
    ((key, _), *_) = same.changes.items()
    wrong = Written(rows=[other, *rows[1:]], changes={**same.changes, key: None})
    compared, found = deviations(wrong, made, shower)
    assert (compared, [one.change for one in found]) == (4, ["changed", "changed"])
    assert found[0].old is not None
    assert (found[0].old.value, found[0].new and found[0].new.value) == (9, 1)

    unknown = Written(changes=dict(made.changes), unknown={"topic counts": "it is compacted"})
    assert deviations(unknown, made, shower) == (2, [])
