"""Which epochs one task does alone."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import pytest

from mustela.dsl.builder import StreamsBuilder
from mustela.plan.epoch import EpochOrder, Program, TaskReport
from mustela.plan.plan import Plan
from mustela.plan.ranges import RangeReport, SourceRange
from mustela.planner.planner import plan
from mustela.spark import staying
from mustela.spark.channel import DONE, END, ORDER, Channel
from mustela.spark.frames import dump_object
from mustela.spark.small_epochs import SmallEpochs
from mustela.state.interfaces import Token
from tests.unit.plan.test_epoch import program


def calls_plan() -> Plan:
    """Ask something outside for each record, behind a re-keying."""

    async def ask(value: str) -> str:
        return value

    builder = StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str).select_key(lambda key, _value: key)
    lines.map_values_async(ask, name="ask").to("answers", key=str, value=str)
    return plan(builder.build())


PROGRAM = replace(program(), spool_dir="/nowhere", small_seconds=0.05)


def order(records: int, *, suspect: bool = False) -> EpochOrder:
    half = records // 2
    ranges = ((SourceRange(0, 0, 0, half, 0),), (SourceRange(0, 0, half, records, 0),))
    return EpochOrder(token=Token(1, 1, 0), ranges=ranges, marks={}, now_ms=0, suspect=suspect)


def reports(records: int, *seconds: float) -> list[TaskReport]:
    read = RangeReport(0, 0, 0, records, records, 0, 0, 0, -1, -1)
    source = TaskReport(stage=0, task=0, ranges=[read], seconds={"source": seconds[0]})
    lanes = (
        TaskReport(stage=1, task=lane, seconds={"wait": 9.0, "lane": spent})
        for lane, spent in enumerate(seconds[1:])
    )
    return [source, *lanes]


def seen(*epochs: list[TaskReport], of: Program = PROGRAM) -> SmallEpochs:
    small = SmallEpochs(of)
    for epoch in epochs:
        small.learn(epoch)
    return small


def test_nothing_is_known_of_the_first_epoch() -> None:
    """It is small if it reads no more than a start does; later ones by what they took."""
    assert seen().has(order(200))
    assert not seen().has(order(202))
    assert not seen().has(order(10, suspect=True))
    named = replace(PROGRAM, lanes_named=True)
    assert not seen(of=named).has(order(10))
    assert seen(reports(500, 0.01), of=named).has(order(10))
    assert not seen(reports(500, 0.04, 0.04, 0.03)).has(order(500))
    assert seen(reports(500, 0.04, 0.04, 0.01)).has(order(500))
    assert seen(reports(500, 9.0), reports(500, 0.01)).has(order(500))
    assert not seen(reports(500, 0.01), reports(500, 9.0)).has(order(500))


def test_waiting_for_a_core_is_no_work() -> None:
    """Else a machine that others keep busy would have all epochs as jobs, which cost more."""
    slow = reports(500, 0.3, 0.08)
    slow[0].seconds["waited"] = 0.27
    assert not seen(slow).has(order(500))
    slow[0].seconds["waited"] = 0.29
    assert seen(slow).has(order(500))


def test_a_small_epoch_has_one_source_task_and_one_lane() -> None:
    """One behind the other, each costs what it costs to begin."""
    narrow = SmallEpochs(PROGRAM).narrowed(order(10))
    (ranges,) = narrow.ranges
    assert [part[2:4] for part in ranges] == [(0, 5), (5, 10)]
    assert PROGRAM.lanes_in(narrow) == 1
    assert SmallEpochs(PROGRAM).narrowed(replace(order(0), ranges=((),))).ranges == ((),)


def test_an_epoch_of_many_more_records_is_not_small() -> None:
    """Unless they are few: then what the last one took is not about them."""
    small = seen(reports(500, 0.02))
    assert small.has(order(2_000))
    assert not small.has(order(3_000))
    assert seen(reports(0, 0.01)).has(order(100))
    assert not seen(reports(0, 0.01)).has(order(102))


def test_an_epoch_of_fewer_records_behind_a_large_one_is_small_again() -> None:
    """A delay makes one epoch large; its size alone must not make the next ones large as well."""
    small = seen(reports(40_000, 0.4))
    assert not small.has(order(20_000))
    assert small.has(order(5_000))
    assert small.has(order(50))


def test_what_many_cores_share_is_small_up_to_what_they_would_save() -> None:
    """Two cores save a half of the work, many of them nearly all of it."""
    small = seen(reports(500, 0.06))
    two = order(500)
    assert small.has(two)
    assert not small.has(replace(two, ranges=two.ranges + two.ranges[:1] * 14))


def test_cores_that_others_keep_busy_save_less() -> None:
    """A job for their sake would only take more of them; but what takes long is shared out."""
    busy = reports(2_000, 0.15, 0.3)
    busy[1].seconds["waited"] = 0.2
    assert not seen(busy).has(order(2_000))
    often = seen(*[busy] * 20)
    assert often.has(order(1_900))
    assert not often.has(order(2_100))
    for _ in range(20):
        often.learn(reports(2_000, 0.15, 0.1))
    assert not often.has(order(1_900))


def test_state_that_may_be_damaged_is_looked_at_by_all_cores() -> None:
    """That takes long whatever the epoch reads."""
    assert not seen(reports(500, 0.01)).has(order(500, suspect=True))


@pytest.mark.parametrize(
    "other",
    [
        replace(PROGRAM, small_seconds=0.0),
        replace(PROGRAM, spool_dir=""),
        replace(PROGRAM, plan=calls_plan()),
    ],
    ids=["set-to-0", "several-hosts", "calls"],
)
def test_where_no_epoch_is_small(other: Program) -> None:
    """Lanes on other hosts have other state, and lanes that wait do so at the same time."""
    assert not seen(reports(500, 0.0), of=other).has(order(2))


def test_a_plan_of_one_stage_has_small_epochs_too() -> None:
    """Its work is worth a job as that of two stages is."""
    one = replace(PROGRAM, plan=replace(PROGRAM.plan, stages=PROGRAM.plan.stages[:1]))
    assert seen(reports(500, 0.09), of=one).has(order(500))
    assert not seen(reports(500, 0.11), of=one).has(order(500))
    assert not seen(reports(500, 0.0), of=replace(one, small_seconds=0.0)).has(order(2))


def test_a_task_that_stays_runs_no_order_of_an_earlier_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has done for a later one stands; an older one that arrives now ends it."""
    done: list[Token] = []

    def run(_process: Any, given: EpochOrder) -> None:
        done.append(given.token)

    def nothing(_parcels: Any, *, shuffled: bool) -> tuple[bytes, ...]:
        return ()

    monkeypatch.setattr(staying, "all_stages", run)
    monkeypatch.setattr(staying, "deliver", nothing)
    process: Any = None
    tokens = [Token(1, 2, 0), Token(1, 2, 1), Token(1, 2, 0)]
    driver, worker = map(Channel, socket.socketpair())
    with driver, worker:
        for token in tokens:
            driver.send(ORDER, dump_object(replace(order(0), token=token)))
        driver.send(END)
        driver.flush()
        with pytest.raises(AssertionError, match="after"):
            staying._serve(process, worker)
        assert [driver.receive()[0] for _ in tokens[1:]] == [DONE, DONE]
    assert done == tokens[:2]
