"""Timers and punctuators of a running application: once each, over SIGKILLs, and asleep between."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark import cloudpickle

from mustela import Record, StreamsBuilder
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.processors import ContextualProcessor, Timer
from mustela.runtime.events import AppState
from mustela_dev import DevelopmentBroker
from tests.faults.feed import read_all
from tests.faults.kinds.timers import timers
from tests.faults.process import ChildApp
from tests.integration.app_world import HeldClock, World
from tests.patience import PATIENCE_S, SOON
from tests.unit.examples.programs import load

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

BASE = 1_700_000_000_000
DAY_MS = 86_400_000


class Patient(ContextualProcessor[str, str, str, str]):
    """Its timers are as far away as the value says."""

    def process(self, record: Record[str, str]) -> None:
        away = int(record.value)
        now = self.context.current_processing_time()
        self.context.register_processing_time_timer(now + away, name="clock")
        self.context.register_event_time_timer(record.timestamp + away, name="event")

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        context.forward(timer.with_value(timer.name))


def patient(source: str, sink: str) -> Any:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        stream.process(Patient, name="wait").to(sink, key=str, value=str)

    return build


def test_timers_fire_once_while_nothing_comes_and_the_application_sleeps_between(
    world: World,
) -> None:
    """Far timers cost no epochs; near ones have one when they are due, also behind a restart."""
    source, sink = world.topic("in"), world.topic("out")
    keys = [f"k{number}" for number in range(12)]
    world.send(source, [(key, str(DAY_MS), BASE) for key in keys])
    build = patient(source, sink)
    app, watcher = world.app(build)
    with app:
        world.drain(app)
        world.rest(app)
        before = len(watcher.epochs)
        world.rest(app)
        assert len(watcher.epochs) == before
        assert world.rows(sink) == []
        world.send(source, [("near", "700", BASE + 1)])
        world.until(lambda: len(world.rows(sink)) == 1, "the near timer fires", app)
    (fired,) = world.rows(sink)
    assert (fired.key, fired.value) == (b"near", b"clock")
    app, _ = world.app(build)
    with app:
        assert app.wait_until(AppState.RUNNING, SOON)
        world.send(source, [("push", str(DAY_MS), BASE + DAY_MS)])
        world.until(lambda: len(world.rows(sink)) == 2 + len(keys), "timers fire", app)
    rows = [row for row in world.rows(sink) if row.value == b"event"]
    assert [row.timestamp for row in rows] == sorted(row.timestamp for row in rows)
    assert Counter(row.key for row in rows) == {key.encode(): 1 for key in [*keys, "near"]}
    assert {row.timestamp for row in rows} == {BASE + DAY_MS, BASE + 701}


def test_punctuators_are_called_though_no_record_has_ever_come(world: World) -> None:
    """By the clock, in each key group, before and behind a restart; no call is skipped or twice."""
    source, sink = world.topic("in"), world.topic("out")
    prefix = source.removesuffix(".in")
    assert sink == f"{prefix}.out"

    def beats() -> dict[str, list[int]]:
        return fired(world.broker, sink)

    def all_beat(count: int) -> bool:
        return len(found := beats()) == 4 and all(len(n) >= count for n in found.values())

    for count in (2, 5):
        app, _ = world.app(lambda builder: timers(builder, prefix))
        with app:
            world.until(partial(all_beat, count), f"{count} beats in each key group", app)
    for numbers in beats().values():
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.crash
@pytest.mark.slow
def test_each_timer_and_each_beat_is_effective_once_over_kills(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """Timers of both kinds and a punctuator, killed in a commit and behind one."""
    assert timers.__name__ == "timers"  # the application that runs below
    name = f"timers-{tmp_path.name}"
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    config = {"retention.ms": "-1"}
    topics = [f"{name}.{short}" for short in ("in", "out")]
    admin.create([TopicSpec(name=topic, partitions=1, config=config) for topic in topics])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    environment = {
        "FAULTS_PREFIX": name,
        "MUSTELA__APPLICATION_ID": name,
        "MUSTELA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "MUSTELA__STATE_DIR": str(tmp_path / "state"),
        "MUSTELA__KEY_GROUPS": "4",
        "FAULTS_SPARK": '{"spark.master": "local[2]", "spark.driver.memory": "512m"}',
    }
    sent, expected = 0, set[str]()
    points = ("flushed:6", "committed:5", "")
    for number, point in enumerate(points):
        for _ in range(20):
            stamp = BASE + 10 * sent
            producer.produce(topics[0], key=f"k{sent}", value="x", timestamp=stamp)
            sent += 1
        assert producer.flush(PATIENCE_S) == 0
        child = ChildApp("timers", tmp_path / f"run-{number}", environment, point=point)
        try:
            if point:
                child.wait_for_point()
                continue
            # Behind the last two records comes none that would bring the time of their timers.
            expected = {f"k{n} event" for n in range(sent - 2)} | {
                f"k{n} clock" for n in range(sent)
            }
            child.wait_for("all timers", partial(all_fired, broker, topics[1], expected))
            assert child.stop() == 0
        finally:
            child.kill()
    admin.close()
    told = fired(broker, topics[1])
    beats = {key: told.pop(key) for key in list(told) if key.startswith("beat")}
    assert told == {key: [1] for key in expected}
    assert set(beats) == {f"beat-{group}" for group in range(4)}
    for numbers in beats.values():
        assert numbers == list(range(1, len(numbers) + 1))


def all_fired(broker: DevelopmentBroker, topic: str, expected: set[str]) -> bool:
    """Whether every timer has fired."""
    return expected <= set(fired(broker, topic))


def fired(broker: DevelopmentBroker, topic: str) -> dict[str, list[int]]:
    """Return the committed values of each key, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for rows in read_all(broker.bootstrap_servers, topic, 1).values():
        for row in rows:
            found[(row.key or b"").decode()].append(int(row.value or b"0"))
    return found


def test_the_delayed_enrichment_reads_customers_of_any_lane_when_its_timer_fires(
    world: World,
) -> None:
    """The example: its order waits until the customer is there."""
    program, clock = load("e13_delayed_enrich"), HeldClock()
    cloudpickle.register_pickle_by_value(program)  # workers do not find it by its name
    topics = ("orders", "customers", "enriched-orders")
    world.admin.create([TopicSpec(name=name, partitions=1, config={}) for name in topics])
    keys = [f"o-{number}" for number in range(8)]
    try:
        app, _ = world.app(program.build, clock=clock)
        with app:
            assert app.wait_until(AppState.RUNNING, SOON)
            orders = [(key, json.dumps({"customer_id": f"c{key}", "total": 1})) for key in keys]
            world.send("orders", orders)
            world.drain(app)
            assert world.rows("enriched-orders") == []
            named = [(f"c{key}", json.dumps({"name": key.upper()})) for key in keys[1:]]
            world.send("customers", named)
            world.drain(app)
            clock.advance(program.RETRY_MS)
            world.until(lambda: len(world.rows("enriched-orders")) == 8, "timers fire", app)
    finally:
        cloudpickle.unregister_pickle_by_value(program)
    rows = {row.key: json.loads(row.value or b"") for row in world.rows("enriched-orders")}
    assert {key: value["customer"] for key, value in rows.items()} == {
        key.encode(): None if key == keys[0] else key.upper() for key in keys
    }
