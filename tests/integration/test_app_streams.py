"""Applications end to end: topics in, the DSL on Spark, topics out."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import attrs
import msgspec
import pytest

from mustela import Consumed, StreamsBuilder, TimeWindows
from mustela.windows import LatePolicy
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

WORDS = ["to be or not to be", "that is the question", "", "to be"]


def test_word_count_counts_every_word_once(world: World) -> None:
    """Over three partitions and many lines, in as many epochs as it takes."""
    lines, counts = world.topic("lines", 3), world.topic("counts", 2)
    for partition in range(3):
        rows = [(f"file-{n}", WORDS[(n + partition) % 4]) for n in range(400)]
        world.send(lines, rows, partition=partition)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(lines, key=str, value=str)
        words = stream.flat_map_values(str.split).group_by(lambda _key, word: word, key=str)
        words.count(store="counts").to_stream().to(counts, key=str, value=int)

    watcher = world.run(build)
    expected = Counter(word for n in range(1_200) for word in WORDS[n % 4].split())
    assert world.numbers(counts) == dict(expected)
    assert sum(epoch.records for epoch in watcher.epochs) == 1_200


def test_a_stateless_topology_needs_no_lanes(world: World) -> None:
    """Each record once, with its key, time and headers; a partition keeps its order."""
    source, sink = world.topic("in", 2), world.topic("out", 1)
    for partition in range(2):
        rows = [(f"k{partition}", f"{n:04}", 1_000 + n) for n in range(300)]
        world.send(source, rows, partition=partition)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        kept = stream.filter(lambda _key, value: not value.endswith("7"), name="no-sevens")
        kept.map_values(lambda value: f"<{value}>", name="brackets").to(sink, key=str, value=str)

    world.run(build)
    rows = world.rows(sink)
    for partition in range(2):
        mine = [row for row in rows if row.key == f"k{partition}".encode()]
        numbers = [n for n in range(300) if n % 10 != 7]
        assert [row.value for row in mine] == [f"<{n:04}>".encode() for n in numbers]
        assert [row.timestamp for row in mine] == [1_000 + n for n in numbers]


def test_one_partition_is_read_by_two_tasks_and_keys_keep_their_order(world: World) -> None:
    """A reduce that is not associative tells any other order, a gap or a repeat."""
    source, sink = world.topic("in", 1), world.topic("out", 1)
    count = 12_000
    world.send(source, [(f"k{n % 7}", f"{n}", 5_000 - (n % 40)) for n in range(count)])

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        joined = stream.group_by_key().reduce(lambda chain, new: f"{chain},{new}", store="chains")
        joined.to_stream().to(sink, key=str, value=str)

    watcher = world.run(build, **{"epoch.small": "0ms"})  # a small epoch has one task that reads
    last = {row.key: row.value for row in world.rows(sink)}
    assert last == {
        f"k{key}".encode(): ",".join(str(n) for n in range(key, count, 7)).encode()
        for key in range(7)
    }
    tasks = [[r for r in e.reports if r.stage == 0 and r.ranges] for e in watcher.epochs]
    assert any(len(reports) == 2 for reports in tasks)
    assert sum(part.records for reports in tasks for r in reports for part in r.ranges) == count


def test_user_functions_run_in_two_workers_at_once_and_never_in_the_driver(
    world: World, tmp_path: Path
) -> None:
    """Two lanes wait for each other in user code: one after the other they would wait for ever."""
    source, sink = world.topic("in", 1), world.topic("out", 1)
    meeting, driver = str(tmp_path), os.getpid()
    world.send(source, [(f"k{n}", "x") for n in range(64)])

    def meet(place: str) -> str:
        import os
        import time
        from pathlib import Path

        assert os.getpid() != driver, "user code runs in the driver"
        (Path(meeting) / f"{place}-{os.getpid()}").touch()
        deadline = time.monotonic() + 300
        while len(list(Path(meeting).glob(f"{place}-*"))) < 2:
            assert time.monotonic() < deadline, "no second worker came"
            time.sleep(0.01)
        return "met"

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        met = stream.group_by_key().aggregate(
            lambda: "", lambda _key, _value, _so_far: meet("lane"), store="met", value=str
        )
        met.to_stream().to(sink, key=str, value=str)

    watcher = world.run(build, lanes=2)
    assert len(list(tmp_path.glob("lane-*"))) == 2
    assert set(world.values(sink)) == {"met"}
    pids = {r.pid for epoch in watcher.epochs for r in epoch.reports if r.wrote}
    assert len(pids) == 2
    assert driver not in pids


def test_two_topics_are_merged_in_the_order_of_time(world: World) -> None:
    """The head with the lowest timestamp goes first, whichever topic it is in."""
    left, right, sink = world.topic("left"), world.topic("right"), world.topic("out")
    world.send(left, [("k", f"l{time}", time) for time in range(1_000, 2_000, 20)])
    world.send(right, [("k", f"r{time}", time) for time in range(1_010, 2_000, 20)])

    def build(builder: StreamsBuilder) -> None:
        streams = [builder.stream(topic, key=str, value=str) for topic in (left, right)]
        both = streams[0].merge(streams[1], name="both")
        chained = both.group_by_key().reduce(lambda chain, new: f"{chain} {new}", store="chain")
        chained.to_stream().to(sink, key=str, value=str)

    world.run(build)
    times = range(1_000, 2_000, 10)
    expected = " ".join(f"{'r' if time % 20 else 'l'}{time}" for time in times)
    assert world.values(sink)[-1] == expected


def test_a_stream_is_keyed_anew_twice(world: World) -> None:
    """Two shuffles in one job: words are counted, then the counts are summed by first letter."""
    lines, sink = world.topic("lines", 2), world.topic("sums")
    world.send(lines, [(None, "ant bee ant"), (None, "asp bee")], partition=0)
    world.send(lines, [(None, "ant cow")], partition=1)

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(lines, key=str, value=str).flat_map_values(str.split)
        counts = words.group_by(lambda _key, word: word, key=str).count(store="counts")
        changes = counts.to_stream().map(lambda word, count: (word[0], f"{word}={count}"), name="c")
        letters = changes.group_by_key(key=str, value=str)
        latest = letters.aggregate(
            dict,
            lambda _letter, change, known: {**known, change.split("=")[0]: change.split("=")[1]},
            store="letters",
        )
        sums = latest.map_values(lambda known: sum(map(int, known.values())), name="sums")
        sums.to_stream().to(sink, key=str, value=int)

    watcher = world.run(build)
    assert world.numbers(sink) == {"a": 4, "b": 2, "c": 1}
    assert {report.stage for epoch in watcher.epochs for report in epoch.reports} == {0, 1, 2}


def test_a_sink_in_front_of_the_lanes_gets_its_rows_in_the_same_epoch(world: World) -> None:
    """Rows of the source stage ride through the lanes to the driver."""
    source, copies, counts = world.topic("in", 2), world.topic("copies"), world.topic("counts")
    for partition in range(2):
        rows = [(f"k{n % 3}", f"v{partition}-{n}") for n in range(50)]
        world.send(source, rows, partition=partition)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        stream.to(copies, key=str, value=str)
        counted = stream.group_by_key().count(store="counts")
        counted.to_stream().to(counts, key=str, value=int)

    world.run(build)
    copied = world.rows(copies)
    expected = {f"v{partition}-{n}" for partition in range(2) for n in range(50)}
    assert sorted(world.values(copies)) == sorted(expected)
    by_epoch: Counter[bytes | None] = Counter(row.headers["mustela.epoch"] for row in copied)
    changes = {row.headers["mustela.epoch"] for row in world.rows(counts)}
    assert set(by_epoch) == changes
    assert sum(world.numbers(counts).values()) == 100


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_sinks_of_one_topic_keep_the_order_of_their_records(world: World, guarantee: str) -> None:
    """Sinks of one stage, by tasks that read parts of a partition; and sinks of two stages."""
    source, near, far = world.topic("in"), world.topic("near"), world.topic("far")
    sent = [(f"k{n % 7}", str(n)) for n in range(700)]
    world.send(source, sent)

    def build(builder: StreamsBuilder) -> None:
        numbers = builder.stream(source, key=str, value=str)
        parts = [
            numbers.filter(lambda _key, number, part=part: int(number) % 3 == part, name=f"p{part}")
            for part in range(3)
        ]
        for part in parts:
            part.to(near)
        parts[0].repartition(name="travels").to(far)
        parts[1].to(far)
        parts[2].to(lambda _key, _value, _context: far)

    lanes = 2 if guarantee == "exactly_once" else 1  # else tasks send by themselves, at once
    world.run(build, processing_guarantee=guarantee, lanes=lanes)
    for topic in (near, far):
        found: dict[str, list[str]] = {}
        for row in world.rows(topic):
            found.setdefault((row.key or b"").decode(), []).append((row.value or b"").decode())
        for key in found:
            assert found[key] == [value for one, value in sent if one == key], topic
        assert sum(map(len, found.values())) == 700


def test_a_late_dead_letter_is_the_record_as_it_was_read(world: World) -> None:
    """Though its key and value changed, and it travelled, before it met its window."""
    source = world.topic("in")
    world.send(source, [("a", "one", 5_000), ("a", "two", 90_000), ("b", "one", 6_000)])

    def build(builder: StreamsBuilder) -> None:
        late = Consumed[str, str](late=LatePolicy.DEAD_LETTER)
        words = builder.stream(source, key=str, value=str, consumed=late).map_values(str.upper)
        windows = TimeWindows(size=timedelta(seconds=10), grace=timedelta(0))
        words.group_by(lambda _key, word: word, key=str).windowed_by(windows).count(store="words")

    world.run(build, lanes=2)
    (letter,) = world.rows(f"{world.name}-dead-letters")
    assert (letter.key, letter.value, letter.timestamp) == (b"b", b"one", 6_000)
    assert letter.headers["mustela.error.offset"] == b"2"


@pytest.mark.parametrize("count", [20, 6_000])
def test_a_function_names_the_topic_of_each_row(world: World, count: int) -> None:
    """From key, value and where the record came from; tasks put many rows together themselves."""
    source, even, odd = world.topic("in"), world.topic("even"), world.topic("odd")
    world.send(source, [(f"{n}", "v") for n in range(count)])

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        topics = (even, odd)
        stream.to(lambda _k, _v, context: topics[context.offset % 2], key=str, value=str)

    world.run(build)
    assert [int(row.key or b"") for row in world.rows(even)] == list(range(0, count, 2))
    assert [int(row.key or b"") for row in world.rows(odd)] == list(range(1, count, 2))


def test_a_table_forwards_changes_and_deletions(world: World) -> None:
    """A row that leaves the filter's result, or is deleted, is deleted downstream."""
    source, sink = world.topic("prices"), world.topic("dear")

    def build(builder: StreamsBuilder) -> None:
        prices = builder.table(source, key=str, value=str, store="prices")
        dear = prices.filter(lambda _key, value: int(value) > 10, name="dear")
        shown = dear.map_values(lambda value: f"{value} EUR", name="shown")
        shown.to_stream().to(sink, key=str, value=str)

    app, _ = world.app(build)
    with app:
        for rows in (
            [("ant", "5"), ("bee", "20"), ("cow", "30")],
            [("ant", "50"), ("bee", "2"), ("cow", None)],
        ):
            world.send(source, rows)
            world.drain(app)
    last = {row.key: row.value for row in world.rows(sink)}
    assert last == {b"ant": b"50 EUR", b"bee": None, b"cow": None}


