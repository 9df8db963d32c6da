# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Calls that must type-check, and the types they give. Read by type checkers, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_type

from mustela.api.context import FixedKeyProcessorContext, ProcessorContext
from mustela.api.join_windows import JoinWindows
from mustela.api.options import (
    AutoOffsetReset,
    Consumed,
    Grouped,
    Materialized,
    Printed,
    Produced,
    Repartitioned,
)
from mustela.api.processor import FixedKeyProcessor, Processor
from mustela.api.scheduled import Tick
from mustela.api.stores import StoreBuilder, Stores
from mustela.api.timers import Cancellable, FixedKeyTimer, PunctuationType, Timer
from mustela.api.timestamps import LogAndSkipOnInvalidTimestamp, WallclockTimestampExtractor
from mustela.api.windows import EmitStrategy, SessionWindows, TimeWindows
from mustela.dsl.builder import StreamsBuilder
from mustela.dsl.grouped import KGroupedStream
from mustela.dsl.kstream import KStream
from mustela.dsl.ktable import KTable
from mustela.dsl.routing import Branched, BranchedKStream
from mustela.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream
from mustela.model import Record, RecordContext, Windowed
from mustela.runtime.app import App
from mustela.runtime.events import AppState, EpochDone, Event, Listener, StateChanged
from mustela.serdes.primitives import IntSerde, StrSerde
from mustela.state.kinds.read_only import ReadOnlyKeyValueStore, ReadOnlyWindowStore
from mustela.state.kinds.versioned_store import VersionedKeyValueStore, VersionedRecord
from mustela.state.kinds.window_store import WindowStore


@dataclass
class Order:
    user: str
    total: int


builder = StreamsBuilder()


def shelf_life(record: Record[str, Order]) -> timedelta:
    return timedelta(days=record.value.total)


JoinWindows(before=shelf_life, before_max=timedelta(9), after=timedelta(0), grace=timedelta(0))

# Sources: a type, a serde or nothing for each part.
assert_type(builder.stream("a"), KStream[bytes, bytes])
assert_type(builder.stream("a", key=str), KStream[str, bytes])
assert_type(builder.stream("a", value=str), KStream[bytes, str])
assert_type(builder.stream(["a", "b"], key=str, value=Order), KStream[str, Order])
assert_type(builder.stream("a", key=StrSerde(), value=IntSerde()), KStream[str, int])
assert_type(builder.stream("a", consumed=Consumed(key=str, value=int)), KStream[str, int])
assert_type(
    builder.stream("a", consumed=Consumed(auto_offset_reset="latest")), KStream[bytes, bytes]
)
assert_type(
    builder.stream("a", key=str, value=int, consumed=Consumed(auto_offset_reset="none")),
    KStream[str, int],
)
assert_type(builder.stream(re.compile("a.*"), key=str, value=int), KStream[str, int])


# Scheduled sources: the function says what keys and values are.
def beat(tick: Tick) -> Iterator[tuple[str, int] | Record[str, int]]:
    yield tick.name, tick.number


assert_type(builder.scheduled("beat", beat, cron="* * * * *", value=int), KStream[str, int])
assert_type(
    builder.scheduled("pulse", lambda tick: [(tick.name, tick.time)], every=timedelta(hours=1)),
    KStream[str, datetime],
)
assert_type(builder.stream(re.compile("a.*")), KStream[bytes, bytes])
assert_type(builder.table("t", key=str, value=int, store="t"), KTable[str, int])
assert_type(builder.table("t", consumed=Consumed(key=str, value=int)), KTable[str, int])

# Lambdas and functions of all kinds infer.
orders = builder.stream("orders", key=str, value=Order)
words = builder.stream("words", key=str, value=str)
assert_type(words.map_values(len), KStream[str, int])
assert_type(words.map_values(str.upper), KStream[str, str])
assert_type(words.map_values(lambda word: word.upper()), KStream[str, str])
assert_type(orders.map_values(lambda order: order.total), KStream[str, int])
assert_type(
    orders.map_values_with_key(lambda key, order: (key, order)), KStream[str, tuple[str, Order]]
)
assert_type(orders.map(lambda key, order: (order.total, key)), KStream[int, str])
assert_type(orders.flat_map(lambda key, order: [(order.total, key)]), KStream[int, str])
assert_type(words.flat_map_values(str.split), KStream[str, str])
assert_type(words.flat_map_values_with_key(lambda key, word: {key, word}), KStream[str, str])
assert_type(orders.select_key(lambda _key, order: order.user), KStream[str, Order])
assert_type(orders.filter(lambda _key, order: order.total), KStream[str, Order])
assert_type(orders.distinct(within=timedelta(hours=1)), KStream[str, Order])
assert_type(
    orders.distinct(within=timedelta(hours=1), key=lambda _key, order: (order.user, order.total)),
    KStream[str, Order],
)
assert_type(orders.filter_not(lambda key, _order: key), KStream[str, Order])
assert_type(orders.peek(print), KStream[str, Order])
orders.foreach(print)
assert_type(words.merge(words.map_values(str.upper)), KStream[str, str])
assert_type(words.merge(orders), KStream[str, str | Order])

