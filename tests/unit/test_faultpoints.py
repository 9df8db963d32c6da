"""Fault points: nothing in production, a process that waits to be killed in a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mustela.faultpoints import FAULT_POINTS, armed, reach
from tests.patience import PATIENCE_S

PROGRAM = """
import sys
from mustela.faultpoints import armed, reach
assert armed()
for name in sys.argv[1:]:
    reach(name)
    print(name, flush=True)
"""


def test_without_a_test_that_asks_nothing_happens() -> None:
    """Every point can be passed."""
    assert not armed()
    for name in FAULT_POINTS:
        reach(name)


def test_a_name_that_is_no_point_is_a_mistake() -> None:
    """A test that waits for it would wait for ever."""
    with pytest.raises(AssertionError):
        reach("flusched")


@pytest.mark.parametrize(
    ("wanted", "printed"), [("flushed", []), ("flushed:3", ["flushed", "committed", "flushed"])]
)
def test_the_nth_arrival_stops_the_process_and_says_so(
    tmp_path: Path, wanted: str, printed: list[str]
) -> None:
    """The marker names the process to kill."""
    environ = {**os.environ, "MUSTELA_FAULT_POINT": wanted, "MUSTELA_FAULT_DIR": str(tmp_path)}
    arguments = ["flushed", "committed", "flushed", "flushed", "committed"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in printed]
        marker = tmp_path / "flushed"
        while not (marker.exists() and marker.read_text()):
            assert process.poll() is None
        assert int(marker.read_text()) == process.pid
        process.kill()
        rest = process.stdout.read()
    assert lines == printed
    assert rest == ""


def test_of_several_processes_at_a_point_one_stops(tmp_path: Path) -> None:
    """The marker is there already: the others go on."""
    (tmp_path / "flushed").write_text("1")
    environ = {**os.environ, "MUSTELA_FAULT_POINT": "flushed", "MUSTELA_FAULT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "flushed"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout == "flushed\n"


def test_a_test_chooses_points_while_the_process_runs_and_lets_it_go_on(tmp_path: Path) -> None:
    """The process takes the wish for its own, so that no second one stops; then it goes on."""
    environ = {**os.environ, "MUSTELA_FAULT_POINT": "*", "MUSTELA_FAULT_DIR": str(tmp_path)}
    arguments = ["flushed", "committed", "committed", "flushed"]
    (tmp_path / "want-committed").touch()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        marker = tmp_path / "committed"
        while not (marker.exists() and marker.read_text()):
            assert process.poll() is None
        assert int(marker.read_text()) == process.pid
        assert not (tmp_path / "want-committed").exists()
        marker.unlink()
        rest, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert rest.split() == arguments
