"""A bug planted in an operator is found: what finds nothing proves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.differential.kafka_streams import missing_compiler
from tests.differential.planted.plant import bugs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = 150


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "there is one")
@pytest.mark.parametrize("bug", sorted(bugs()))
def test_a_planted_bug_is_found(bug: str) -> None:
    """By examples of its operator alone, and the same run is clean without it: see the slice."""
    command = [sys.executable, "-m", "tests.differential", "--plant", bug]
    command += ["--examples", str(EXAMPLES), "--operators", ",".join(bugs()[bug].operators)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "\n0 unexplained" not in done.stdout


@pytest.mark.parametrize("bug", sorted(bugs()))
def test_a_planted_bug_fits_the_source(bug: str) -> None:
    """The text to be replaced is there once."""
    planted = bugs()[bug]
    source = ROOT / "src" / Path(*planted.module.split(".")).with_suffix(".py")
    assert planted.spoilt(source.read_text(encoding="utf-8"))
