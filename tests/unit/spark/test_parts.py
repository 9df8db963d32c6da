"""Large epochs as orders to tasks that stay; their workers are children of the test."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.errors import InvariantError
from mustela.plan.epoch import EpochOrder
from mustela.spark.channel import FRAME, Channel
from mustela.spark.frames import EXCHANGE, MARKERS, ROWS, Frame, pack, unpack
from mustela.spark.outbox import DRIVER
from mustela.spark.residents import Residents
from mustela.spark.staying import PartOrder, packed_parcel
from mustela.state.interfaces import Token
from tests.patience import looks
from tests.unit.spark.children import JOB, LIMITS, TASK, Clock, Spark, answer, finish, order

pytest_plugins = ["tests.unit.spark.children_fixture"]

SOURCES, LANES = 3, 2
WHOLE = [b"a job of all tasks"]


def large(epoch: int, **changes: Any) -> EpochOrder:
    return replace(order(epoch), ranges=((),) * SOURCES, **changes)


def say(channel: Channel, lane: int, target: int, part: PartOrder, body: bytes) -> None:
    kind = ROWS if target == DRIVER else EXCHANGE
    frame = Frame(kind, target, part.stage, part.task, 0, "", body)
    channel.send(FRAME, packed_parcel(lane, pack(frame)))


def works(channel: Channel, given: EpochOrder | PartOrder) -> None:
    """A source sends its number to each lane, and home; a lane sends home what it has got."""
    if not isinstance(given, PartOrder):
        answer(channel, given)
        return
    if given.stage == 0:
        say(channel, given.task % LANES, DRIVER, given, b"read %d" % given.task)
        for lane in range(LANES):
            say(channel, lane, 1, given, b"%d" % given.task)
    else:
        got = sorted(unpack(frame).body for frame in given.frames)
        say(channel, given.task, DRIVER, given, b"lane %d: " % given.task + b" ".join(got))
    finish(channel, given)


ALL = ["lane 0: 0 1 2", "lane 1: 0 1 2", "read 0", "read 1", "read 2"]


@pytest.fixture
def residents(residents: Residents, spark: Spark) -> Residents:
    residents.cores = 2
    spark.script = works
    return residents


def job() -> Iterator[bytes]:
    yield from WHOLE


def run(residents: Residents, given: EpochOrder, *, read: bool = False) -> list[str]:
    """Return what came home, in any order: frames say whose they are."""
    done = residents.read(given) if read else None
    frames = list(residents.run_large(given, done, job))
    return ["job"] if frames == WHOLE else sorted(unpack(frame).body.decode() for frame in frames)


def codes(spark: Spark) -> list[int | None]:
    return [child.code for child in spark.children]


@pytest.mark.parametrize("read", [False, True])
def test_what_sources_send_reaches_lanes_and_driver(
    residents: Residents, spark: Spark, read: bool
) -> None:
    """There are more sources than tasks that stay; those stay for the next epoch."""
    for epoch in (1, 2, 3):
        assert run(residents, large(epoch), read=read) == ALL
    assert len(spark.children) == 2
    residents.leave()
    assert codes(spark) == [0, 0]


def test_small_epochs_go_on_with_the_first_task(residents: Residents, spark: Spark) -> None:
    """A large one has another come to it."""
    assert [list(residents.run(order(epoch))) for epoch in (1, 2, 3)] == [JOB, JOB, TASK]
    assert len(spark.children) == 1
    assert run(residents, large(4)) == ALL
    assert list(residents.run(order(5))) == TASK
    assert len(spark.children) == 2


def test_what_only_large_epochs_need_leaves_without_them(
    residents: Residents, spark: Spark, clock: Clock
) -> None:
    """The first task stays as long as small epochs come, and nobody else wants its core."""
    residents.limits = replace(LIMITS, look_s=0.005)
    assert run(residents, large(1)) == ALL
    clock.seconds += LIMITS.idle_s
    assert list(residents.run(order(2))) == TASK
    clock.seconds += 1
    for gone in looks(lambda: codes(spark) == [None, 0]):
        if gone:
            break
    spark.others = 1  # is one too many, as one task is left
    for gone in looks(lambda: codes(spark) == [0, 0]):
        if gone:
            break
    spark.others, clock.seconds = 0, clock.seconds + LIMITS.pause_s
    assert run(residents, large(3)) == ALL
    assert len(spark.children) == 4


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("task", [0, 1])
def test_when_one_dies_all_are_gone_before_the_next_attempt(
    residents: Residents, spark: Spark, stage: int, task: int
) -> None:
    """What the others of its epoch still do, they cannot do behind another attempt's back."""

    def dies(channel: Channel, given: PartOrder) -> None:
        if (given.stage, given.task) == (stage, task):
            os.kill(os.getpid(), signal.SIGKILL)
        works(channel, given)

    spark.script = dies
    with pytest.raises(OSError, match="Python worker exited unexpectedly"):
        run(residents, large(1))
    assert None not in codes(spark)
    assert -signal.SIGKILL in codes(spark)
    spark.script = works
    assert run(residents, replace(large(1), token=Token(1, 1, 1), suspect=True)) == ["job"]
    assert run(residents, large(2)) == ALL


