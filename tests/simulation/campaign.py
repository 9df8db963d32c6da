"""Runs many seeds, in parts that add up: a ledger says which were run, by which code."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.simulation.draw import draw, program_of
from tests.simulation.invariants import NOT_HELD
from tests.simulation.play import play

__all__ = ["campaign", "continue_at", "run", "write"]

PART = 500
"""Seeds between two lines of a ledger."""


def run(
    start: int,
    count: int,
    kinds: frozenset[str],
    off: frozenset[str] = NOT_HELD,
    program: str | None = None,
) -> Iterator[tuple[int, str | None]]:
    """Play seeds; yield each with what went wrong first, or None."""
    for seed in range(start, start + count):
        if program not in {None, program_of(seed)}:
            continue
        violations = play(draw(seed, kinds=kinds), off=off).violations
        yield seed, str(violations[0]) if violations else None


def continue_at(ledger: Path, kinds: frozenset[str]) -> int:
    """Return the first seed that no line of a ledger covers for these kinds of faults."""
    if not ledger.exists():
        return 1
    lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    mine = [line["to"] for line in lines if line["kinds"] == sorted(kinds)]
    return max(mine, default=0) + 1


def write(ledger: Path, line: dict[str, Any]) -> None:
    """Add a line to a ledger."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def campaign(
    start: int,
    count: int,
    kinds: frozenset[str],
    ledger: Path | None,
    program: str | None = None,
) -> list[int]:
    """Play seeds, say how it goes, and return those that failed."""
    failed: list[int] = []
    began = time.monotonic()
    for first in range(start, start + count, PART):
        size = min(PART, start + count - first)
        part_began = time.monotonic()
        bad = {
            seed: what
            for seed, what in run(first, size, kinds, program=program)
            if what is not None
        }
        failed += bad
        for seed, what in bad.items():
            print(f"seed {seed}: {what.splitlines()[0][:300]}", flush=True)
        seconds = time.monotonic() - part_began
        print(
            f"seeds {first} to {first + size - 1}: {len(bad)} failed,"
            f" {1000 * seconds / size:.0f} ms each",
            flush=True,
        )
        if ledger is not None:
            write(
                ledger,
                {
                    "from": first,
                    "to": first + size - 1,
                    "failed": sorted(bad),
                    "seconds": round(seconds, 1),
                    "kinds": sorted(kinds),
                    "commit": _commit(),
                },
            )
    per_hour = 3600 * count / max(0.001, time.monotonic() - began)
    print(f"{count} seeds, {len(failed)} failed, {per_hour:.0f} an hour")
    return failed


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
