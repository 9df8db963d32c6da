"""A bug planted in an operator is found: what finds nothing proves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.differential.draw import OPERATORS, STATELESS
from tests.differential.kafka_streams import missing_compiler
from tests.differential.planted.plant import bugs

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("MUSTELA_DIFFERENTIAL_SEED", "1"))
# A slice: `./dev differential --bugs all` plants all of them.
SLICES = 20


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "there is one")
def test_planted_bugs_are_found() -> None:
    """By examples of their operators alone, which are clean without: see the differential test."""
    command = [sys.executable, "-m", "tests.differential", "--seed", str(SEED)]
    command += ["--bugs", ",".join(sorted(bugs())[SEED % SLICES :: SLICES])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_bug_is_planted_in_every_operator() -> None:
    """With state or without."""
    planted = {operator for bug in bugs().values() for operator in bug.operators}
    assert planted == OPERATORS.keys() | STATELESS.keys()


@pytest.mark.parametrize("bug", sorted(bugs()))
def test_a_planted_bug_fits_the_source(bug: str) -> None:
    """The text to be replaced is there once."""
    planted = bugs()[bug]
    source = ROOT / "src" / Path(*planted.module.split(".")).with_suffix(".py")
    assert planted.spoilt(source.read_text(encoding="utf-8"))