@dataclass
class Order:
    item: str
    amount: int


class Total(msgspec.Struct):
    item: str
    amount: int
    orders: list[str]


def order_of(text: str) -> Order:
    item, amount = text.split()
    return Order(item, int(amount))


class Item(msgspec.Struct, frozen=True):
    name: str


def item_of(_name: str, order: Order) -> Item:
    return Item(order.item)


def test_types_that_functions_tell_are_those_of_keys_and_values(world: World) -> None:
    """Keys travel by them, stores keep them in every worker, and sinks write them."""
    source, sink = world.topic("lines", 2), world.topic("last")
    world.send(source, [("joe", "tea 2"), ("ann", "tea 5"), ("joe", "jam 1")])

    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(source, key=str, value=str).map_values(order_of)
        most = orders.group_by(item_of).reduce(
            lambda one, other: max(one, other, key=lambda order: order.amount), store="most"
        )
        most.to_stream().to(sink)

    world.run(build)
    last = {row.key: row.value for row in world.rows(sink)}
    assert last == {
        b'{"name":"tea"}': b'{"item":"tea","amount":5}',
        b'{"name":"jam"}': b'{"item":"jam","amount":1}',
    }


@attrs.frozen
class Place:
    town: str
    street: str
    number: int = 0


class Opened(msgspec.Struct, tag=True):
    day: date


