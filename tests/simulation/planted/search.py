"""Looks for each planted bug in a process of its own, and says how many seeds it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.simulation.planted.known import Finding, Planted, keep, planted, script_of

__all__ = ["ROOT", "find", "search_all"]

ROOT = Path(__file__).resolve().parents[3]
MISSED_MIN = 50
"""Without the invariant that finds a bug alone, at least so many seeds are played in vain."""


def _hunt(name: str, start: int, last: int, off: str = "") -> tuple[bool, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.simulation.planted.hunt", name, str(start), str(last)]
    done = subprocess.run(
        [*command, *([off] if off else ())],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout.strip():
        raise RuntimeError(done.stderr)
    return done.returncode == 0, json.loads(done.stdout.splitlines()[-1])


def find(bug: Planted, seeds: int) -> Finding | str:
    """Return how a bug is found; else what is known instead."""
    from tests.simulation.play import play

    start, first = 1, None
    while True:
        is_found, told = _hunt(bug.name, start, seeds)
        first = first or told["first"]
        if not is_found:
            return f"not found by {bug.guard} in {seeds} seeds; first violation: {first}"
        found = replace(Finding(**told), first=first, commit=_commit())
        if not play(script_of(found)).violations:
            break
        start = found.seeds + 1  # the script violates something without the bug, too
    if bug.alone:
        last = max(found.seeds, MISSED_MIN)
        is_found, told = _hunt(bug.name, 1, last, bug.guard)
        if is_found:
            return f"{bug.guard} does not find it alone: seed {told['seeds']}: {told['said']}"
        found = replace(found, missed=last)
    return found


def search_all(names: str, seeds: int) -> int:
    """Look for bugs, keep what is found, and print a table; return 0 if all were found."""
    known = planted()
    wanted = names.split(",")
    if names == "all":
        wanted = sorted(name for name, bug in known.items() if not bug.not_reached)
    missed = 0
    print(f"{'bug':58} {'seeds':>5} found by    {'first':>5}")
    for name in wanted:
        found = find(known[name], seeds)
        if isinstance(found, str):
            missed += 1
            print(f"{name:58} {found}", flush=True)
            continue
        keep([found])
        earlier = f"{found.first[0]:5} {found.first[1]}"
        without = "" if found.missed is None else f"; {found.missed} seeds miss it without"
        print(f"{name:58} {found.seeds:5} {found.invariant:11} {earlier}{without}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} bugs found")
    return 1 if missed else 0


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
