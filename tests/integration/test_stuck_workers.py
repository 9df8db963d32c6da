"""Functions that hang or end their process: named, bounded, and never for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from tests.integration.app_world import World
from tests.integration.own_process import lines_until
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
]
pytest_plugins = ["tests.integration.app_fixture"]

PROGRAM = """
import time
from pathlib import Path
from mustela import App

spark = {{"spark.master": "local[2]"}}
app = App("{name}", bootstrap_servers="{servers}", state_dir="{state}", spark=spark)


def slow(text):
    if text == "hang" and Path("{gate}").exists():
        time.sleep(3600)
    return text


@app.topology
def build(builder):
    lines = builder.stream("{source}", key=str, value=str).map_values(slow, name="slow")
    lines.group_by_key().count(store="counts").to_stream().to("{sink}", key=str, value=int)
"""


def test_sigterm_ends_an_application_whose_function_hangs(world: World, tmp_path: Path) -> None:
    """It says what hangs; after the grace time it ends with a code of its own; nothing is lost."""
    source, sink, gate = world.topic("in"), world.topic("out"), tmp_path / "gate"
    gate.touch()
    (tmp_path / "hanging.py").write_text(
        PROGRAM.format(
            name=world.name,
            servers=world.broker.bootstrap_servers,
            state=tmp_path / "state",
            gate=gate,
            source=source,
            sink=sink,
        )
    )
    world.send(source, [("a", "1"), ("b", "hang"), ("a", "2")])
    words = ("--set", "processing.warn_after=1s", "--set", "shutdown.grace=1s")
    command = [sys.executable, "-m", "mustela.cli.main", "run", "hanging:app", *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as app:
        assert app.stderr is not None
        seen = lines_until(app.stderr, "a worker has been for")
        app.send_signal(signal.SIGTERM)
        seen += app.stderr.readlines()
        assert app.wait(PATIENCE_S) == 5, seen
    text = "".join(seen)
    for part in ("step 'slow'", "hanging.py:12: time.sleep(3600)", f"offset 1 of {source}-0"):
        assert part in text, text
    assert "SHUTDOWN_UNFINISHED" in text
    assert "Traceback" not in text
    assert world.rows(sink) == []
    gate.unlink()
    done = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        world.until(lambda: len(world.rows(sink)) == 2, "all is counted")
    finally:
        done.terminate()
        _, text = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, text
    assert world.numbers(sink) == {"a": 2, "b": 1}


def stream_of(
    source: str, sink: str, function: Callable[[str], str]
) -> Callable[[StreamsBuilder], Any]:
    """Count what a function lets through."""

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str).map_values(function, name="risky")
        stream.group_by_key().count(store="counts").to_stream().to(sink, key=str, value=int)

    return build


def test_a_batch_has_a_time_limit_where_one_is_set(world: World) -> None:
    """The worker is killed, the error names step and record, and nothing is committed."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("a", "1"), ("b", "hang")])

    def hang(text: str) -> str:
        if text == "hang":
            time.sleep(3600)
        return text

    error = world.fail(stream_of(source, sink, hang), processing={"timeout": "3s"})
    assert error.code == "PROCESSING_TIMEOUT", error
    assert "risky" in str(error)
    assert error.fields["record"] == f"offset 1 of {source}-0, key 'b'"
    assert world.rows(sink) == []
    # What the fix says: a function that does not wait for ever is done in time.
    world.run(stream_of(source, sink, lambda text: text[:9]), processing={"timeout": "60s"})
    assert world.numbers(sink) == {"a": 1, "b": 1}


def test_a_record_that_kills_its_worker_is_left_out_alone(world: World) -> None:
    """Its letter is in the transaction of the epoch; every other record is counted once."""
    source, sink = world.topic("in", 2), world.topic("out")
    for partition in (0, 1):
        rows = [(f"k{n % 3}", f"{partition}-{n}") for n in range(200)]
        world.send(source, rows, partition=partition)

    def exit_at(text: str) -> str:
        if text == "1-77":
            os._exit(9)
        return text

    watcher = world.run(stream_of(source, sink, exit_at), processing_handler="dead_letter")
    assert world.numbers(sink) == {"k0": 134, "k1": 134, "k2": 131}
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert (letter.key, letter.value) == (b"k2", b"1-77")
    told = {name: (value or b"").decode() for name, value in letter.headers.items()}
    assert told["mustela.error.code"] == "RECORD_KILLED_WORKER"
    assert (told["mustela.error.partition"], told["mustela.error.offset"]) == ("1", "77")
    assert told["mustela.error.step"] == "risky"
    assert told["mustela.epoch"] in {
        (row.headers["mustela.epoch"] or b"").decode() for row in world.rows(sink)
    }
    assert watcher.counter("failed_records:risky") == 1


def test_a_record_that_crashes_a_lane_is_named_with_its_last_words(world: World) -> None:
    """With the handler ``fail`` the application ends, and nothing behind the record is read."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [(f"k{n % 3}", f"{n}") for n in range(40)])

    def longer(old: str, new: str) -> str:
        if new == "23":
            os.kill(os.getpid(), signal.SIGSEGV)
        return max(old, new)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str).group_by_key()
        reduced = stream.reduce(longer, store="longest")
        reduced.to_stream().to(sink, key=str, value=str)

    error = world.fail(build)
    assert error.code == "RECORD_KILLED_WORKER", error
    assert (error.fields["offset"], error.fields["key"]) == (23, b"k2")
    assert "Segmentation fault" in error.evidence["last words"]
    assert "test_stuck_workers.py" in error.evidence["worker"]
