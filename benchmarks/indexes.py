"""What indexes cost when rows are put, and what they give: ``python -m benchmarks.indexes``.

Whole epochs over LMDB: a batch of rows is put through the store that a processor has, written to
the environment, and folded. The same batches go to stores with no, one and two indexes, in turns;
the ratios are medians over the rounds. Rows get other entries each time; then all keep their first
entry, so that lines stay as they are. A lookup is compared with reading all rows.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mustela.kernel.processors.processor_stores import open_group_store
from mustela.serdes.primitives import StrSerde
from mustela.serdes.values import ValueSerde
from mustela.state.index import Index
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.overlay import Overlay

CITIES = [f"city {number}" for number in range(1_000)]
INDEXES = (("city", Index(lambda row: row["city"])), ("total", Index(lambda row: row["total"])))


class Store:
    """A store with some of the indexes, on disk.

    Args:
        directory: Where.
        indexes: How many indexes.
    """

    def __init__(self, directory: Path, indexes: int) -> None:
        self.spec = StoreSpec(
            name="s",
            key_serde=StrSerde(),
            value_serde=ValueSerde(),
            indexes=INDEXES[:indexes],
        )
        place = EnvironmentSpec(
            application_id=f"b{indexes}", stage="s", group=0, groups=1, stores=(self.spec,)
        )
        self._environment = LmdbEnvironment(directory, place, boot="b")
        self._committed = Committed()
        self._epoch = 0

    def run(self, work: Callable[[Any], object], *, write: bool = True) -> float:
        """Run an epoch; return its processor time, in seconds."""
        self._epoch += 1
        begun = time.process_time()
        overlay = Overlay(self._environment.snapshot(self._committed))
        rows = self.spec.traits.rows(overlay.store("s"), self.spec)
        work(open_group_store(rows, self.spec, plain=False))
        changes, known = overlay.changes(), overlay.known()
        overlay.close()
        if write:
            token = Token(1, self._epoch, 0)
            self._environment.write_pending(token, self._committed, changes, known)
            self._committed = Committed(token=token)
            self._environment.fold(self._committed)
        return time.process_time() - begun


def put(keys: list[str], seed: int, *, stays: bool = False) -> Callable[[Any], None]:
    """Return what puts a row under each key; if it ``stays``, with the same city each time."""
    rows = random.Random(seed)
    made = [{"city": rows.choice(CITIES), "total": rows.randrange(1_000_000)} for _ in keys]
    if stays:
        for key, row in zip(keys, made, strict=True):
            row["city"] = CITIES[int(key[-9:]) % len(CITIES)]

    def work(store: Any) -> None:
        for key, row in zip(keys, made, strict=True):
            store.put(key, row, timestamp=1)

    return work


def measure(directory: Path, rows: int, batch: int, rounds: int) -> dict[str, float]:
    """Return microseconds per put, their ratios to no index, and microseconds per lookup."""
    stores = [Store(directory, indexes) for indexes in range(3)]
    draw = random.Random(1)
    keys = [f"key {number:09}" for number in range(rows)]
    for store in stores:
        for start in range(0, rows, 50_000):
            store.run(put(keys[start : start + 50_000], start))
    took: list[list[float]] = []
    for turn in range(rounds):
        batched = draw.sample(keys, batch)
        took.append([store.run(put(batched, turn)) for store in stores])
    found = {
        f"put with {number} indexes, us": statistics.median(one[number] for one in took)
        / batch
        * 1e6
        for number in range(3)
    }
    for number in (1, 2):
        ratio = statistics.median(one[number] / one[0] for one in took)
        found[f"put with {number} indexes, ratio"] = ratio
    found["put with 1 index, entry stays, ratio"] = _entry_stays(stores, keys, batch, rounds)
    asked = CITIES[:100]
    by = stores[2].run(
        lambda store: [list(store.by("city").get(city)) for city in asked], write=False
    )
    count = stores[2].run(
        lambda store: [store.by("city").count(city, city) for city in asked], write=False
    )
    scan = stores[2].run(
        lambda store: [r for _, r in store.all() if r.value["city"] == asked[0]], write=False
    )
    found["rows of an entry, us"] = by / len(asked) * 1e6
    found["count of an entry, us"] = count / len(asked) * 1e6
    found["rows of an entry without the index, us"] = scan * 1e6
    return {name: round(value, 2) for name, value in found.items()}


def _entry_stays(stores: list[Store], keys: list[str], batch: int, rounds: int) -> float:
    """Return the ratio of puts with one index to puts with none, where rows keep their entry."""
    draw, took = random.Random(2), list[float]()
    for store in stores[:2]:
        for start in range(0, len(keys), 50_000):
            store.run(put(keys[start : start + 50_000], start, stays=True))
    for turn in range(rounds):
        batched = draw.sample(keys, batch)
        none, one = (store.run(put(batched, turn, stays=True)) for store in stores[:2])
        took.append(one / none)
    return statistics.median(took)


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), given.rows, given.batch, given.rounds)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