# Groupings and tables.
assert_type(words.group_by_key(), KGroupedStream[str, str])
assert_type(orders.group_by(lambda _key, order: order.total), KGroupedStream[int, Order])
assert_type(words.group_by(lambda _key, word: len(word), key=int), KGroupedStream[int, str])
assert_type(words.group_by_key(grouped=Grouped(name="g")), KGroupedStream[str, str])
assert_type(words.group_by_key().count(store="s"), KTable[str, int])
assert_type(words.group_by_key().reduce(max, associative=True), KTable[str, str])
grouped = orders.group_by_key()


def spend(_user: str, order: Order, total: int) -> int:
    return total + order.total


def add(_user: str, left: int, right: int) -> int:
    return left + right


def collect(_user: str, order: Order, seen: list[int]) -> list[int]:
    return [*seen, order.total]


assert_type(grouped.aggregate(int, spend), KTable[str, int])
assert_type(grouped.aggregate(int, spend, value=int, store="s"), KTable[str, int])
assert_type(grouped.aggregate(list[int], collect), KTable[str, list[int]])
assert_type(grouped.aggregate(lambda: 0, spend), KTable[str, int])
assert_type(grouped.aggregate(int, spend, merger=add), KTable[str, int])
assert_type(
    grouped.aggregate(int, spend, materialized=Materialized(store="s", value=int)), KTable[str, int]
)

prices = builder.table("prices", key=str, value=int)
assert_type(prices.filter(lambda _key, price: price > 3), KTable[str, int])
assert_type(prices.filter_not(lambda _key, price: price > 3, store="s"), KTable[str, int])
assert_type(prices.map_values(str, value=str), KTable[str, str])
assert_type(
    prices.map_values_with_key(lambda key, price: (key, price)), KTable[str, tuple[str, int]]
)
assert_type(prices.to_stream(), KStream[str, int])
assert_type(prices.to_stream(lambda _key, price: price), KStream[int, int])
assert_type(prices.queryable_store_name, str | None)


# Sinks.
def route(key: str, value: str, context: RecordContext) -> str:
    return context.topic or key + value


words.to("out")
words.to("out", key=str, value=str)
words.to("out", key=StrSerde(), produced=Produced(value=str))
words.to(route)
words.to(lambda key, _value, _context: key)
words.to("out", partitioner=lambda _topic, _key, _value, count: count - 1)

words.to("out", partitioner=lambda _topic, _key, _value, count: {0, count - 1})
words.to("out", produced=Produced(partitioner=lambda _topic, _key, _value, _count: None))


# Where reading begins, and what time records have.
def clock(record: Record[str, Order], partition_time: int) -> int:
    return max(partition_time, record.value.total)


last_hour = AutoOffsetReset.by_duration(timedelta(hours=1))
assert_type(
    builder.stream("a", key=str, value=Order, consumed=Consumed(auto_offset_reset=last_hour)),
    KStream[str, Order],
)
timed = Consumed(key=str, value=Order, timestamp_extractor=clock)
assert_type(builder.stream("a", consumed=timed), KStream[str, Order])
Consumed(timestamp_extractor=WallclockTimestampExtractor)
Consumed(timestamp_extractor=LogAndSkipOnInvalidTimestamp())

# Branches, travel by key, tables made of streams.
assert_type(words.split(), BranchedKStream[str, str])
branched = words.split(name="by").branch(lambda key, word: key < word, name="up")
assert_type(branched, BranchedKStream[str, str])
assert_type(branched.default_branch(), dict[str, KStream[str, str]])
assert_type(branched.no_default_branch(), dict[str, KStream[str, str]])
branched.branch(str.startswith, function=lambda stream: stream.map_values(str.upper))
branched.branch(str.startswith, consumer=lambda stream: stream.to("out"))
branched.branch(str.startswith, branched=Branched(name="same"))
assert_type(words.repartition(), KStream[str, str])
assert_type(words.repartition(key=str, value=str, name="spread"), KStream[str, str])
assert_type(
    words.repartition(repartitioned=Repartitioned(key=str, partitions=3)), KStream[str, str]
)
assert_type(words.to_table(), KTable[str, str])
assert_type(words.to_table(store="s", key=str), KTable[str, str])
assert_type(words.to_table(materialized=Materialized(store="s", value=str)), KTable[str, str])
words.print()
words.print(Printed.to_sys_out().with_label("words"), name="printed")
words.print(Printed(mapper=lambda key, value: f"{key}={value}"))
assert_type(words.merge(words, words), KStream[str, str])

documents = builder.stream("documents", key=str, value=dict[str, Any])
assert_type(documents, KStream[str, dict[str, Any]])
documents.to("out", value=dict)

