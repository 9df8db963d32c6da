"""Functions that hang or end their process: named, bounded, and never for ever."""

from __future__ import annotations

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

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.timeout(300),
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
        seen: list[str] = []
        for line in app.stderr:
            seen.append(line)
            if "a worker has been for" in line:
                break
        app.send_signal(signal.SIGTERM)
        seen += app.stderr.readlines()
        assert app.wait(60) == 5, seen
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
        _, text = done.communicate(timeout=60)
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

    error = world.fail(stream_of(source, sink, hang), processing={"timeout": "1s"})
    assert error.code == "PROCESSING_TIMEOUT", error
    assert "risky" in str(error)
    assert error.fields["record"] == f"offset 1 of {source}-0, key 'b'"
    assert world.rows(sink) == []
