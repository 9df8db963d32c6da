"""The simulator finds bugs: each that is planted, by the invariant that is there for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.differential.planted.plant import bugs
from tests.simulation.invariants import INVARIANTS
from tests.simulation.planted.known import ITEMS, LIST, findings, planted, script_of
from tests.simulation.planted.search import ROOT
from tests.simulation.play import play

SEEDS_MAX = 10_000


@pytest.mark.parametrize("bug", sorted(bugs(LIST)))
def test_a_planted_bug_fits_the_source(bug: str) -> None:
    """The text to be replaced is there once."""
    planted_here = bugs(LIST)[bug]
    source = ROOT / "src" / Path(*planted_here.module.split(".")).with_suffix(".py")
    assert planted_here.spoilt(source.read_text(encoding="utf-8"))


def test_enough_bugs_are_planted() -> None:
    """At least ten of them the project once had."""
    known = planted()
    assert {bug.guard for bug in known.values()} == INVARIANTS.keys()
    assert len(known) >= 20
    assert sum(bug.reverses in {"reversed", "undone"} for bug in known.values()) >= 10


def test_every_silent_wrong_result_is_reached_or_it_says_why_not() -> None:
    """Each has a bug that turns the answer to it back, or a reason why the simulator has none."""
    items = tomllib.loads(ITEMS.read_text(encoding="utf-8"))
    assert list(items) == [str(number) for number in range(1, 18)]
    reached = {str(bug.item) for bug in planted().values() if bug.item is not None}
    assert reached == {number for number, item in items.items() if "not_reached" not in item}


def test_planted_bugs_were_found_within_ten_thousand_seeds() -> None:
    """The results say how many seeds each took; ``./dev sim --bugs NAME`` adds those of a bug.

    One that is not found says why not, and what shows it instead.
    """
    found = findings()
    assert found.keys() == {bug.name for bug in planted().values() if not bug.not_reached}
    assert len(found) >= 20
    assert max(known.seeds for known in found.values()) <= SEEDS_MAX


def test_without_its_bug_a_script_violates_nothing() -> None:
    """What is found is the bug, and nothing that is there without it."""
    wrong = {name: play(script_of(found)).violations for name, found in findings().items()}
    assert {name: str(said[0]) for name, said in wrong.items() if said} == {}


def _replayed(*options: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.planted.replay", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["bug"]: line for line in lines}


def test_without_any_one_invariant_some_planted_bug_is_missed() -> None:
    """Each invariant is needed: there is a bug that it finds, and that all others together miss."""
    known = {name: bug for name, bug in planted().items() if bug.alone}
    told = _replayed("--alone")
    needed = {
        known[name].guard
        for name, line in told.items()
        if line["found_by"] == known[name].guard and line["missed_without"]
    }
    assert needed == INVARIANTS.keys()
    assert all(findings()[name].missed for name in known)  # in whole seeds, too


@pytest.mark.slow
def test_every_planted_bug_is_found_by_its_guard() -> None:
    """What found a bug finds it again; where the script is too old, ``./dev sim --bugs NAME``."""
    told = _replayed()
    found_by = {name: line["found_by"] for name, line in told.items()}
    assert found_by == {name: planted()[name].guard for name in findings()}