# Joins of streams: what the other side is decides what must be said, and what the joiner gets.
near = JoinWindows.of_time_difference(timedelta(seconds=1), grace=timedelta(0))
assert_type(
    words.join(orders, lambda word, order: (word, order.total), windows=near),
    KStream[str, tuple[str, int]],
)
assert_type(
    words.left_join(orders, lambda word, order: (order and order.user) or word, windows=near),
    KStream[str, str],
)
assert_type(
    words.outer_join(orders, lambda word, order: word or order, windows=near),
    KStream[str, str | Order | None],
)
assert_type(
    words.join_with_key(orders, lambda key, word, order: key + word + order.user, windows=near),
    KStream[str, str],
)
assert_type(words.join(prices, lambda word, price: price * 2), KStream[str, int])
assert_type(words.left_join(prices, lambda word, price: price), KStream[str, int | None])
rates = builder.global_table("rates", key=int, value=float)
assert_type(
    words.join(rates, lambda word, rate: rate, foreign_key_with_key=lambda _key, word: len(word)),
    KStream[str, float],
)
assert_type(
    words.left_join(
        rates, lambda word, rate: rate, foreign_key_with_key=lambda _key, word: len(word)
    ),
    KStream[str, float | None],
)
assert_type(
    words.left_join(rates, lambda word, rate: rate, foreign_key=len),
    KStream[str, float | None],
)

# Windows: keys are windowed, sessions need a merger to aggregate, time windows may have one.
hours = TimeWindows(size=timedelta(hours=1), grace=timedelta(0))
sessions = SessionWindows(inactivity_gap=timedelta(hours=1), grace=timedelta(0))
by_hour = words.group_by_key().windowed_by(hours)
by_session = words.group_by_key().windowed_by(sessions)
assert_type(by_hour, TimeWindowedKStream[str, str])
assert_type(by_session, SessionWindowedKStream[str, str])
assert_type(by_hour.emit_strategy(EmitStrategy.on_window_close()), TimeWindowedKStream[str, str])
assert_type(by_hour.count(), KTable[Windowed[str], int])
assert_type(by_session.reduce(str.__add__), KTable[Windowed[str], str])


def lengths(_key: str, word: str, total: int) -> int:
    return total + len(word)


def joined(_key: str, left: int, right: int) -> int:
    return left + right


assert_type(by_hour.aggregate(int, lengths), KTable[Windowed[str], int])
assert_type(by_hour.aggregate(int, lengths, merger=joined), KTable[Windowed[str], int])
assert_type(by_session.aggregate(int, lengths, joined), KTable[Windowed[str], int])
assert_type(by_hour.count().to_stream(lambda window, _n: window.key), KStream[str, int])

# Stores: a supplier says which one; a driver gives the handle for its kind.
recent = Materialized[str, int](supplier=Stores.lru_map("recent", 100))
hour = timedelta(hours=1)
assert_type(words.group_by_key().count(materialized=recent), KTable[str, int])
assert_type(builder.table("t", key=str, value=int, materialized=recent), KTable[str, int])
visits = Stores.persistent_session_store("s", hour)
assert_type(Stores.session_store_builder(visits, key=str, value=int), StoreBuilder)


def look(windows: WindowStore[str, int], versions: VersionedKeyValueStore[str, int]) -> None:
    assert_type(windows.fetch("a", 0), int | None)
    assert_type(windows.fetch("a", 0, None), Iterator[tuple[int, int]])
    assert_type(windows.get("a", 0, 0), int)
    assert_type(windows["a", 0], int)
    assert_type(next(windows.all()), tuple[Windowed[str], int])
    assert_type(versions.get("a", as_of=5), VersionedRecord[int] | None)
    assert_type(versions["a"].value, int)


# Timers: what one makes has its key, and its kind of record.
class Fixed(FixedKeyProcessor[str, int, str]):
    def on_timer(
        self, timer: FixedKeyTimer[str], context: FixedKeyProcessorContext[str, str]
    ) -> None:
        assert_type(timer.key, str)
        context.forward(timer.with_value("late"))


class Free(Processor[str, int, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        schedule = context.schedule(hour, PunctuationType.STREAM_TIME, print)
        assert_type(schedule, Cancellable)

    def on_timer(self, timer: Timer[str], context: ProcessorContext[str, str]) -> None:
        assert_type(timer.with_value(1), Record[str, int])
        context.forward(timer.with_value("late"))


# Inside another program: a listener needs only the method it wants.
class Watches(Listener):
    def on_event(self, event: Event) -> None:
        if isinstance(event, EpochDone):
            assert_type(event.lag, int)
        elif isinstance(event, StateChanged):
            assert_type(event.state, AppState)


shop = App("shop", {"emit": "every"})
shop.add_listener(Watches())
assert_type(shop.wait_until_caught_up(timedelta(minutes=1)), bool)
assert_type(shop.topics.reads, tuple[str, ...])
assert_type(shop.topics.dead_letters, str | None)

# Stores from outside: the class of the handle says the types of keys and values.
counted = shop.store("counts", ReadOnlyKeyValueStore[str, int])
assert_type(counted["pen"], int)
assert_type(counted.get("pen"), int | None)
per_hour = shop.store("per-hour", ReadOnlyWindowStore[str, int], min_epoch=3)
assert_type(per_hour.get("pen", 0), int | None)
with shop.snapshot() as seen:
    assert_type(
        seen.store("counts", ReadOnlyKeyValueStore[str, int]).get_many(["a"]), list[int | None]
    )
