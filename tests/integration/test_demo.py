"""The demonstration as a user runs it: from another directory, killed, interrupted, kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.slow,
]

LINES = "2000"
MANY_LINES = "200000"  # not all are counted when the first epoch is told
FIELDS = [
    *("lines", "words", "distinct"),
    *("mismatches", "missing", "duplicates", "torn_epochs"),
    *("seconds", "lines_per_s", "epochs", "kills", "replayed_epochs"),
]
CLEAN = {"mismatches": 0, "missing": 0, "duplicates": 0, "torn_epochs": 0}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory that is not the repository, with a blank in its name."""
    place = tmp_path / "else where"
    place.mkdir()
    return place


def environment(place: Path) -> dict[str, str]:
    """A bare environment: no locale, a HOME with a blank, temporary files where we can look."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in {"PATH", "JAVA_HOME", "XDG_CACHE_HOME", "MUSTELA__JARS__DIRECTORY"}
        or name.startswith(("MUSTELA__JARS", "MUSTELA__CLASS_ARCHIVE"))
    }
    cache = kept.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    temporary = place / "t"
    temporary.mkdir(exist_ok=True)
    return {
        **kept,
        "HOME": str(place),
        "LANG": "C",
        "LC_ALL": "C",
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": cache,
    }


def command(*arguments: str, lines: str = LINES) -> list[str]:
    return [sys.executable, "-m", "mustela.cli.main", "demo", "--lines", lines, *arguments]


def left_over(place: Path) -> list[str]:
    """Processes and files that a demonstration under ``place`` left behind."""
    found = [path.name for path in (place / "t").iterdir()]
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("MUSTELA_DEMO_RUN", "")
            if mark.startswith(str(place)) or str(place) in " ".join(process.cmdline()):
                found.append(f"{process.pid} {process.name()}")
        except (psutil.Error, OSError):
            continue
    return found


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_demo_counts_right_and_leaves_nothing(elsewhere: Path) -> None:
    """One line of JSON, no fault, at least 20 epochs, no process and no file left."""
    done = run(elsewhere, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    outcome = json.loads(done.stdout)
    assert list(outcome) == FIELDS
    assert {name: outcome[name] for name in CLEAN} == CLEAN
    assert outcome["lines"] == 2_000
    assert outcome["words"] > outcome["distinct"] > 100
    assert outcome["epochs"] >= 20
    assert outcome["kills"] == outcome["replayed_epochs"] == 0
    assert left_over(elsewhere) == []


@pytest.mark.crash
def test_the_demo_counts_right_over_kills(elsewhere: Path) -> None:
    """Three kills of the whole tree, one in an open transaction, and the same result."""
    done = run(elsewhere, "--json", "--crash")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert {name: outcome[name] for name in CLEAN} == CLEAN
    assert outcome["kills"] == 3
    assert outcome["replayed_epochs"] >= 1
    assert outcome["epochs"] >= 20
    assert left_over(elsewhere) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_cleans_up(elsewhere: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM leave no broker, no application and no file."""
    with subprocess.Popen(
        command("--json", lines=MANY_LINES),
        cwd=elsewhere,
        env=environment(elsewhere),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs in the background ignores Ctrl-C, and so does what it starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as demo:
        assert demo.stderr is not None
        watchdog = threading.Timer(PATIENCE_S, demo.kill)
        watchdog.start()
        for line in demo.stderr:
            if line.startswith("lines ") and "epochs 0" not in line:
                break
        demo.send_signal(number)
        out, _ = demo.communicate(timeout=PATIENCE_S)
        watchdog.cancel()
    assert demo.returncode == 130
    assert out == ""
    assert left_over(elsewhere) == []


def test_a_kept_demo_shows_what_it_does_and_goes_on(elsewhere: Path) -> None:
    """The program, the progress, twenty words, the checks: for people.

    The lines that it says can be typed: send, tail, and a lag that is right.
    """
    done = run(elsewhere, "--keep", "--lanes", "1")
    assert done.returncode == 0, done.stderr
    shown, _, then = done.stdout.partition("what to type next:")
    lines = [line.strip() for line in then.splitlines() if line.strip()]
    try:
        assert 'app = App("wordcount")' in shown
        assert "run wordcount:app" in shown
        assert "lines 2,000 of 2,000" in shown
        assert "lanes 1" in shown
        assert "20 commonest words" in shown
        assert "all checks passed" in shown
        home, send, tail, _, groups = lines[:5]
        assert home.startswith("cd ")
        shell = f"set -e; {home}; {send}; {tail}; "
        # The group follows within an epoch: ask until nothing waits.
        shell += f"for n in $(seq 60); do {groups} | tee last >&2; "
        shell += (
            "if awk '/ lines / {lag += $6} END {exit lag != 0}' last; then exit 0; fi; done; exit 9"
        )
        asked = subprocess.run(
            ["bash", "-c", shell],
            env=environment(elsewhere),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert asked.returncode == 0, (asked.stdout, asked.stderr)
        assert "sent 1 record to lines" in asked.stderr
        assert len(asked.stdout.splitlines()) == 5
        table = [line.split() for line in asked.stderr.splitlines() if " lines " in line]
        ends = sum(int(row[4]) for row in table[-4:])
        assert ends == 2_001
        assert sum(int(row[3]) for row in table[-4:]) == ends
    finally:
        ended = subprocess.run(
            ["bash", "-c", lines[5]],
            env=environment(elsewhere),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert left_over(elsewhere) == []


def test_only_a_kept_demo_is_deleted(elsewhere: Path) -> None:
    """``--stop`` with any other directory is a usage error, and the directory stays."""
    (elsewhere / "precious").touch()
    done = run(elsewhere, "--stop", str(elsewhere))
    assert done.returncode == 2
    assert "DEMO_NOT_KEPT" in done.stderr
    assert (elsewhere / "precious").exists()