class Sold(msgspec.Struct, tag=True):
    price: Decimal


def test_dates_decimals_attrs_classes_and_unions_cross_processes(world: World) -> None:
    """Keys have the same bytes in each worker: each shop is found where it was kept."""
    source, sink = world.topic("events", 2), world.topic("shops")
    shop = '{"number":1,"street":"Long Street","town":"Oslo"}'
    opened = '{"type":"Opened","day":"2026-01-31"}'
    world.send(source, [(shop, opened), *[(shop, '{"type":"Sold","price":"1.50"}')] * 3])

    def add(_place: Place, event: Opened | Sold, sales: dict[date, Decimal]) -> dict[date, Decimal]:
        day = event.day if isinstance(event, Opened) else max(sales)
        more = event.price if isinstance(event, Sold) else Decimal(0)
        return {**sales, day: sales.get(day, Decimal(0)) + more}

    def build(builder: StreamsBuilder) -> None:
        events = builder.stream(source, key=Place, value=Opened | Sold).group_by_key()
        sales = events.aggregate(dict, add, store="sales", value=dict[date, Decimal])
        sales.to_stream().to(sink)

    app, _ = world.app(build)
    with app:
        world.drain(app)
        world.send(source, [(shop, '{"price":"0.25","type":"Sold"}')])
        world.drain(app)
    last = {row.key: row.value for row in world.rows(sink)}
    assert last == {shop.encode(): b'{"2026-01-31":"4.75"}'}


