"""When a task stays, what it answers, and when it leaves; its worker is a child of the test."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mustela.errors import InvariantError
from mustela.plan.epoch import EpochOrder
from mustela.spark.channel import FRAME, Channel
from mustela.spark.residents import Residents
from mustela.state.interfaces import Token
from tests.patience import looks
from tests.unit.plan.test_epoch import program
from tests.unit.spark.children import (
    JOB,
    LIMITS,
    SHIPMENT,
    TASK,
    Clock,
    Script,
    Spark,
    answer,
    order,
)

pytest_plugins = ["tests.unit.spark.children_fixture"]


def run(residents: Residents, epoch: int) -> list[bytes]:
    return list(residents.run(order(epoch)))


def settled(residents: Residents) -> None:
    """Have a task stay."""
    assert [run(residents, epoch) for epoch in (1, 2)] == [JOB, JOB]
    assert run(residents, 3) == TASK


def ended(spark: Spark) -> bool:
    return spark.children[-1].code is not None


def test_a_task_stays_after_two_small_epochs(residents: Residents, spark: Spark) -> None:
    """One task for all that follow; what comes between counts anew."""
    settled(residents)
    assert run(residents, 4) == TASK
    assert len(spark.children) == 1
    residents.leave()
    assert ended(spark)
    assert [run(residents, epoch) for epoch in (5, 6)] == [JOB, JOB]
    assert run(residents, 7) == TASK
    assert len(spark.children) == 2


def test_an_epoch_from_before_what_was_read_ahead_has_a_job(
    residents: Residents, spark: Spark
) -> None:
    """Its worker would refuse it: what it has done for a later epoch stands."""
    settled(residents)
    assert run(residents, 5) == TASK
    assert run(residents, 4) == JOB
    assert spark.children[0].code == 0
    assert run(residents, 5) == TASK
    assert len(spark.children) == 2


def test_nothing_of_it_stays_on_the_disk(residents: Residents, tmp_path: Path) -> None:
    """The door is closed when the task is in."""
    settled(residents)
    residents.leave()
    assert list(tmp_path.iterdir()) == []


def test_where_workers_may_be_on_other_hosts_no_task_stays(spark: Spark) -> None:
    """They could not come."""
    residents = Residents(spark, program(), SHIPMENT, limits=LIMITS)
    assert [run(residents, epoch) for epoch in range(1, 6)] == [JOB] * 5
    assert not spark.children


def dies_at_once(channel: Channel, _order: EpochOrder) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_between_frames(channel: Channel, _order: EpochOrder) -> None:
    channel.send(FRAME, TASK[0])
    channel.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def dies_at_the_end(channel: Channel, _order: EpochOrder) -> None:
    for frame in TASK:
        channel.send(FRAME, frame)
    channel.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def hangs_up(channel: Channel, _order: EpochOrder) -> None:
    channel.hang_up()


@pytest.mark.parametrize("script", [dies_at_once, dies_between_frames, dies_at_the_end, hangs_up])
def test_an_epoch_whose_worker_dies_is_void(
    residents: Residents, spark: Spark, script: Script
) -> None:
    """That is said with the words of a job whose worker died; the next epoch has a job."""
    spark.script = script
    assert [run(residents, epoch) for epoch in (1, 2)] == [JOB, JOB]
    with pytest.raises(OSError, match="Python worker exited unexpectedly"):
        run(residents, 3)
    assert ended(spark)
    spark.script = answer
    assert run(residents, 3) == JOB
    assert run(residents, 4) == TASK


def test_one_that_dies_at_rest_is_replaced_without_a_word(
    residents: Residents, spark: Spark
) -> None:
    """As Spark does with a worker that has no task."""
    settled(residents)
    os.kill(spark.children[-1].pid, signal.SIGKILL)
    task = residents._tasks[0]

    def is_gone() -> bool:
        with residents._lock:  # its own thread may look at it, too
            return not task.is_well

    for gone in looks(is_gone):
        if gone:
            break
    assert run(residents, 4) == JOB
    assert run(residents, 5) == TASK


@pytest.mark.parametrize("other", [Token(1, 2, 0), Token(1, 3, 1)])
def test_an_answer_to_another_order_is_no_answer(
    residents: Residents, spark: Spark, other: Token
) -> None:
    """What an earlier attempt says never counts for a later one."""
    spark.script = lambda channel, given: answer(channel, replace(given, token=other))
    assert [run(residents, epoch) for epoch in (1, 2)] == [JOB, JOB]
    with pytest.raises(InvariantError):
        run(residents, 3)
    assert ended(spark)


def test_after_an_answer_that_nobody_heard_to_its_end_the_task_is_gone(
    residents: Residents, spark: Spark
) -> None:
    """Whatever it still does, it has ended before there is another attempt."""
    settled(residents)
    heard = residents.run(order(4))
    assert next(heard) == TASK[0]
    heard.close()  # type: ignore[attr-defined]
    assert ended(spark)
    assert run(residents, 4) == JOB


def test_a_worker_that_hangs_when_nobody_hears_it_any_more_is_killed(
    residents: Residents, spark: Spark
) -> None:
    """An attempt that was given up cannot write behind the next one."""

    def hangs(channel: Channel, _order: EpochOrder) -> None:
        channel.send(FRAME, TASK[0])
        channel.flush()
        signal.pause()

    spark.script = hangs
    residents.limits = replace(LIMITS, leaves_s=0.05)
    assert [run(residents, epoch) for epoch in (1, 2)] == [JOB, JOB]
    heard = residents.run(order(3))
    assert next(heard) == TASK[0]
    heard.close()  # type: ignore[attr-defined]
    assert spark.children[-1].code == -signal.SIGKILL


def test_one_that_does_not_come_is_called_off(residents: Residents, spark: Spark) -> None:
    """All cores are somebody else's: the epoch waits for one as a job does."""
    spark.comes, residents.limits = False, replace(LIMITS, begins_s=0.0)
    assert [run(residents, epoch) for epoch in (1, 2, 3, 4)] == [JOB] * 4
    assert len(spark.children) == 1
    assert ended(spark)


