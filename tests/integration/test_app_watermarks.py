"""The watermark of a running application: over SIGKILLs, and with sources that run apart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from mustela import StreamsBuilder
from mustela_dev import DevelopmentBroker
from tests.faults.kinds.timers import windows
from tests.faults.process import ChildApp
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

BASE = 1_700_000_000_000


def at(*seconds: int, key: str = "a") -> Iterable[tuple[str, str, int]]:
    return [(key, "x", BASE + 1_000 * second) for second in seconds]


@pytest.mark.crash
@pytest.mark.slow
def test_a_kill_neither_sets_the_watermark_back_nor_starts_it_anew(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """What is idle stays idle: the later runs would take hours to find out again."""
    assert windows.__name__ == "windows"  # the application that runs below
    world = World(broker, None, tmp_path, "watermarks")
    world.topic("in")
    world.topic("slow")
    sink = world.topic("out")
    environment = {
        "FAULTS_PREFIX": world.name,
        "MUSTELA__APPLICATION_ID": world.name,
        "MUSTELA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "MUSTELA__STATE_DIR": str(tmp_path / "state"),
        "MUSTELA__KEY_GROUPS": "4",
        "FAULTS_SPARK": '{"spark.master": "local[2]", "spark.driver.memory": "512m"}',
    }
    world.send(f"{world.name}.slow", at(1, key="s"))
    world.send(f"{world.name}.in", at(2, 3, 30))
    runs = [("1s", ""), ("5h", "flushed:1"), ("5h", "")]
    later = {1: (60, 70), 2: (80, 90)}
    for number, (idleness, point) in enumerate(runs):
        settings = {**environment, "MUSTELA__IDLENESS": idleness}
        child = ChildApp("windows", tmp_path / f"run-{number}", settings, point=point)
        closed = {0: 2, 2: 6}.get(number, 0)
        try:
            if number in later:
                world.send(f"{world.name}.in", at(*later[number]))
            if point:
                child.wait_for_point()
            else:
                child.wait_for("closed windows", lambda n=closed: len(world.rows(sink)) >= n)
        finally:
            child.kill()  # with SIGKILL, also the last one
    rows = {
        (row.key or b"").decode(): int.from_bytes(row.value or b"", "big")
        for row in world.rows(sink)
    }
    records = world.records()
    assert {key.replace(str(BASE)[:-5], ""): count for key, count in rows.items()} == {
        "s@00000": 1,
        "a@00000": 2,
        "a@30000": 1,
        "a@60000": 1,
        "a@70000": 1,
        "a@80000": 1,
    }
    assert len(world.rows(sink)) == len(rows), "each window is told once"
    values = [record.watermark for record in records]
    assert all(one <= two for one, two in pairwise(values))
    assert values[-1] == BASE + 90_000
    assert len({record.incarnation for record in records}) == len(runs)
    began = next(n for n, record in enumerate(records) if record.incarnation > 1)
    slow = [p for record in records[began:] for p in record.partitions if p.topic.endswith("slow")]
    assert {(p.max_timestamp, p.idle) for p in slow} == {(BASE + 1_000, True)}
    assert min(values[began:]) == BASE + 30_000, "the first record of the second run knows it"
    world.close()


def test_a_source_too_far_ahead_is_held_back(world: World) -> None:
    """It is read on when the others have come closer, or are idle; it needs no state for that."""
    near, far, sink = world.topic("near"), world.topic("far"), world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        builder.stream([near, far], key=str, value=str).to(sink)

    world.send(near, at(1))
    world.send(far, at(5, 100, key="f"))
    app, _ = world.app(build, max_source_drift="30s", idleness="5h")
    with app:
        world.until(lambda: len(world.rows(sink)) == 3, "what is there at first is read", app)
        world.send(far, at(110, key="f"))
        world.rest(app)
        assert len(world.rows(sink)) == 3
        world.send(near, at(60))
        world.until(lambda: len(world.rows(sink)) == 4, "the one that is not ahead is read", app)
        world.rest(app)  # near enough is 90
        assert len(world.rows(sink)) == 4
        world.send(near, at(80))
        world.until(lambda: len(world.rows(sink)) == 6, "the others have come closer", app)
        world.send(far, at(111, 200, key="f"))
        world.until(lambda: len(world.rows(sink)) == 8, "near enough", app)
        world.send(far, at(201, key="f"))
        world.rest(app)
        assert len(world.rows(sink)) == 8
    assert world.records()[-1].watermark == BASE + 80_000
    app, _ = world.app(build, max_source_drift="30s", idleness="1s")
    with app:
        world.until(lambda: len(world.rows(sink)) == 9, "the other source is idle", app)
    assert world.records()[-1].watermark == BASE + 201_000