def test_values_are_dataclasses_and_structs_of_the_users_own(world: World) -> None:
    """Made in the test's module; a function that changes its argument in place is no harm."""
    source, sink = world.topic("orders", 2), world.topic("totals")
    rows = [("joe", '{"item": "tea", "amount": 2}'), ("ann", '{"item": "tea", "amount": 5}')]
    world.send(source, [*rows, ("joe", '{"item": "jam", "amount": 1}')])

    def add(_item: str, order: Order, total: Total) -> Total:
        total.amount += order.amount
        total.orders.append(f"{order.amount}")
        return total

    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(source, key=str, value=Order)
        items = orders.group_by(lambda _name, order: order.item, key=str)
        totals = items.aggregate(lambda: Total("", 0, []), add, store="totals", value=Total)
        totals.to_stream().to(sink, key=str, value=Total)

    app, _ = world.app(build)
    with app:
        world.drain(app)
        world.send(source, [("eve", '{"item": "jam", "amount": 4}')])
        world.drain(app)
    last = {row.key: msgspec.json.decode(row.value or b"") for row in world.rows(sink)}
    assert {key: value["amount"] for key, value in last.items()} == {b"tea": 7, b"jam": 5}
    assert last[b"jam"]["orders"] == ["1", "4"]
    assert sorted(last[b"tea"]["orders"]) == ["2", "5"]