def await_end(spark: Spark) -> None:
    for gone in looks(lambda: ended(spark)):
        if gone:
            return


def looked_after(residents: Residents) -> None:
    residents.limits = replace(LIMITS, look_s=0.005)


def test_it_leaves_when_somebody_else_wants_a_core(
    residents: Residents, spark: Spark, clock: Clock
) -> None:
    """Without an order, too; then no task stays for a while, and each time twice as long."""
    looked_after(residents)
    settled(residents)
    for pause in (10.0, 20.0):
        spark.others = 1
        await_end(spark)
        assert run(residents, 4) == JOB
        spark.others = 0
        clock.seconds += pause - 1
        assert [run(residents, epoch) for epoch in (5, 6)] == [JOB, JOB]
        clock.seconds += 1
        assert [run(residents, epoch) for epoch in (7, 8)] == [JOB, TASK]


def test_none_begins_while_somebody_else_has_a_core(residents: Residents, spark: Spark) -> None:
    """It would be in the way."""
    spark.others = 1
    assert [run(residents, epoch) for epoch in range(1, 5)] == [JOB] * 4
    assert not spark.children


def test_it_leaves_when_nothing_comes(residents: Residents, spark: Spark, clock: Clock) -> None:
    """An order in time keeps it."""
    looked_after(residents)
    settled(residents)
    clock.seconds += LIMITS.idle_s
    assert run(residents, 4) == TASK
    clock.seconds += LIMITS.idle_s + 1
    await_end(spark)
    assert run(residents, 5) == JOB
    assert run(residents, 6) == TASK


def test_it_leaves_when_it_is_old(residents: Residents, spark: Spark, clock: Clock) -> None:
    """However busy it is; the next one begins without a pause."""
    looked_after(residents)
    residents.limits = replace(residents.limits, idle_s=1e9)
    settled(residents)
    clock.seconds += LIMITS.age_s + 1
    await_end(spark)
    assert run(residents, 4) == JOB
    assert run(residents, 5) == TASK


def test_two_threads_do_not_share_an_answer(residents: Residents) -> None:
    """The second one waits for the end of the first one's."""
    settled(residents)
    heard = residents.run(order(4))
    found = [next(heard)]
    second: list[bytes] = []
    other = threading.Thread(target=lambda: second.extend(run(residents, 5)))
    other.start()
    found += heard
    other.join()
    assert (found, second) == (TASK, TASK)


def test_a_disk_without_sockets_costs_no_epoch(
    residents: Residents, spark: Spark, tmp_path: Path
) -> None:
    """Every epoch has its job; nothing was wrong with those that are done."""
    (tmp_path / "file").touch()
    residents.program = replace(residents.program, spool_dir=str(tmp_path / "file"))
    assert [run(residents, epoch) for epoch in range(1, 5)] == [JOB] * 4
    assert not spark.children


def test_spark_may_end_while_a_task_is_on_its_way(residents: Residents, spark: Spark) -> None:
    """The epoch's own job meets that and has words for it; no thread ends with a traceback."""
    spark.comes, residents.limits = False, replace(LIMITS, look_s=0.005)
    assert [run(residents, epoch) for epoch in (1, 2)] == [JOB, JOB]
    spark.gone = True
    assert run(residents, 3) == JOB
    await_end(spark)
    for thread in threading.enumerate():
        if thread.name == "mustela-resident":
            thread.join()
