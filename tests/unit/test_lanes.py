"""How ``./dev test`` deals the whole suite to lanes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each test runs pytest once or twice
ROOT = Path(__file__).parent.parent.parent
INI = """
[pytest]
testpaths = .
markers =
    spark: takes time
    broker: takes less
    crash: takes more
    slow: takes a while
"""
QUICK = """
import os
def test_quick(): print("in", os.getpid())
"""
SLOW = """
import os
import pytest
@pytest.mark.spark
@pytest.mark.parametrize("n", range(3))
def test_slow(n): print("in", os.getpid())
"""
BROKEN = """
import os
def test_fails(): assert 0
def test_ends_its_process(): os._exit(3)
"""
MOVING = """
import pytest
@pytest.mark.parametrize("x", [object()], ids=str)
def test_moving(x): pass
"""
LANES = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of two files; the one whose tests take longer comes last by its name."""
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_a.py").write_text(QUICK)
    (tmp_path / "test_b.py").write_text(SLOW)
    return tmp_path


def run(suite: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.lanes", *arguments],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def processes(said: str) -> set[str]:
    return {line for line in said.splitlines() if line.startswith("in ")}


def test_the_whole_suite_is_dealt_and_a_path_is_not(suite: Path) -> None:
    """One line at the end counts all tests; those of a file share a process."""
    whole = run(suite, *LANES, "-rP")
    assert "= 4 passed in " in whole.stdout.splitlines()[-1]
    assert len(processes(whole.stdout)) == 2
    named = run(suite, *LANES, "-rP", "test_a.py", "test_b.py")
    assert "= 4 passed in " in named.stdout.splitlines()[-1]
    assert len(processes(named.stdout)) == 1


def test_what_takes_longest_comes_first(suite: Path) -> None:
    """Or the lane that gets it last would end alone."""
    said = run(suite, *LANES, "-n", "1", "-v").stdout
    names = [line.split("::")[1].split("[")[0] for line in said.splitlines() if " PASSED " in line]
    assert [name.strip() for name in names] == ["test_slow"] * 3 + ["test_quick"]


def test_what_was_measured_counts_more_than_markers(suite: Path) -> None:
    """``--note-costs`` writes it, for files that take a while."""
    place = suite / "tests" / "lanes.toml"
    place.parent.mkdir()
    place.write_text('[seconds]\n"test_a.py" = 60\n"test_gone.py" = 90\n')
    said = run(suite, *LANES, "-n", "1", "-v").stdout
    assert said.index("test_quick") < said.index("test_slow")
    (suite / "test_a.py").write_text("import time\ndef test_waits(): time.sleep(2)\n")
    assert run(suite, *LANES, "--note-costs").returncode == 0
    assert "test_a.py" in tomllib.loads(place.read_text())["seconds"]
    assert "test_gone.py" not in place.read_text()


def test_what_fails_in_a_lane_fails_the_whole(suite: Path) -> None:
    """Also a test that ends its process; it is not tried again."""
    (suite / "test_c.py").write_text(BROKEN)
    done = run(suite, *LANES)
    assert done.returncode == 1
    assert "= 2 failed, " in done.stdout.splitlines()[-1]


def test_a_name_that_moves_is_refused(suite: Path) -> None:
    """Lanes could not speak of the same test."""
    (suite / "test_c.py").write_text(MOVING)
    done = run(suite, "--collect-only")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "give these parameters an id" in done.stderr
