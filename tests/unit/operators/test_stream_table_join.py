"""Joins of a stream with a table: each record meets the row of its own moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import Joined, Materialized, Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, JoinKeysError
from mustela.kernel.joins.stream_table_join import behind
from tests.epochs import cut
from tests.unit.operators.join_models import (
    CUTS,
    EMITS,
    TIMES,
    WAYS,
    Change,
    Sent,
    by_key,
    merged,
    run,
    sent,
)

TOPICS = ("orders", "prices")


def told(value: Any, row: Any) -> str:
    return f"{value}|{row}"


def spoiling(value: int, row: list[Any] | None) -> list[Any]:
    """Change the row that was looked up, as careless functions do."""
    row = [] if row is None else row
    row.append(value)
    return row


def every_join() -> StreamsBuilder:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int)
    prices = builder.table("prices", key=str, value=int)
    orders.join(prices, told, name="inner").to("inner", value=str)
    orders.left_join_with_key(prices, lambda k, v, p: f"{k}{v}|{p}", name="left").to(
        "left", value=str
    )
    seen = prices.filter(lambda _k, p: p > 2).map_values(lambda p: p * 2, value=int)
    orders.left_join(seen, told, name="views").to("views", value=str)
    lists = prices.map_values(lambda p: [p], value=list, store="lists")
    orders.left_join(lists, spoiling, name="spoiling").to("spoiling", value=list)
    newest = orders.group_by_key().reduce(lambda _old, new: new, store="newest")
    again = newest.to_stream().select_key(lambda k, _v: k, name="again")
    again.left_join(prices, told, name="later").to("later", key=str, value=str)
    prices.to_stream(name="changes").to("changes")
    return builder


def model(  # noqa: C901 - one loop over all that the topology has
    epochs: Sequence[Sequence[Sent]], emit: str
) -> dict[str, list[tuple[Any, Any, int]]]:
    """Say what `every_join` writes, by going through the records."""
    rows: dict[Any, int | None] = {}
    found: dict[str, list[tuple[Any, Any, int]]] = {}
    known: dict[Any, int] = {}

    def write(topic: str, record: Sent, value: Any) -> None:
        found.setdefault(topic, []).append((record.key, value, record.timestamp))

    for epoch in merged(epochs):
        before = dict(rows)
        updates: list[tuple[Sent, int | None]] = []
        changes: list[Sent] = []
        for record in epoch:
            key, value = record.key, record.value
            if record.topic == "prices":
                # Of deletions of one row the first counts where one change is written per epoch.
                again = value is None and rows.get(key) is None
                if key is not None and not (again and emit == "barrier"):
                    changes.append(record)
                    rows[key] = value
                continue
            if value is None:
                continue
            row = rows.get(key)
            if row is not None:
                write("inner", record, f"{value}|{row}")
            write("left", record, f"{key}{value}|{row}")
            view = row * 2 if row is not None and row > 2 else None
            write("views", record, f"{value}|{view}")
            write("spoiling", record, [*([] if row is None else [row]), value])
            if key is not None:
                latest = known[key] = max(record.timestamp, known.get(key, -1))
                updates.append((record._replace(timestamp=latest), row))
        if emit == "barrier":
            updates = list({record.key: (record, row) for record, row in updates}.values())
            last = {record.key: record for record in changes}
            changes = [
                record
                for key, record in last.items()
                if record.value is not None or before.get(key) is not None
            ]
        for record, row in updates:
            write("later", record, f"{record.value}|{row}")
        for record in changes:
            write("changes", record, record.value)
    return found


@pytest.mark.parametrize("way", WAYS)
@given(
    records=sent(TOPICS),
    cuts=CUTS,
    emit=st.sampled_from(EMITS),
    event_time=st.sampled_from(TIMES),
)
def test_each_record_meets_the_row_that_stands_before_it(
    way: str, records: Sequence[Sent], cuts: list[int], emit: str, event_time: str
) -> None:
    """In one stage, through views, behind a new key; the table's other readers notice nothing."""
    epochs = cut(records, cuts)
    found = run(every_join(), epochs, {"emit": emit, "event_time": event_time}, way)
    wanted = model(epochs, emit)
    assert {topic: by_key(rows) for topic, rows in found.items()} == {
        topic: by_key(rows) for topic, rows in wanted.items()
    }


