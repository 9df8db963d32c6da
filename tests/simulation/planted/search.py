"""Looks for each planted bug in a process of its own, and says how many seeds it took."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = ["LIST", "history", "search", "search_all"]

LIST = Path(__file__).with_name("bugs.toml")
ROOT = Path(__file__).resolve().parents[3]


def history() -> dict[str, str]:
    """Return, for each bug that the project once had, the commit that mended it."""
    table = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {name: said["history"] for name, said in table.items() if "history" in said}


def search(name: str, seeds: int, *options: str) -> tuple[bool, str]:
    """Plant a bug and play seeds until one finds it; return whether one did, and what was said."""
    command = [sys.executable, "-m", "tests.simulation", "--bug", name, "--seeds", str(seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    told = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return done.returncode == 0, told[-1] if told else ""


def search_all(names: str, seeds: int) -> int:
    """Look for bugs; return 0 if all were found."""
    known = tomllib.loads(LIST.read_text(encoding="utf-8"))
    wanted = sorted(known) if names == "all" else names.split(",")
    missed = 0
    for name in wanted:
        found, told = search(name, seeds)
        missed += not found
        print(f"{name}: {told}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} bugs found")
    return 1 if missed else 0
