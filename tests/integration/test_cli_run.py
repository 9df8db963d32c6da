"""mustela run, send, tail, reset and Kafka's tools, as a user types them, on a real broker."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mustela_dev import DevelopmentBroker
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.slow,
]

_NUMBERS = itertools.count()
PROGRAM = """
from mustela import App

app = App("{name}")


def shout(text):
    if text == "poison":
        raise ValueError("cannot shout")
    return text.upper()


@app.topology
def build(builder):
    lines = builder.stream("{name}-in", key=str, value=str)
    words = lines.map_values(shout, name="shout").group_by_key()
    words.count(store="counts").to_stream().to("{name}-out", key=str, value=int)
"""


@dataclass
class Shell:
    """A working directory in which a user types."""

    place: Path
    name: str
    environment: dict[str, str] = field(default_factory=dict)

    def type(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mustela.cli.main", *arguments],
            cwd=self.place,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def ok(self, *arguments: str, stdin: str = "") -> str:
        done = self.type(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run the application until the block ends; it is ready when the block begins."""
        with subprocess.Popen(
            [sys.executable, "-m", "mustela.cli.main", "run", "shouting:app", *arguments],
            cwd=self.place,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as app:
            watchdog = threading.Timer(PATIENCE_S, app.kill)
            watchdog.start()
            try:
                assert app.stderr is not None
                for line in app.stderr:
                    if f'"event": "{self.name} is running"' in line:
                        break
                yield app
            finally:
                watchdog.cancel()
                if app.poll() is None:
                    app.terminate()
                    app.communicate(timeout=PATIENCE_S)


@pytest.fixture
def shell(tmp_path: Path, broker: DevelopmentBroker) -> Shell:
    name = f"shouting{os.getpid()}-{next(_NUMBERS)}"
    (tmp_path / "shouting.py").write_text(PROGRAM.format(name=name))
    (tmp_path / "mustela.yaml").write_text(
        f"bootstrap_servers: {broker.bootstrap_servers}\nstate_dir: {tmp_path / 'state'}\n"
        "spark:\n  master: local[2]\n"
    )
    names = ("PATH", "HOME", "JAVA_HOME", "MUSTELA__CLASS_ARCHIVE")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return Shell(tmp_path, name, {**kept, "LANG": "C"})


@pytest.fixture
def topics(shell: Shell) -> Shell:
    for end in ("in", "out"):
        shell.ok("topics", "create", f"{shell.name}-{end}", "--partitions", "2")
    return shell


def counts(shell: Shell, records: int) -> dict[str, int]:
    text = shell.ok(
        *("tail", f"{shell.name}-out", "--from-beginning", "--value", "int"),
        *("--max", str(records), "--json"),
    )
    rows = [json.loads(line) for line in text.splitlines()]
    assert all([name for name, _ in row["headers"]] == ["mustela.epoch"] for row in rows)
    return {row["key"]: row["value"] for row in rows}


def test_a_record_goes_all_the_way(topics: Shell) -> None:
    """Sent, counted, read; the lag is right; SIGTERM ends with 0; reset leaves nothing."""
    shell = topics
    shell.ok("send", f"{shell.name}-in", "a", "first")
    with shell.running() as app:
        shell.ok("send", f"{shell.name}-in", "-", stdin="b\tx\nc\ty\nd\tz\n")
        assert counts(shell, 4) == dict.fromkeys("abcd", 1)
        app.send_signal(signal.SIGTERM)
        app.communicate(timeout=PATIENCE_S)
        assert app.returncode == 0
    group = shell.ok("kafka-consumer-groups", "--describe", "--group", shell.name)
    rows = [line.split() for line in group.splitlines() if f"{shell.name}-in" in line]
    assert sum(int(row[3]) for row in rows) == sum(int(row[4]) for row in rows) == 4
    assert [row[5] for row in rows] == ["0", "0"]

    refused = shell.type("reset", "shouting:app")
    assert refused.returncode == 2
    assert "RESET_NOT_CONFIRMED" in refused.stderr
    deleted = json.loads(shell.ok("reset", shell.name, "--yes", "--json"))
    assert f"{shell.name}-epochs" in deleted["topics"]
    assert f"{shell.name}-counts-changelog" in deleted["topics"]
    assert not (shell.place / "state" / shell.name).exists()
    left = [row["topic"] for row in json.loads(shell.ok("topics", "list", "--json"))]
    assert {name for name in left if name.startswith(f"{shell.name}-")} == {
        f"{shell.name}-in",
        f"{shell.name}-out",
    }


def test_ctrl_c_ends_with_zero(topics: Shell) -> None:
    """SIGINT finishes the epoch, commits, syncs and stops."""
    with topics.running() as app:
        app.send_signal(signal.SIGINT)
        _, err = app.communicate(timeout=PATIENCE_S)
        assert app.returncode == 0, err


def test_a_missing_topic_is_a_usage_error(shell: Shell) -> None:
    """The text names topic and line; no stack of Java's."""
    done = shell.type("run", "shouting:app")
    assert done.returncode == 2
    assert f"topics do not exist: {shell.name}-in" in done.stderr
    assert "shouting.py:15" in done.stderr
    assert "Traceback" not in done.stderr
    assert "org.apache.spark" not in done.stderr.partition("error: ")[2]


def test_a_function_that_raises_stops_the_application(topics: Shell) -> None:
    """The error names step, line, topic, partition, offset and key; the epoch is never visible."""
    shell = topics
    shell.ok("send", f"{shell.name}-in", "-", stdin="k\tfine\nk\tpoison\n")
    done = shell.type("run", "shouting:app")
    assert done.returncode == 1, done.stderr
    text = done.stderr.partition("error: ")[2]
    for part in ("shout", "cannot shout", "shouting.py", f"{shell.name}-in", "offset", "'k'"):
        assert part in text, text
    assert "Traceback" not in text
    assert "Py4J" not in text
    listed = json.loads(shell.ok("topics", "list", "--json"))
    sizes = {row["topic"]: row["offsets"] for row in listed}
    assert sizes[f"{shell.name}-out"] == 0
    _follow_the_way_on(shell, done.stderr)


def _follow_the_way_on(shell: Shell, error: str) -> None:
    """Do as the errors say: come to the bad record, skip it, and go on."""
    advice = re.search(r"mustela (offsets skip) MODULE:APP (\S+) (\d+) (\d+)", error)
    assert advice is not None, error
    skip = [*advice[1].split(), shell.name, *advice.groups()[1:], "--yes"]
    refused = shell.type(*skip)
    assert "OFFSETS_SKIP_NOT_NEXT" in refused.stderr
    assert "--set epoch.max_records=1" in refused.stderr
    assert shell.type("run", "shouting:app", "--set", "epoch.max_records=1").returncode == 1
    shell.ok(*skip)
    with shell.running():
        shell.ok("send", f"{shell.name}-in", "k", "fine")
        assert counts(shell, 2) == {"k": 2}


def test_an_instance_that_is_fenced_says_so(topics: Shell) -> None:
    """The second instance goes on; the first ends with a code of its own."""
    shell = topics
    with shell.running() as first, shell.running("--set", f"state_dir={shell.place / 'two'}"):
        shell.ok("send", f"{shell.name}-in", "k", "v")
        assert counts(shell, 1) == {"k": 1}
        _, err = first.communicate(timeout=PATIENCE_S)
        assert first.returncode == 4, err
        assert "FENCED" in err


def test_offsets_that_a_tool_moved_are_put_back(topics: Shell) -> None:
    """The run refuses, reset --offsets keep-record mends it, and nothing is counted twice."""
    shell = topics
    shell.ok("send", f"{shell.name}-in", "k", "v")
    with shell.running():
        assert counts(shell, 1) == {"k": 1}
    shell.ok(
        *("kafka-consumer-groups", "--group", shell.name, "--topic", f"{shell.name}-in"),
        *("--reset-offsets", "--to-earliest", "--execute"),
    )
    refused = shell.type("run", "shouting:app")
    assert refused.returncode == 3
    assert "OFFSETS_MOVED" in refused.stderr
    shell.ok("reset", "shouting:app", "--offsets", "keep-record")
    with shell.running():
        shell.ok("send", f"{shell.name}-in", "k", "v")
        assert counts(shell, 2) == {"k": 2}