@given(
    records=sent(TOPICS, 40),
    cuts=st.lists(st.integers(1, 30), max_size=6, unique=True),
    emit=st.sampled_from(EMITS),
)
def test_a_history_may_be_cut_by_time_anywhere(
    records: Sequence[Sent], cuts: list[int], emit: str
) -> None:
    """Epochs that end at the same time in both topics give what one run over all of it gives.

    The volumes are unequal, and so is how far one of the topics is behind the other.
    """
    orders = sorted((r for r in records if r.topic == "orders"), key=lambda r: r.timestamp)
    prices = sorted((r for r in records if r.topic == "prices"), key=lambda r: r.timestamp)
    many = [r._replace(value=n) for r in orders for n in range(10)]
    bounds = [-1, *sorted(cuts), 99]
    epochs = [
        [r for r in (*many, *prices) if low < r.timestamp <= high] for low, high in pairwise(bounds)
    ]
    builder = StreamsBuilder()
    stream = builder.stream("orders", key=str, value=int)
    table = builder.table("prices", key=str, value=int)
    stream.left_join(table, told, name="left").to("left", value=str)
    cut_up = run(builder, [epoch for epoch in epochs if epoch], {"emit": emit}, "one lane")
    at_once = run(builder, [[*many, *prices]], {"emit": emit}, "one lane")
    ordered = run(
        builder,
        [[r] for epoch in merged([[*many, *prices]]) for r in epoch],
        {"emit": emit},
        "one lane",
    )
    assert cut_up == at_once == ordered


HISTORY = 20


def versioned(grace: int | None, *, view: bool) -> StreamsBuilder:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int)
    supplier = Stores.persistent_versioned_key_value_store(
        "prices", timedelta(milliseconds=HISTORY)
    )
    prices: Any = builder.table(
        "prices", key=str, value=int, materialized=Materialized(supplier=supplier)
    )
    if view:
        prices = prices.map_values(lambda p: p * 2, value=int)
    waits = None if grace is None else timedelta(milliseconds=grace)
    options = Joined[Any, Any, Any](name="join", grace=waits)
    orders.left_join(prices, told, joined=options).to("out", key=str, value=str)
    return builder


class Versions:
    """What each key was, and when, as long as it is remembered."""

    def __init__(self) -> None:
        self.now = -1
        self.versions: dict[Any, dict[int, int | None]] = {}

    def put(self, key: Any, value: int | None, timestamp: int) -> None:
        if timestamp >= self.now - HISTORY:
            self.versions.setdefault(key, {})[timestamp] = value
        self.now = max(self.now, timestamp)

    def get(self, key: Any, timestamp: int) -> int | None:
        known = self.versions.get(key, {})
        if known and max(known) <= timestamp:
            return known[max(known)]
        if timestamp < self.now - HISTORY:
            return None
        times = [time for time in known if time <= timestamp]
        return known[max(times)] if times else None


def joined_by_version(
    epochs: Sequence[Sequence[Sent]], grace: int | None, factor: int
) -> list[tuple[Any, Any, int]]:
    """Join by stream time, as Kafka Streams does it."""
    table, now, number = Versions(), -1, 0
    waiting: list[tuple[int, Any, int, int]] = []
    found: list[tuple[Any, Any, int]] = []

    def meet(key: Any, value: int, timestamp: int) -> None:
        row = None if key is None else table.get(key, timestamp)
        told_row = None if row is None else row * factor
        found.append((key, f"{value}|{told_row}", timestamp))

    for record in (r for epoch in merged(epochs) for r in epoch):
        key, value, timestamp = record.key, record.value, record.timestamp
        if record.topic == "prices":
            if key is not None:
                table.put(key, value, timestamp)
            continue
        if value is None:
            continue
        if grace is None or key is None:
            meet(key, value, timestamp)
            continue
        now, number = max(now, timestamp), number + 1
        if timestamp < now - grace:
            meet(key, value, timestamp)
        else:
            waiting.append((timestamp, key, number, value))
        due = sorted(row for row in waiting if row[0] <= now - grace)
        waiting = [row for row in waiting if row[0] > now - grace]
        for time, due_key, _, due_value in due:
            meet(due_key, due_value, time)
    return found


