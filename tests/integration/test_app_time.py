"""Event time in a running application: windows close without a record, also behind a restart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Producer

from mustela import KTable, StreamsBuilder, Suppressed, TimeWindows, Windowed
from mustela.runtime.events import AppState
from mustela.windows import BufferConfig
from tests.integration.app_world import World
from tests.patience import PATIENCE_S, SOON

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

BASE = 1_700_000_000_000
WINDOWS = TimeWindows(size=timedelta(seconds=10), grace=timedelta(seconds=2))


def text(key: Windowed[str], _count: int) -> str:
    return f"{key.key}@{(key.start - BASE) // 1_000}"


def counting(sources: list[str], sink: str) -> Callable[[StreamsBuilder], None]:
    """Count by window, and say each count once, when its window is over."""

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(sources, key=str, value=str)
        windowed = stream.group_by_key().windowed_by(WINDOWS)
        counts: KTable[Any, int] = windowed.count(store="counts")
        last = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="l")
        last.to_stream(text).to(sink, key=str, value=int)

    return build


def rows(*keys: str, second: int) -> list[tuple[str, str, int]]:
    return [(key, "x", BASE + 1_000 * second) for key in keys]


def test_windows_close_while_nothing_comes(world: World) -> None:
    """A topic that is silent no longer holds them open; nobody sends a record to push time."""
    source, slow, sink = world.topic("in"), world.topic("slow"), world.topic("out")
    world.send(slow, rows("s", second=1))
    world.send(source, rows("a", "b", "c", "a", second=3))
    world.send(source, rows("a", second=30))
    app, watcher = world.app(counting([source, slow], sink), idleness="2s")
    with app:
        world.until(lambda: len(world.rows(sink)) == 4, "the windows close", app)
    assert world.numbers(sink) == {"a@0": 2, "b@0": 1, "c@0": 1, "s@0": 1}
    assert any(epoch.records == 0 for epoch in watcher.epochs)
    values = [record.watermark for record in world.records()]
    assert values == sorted(values)
    assert values[-1] == BASE + 30_000


def test_what_waits_is_found_again_behind_a_restart(world: World) -> None:
    """Key groups that no record touches since the start close their windows too."""
    source, sink = world.topic("in"), world.topic("out")
    keys = [f"k{number}" for number in range(12)]
    world.send(source, rows(*keys, second=1))
    build = counting([source], sink)
    world.run(build, idleness="1h")
    assert world.rows(sink) == []
    before = world.records()[-1]
    app, _ = world.app(build, idleness="1h")
    with app:
        assert app.wait_until(AppState.RUNNING, SOON)
        world.send(source, rows("other", second=20))
        world.until(lambda: len(world.rows(sink)) == len(keys), "the windows close", app)
    assert world.numbers(sink) == {f"{key}@0": 1 for key in keys}
    assert before.watermark == BASE + 1_000
    records = world.records()
    assert all(one.watermark <= two.watermark for one, two in pairwise(records))
    assert records[-1].partitions[0].max_timestamp == BASE + 20_000


def test_a_timestamp_too_far_ahead_closes_nothing(world: World) -> None:
    """It is counted, and the other records of its range still move the watermark."""
    far = 10**13
    source = world.topic("in", message_timestamp_after_max_ms=str(far))
    sink = world.topic("out")
    world.send(source, [("a", "x", BASE), ("z", "x", far), ("a", "x", BASE + 1_000)])
    world.send(source, rows("b", second=15))
    app, watcher = world.app(counting([source], sink))
    with app:
        world.until(lambda: len(world.rows(sink)) == 1, "the window closes", app)
    assert world.numbers(sink) == {"a@0": 2}
    assert watcher.counter(f"future_records:{source}") == 1
    assert world.records()[-1].watermark == BASE + 15_000


def send_in_transactions(
    world: World, topic: str, rows: list[tuple[str, str, int]], *, every: int
) -> None:
    """Send rows as an exactly-once program does; each third transaction is aborted, then redone."""
    producer = Producer({**world.properties, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    for number, start in enumerate(range(0, len(rows), every)):
        for abort in (True, False) if number % 3 == 0 else (False,):
            producer.begin_transaction()
            for key, value, stamp in rows[start : start + every]:
                producer.produce(topic, key=key, value=value, timestamp=stamp)
            if abort:
                producer.flush(PATIENCE_S)
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "in-transactions"])
def test_a_backlog_gives_one_time_ordered_run_however_it_is_cut(
    world: World, transactional: bool
) -> None:
    """Topics of 10:1 volume and unequal pace: each order meets the price of its own moment."""
    orders = [("k", f"o{n}", BASE + 1_000 * n + (n % 7)) for n in range(2_000)]
    # Prices come in bursts, so that shares of the backlogs are not the same time.
    prices = [("k", f"p{n}", BASE + (n // 40) * 400_000 + n % 40) for n in range(200)]
    topics = world.topic("orders"), world.topic("prices")
    for topic, sent in zip(topics, (orders, prices), strict=True):
        if transactional:
            send_in_transactions(world, topic, sent, every=97)
        else:
            world.send(topic, sent)
    expected: list[str] = []
    price = "None"
    moments = [(stamp, 0, value) for _, value, stamp in orders]
    moments += [(stamp, 1, value) for _, value, stamp in prices]
    for _, is_price, value in sorted(moments, key=lambda moment: moment[:2]):
        if is_price:
            price = value
        else:
            expected.append(f"{value}:{price}")
    for most in (100, 100_000):
        sink = world.topic(f"out{most}")

        def build(builder: StreamsBuilder, sink: str = sink) -> None:
            table = builder.table(topics[1], key=str, value=str, store="prices")
            stream = builder.stream(topics[0], key=str, value=str)
            joined = stream.left_join(table, lambda o, p: f"{o}:{p}", value=str, name="joined")
            joined.to(sink, key=str, value=str)

        watcher = world.run(build, epoch={"max_records": most}, application_id=sink)
        assert world.values(sink) == expected
        epochs = [epoch for epoch in watcher.epochs if epoch.records]
        assert len(epochs) > 15 if most == 100 else len(epochs) <= 5
        assert max(epoch.records for epoch in epochs) <= max(3 * most, 1_000)
