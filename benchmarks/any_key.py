"""Reading keys of other lanes beside reading one's own: ``python -m benchmarks.any_key``.

A store of a million rows lies in 32 environments in LMDB, as on a worker's disk. The same keys are
read in batches, as a step reads them in an epoch: by the lane that owns all key groups, and by a
step that reads any key. Then one by one, as a processor does. The best of several runs counts; all
are in one process on one core. What a task pays once, for opening the key groups that it reads, is
measured by itself.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kernel import best
from mustela.kernel.core.any_key import AnyKeyReader
from mustela.kernel.core.lane_state import LaneState
from mustela.plan.keygroups import key_groups_of
from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions
from mustela.state.overlay import Overlay

GROUPS = 32
ROWS = 1_000_000
BATCH = 20_000
ONE_BY_ONE = 5_000
CHANGED = 2_000
"""Rows of each key group that the last epoch has changed."""

SPEC = StoreSpec(name="s", kind="key_value", key_serde=StrSerde(), value_serde=IntSerde())


class World:
    """The environments of one store.

    Args:
        directory: Where.
        rows: How many rows they hold.
    """

    def __init__(self, directory: Path, rows: int) -> None:
        options = LmdbOptions(map_bytes=1 << 32)
        self.environments = [
            LmdbEnvironment(
                directory,
                EnvironmentSpec(
                    application_id="b", stage="s", group=group, groups=GROUPS, stores=(SPEC,)
                ),
                boot="b",
                options=options,
            )
            for group in range(GROUPS)
        ]
        self.keys = [f"key-{number:07d}".encode() for number in range(rows)]
        self.committed = Committed()
        self._epoch = 0
        self.commit(self.keys)
        for environment in self.environments:
            environment.fold(self.committed)

    def commit(self, keys: Sequence[bytes]) -> None:
        """Write rows of all key groups, and say that they are committed; nothing is folded."""
        self._epoch += 1
        token = Token(1, self._epoch, 0)
        by_group: dict[int, list[tuple[bytes, bytes]]] = {group: [] for group in range(GROUPS)}
        value = self._epoch.to_bytes(8, "big")
        for group, key in zip(key_groups_of(keys, GROUPS), keys, strict=True):
            by_group[group].append((key, value))
        for group, rows in by_group.items():
            self.environments[group].write_pending(token, self.committed, {"s": sorted(rows)})
        self.committed = Committed(token=token)

    def opened(self) -> tuple[AnyKeyReader, Callable[[], None]]:
        """Return a reader as a task has it, and how to let go of what it has opened."""
        opened: dict[int, Snapshot] = {}

        def open_group(stage: int, group: int) -> Snapshot:
            del stage
            if group not in opened:
                opened[group] = self.environments[group].snapshot(self.committed)
            return opened[group]

        def close() -> None:
            for snapshot in opened.values():
                snapshot.close()

        return AnyKeyReader({"s": (1, SPEC)}, open_group, GROUPS), close

    def lane(self) -> LaneState:
        """Return the state of the lane that owns all key groups."""
        overlays = {
            group: Overlay(environment.snapshot(self.committed))
            for group, environment in enumerate(self.environments)
        }
        return LaneState(overlays, key_groups=GROUPS)


def reads(world: World, batch: Sequence[bytes]) -> Mapping[str, tuple[int, Callable[[], Any]]]:
    """Return what is measured: how many keys it reads, and how."""
    few = [key.decode() for key in batch[:ONE_BY_ONE]]

    def own() -> None:
        lane = world.lane()
        lane.store("s").getmulti(batch)
        lane.close()

    def any_key() -> None:
        reader, close = world.opened()
        reader.store("s").getmulti(batch)
        close()

    def many() -> None:
        reader, close = world.opened()
        store: Any = reader.open("s")
        store.get_many([key.decode() for key in batch])
        close()

    def one_by_one() -> None:
        reader, close = world.opened()
        store: Any = reader.open("s")
        for key in few:
            store.get(key)
        close()

    return {
        "own lane, in batches": (len(batch), own),
        "any key, in batches": (len(batch), any_key),
        "any key, a processor's get_many": (len(batch), many),
        "any key, a processor's get": (len(few), one_by_one),
    }


def opening_ms(world: World, *, anew: bool) -> float:
    """Return how long it takes to open all key groups for reading, in milliseconds.

    Args:
        world: The environments.
        anew: As a process that has not opened them before, and has to decode their pendings.
    """
    took: list[float] = []
    for _ in range(5):
        for environment in world.environments if anew else ():
            environment.close(clean=False)
        reader, close = world.opened()
        started = time.perf_counter()
        reader.store("s").all()
        took.append(time.perf_counter() - started)
        close()
    return min(took) * 1e3


def main() -> None:
    """Measure, and print a JSON object for each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place), given.rows)
        batch = random.Random(7).sample(world.keys, BATCH)
        for name, (count, run) in reads(world, batch).items():
            rate = count / best(run, given.runs)
            print(json.dumps({"part": name, "keys": count, "keys_per_s": round(rate)}))
        told = {"in an open process": opening_ms(world, anew=False)}
        told["in a new process"] = opening_ms(world, anew=True)
        world.commit(world.keys[: CHANGED * GROUPS])
        told["in a new process, with pendings"] = opening_ms(world, anew=True)
        for how, took in told.items():
            print(json.dumps({"part": f"open {GROUPS} key groups {how}", "ms": round(took, 2)}))
        for environment in world.environments:
            environment.close(clean=False)


if __name__ == "__main__":
    main()