@pytest.mark.parametrize("way", [{}, {"crash_after_every_record": True}], ids=["plain", "crashes"])
@given(
    records=sent(TOPICS),
    cuts=CUTS,
    grace=st.sampled_from([None, 0, 3, 10]),
    view=st.booleans(),
)
def test_a_record_meets_the_version_of_its_own_time(
    way: dict[str, Any],
    records: Sequence[Sent],
    cuts: list[int],
    grace: int | None,
    view: bool,
) -> None:
    """With and without waiting, looked up where the table is and in a copy of a view."""
    epochs = cut(records, cuts)
    with TopologyTestDriver(versioned(grace, view=view).build(), **way) as driver:
        for epoch in epochs:
            with driver.epoch():
                for record in epoch:
                    topic = driver.create_input_topic(record.topic)
                    topic.pipe_input(record.key, record.value, timestamp=record.timestamp)
        got = [
            (record.key, record.value, record.timestamp)
            for record in driver.create_output_topic("out").read_records_to_list()
        ]
    assert by_key(got) == by_key(joined_by_version(epochs, grace, 2 if view else 1))


def test_by_watermark_a_record_waits_until_the_watermark_has_passed() -> None:
    """It goes on without a record of its own, in order of time, and meets what came late."""
    builder = versioned(10, view=False)
    settings = {"event_time": "watermark"}
    with TopologyTestDriver(builder.build(), settings=settings, key_groups=4) as driver:
        orders = driver.create_input_topic("orders")
        prices = driver.create_input_topic("prices")
        prices.pipe_input("a", 1, timestamp=10)
        orders.pipe_input("a", 7, timestamp=20)
        prices.pipe_input("b", 0, timestamp=25)
        prices.pipe_input("a", 2, timestamp=15)
        out = driver.create_output_topic("out")
        assert out.is_empty
        driver.advance_watermark(to=29)
        assert out.is_empty
        driver.advance_watermark(to=30)
        assert [Change(r.value, r.timestamp) for r in out.read_records_to_list()] == [
            Change("7|2", 20)
        ]


def test_what_cannot_be_joined_is_refused_where_it_is_written() -> None:
    """Waiting for a table without versions, or for longer than it remembers; keys of two kinds."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int)
    plain = builder.table("plain", key=str, value=int)
    waits = Joined[Any, Any, Any](grace=timedelta(milliseconds=5))
    with pytest.raises(BadOptionError, match="not versioned"):
        orders.join(plain, told, joined=waits)
    short = Stores.persistent_versioned_key_value_store("short", timedelta(milliseconds=2))
    table = builder.table("t", key=str, value=int, materialized=Materialized(supplier=short))
    with pytest.raises(BadOptionError, match="longer"):
        orders.join(table, told, joined=waits)
    numbers: Any = builder.table("numbers", key=int, value=int)
    with pytest.raises(JoinKeysError):
        orders.join(numbers, told)


def test_a_record_comes_behind_what_it_changes_itself() -> None:
    """A stream joined with its own count meets the count that it is part of."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str)
    counts = clicks.group_by_key().count(store="counts")
    clicks.join(counts, told, name="nth").to("nth", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.create_input_topic("clicks").pipe_key_value_list([("a", "x"), ("a", "y")])
        values = driver.create_output_topic("nth").read_values_to_list()
    assert values == ["x|1", "y|2"]
    assert behind([], [(1, 2)]) == []


def test_the_rows_of_one_record_go_on_in_their_order_where_nothing_waits() -> None:
    """Each before the next one comes, whatever their keys are."""
    span = timedelta(minutes=1)
    supplier = Stores.persistent_versioned_key_value_store("rows", history_retention=span)
    builder = StreamsBuilder()
    rows = builder.table("rows", key=str, value=str, materialized=Materialized(supplier=supplier))
    pairs = builder.stream("in", key=str, value=str).flat_map(lambda _k, v: [(x, v) for x in v])
    at_once = Joined[str, str, str](grace=timedelta(0), name="at-once")
    pairs.left_join(rows, lambda one, row: f"{one}+{row}", value=str, joined=at_once).to("out")
    with TopologyTestDriver(builder.build(), settings={"event_time": "stream-time"}) as driver:
        driver.create_input_topic("in").pipe_input("k", "baab", timestamp=5)
        told = driver.create_output_topic("out").read_key_values_to_list()
    assert [key for key, _ in told] == ["b", "a", "a", "b"]
