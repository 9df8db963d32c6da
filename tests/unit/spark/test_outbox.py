"""What a task sends: each row to the lane of its key, rows for Kafka towards the driver."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.errors import RefusedRow, RowsRefused
from mustela.errors import UsageError
from mustela.kernel.core.output import DeadLetters, SinkRows, StageOutput
from mustela.kernel.records.sink_order import places_of
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.epoch import EpochOrder, Program
from mustela.plan.keygroups import key_group, lane_of_group
from mustela.plan.plan import Exchange
from mustela.plan.ranges import RangeReport
from mustela.serdes.primitives import StrSerde
from mustela.spark.frames import (
    CHANGELOG,
    DEAD_LETTERS,
    EXCHANGE,
    MARKERS,
    PLACED,
    REPORT,
    ROWS,
    Frame,
    load_object,
    unpack,
    unpack_batch,
)
from mustela.spark.gathered import gathered_rows
from mustela.spark.outbox import Outbox, failure_of
from mustela.spark.process import Process
from mustela.spark.results import FrameStore
from mustela.spark.spool import SpoolReader
from mustela.state.interfaces import Token
from tests.unit.plan.test_epoch import program
from tests.unit.runtime.fakes import FakeChecks, FakeSink

PROGRAM = program()
EXCHANGES = {
    name: Exchange(name=name, step="s", key=StrSerde(), target=2, ordered=ordered)
    for name, ordered in (("ordered", True), ("loose", False))
}
ORDER = EpochOrder(
    token=Token(1, 2, 3), ranges=(), marks={}, now_ms=0, header=("mustela.epoch", b"2")
)


def process_of(changed: Program) -> Process:
    process = Process(os.getpid(), changed)
    process.wired.exchanges = EXCHANGES
    return process


def outbox(stage: int = 0, task: int = 0, **program_of: Any) -> Outbox:
    changed = replace(PROGRAM, **program_of)
    return Outbox(process_of(changed), ORDER, stage, task)


def sending(
    sink: FakeSink, checks: FakeChecks, *, handler: str = "fail", order: EpochOrder = ORDER
) -> Outbox:
    """Return the outbox of a task that sends its rows itself."""
    changed = replace(PROGRAM, guarantee="at_least_once", kernel={"production_handler": handler})
    process = process_of(changed)
    process._sink = sink  # pyright: ignore[reportAttributeAccessIssue]
    process._row_checks = checks  # pyright: ignore[reportAttributeAccessIssue]
    return Outbox(process, order, 0, 0)


def sent(box: Outbox, output: StageOutput) -> list[tuple[int, Frame]]:
    return [(lane, unpack(data)) for lane, data in box.send(output)]


def received(frame: Frame) -> Batch:
    with SpoolReader() as spools:
        return unpack_batch(spools.fetch_bytes(frame.body), ())


def batch_of(keys: list[bytes | None], order: list[Order] | None = None) -> Batch:
    count = len(keys)
    places = order or [(n, 0, 0, n) for n in range(count)]
    origins = Origins(list(range(count)), None, places)
    return Batch([None] * count, list(range(count)), origins, key_bytes=keys)  # pyright: ignore[reportArgumentType]


@given(st.lists(st.none() | st.binary(max_size=3), min_size=1), st.integers(1, 8))
def test_each_row_goes_to_the_lane_of_its_key_and_nowhere_else(
    keys: list[bytes | None], lanes: int
) -> None:
    """In its order; a row without a key belongs to the first key group."""
    frames = sent(
        outbox(lanes=lanes), StageOutput(exchanges={"ordered": [batch_of(keys), batch_of(keys)]})
    )
    arrived: list[int] = []
    for lane, frame in frames:
        assert (frame.kind, frame.stage, frame.name) == (EXCHANGE, 2, "ordered")
        batch = received(frame)
        assert batch.values == sorted(batch.values)
        for value, key in zip(batch.values, batch.key_bytes or (), strict=True):
            assert key == keys[value]
            group = 0 if key is None else key_group(key, PROGRAM.key_groups)
            assert lane == lane_of_group(group, lanes, PROGRAM.key_groups)
        arrived += batch.values
    assert sorted(arrived) == sorted([*range(len(keys))] * 2)
    assert [frame.sequence for _, frame in frames] == list(range(len(frames)))


def test_many_records_go_to_their_lanes_by_file(tmp_path: Path) -> None:
    """What the shuffle carries is small then; few records travel in it."""
    box = outbox(lanes=2, spool_dir=str(tmp_path / "spool"))
    keys: list[bytes | None] = [b"key %d" % n for n in range(20_000)]
    many = sent(box, StageOutput(exchanges={"ordered": [batch_of(keys)]}))
    few = sent(box, StageOutput(exchanges={"ordered": [batch_of(keys[:20])]}))
    assert all(len(frame.body) < 2_000 for _, frame in [*many, *few])
    for frames, count in ((many, 20_000), (few, 20)):
        arrived = [received(frame).values for _, frame in frames]
        assert sorted(value for values in arrived for value in values) == list(range(count))


@pytest.mark.parametrize("stage", [0, 1])
def test_the_order_that_the_kernel_gave_travels_where_it_matters(stage: int) -> None:
    """As it is: behind a lane it says already which key group made the row."""
    order: list[Order] = [(5, 0, 0, 1, 7, 0), (5, 0, 0, 1, 7, 1)]
    output = StageOutput(
        exchanges={name: [batch_of([b"a", b"a"], list(order))] for name in EXCHANGES}
    )
    found = {frame.name: received(frame).order for _, frame in sent(outbox(stage=stage), output)}
    assert found == {"ordered": order, "loose": None}


def test_rows_for_kafka_travel_by_the_tasks_own_lane() -> None:
    """They are opaque to the stages in between."""
    rows = SinkRows(step="to", topic="out", keys=[b"k"], values=[b"v"], timestamps=[5])
    letters = DeadLetters(keys=[b"k"], values=[b"bad"], timestamps=[6], headers=[(("e", b"x"),)])
    box = outbox(task=5, lanes=4)
    frames = sent(box, StageOutput(rows=[rows], dead_letters=letters))
    frames += [(lane, unpack(data)) for lane, data in box.changelog("counts", 3, [(b"k", None)])]
    assert [(lane, frame.kind, frame.stage) for lane, frame in frames] == [
        (1, ROWS, -1),
        (1, DEAD_LETTERS, -1),
        (1, CHANGELOG, -1),
    ]
    columns = [SpoolReader().fetch(frame.body) for _, frame in frames]
    assert columns[0].topics == "out"
    assert columns[1].values == [b"bad"]
    assert (columns[2].topics, columns[2].partitions, columns[2].values) == ("counts", 3, [None])


def test_a_sink_without_rows_sends_nothing() -> None:
    """An empty frame would cost as much as a full one."""
    rows = SinkRows(step="to", topic="out", keys=[], values=[], timestamps=[])
    assert sent(outbox(), StageOutput(rows=[rows])) == []


def test_at_least_once_tasks_send_their_rows_and_flush_before_they_report() -> None:
    """With the epoch's header; nothing of them reaches the driver. A failed task flushes not."""
    rows = SinkRows(step="to", topic="out", keys=[b"k"], values=[b"v"], timestamps=[5])
    for failed in (False, True):
        sink = FakeSink()
        box = sending(sink, FakeChecks())
        assert sent(box, StageOutput(rows=[rows])) == []
        assert sink.sent[0]["header"] == ("mustela.epoch", b"2")
        if failed:
            box.report.failure = failure_of(ValueError("no"))
        list(box.finish())
        assert sink.calls == (["rows", "close"] if failed else ["rows", "flush"])


