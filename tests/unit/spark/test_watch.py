"""Workers that take long, or die: the driver says what they were at."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mustela.dsl.builder import StreamsBuilder
from mustela.plan.epoch import EpochOrder
from mustela.plan.ranges import SourceRange
from mustela.planner.planner import plan
from mustela.spark.busy import Activity, BusyNote, busy_root, read_notes, row_at
from mustela.spark.job_errors import job_error, last_words, timed_out
from mustela.spark.watch import Limits, Stuck, WorkerWatch, user_line
from mustela.state.interfaces import Token
from tests.patience import PATIENCE_S
from tests.unit.plan.test_epoch import program

pytestmark = pytest.mark.slow

WORKER = """
import sys, threading
from pathlib import Path
from mustela.kernel.core.each import call_each
from mustela.plan.batch import Batch, SourceChunk
from mustela.spark.busy import BusyNote
from mustela.spark.worker import deliver

note = BusyNote(Path(sys.argv[1]))


def wait_at_c(value):
    if value == "c":
        print("there", flush=True)
        threading.Event().wait()  # for ever
    return value


def parcels():
    note.begin(0, 0)
    chunk = SourceChunk(topics=("in",), topic_index=0, partition=3, offsets=[7, 8, 9],
                        timestamps=[1, 1, 1], floor=0)
    batch = Batch(["x", "y", "z"], ["a", "b", "c"], chunk)
    note.batch(0, 0, (0, 3), chunk.offsets)
    note.step(0)
    call_each(wait_at_c, (batch.values,), None)
    yield 0, b""


list(deliver(parcels(), shuffled=False))
"""


def watch_of(tmp_path: Path, **limits: float) -> tuple[WorkerWatch, list[str]]:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).map_values(str.upper, name="shout")
    stream.to("out", value=str)
    made = replace(program(), plan=plan(builder.build()), spool_dir=str(tmp_path))
    said: list[str] = []
    return WorkerWatch(made, Limits(**limits), said.append), said


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    root = busy_root(str(tmp_path))
    assert root is not None
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"
            yield process
        finally:
            process.kill()


def test_a_worker_that_takes_long_is_named_with_step_record_and_line(
    tmp_path: Path, worker: subprocess.Popen[str]
) -> None:
    """Once, and again when it has taken twice as long."""
    watch, said = watch_of(tmp_path, warn_s=30.0)
    watch.look()
    assert said == []
    watch.now = lambda: time.perf_counter() + 40.0
    watch.look()
    watch.look()
    (text,) = said
    assert "a worker has been for 40 s at step 'shout' (test_watch.py" in text
    assert "with offsets 7 to 9 of in-3" in text
    assert "now with offset 9 of in-3, key 'z'" in text
    assert "<string>:17" in text or "wait_at_c" in text, text
    watch.now = lambda: time.perf_counter() + 90.0
    watch.look()
    assert len(said) == 2
    assert worker.poll() is None


def test_a_worker_that_takes_too_long_is_killed(
    tmp_path: Path, worker: subprocess.Popen[str]
) -> None:
    """The error says the same as the warning."""
    watch, _ = watch_of(tmp_path, kill_s=60.0)
    watch.now = lambda: time.perf_counter() + 61.0
    watch.look()
    assert worker.wait(PATIENCE_S) == -signal.SIGKILL
    assert watch.overdue is not None
    error = timed_out(watch.overdue, 60.0)
    assert "60 s with one batch" in error.what
    assert "offset 9 of in-3" in error.evidence["worker"]
    assert error.fields["record"] == "offset 9 of in-3, key 'z'"


def test_what_a_worker_was_at_when_it_crashed_is_kept(
    tmp_path: Path, worker: subprocess.Popen[str]
) -> None:
    """Its last words too; a worker that died before this job is not spoken of."""
    watch, _ = watch_of(tmp_path)
    worker.send_signal(signal.SIGSEGV)
    assert worker.wait(PATIENCE_S) == -signal.SIGSEGV
    dead = watch.take_dead()
    error = job_error("Python worker exited unexpectedly", debug=False, cluster=False, dead=dead)
    assert "was at step 'shout'" in error.evidence["worker"]
    assert "offsets 7 to 9 of in-3" in error.evidence["worker"]
    assert error.evidence["last words"].startswith("Fatal Python error: Segmentation fault")
    assert watch.take_dead() == []


def test_a_worker_that_died_of_an_earlier_job_is_not_spoken_of(
    tmp_path: Path, worker: subprocess.Popen[str]
) -> None:
    """Spark kills the workers of a job that failed, some seconds later."""
    watch, _ = watch_of(tmp_path)
    order = EpochOrder(token=Token(1, 1, 0), ranges=(), marks={}, now_ms=0)
    with watch.over(order):
        worker.kill()
        worker.wait(PATIENCE_S)
        assert watch.take_dead() == []
    watch.close()


def test_an_interruption_kills_all_workers(tmp_path: Path, worker: subprocess.Popen[str]) -> None:
    """Whatever they are at."""
    watch, said = watch_of(tmp_path)
    watch.kill()
    assert worker.wait(PATIENCE_S) == -signal.SIGKILL
    assert said == []


def test_a_lane_is_named_with_what_the_epoch_read(tmp_path: Path) -> None:
    """No offsets of its own belong to a lane."""
    watch, _ = watch_of(tmp_path)
    note = BusyNote(busy_root(str(tmp_path)))
    try:
        note.begin(0, 1)
        note.step(0)
        root = busy_root(str(tmp_path))
        assert root is not None
        ((doing, lives),) = read_notes(root).values()
        assert lives
        assert doing.kind == Activity.STEP
        ranges = ((SourceRange(0, 2, 5, 8),),)
        order = EpochOrder(token=Token(1, 1, 0), ranges=ranges, marks={}, now_ms=0)
        with watch.over(order):
            what = watch._what(doing)
        assert "in lane 1 with offsets 5 to 7 of in-2" in what
    finally:
        note.close()
        watch.close()


def test_words_without_a_task_name_no_line() -> None:
    """Then nothing is made up; last words are those of a crash only."""
    assert user_line('Thread 0x1 (most recent call first):\n  File "x.py", line 1 in f\n') is None
    assert last_words("Thread 0x1\n") == ""
    assert row_at(None) == ""


def test_a_note_on_another_host_costs_nothing() -> None:
    """Nobody reads it."""
    note = BusyNote(None)
    note.batch(0, 0, (0, 0), [1, 2])
    note.step(1)
    note.close()


def test_the_dead_without_words_were_killed() -> None:
    """As for want of memory: the text says so, and not nothing."""
    stuck = Stuck(1, None, "a worker was at something", "", "", "")  # type: ignore[arg-type]
    error = job_error("EOFException", debug=False, cluster=False, dead=[stuck])
    assert "lack of memory" in error.evidence["last words"]