def test_one_that_hangs_is_killed_when_another_one_has_died(
    residents: Residents, spark: Spark
) -> None:
    """It has a while to end by itself."""

    def hangs(channel: Channel, given: PartOrder) -> None:
        if given.task:
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

    spark.script = hangs
    residents.limits = replace(LIMITS, leaves_s=0.05)
    with pytest.raises(OSError, match="Python worker exited unexpectedly"):
        run(residents, large(1))
    assert codes(spark) == [-signal.SIGKILL, -signal.SIGKILL]


@pytest.mark.parametrize("change", [{"stage": 1}, {"task": 7}, {"order": large(2)}])
def test_an_answer_to_another_order_is_no_answer(
    residents: Residents, spark: Spark, change: dict[str, Any]
) -> None:
    """Nothing that an earlier attempt or another task says counts."""
    spark.script = lambda channel, part: finish(channel, part._replace(**change))
    with pytest.raises(InvariantError):
        run(residents, large(1))
    assert None not in codes(spark)


def test_an_epoch_that_nobody_hears_to_its_end_is_void(residents: Residents, spark: Spark) -> None:
    """All that work on it have ended then."""
    heard = residents.run_large(large(1), None, job)
    next(heard)
    heard.close()  # type: ignore[attr-defined]
    assert None not in codes(spark)
    assert len(spark.children) == 2


def test_what_was_read_by_tasks_that_have_gone_is_read_again(
    residents: Residents, spark: Spark
) -> None:
    """Where none may stay, by a job, whole; else its frames name files, which are there."""
    read = residents.read(large(1))
    residents.leave()
    spark.others = 1
    assert list(residents.run_large(large(1), read, job)) == WHOLE
    spark.others = 0
    read = residents.read(large(2))
    residents.leave()
    frames = residents.run_large(large(2), read, job)
    assert sorted(unpack(frame).body.decode() for frame in frames) == ALL


@pytest.mark.parametrize("change", [{"suspect": True}, {"probe": True}, {"owners": 2}])
def test_what_is_no_usual_epoch_has_a_job(
    residents: Residents, spark: Spark, change: dict[str, Any]
) -> None:
    """And all cores: those that stay leave."""
    assert run(residents, large(1)) == ALL
    assert run(residents, large(2, **change)) == ["job"]
    assert residents.read(large(2, **change)) is None
    assert codes(spark) == [0, 0]


def test_an_epoch_from_before_what_was_read_ahead_has_new_tasks(
    residents: Residents, spark: Spark
) -> None:
    """The commit of the one before has failed, and it comes again."""
    assert run(residents, large(3)) == ALL
    assert residents.read(large(4)) is not None
    assert run(residents, replace(large(3), token=Token(1, 3, 1))) == ALL
    assert codes(spark) == [0, 0, None, None]


def test_they_leave_when_somebody_else_wants_a_core(
    residents: Residents, spark: Spark, clock: Clock
) -> None:
    """Epochs have jobs for a while."""
    residents.limits = replace(LIMITS, look_s=0.005)
    assert run(residents, large(1)) == ALL
    spark.others = 1
    for gone in looks(lambda: codes(spark) == [0, 0]):
        if gone:
            break
    spark.others = 0
    assert run(residents, large(2)) == ["job"]
    clock.seconds += LIMITS.pause_s
    assert run(residents, large(3)) == ALL


def test_if_not_all_come_there_is_a_job(residents: Residents, spark: Spark) -> None:
    """The cores are somebody else's: whoever came leaves."""
    spark.comes, residents.limits = False, replace(LIMITS, begins_s=0.0)
    assert run(residents, large(1)) == ["job"]
    assert None not in codes(spark)


def test_frames_for_a_stage_behind_the_next_one_wait_for_it(
    residents: Residents, spark: Spark
) -> None:
    """They do not go through the lanes between."""

    def skips(channel: Channel, given: PartOrder) -> None:
        if given.stage == 0:
            frame = Frame(MARKERS, 2, 0, given.task, 0, "", b"%d" % given.task)
            channel.send(FRAME, packed_parcel(1, pack(frame)))
        else:
            say(channel, given.task, DRIVER, given, b"%d frames" % len(given.frames))
        finish(channel, given)

    plan = residents.program.plan
    residents.program = replace(
        residents.program, plan=replace(plan, stages=(*plan.stages, plan.stages[1]))
    )
    spark.script = skips
    found = Counter(run(residents, large(1)))
    assert found == {"0 frames": 3, f"{SOURCES} frames": 1}


def test_where_workers_may_be_on_other_hosts_there_are_jobs(
    residents: Residents, spark: Spark
) -> None:
    """They could not come."""
    residents.program = replace(residents.program, spool_dir="")
    assert run(residents, large(1)) == ["job"]
    assert not spark.children


def test_a_disk_without_sockets_costs_no_epoch(
    residents: Residents, spark: Spark, tmp_path: Path
) -> None:
    """It has its job."""
    (tmp_path / "file").touch()
    residents.program = replace(residents.program, spool_dir=str(tmp_path / "file"))
    assert run(residents, large(1)) == ["job"]
    assert not spark.children
