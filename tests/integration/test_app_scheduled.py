"""Scheduled sources of a running application: each tick once, over SIGKILLs, and asleep between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from mustela import StreamsBuilder, Suppressed, TimeWindows
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.processors import Tick
from mustela.windows import BufferConfig
from mustela_dev import DevelopmentBroker
from tests.faults.feed import read_all
from tests.faults.kinds.timers import ticks
from tests.faults.process import ChildApp
from tests.integration.app_world import HeldClock, World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

Parsed = TypeVar("Parsed")


def reporting(source: str, sink: str) -> Callable[[StreamsBuilder], None]:
    """Count words, and report the counts of all lanes twice a second."""

    def report(tick: Tick) -> list[tuple[str, int]]:
        return [(word, counted.value) for word, counted in tick.store("counts").all()]

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(source, key=str, value=str).group_by_key()
        words.count(store="counts")
        half = timedelta(milliseconds=500)
        reports = builder.scheduled(
            "report", report, every=half, key=str, value=int, catch_up="last", stores=("counts",)
        )
        reports.to(sink)

    return build


def test_a_schedule_reads_the_stores_of_all_lanes(world: World) -> None:
    """A report has every key, as the epoch before it left them, with the time of its tick."""
    source, sink = world.topic("in"), world.topic("out")
    words = {f"w{number}": number % 3 + 1 for number in range(20)}
    world.send(source, [(word, "x") for word, count in words.items() for _ in range(count)])
    app, watcher = world.app(reporting(source, sink), lanes=2)
    with app:
        world.until(lambda: world.numbers(sink) == words, "a report of all words", app)
    assert watcher.counter("ticks:report") >= 1
    stamps = {row.timestamp for row in world.rows(sink)}
    assert stamps
    assert all(stamp % 500 == 0 for stamp in stamps)


def test_an_application_sleeps_until_a_tick_is_due(world: World) -> None:
    """A schedule that begins costs one epoch, and then one for each tick; it needs no topic."""
    sink = world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        days = builder.scheduled("day", one, every=timedelta(days=3650), key=str, value=int)
        near = builder.scheduled("near", one, every=timedelta(seconds=8), key=str, value=int)
        days.merge(near, name="both").to(sink)

    clock = HeldClock()
    app, watcher = world.app(build, clock=clock)
    with app:
        for ticks in range(3):
            world.rest(app)
            assert len(watcher.epochs) == 1 + ticks
            assert len(world.rows(sink)) == ticks
            clock.advance(8_000)
            world.until(lambda: len(watcher.epochs) == 2 + ticks, "one epoch more", app)  # noqa: B023
    rows = world.rows(sink)
    assert {row.key for row in rows} == {b"near"}
    assert [row.timestamp - rows[0].timestamp for row in rows] == [0, 8_000, 16_000]

    app, _ = world.app(build, clock=clock)
    with app:
        world.rest(app)
        assert len(world.rows(sink)) == 3
        clock.advance(8_000)
        world.until(lambda: len(world.rows(sink)) == 4, "a tick behind the restart", app)
    numbers = [int.from_bytes(row.value or b"", "big") for row in world.rows(sink)]
    assert numbers == [1, 2, 3, 4]


def test_windows_over_a_schedule_close_by_the_clock(world: World) -> None:
    """No topic says how far event time has come, and no tick is missing in a window or late."""
    sink = world.topic("out")

    def build(builder: StreamsBuilder) -> None:
        ticks = builder.scheduled(
            "tick", one, every=timedelta(milliseconds=250), key=str, value=int
        )
        seconds = TimeWindows(size=timedelta(seconds=1), grace=timedelta(0))
        counts = ticks.group_by_key().windowed_by(seconds).count(store="seconds")
        final = Suppressed.until_window_closes(BufferConfig.unbounded())
        told = counts.suppress(final, name="final").to_stream(lambda window, _: str(window.start))
        told.to(sink, key=str, value=int)

    app, watcher = world.app(build)
    with app:
        world.until(lambda: len(world.rows(sink)) >= 3, "windows close", app)
    counts = world.numbers(sink)
    starts = sorted(map(int, counts))
    assert starts == list(range(starts[0], starts[-1] + 1, 1_000))
    assert {counts[str(start)] for start in starts[1:]} == {4}
    assert len(world.rows(sink)) == len(counts)
    assert watcher.counter("dropped_late:tick.windowed_by.count") == 0
    values = [record.watermark for record in world.records()]
    assert values == sorted(values)


def one(tick: Tick) -> list[tuple[str, int]]:
    return [(tick.name, tick.number)]


@pytest.mark.crash
@pytest.mark.slow
def test_each_tick_is_effective_once_over_kills(broker: DevelopmentBroker, tmp_path: Path) -> None:
    """Ticks that fall into a time in which nothing runs come later, each with its own time."""
    assert ticks.__name__ == "ticks"  # the application that runs below
    name = f"ticks-{tmp_path.name}"
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    topics = [f"{name}.{short}" for short in ("out", "counts")]
    config = {"retention.ms": "-1"}
    admin.create([TopicSpec(name=topic, partitions=1, config=config) for topic in topics])
    environment = {
        "FAULTS_PREFIX": name,
        "MUSTELA__APPLICATION_ID": name,
        "MUSTELA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "MUSTELA__STATE_DIR": str(tmp_path / "state"),
        "MUSTELA__KEY_GROUPS": "4",
        "FAULTS_SPARK": '{"spark.master": "local[2]", "spark.driver.memory": "512m"}',
    }
    points = ("in-lane-after-pending:6", "flushed:4", "committed:5", "")
    for number, point in enumerate(points):
        child = ChildApp("ticks", tmp_path / f"run-{number}", environment, point=point)
        try:
            if point:
                child.wait_for_point()
                continue
            child.wait_for_epochs(5)
            assert child.stop() == 0
        finally:
            child.kill()
    told = rows_of(broker, topics[0], lambda value: [int(part) for part in value.split()])
    counts = rows_of(broker, topics[1], lambda value: int.from_bytes(value, "big"))
    admin.close()
    assert set(told) == {"beat", "second"}
    for source, length in (("beat", 200), ("second", 1_000)):
        numbers = [number for number, _, _ in told[source]]
        stamps = [stamp for _, stamp, _ in told[source]]
        assert numbers == list(range(1, len(numbers) + 1))
        assert stamps == [stamps[0] + length * n for n in range(len(stamps))]
        assert counts[source][-1] == len(numbers)
        # A tick sees the ticks of the epochs before its own, whole.
        seen: dict[int, list[int]] = defaultdict(list)
        for number, _, before in told[source]:
            seen[before].append(number)
        assert all(min(group) == before + 1 for before, group in seen.items())
    assert len(told["beat"]) >= 20


def rows_of(
    broker: DevelopmentBroker, topic: str, parse: Callable[[bytes], Parsed]
) -> dict[str, list[Parsed]]:
    """Return the committed values of each key, in order, as numbers."""
    found: dict[str, list[Parsed]] = defaultdict(list)
    for rows in read_all(broker.bootstrap_servers, topic, 1).values():
        for row in rows:
            found[(row.key or b"").decode()].append(parse(row.value or b""))
    return found