def test_nobody_sends_the_rows_of_a_probe() -> None:
    """They are made from a part of the records: at_least_once they would be read, and wrong."""
    rows = SinkRows(step="to", topic="out", keys=[b"k"], values=[b"v"], timestamps=[5])
    sink = FakeSink()
    box = sending(sink, FakeChecks(), order=replace(ORDER, probe=True))
    assert [frame.kind for _, frame in sent(box, StageOutput(rows=[rows]))] == [ROWS]
    list(box.finish())
    assert sink.calls == []


def test_rows_that_a_task_cannot_send_are_counted_and_become_dead_letters() -> None:
    """They go to the driver, whose transaction takes them; the others are sent."""
    rows = SinkRows(
        step="to", topic="out", keys=[b"a", b"b"], values=[b"1", b"2"], timestamps=[5, 5]
    )
    bad = RefusedRow(0, 1, "out", "MSG_SIZE_TOO_LARGE", "too large")
    sink = FakeSink()
    box = sending(sink, FakeChecks(bad), handler="dead_letter")
    sent(box, StageOutput(rows=[rows]))
    letter, report = [unpack(data) for _, data in box.finish()]
    assert letter.kind == DEAD_LETTERS
    columns = SpoolReader().fetch(letter.body)
    assert (columns.keys, columns.values) == ([b"b"], [b"2"])
    assert load_object(report.body).counters == {"refused_rows:out": 1}
    assert set(sink.sent[0]["skip"]) == {1}


