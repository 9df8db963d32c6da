"""Any key of any store, read by a running application: an epoch sees the end of the last one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mustela import Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor
from mustela.stores import StoreBuilder
from tests.faults.spark_workers import kill_workers
from tests.faults.watch import HEADER
from tests.integration.app_world import Row, World

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
pytest_plugins = ["tests.integration.app_fixture"]

KEYS = [f"k{number:02d}" for number in range(24)]
EPOCHS = 24


class Look(ContextualProcessor[str, str, str, str]):
    """Tells all counts: of each key, and in key order."""

    def process(self, record: Record[str, str]) -> None:
        counts = self.context.any_key_store("counts")
        found = counts.get_many(KEYS)
        told = [f"{key}={row.value}" for key, row in zip(KEYS, found, strict=True) if row]
        in_order = [f"{key}={row.value}" for key, row in counts.all()]
        self.context.forward(record.with_value(" ".join(in_order)))
        assert told == in_order


class LookInLane(Look):
    """The same, in the lane of the record's key."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        """Return a store of its own."""
        own = Stores.persistent_key_value_store("own")
        return [Stores.key_value_store_builder(own, key=str, value=str)]


def counting(world: World) -> Callable[[StreamsBuilder], None]:
    source = world.topic("in", partitions=2)
    sinks = [world.topic(name) for name in ("counts", "free", "kept")]

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        counts = stream.group_by_key().count(store="counts")
        counts.to_stream().to(sinks[0], key=str, value=int)
        stream.process(Look, reads=["counts"], name="free").to(sinks[1], key=str, value=str)
        stream.process(LookInLane, reads=["counts"], name="kept").to(sinks[2], key=str, value=str)

    return build


def epoch_of(row: Row) -> int:
    return int(row.headers[HEADER] or b"-1")


def check(world: World) -> int:
    """Compare what each epoch read with the counts that the epochs before it wrote."""
    written = world.rows(f"{world.name}.counts")
    last = max(map(epoch_of, written))
    states: dict[int, str] = {}
    counts: dict[str, int] = {}
    for epoch in range(1, last + 1):
        states[epoch] = " ".join(f"{key}={counts[key]}" for key in sorted(counts))
        for row in written:
            if epoch_of(row) == epoch:
                counts[(row.key or b"").decode()] = int.from_bytes(row.value or b"", "big")
    for sink in ("free", "kept"):
        rows = world.rows(f"{world.name}.{sink}")
        assert len(rows) == sum(counts.values())
        assert [(row.value or b"").decode() for row in rows] == [
            states[epoch_of(row)] for row in rows
        ]
    return last


def test_each_epoch_reads_the_end_of_the_one_before_while_owners_fold_and_workers_die(
    world: World,
) -> None:
    """Many epochs over all key groups, which their lanes fold and write meanwhile.

    Twice all workers are killed, and once the files of all key groups are gone: those who own them
    and those who read them restore them, side by side.
    """
    source = f"{world.name}.in"
    app, watcher = world.app(counting(world), key_groups=8, lanes=4, commit_interval="10ms")
    with app:
        for number in range(EPOCHS):
            world.send(source, [(key, "x") for key in KEYS[number % 5 :: 3]])
            world.drain(app)
            if number in {EPOCHS // 4, EPOCHS // 2}:
                assert kill_workers() > 0
            if number == EPOCHS * 3 // 4:
                lost = lose(world.directory / "state")
                assert len(lost) >= 8
    assert check(world) >= EPOCHS
    assert len(watcher.epochs) >= EPOCHS
    assert any(report.restored for epoch in watcher.epochs for report in epoch.reports)


def lose(state_dir: Path) -> list[Path]:
    """Delete the files of all key groups under an application that runs."""
    lost = [path for path in state_dir.glob("*/*/[0-9]*") if path.is_dir()]
    for path in lost:
        shutil.rmtree(path)
    return lost


def test_a_restart_reads_what_was_committed_before_it(world: World) -> None:
    """The first epoch of the second run sees the last one of the first, with lost state too."""
    source, build = f"{world.name}.in", counting(world)
    for number in range(3):
        world.send(source, [(key, "x") for key in KEYS])
        world.run(build, key_groups=4, lanes=2 + number)
        if number == 1:
            lose(world.directory / "state")
    assert check(world) >= 3
