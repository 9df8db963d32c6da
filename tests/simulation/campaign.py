"""Runs many seeds, in parts that add up: a ledger says which were run, by which code."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.draw import ALL, DRAWN, NOT_YET, draw, program_of
from tests.simulation.invariants import NOT_HELD
from tests.simulation.play import play

__all__ = ["Choice", "What", "campaign", "continue_at", "run", "write"]

PART = 1_000
"""Seeds between two lines of a ledger."""


class What:
    """What happened in many seeds: how often, and in how many of them."""

    def __init__(self) -> None:
        self.seeds = 0
        self.times: Counter[str] = Counter()
        self.in_seeds: Counter[str] = Counter()

    def add(self, happened: Counter[str]) -> None:
        """Take in a seed."""
        self.seeds += 1
        self.times.update(happened)
        self.in_seeds.update(name for name, count in happened.items() if count)

    def table(self) -> str:
        """Return a line for each thing that happened."""
        lines = [f"{'what':44} {'times':>8} {'% of seeds':>10}"]
        for name in sorted(self.in_seeds):
            share = 100 * self.in_seeds[name] / max(1, self.seeds)
            lines.append(f"{name:44} {self.times[name]:8} {share:10.1f}")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which seeds are played, and how they are looked at.

    Attributes:
        kinds: The kinds of faults that may happen.
        off: Invariants that are not looked at.
        program: Only seeds of this program; None for all.
        what: Takes in what happened.
    """

    kinds: frozenset[str] = ALL - NOT_YET
    off: frozenset[str] = NOT_HELD
    program: str | None = None
    what: What = field(default_factory=What)

    @property
    def name(self) -> str:
        """Names the kinds."""
        left_out, more = sorted(ALL - self.kinds), sorted(self.kinds - ALL)
        name = f"all but {', '.join(left_out)}" if left_out else "all"
        return f"{name}; and {', '.join(more)}" if more else name


def run(start: int, count: int, choice: Choice) -> Iterator[tuple[int, str | None]]:
    """Play seeds; yield each with what went wrong first, or None."""
    for seed in range(start, start + count):
        if choice.program in {None, program_of(seed)}:
            result = play(draw(seed, kinds=choice.kinds), off=choice.off)
            choice.what.add(result.happened)
            yield seed, str(result.violations[0]) if result.violations else None


def continue_at(ledger: Path, choice: Choice) -> int:
    """Return the first seed that no line of a ledger covers, as seeds are drawn now."""
    if not ledger.exists():
        return 1
    lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    mine = [
        line["to"]
        for line in lines
        if line["kinds"] == choice.name and line.get("drawn", 1) == DRAWN
    ]
    return max(mine, default=0) + 1


def write(ledger: Path, line: dict[str, Any]) -> None:
    """Add a line to a ledger."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def campaign(start: int, count: int, choice: Choice, ledger: Path | None) -> list[int]:
    """Play seeds, say how it goes, and return those that failed."""
    failed: list[int] = []
    began = time.process_time()
    for first in range(start, start + count, PART):
        size = min(PART, start + count - first)
        part_began = time.process_time()
        bad = {seed: wrong for seed, wrong in run(first, size, choice) if wrong is not None}
        failed += bad
        for seed, wrong in bad.items():
            print(f"seed {seed}: {wrong.splitlines()[0][:300]}", flush=True)
        seconds = time.process_time() - part_began
        print(
            f"seeds {first} to {first + size - 1}: {len(bad)} failed,"
            f" {1000 * seconds / size:.0f} ms each",
            flush=True,
        )
        if ledger is not None:
            line = {"from": first, "to": first + size - 1, "failed": sorted(bad)}
            line |= {"seconds": round(seconds, 1), "kinds": choice.name, "drawn": DRAWN}
            write(ledger, {**line, "commit": _commit()})
    per_hour = 3600 * count / max(0.001, time.process_time() - began)
    print(f"{count} seeds, {len(failed)} failed, {per_hour:.0f} in an hour of one core")
    return failed


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
