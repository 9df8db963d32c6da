"""Compares planted bugs with the commits that mended them.

``python -m tests.simulation.planted.history`` prints a line for each.
A bug of the project's own is planted by turning its fix back. This looks for the lines that change
in the lines that the commit added and removed; ``reverses`` in `bugs.toml` keeps what it said.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.differential.planted.plant import Bug, bugs
from tests.simulation.planted.known import LIST, planted

__all__ = ["compare"]

ROOT = Path(__file__).resolve().parents[3]
_NEUTRAL = frozenset({"pass", "if True:", "if False:"})


def _diff(commit: str) -> tuple[set[str], set[str]]:
    """Return the lines that a commit added to the source, and those that it removed."""
    command = ["git", "show", "--format=", "--unified=0", commit, "--", "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    added = {line[1:].strip() for line in lines if line.startswith("+") and line[:3] != "+++"}
    removed = {line[1:].strip() for line in lines if line.startswith("-") and line[:3] != "---"}
    return added, removed


def compare(bug: Bug, commit: str) -> str:
    """Say what the planted text is to a commit.

    Returns:
        ``reversed``: its lines are back as they were; ``undone``: lines that it added are left out,
        or do what was done before; ``rewritten``: these lines are from another commit.
    """
    source = (ROOT / "src" / Path(*bug.module.split("."))).with_suffix(".py").read_text("utf-8")
    before = [line.strip() for line in source.splitlines()]
    after = [line.strip() for line in bug.spoilt(source).splitlines()]
    start = next(n for n, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1)
    end = next(
        n
        for n, pair in enumerate(zip(reversed(before), reversed(after), strict=False))
        if len(set(pair)) > 1
    )
    end = min(end, len(before) - start, len(after) - start)
    mended = set(before[start : len(before) - end]) - {""}
    spoilt = set(after[start : len(after) - end]) - {""}
    added, removed = _diff(commit)
    news, olds = mended - spoilt, spoilt - mended - _NEUTRAL
    if not news <= added:
        return "rewritten"
    return "reversed" if olds and olds <= removed else "undone"


def main() -> None:
    """Print a line for each bug that the project once had."""
    for name, bug in planted().items():
        if bug.history is not None:
            print(f"{name:62} {bug.history} {compare(bugs(LIST)[name], bug.history)}")


if __name__ == "__main__":
    main()
