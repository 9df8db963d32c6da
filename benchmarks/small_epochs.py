"""What a small epoch costs in the files of its key groups: ``python -m benchmarks.small_epochs``.

A view, some keys read, and the epoch written above the one before: what a task does for each key
group, without Spark, Kafka and the steps themselves. Told are the microseconds of processor time
for an epoch and key group, and the bytes on disk for one: running, and after a clean stop.

``--against`` takes the same with the sources of another tree (a git worktree of an older commit),
in turns, each in a process of its own; the ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import disk_bytes
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions

ROOT = Path(__file__).parent.parent
GROUPS = 4
SHAPES = {"5 of 500 rows": (5, 500, 300), "40 of 500 rows": (40, 500, 200)}
SHAPES |= {"300 of 3,000 rows": (300, 3_000, 80), "1,000 of 3,000 rows": (1_000, 3_000, 30)}
"""Rows of an epoch, rows of a key group, and epochs, by name."""

_WARM_UP = 20
_VALUE_BYTES = 12


class Groups:
    """Some key groups of a store.

    Args:
        directory: Where.
    """

    def __init__(self, directory: Path) -> None:
        specs = [
            EnvironmentSpec(
                application_id="b",
                stage="s",
                group=group,
                groups=GROUPS,
                stores=(StoreSpec(name="s"),),
            )
            for group in range(GROUPS)
        ]
        options = LmdbOptions(map_bytes=1 << 30)
        self._all = [LmdbEnvironment(directory, one, boot="b", options=options) for one in specs]
        self._state, self._epochs = Committed(), 0

    def epoch(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Read keys and write rows, in all key groups."""
        self._epochs += 1
        token, keys = Token(1, self._epochs, 0), [key for key, _ in rows]
        for group in self._all:
            view = group.snapshot(self._state)
            view.getmulti("s", keys)
            view.close()
            group.write_pending(token, self._state, {"s": rows})
        self._state = Committed(token=token, changelog_ends={"s": self._epochs})

    def close(self) -> None:
        """Stop cleanly."""
        for group in self._all:
            group.fold(self._state)
            group.close(clean=True)


def measure(directory: Path, batch: int, rows: int, epochs: int) -> dict[str, float]:
    """Return microseconds and bytes for a key group."""
    draw = random.Random(1)
    keys = [b"k%08d" % number for number in range(rows)]
    made = [
        [(key, draw.randbytes(_VALUE_BYTES)) for key in sorted(draw.sample(keys, batch))]
        for _ in range(epochs)
    ]
    groups = Groups(directory)
    groups.epoch([(key, draw.randbytes(_VALUE_BYTES)) for key in keys])
    for part in made[:_WARM_UP]:
        groups.epoch(part)
    gc.collect()
    gc.disable()
    begun = time.process_time()
    for part in made:
        groups.epoch(part)
    took = (time.process_time() - begun) / epochs / GROUPS
    gc.enable()
    running = disk_bytes(directory) / GROUPS
    groups.close()
    stopped = disk_bytes(directory) / GROUPS
    return {"us": round(took * 1e6, 1), "running_bytes": running, "stopped_bytes": stopped}


def of_tree(tree: Path, shape: str) -> dict[str, float]:
    """Measure with the sources of a tree, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.small_epochs", "--only", shape]
    paths = os.pathsep.join([str(tree / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def compared(other: Path, turns: int) -> dict[str, dict[str, float]]:
    """Return medians of this tree and of another one, and of their ratios."""
    found: dict[str, dict[str, float]] = {}
    for shape in SHAPES:
        both: list[tuple[dict[str, float], dict[str, float]]] = []
        for turn in range(turns):
            trees = [ROOT, other] if turn % 2 else [other, ROOT]
            taken = {tree: of_tree(tree, shape) for tree in trees}
            both.append((taken[ROOT], taken[other]))
        mine, theirs = ({k: statistics.median(one[at][k] for one in both) for k in both[0][at]}
                        for at in (0, 1))  # fmt: skip
        ratio = statistics.median(one["us"] / two["us"] for one, two in both)
        found[shape] = {
            **mine,
            **{f"other_{name}": value for name, value in theirs.items()},
            "ratio": round(ratio, 3),
        }
    return found


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another tree")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", choices=SHAPES)
    given = parser.parse_args()
    if given.against is not None:
        print(json.dumps(compared(given.against, given.turns), indent=2))
        return
    found: dict[str, dict[str, float]] = {}
    for shape, numbers in SHAPES.items():
        if given.only in (None, shape):
            with tempfile.TemporaryDirectory() as directory:
                found[shape] = measure(Path(directory), *numbers)
    print(json.dumps(found if given.only is None else found[given.only]))


if __name__ == "__main__":
    main()
