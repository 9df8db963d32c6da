"""A bug planted in an operator is found: what finds nothing proves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.differential.kafka_streams import missing_compiler
from tests.differential.planted.plant import bugs, is_found

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("MUSTELA_DIFFERENTIAL_SEED", "1"))
# A slice: `./dev differential --bugs` plants all of them.
SLICES = 5


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "there is one")
@pytest.mark.parametrize("bug", sorted(bugs())[SEED % SLICES :: SLICES])
def test_a_planted_bug_is_found(bug: str) -> None:
    """By examples of its operator alone, which are clean without it: see the differential test."""
    found, told = is_found(bug)
    assert found, told


@pytest.mark.parametrize("bug", sorted(bugs()))
def test_a_planted_bug_fits_the_source(bug: str) -> None:
    """The text to be replaced is there once."""
    planted = bugs()[bug]
    source = ROOT / "src" / Path(*planted.module.split(".")).with_suffix(".py")
    assert planted.spoilt(source.read_text(encoding="utf-8"))
