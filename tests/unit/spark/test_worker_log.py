"""What workers and Spark's JVM print, in the form of the application's log."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from contextvars import Context
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.clock import ManualClock
from mustela.kernel.core.each import call_each
from mustela.logs.options import LogOptions
from mustela.plan.batch import Batch, Origins
from mustela.plan.plan import Plan
from mustela.spark.busy import Activity, Doing
from mustela.spark.jvm_log import relay
from mustela.spark.worker_log import Place, worker_log
from tests.bare_logging import bare_logging

OPTIONS = LogOptions(application_id="shop", secrets=("trustno1",))


def identity(value: Any) -> Any:
    return value


def a_plan() -> Plan:
    app = App("shop", settings={"bootstrap_servers": "x:1"})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream("lines", key=str, value=str).map_values(identity, name="priced")
        lines.group_by_key().count(store="counts").to_stream().to("out", key=str, value=int)

    return app.built_plan()


def doing(kind: Activity, *, stage: int = 0, step: int = 0, topic: int = 0) -> Doing:
    return Doing(0.0, kind, step, stage, 1, topic, 2, 10, 20)


def lines_of(place: Place, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Log outside a function, inside one, and in another thread."""
    return Context().run(lines_in, place, capsys)  # tests before may have bound facts to theirs


def lines_in(place: Place, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    log = logging.getLogger("my")

    def function(value: str) -> None:
        log.warning("inside %s", value)

    def run(batch: Batch) -> None:
        call_each(function, (batch.values,), lambda _row, _error: None)

    with bare_logging():
        output = worker_log(OPTIONS, lambda: place)
        assert output is not None
        try:
            log.warning("outside")
            order = [(5, 0, 2, 17), (5, 0, 2, 18)]
            run(Batch(["k", "k"], ["a", "b"], Origins([5, 5], None, order, ("lines",))))
            thread = threading.Thread(target=log.warning, args=("beside",))
            thread.start()
            thread.join()
        finally:
            output.close()
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    head = ("timestamp", "level", "logger", "app")
    return [{key: fact for key, fact in row.items() if key not in head} for row in found]


def test_a_function_that_logs_is_placed_by_epoch_task_step_and_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The record is the one that the function has; another thread has none of it."""
    place = Place(a_plan(), doing(Activity.STEP), 4)
    task = {"epoch": 4, "stage": 0, "task": 1, "step": "priced"}
    assert lines_of(place, capsys) == [
        {"event": "outside", **task, "topic": "lines", "partition": 2},
        {"event": "inside a", **task, "topic": "lines", "partition": 2, "offset": 17},
        {"event": "inside b", **task, "topic": "lines", "partition": 2, "offset": 18},
        {"event": "beside"},
    ]


def test_in_a_lane_the_task_is_the_lane(capsys: pytest.CaptureFixture[str]) -> None:
    """And a worker that rests says nothing of where it was."""
    plan = a_plan()
    row = lines_of(Place(plan, doing(Activity.STEP, stage=1, topic=-1), 4), capsys)[0]
    assert (row["stage"], row["lane"], row["step"]) == (1, 1, plan.stages[1].steps[0].name)
    row = lines_of(Place(plan, doing(Activity.REST), 4), capsys)[0]
    assert row == {"event": "outside"}


def test_a_worker_of_an_application_that_set_up_nothing_is_left_alone() -> None:
    """Its logging is its own."""
    with bare_logging() as root:
        assert worker_log(None, lambda: Place(a_plan(), doing(Activity.REST), 0)) is None
        assert root.handlers == []


def test_what_a_process_prints_is_written_on_and_masked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both its outputs, to the last line, which may have no end."""
    code = "import sys; print('one trustno1'); sys.stderr.write('two\\nthree')"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for thread in relay(process, OPTIONS, ManualClock(1_500)):
        thread.join()
    process.wait()
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert sorted((row["logger"], row["event"], row["timestamp"][:19]) for row in rows) == [
        ("spark.stderr", "three", "1970-01-01T00:00:01"),
        ("spark.stderr", "two", "1970-01-01T00:00:01"),
        ("spark.stdout", "one ******", "1970-01-01T00:00:01"),
    ]