def test_a_task_whose_rows_are_refused_says_so_in_its_report() -> None:
    """Its Spark job goes on to its end; the driver raises what the report holds."""
    rows = SinkRows(step="to", topic="out", keys=[b"k"], values=[b"v"], timestamps=[5])
    bad = RefusedRow(0, 0, "out", "MSG_SIZE_TOO_LARGE", "too large")
    sink = FakeSink(flush=[RowsRefused.of([bad])])
    box = sending(sink, FakeChecks())
    sent(box, StageOutput(rows=[rows]))
    (report,) = [load_object(unpack(data).body) for _, data in box.finish()]
    assert report.failure.error.code == "PRODUCTION"
    assert sink.calls == ["rows", "flush", "close"]


def test_every_lane_learns_what_the_sources_saw() -> None:
    """And whether one of them failed: then no lane writes anything."""
    seen = [RangeReport(0, 0, 0, 5, 5, 99, 10)]
    parcels = list(outbox(lanes=3).markers(seen, failed=True))
    assert [lane for lane, _ in parcels] == [0, 1, 2]
    for _, data in parcels:
        frame = unpack(data)
        assert (frame.kind, frame.stage) == (MARKERS, 1)
        assert load_object(frame.body) == (seen, True)


def test_the_report_comes_last_and_sums_the_counters() -> None:
    """One for each task."""
    box = outbox(stage=1, task=2)
    for _ in range(2):
        output = StageOutput()
        output.counters["records:in"] += 4
        assert sent(box, output) == []
    ((lane, data),) = box.finish()
    frame = unpack(data)
    report = load_object(frame.body)
    assert (lane, frame.kind, report.stage, report.task, report.pid) == (
        0,
        REPORT,
        1,
        2,
        os.getpid(),
    )
    assert report.counters == {"records:in": 8}


class Unpicklable(UsageError):
    code = "TEST_UNPICKLABLE"

    def __init__(self, handle: object) -> None:
        super().__init__("held")
        self.fields["handle"] = handle


def test_an_error_travels_whole_if_it_can_and_as_text_if_not() -> None:
    """The driver always learns what happened."""
    whole = failure_of(UsageError("no", fix="yes"))
    assert isinstance(whole.error, UsageError)
    text = failure_of(Unpicklable(threading.Lock()))
    assert text.error is None
    assert "held" in text.text


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_rows_of_a_topic_that_other_stages_write_are_sorted_by_the_driver(guarantee: str) -> None:
    """Also those that tasks send by themselves otherwise: which comes first nobody else knows."""
    frames = FrameStore(1 << 20)
    for stage, numbers in ((0, [1, 4]), (1, [2, 3])):
        rows = SinkRows(
            step=f"to{stage}",
            topic="out",
            keys=[b"k"] * 2,
            values=[b"%d" % number for number in numbers],
            timestamps=numbers,
            places=places_of([(n, 0, 0, n) for n in numbers], (stage, stage)),
            spread=True,
        )
        changed = replace(PROGRAM, guarantee=guarantee)  # pyright: ignore[reportArgumentType]
        process = process_of(changed)
        process._sink = FakeSink()  # pyright: ignore[reportAttributeAccessIssue]
        process._row_checks = FakeChecks()  # pyright: ignore[reportAttributeAccessIssue]
        box = Outbox(process, ORDER, stage, 0)
        for _, data in box.send(StageOutput(rows=[rows])):
            assert unpack(data).kind == PLACED
            frames.add(unpack(data), data)
        assert not box.report.outlines
    (out,) = gathered_rows(frames, ORDER, [])
    assert (out.topics, out.values) == ("out", [b"1", b"2", b"3", b"4"])
    assert [columns.values for columns in frames.view(ROWS, and_then=[out])] == [out.values]
