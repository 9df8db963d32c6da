"""What the long run has done so far: one JSON line for each slice, in a file that is only added to.

Nothing in a line depends on a commit or a machine, so that a run can go on where another stopped.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Ledger", "Line", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A slice of the campaign.

    Attributes:
        seed: What it was drawn from, with its number.
        slice: Its number.
        kind: The application.
        settings: What it ran with besides the usual.
        faults: By name, how many happened.
        missed: By name, how many did not come about.
        restarts: By code, named errors after which it was started again.
        epochs: Committed.
        records: Read.
        rows: Written.
        answers: By name of the client, how many of its answers were compared.
        seconds: How long it took.
        violations: What was wrong.
    """

    seed: int
    slice: int
    kind: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    faults: dict[str, int] = field(default_factory=dict[str, int])
    missed: dict[str, int] = field(default_factory=dict[str, int])
    restarts: dict[str, int] = field(default_factory=dict[str, int])
    epochs: int = 0
    records: int = 0
    rows: int = 0
    answers: dict[str, int] = field(default_factory=dict[str, int])
    seconds: int = 0
    violations: list[str] = field(default_factory=list[str])


class Ledger:
    """The lines of a file, and what they add up to.

    Args:
        path: The file; None keeps the lines in memory alone.
        resume: Whether what is in the file counts; else it is written anew.
    """

    def __init__(self, path: Path | None, *, resume: bool = True) -> None:
        self._path = path
        self.lines: list[Line] = []
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume and path.exists():
            self.refresh()
        else:
            path.write_text("")

    def refresh(self) -> None:
        """Read what other processes have added meanwhile; each has a seed of its own."""
        if self._path is not None:
            self.lines = [Line(**json.loads(text)) for text in self._path.read_text().splitlines()]

    def add(self, line: Line) -> None:
        """Add a slice."""
        self.lines.append(line)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(line)) + "\n")

    def done(self) -> Counter[tuple[str, str]]:
        """Return how often each kind had each fault."""
        counts: Counter[tuple[str, str]] = Counter()
        for line in self.lines:
            for name, count in line.faults.items():
                counts[line.kind, name] += count
        return counts

    def missed(self) -> Counter[tuple[str, str]]:
        """Return how often a fault did not come about at a kind."""
        counts: Counter[tuple[str, str]] = Counter()
        for line in self.lines:
            for name, count in line.missed.items():
                counts[line.kind, name] += count
        return counts

    @property
    def faults(self) -> int:
        """All faults that happened."""
        return self.done().total()

    @property
    def violations(self) -> list[str]:
        """All that was wrong."""
        return [violation for line in self.lines for violation in line.violations]


def table(ledger: Ledger) -> str:
    """Return faults by kinds, and the totals, as text."""
    done = ledger.done()
    kinds = sorted({kind for kind, _ in done})
    names = sorted({name for _, name in done})
    width = max(map(len, names), default=0)
    heads = [*kinds, "all"]
    lines = [" " * width + "".join(f"  {kind}" for kind in heads)]
    for name in names:
        counts = [done[kind, name] for kind in kinds]
        cells = zip(heads, [*counts, sum(counts)], strict=True)
        lines.append(name.ljust(width) + "".join(f"  {n or '-':>{len(h)}}" for h, n in cells))
    sums = [sum(n for (k, _), n in done.items() if k == kind) for kind in kinds]
    cells = zip(heads, [*sums, sum(sums)], strict=True)
    lines.append("all".ljust(width) + "".join(f"  {n:>{len(h)}}" for h, n in cells))
    seconds = sum(line.seconds for line in ledger.lines)
    epochs, records, rows = (
        sum(getattr(line, name) for line in ledger.lines) for name in ("epochs", "records", "rows")
    )
    answers = sum(sum(line.answers.values()) for line in ledger.lines)
    if answers:
        lines.append(f"{answers} answers of stores compared")
    lines.append(
        f"{ledger.faults} faults in {len(ledger.lines)} slices, {seconds} s"
        f" ({60 * ledger.faults / max(1, seconds):.1f} a minute): {epochs} epochs,"
        f" {records} records, {rows} rows, {len(ledger.violations)} violations"
    )
    return "\n".join(lines)
