# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
# mypy: ignore-errors
"""Calls that must not type-check. Each comment is a test: it fails the day its call is accepted."""

from __future__ import annotations

from datetime import timedelta

from mustela.api.context import ProcessorContext
from mustela.api.join_windows import JoinWindows
from mustela.api.options import (
    AutoOffsetReset,
    Consumed,
    Grouped,
    Materialized,
    Printed,
    Produced,
)
from mustela.api.processor import Processor
from mustela.api.timers import PunctuationType, Timer
from mustela.api.windows import SessionWindows, TimeWindows
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.app import App
from mustela.serdes.primitives import IntSerde
from mustela.state.kinds.key_value import KeyValueStore
from mustela.state.kinds.read_only import ReadOnlyKeyValueStore

builder = StreamsBuilder()
words = builder.stream("words", key=str, value=str)
lengths = words.map_values(len)
counts = words.group_by_key().count()


def two(key: str, value: str) -> str:
    return key + value


# A serde of another type than the stream's.
lengths.to("out", value=str)  # pyright: ignore[reportArgumentType]
lengths.to("out", key=IntSerde())  # pyright: ignore[reportArgumentType]
lengths.to("out", produced=Produced(value=str))  # pyright: ignore[reportArgumentType]
words.group_by_key(key=int)  # pyright: ignore[reportArgumentType]
words.group_by_key(grouped=Grouped(key=int))  # pyright: ignore[reportArgumentType]
words.group_by_key().reduce(max, value=int)  # pyright: ignore[reportArgumentType]
words.group_by_key().count(materialized=Materialized(value=str))  # pyright: ignore[reportArgumentType]

# A function of another arity or type.
words.map_values(two)  # pyright: ignore[reportArgumentType]
words.map_values_with_key(len)  # pyright: ignore[reportArgumentType]
words.filter(lambda word: word)  # pyright: ignore
words.distinct()  # pyright: ignore[reportCallIssue]
words.distinct(within=60)  # pyright: ignore[reportArgumentType]
words.distinct(within=timedelta(1), key=len)  # pyright: ignore[reportArgumentType]
lengths.map_values(str.upper)  # pyright: ignore[reportArgumentType]
words.map(two)  # pyright: ignore[reportArgumentType]
lengths.flat_map_values(abs)  # pyright: ignore
words.group_by_key().reduce(len)  # pyright: ignore
words.to(two)  # pyright: ignore[reportArgumentType]
counts.filter(two)  # pyright: ignore[reportArgumentType]

# An initializer that is a value, and folds that do not fit.
words.group_by_key().aggregate([], lambda _key, word, seen: [*seen, word])  # pyright: ignore
words.group_by_key().aggregate(int, two)  # pyright: ignore

# Options of another step, options by position, unknown options.
builder.stream("x", consumed=Produced(key=str))  # pyright: ignore
builder.stream("x", consumed=Consumed(auto_offset_reset="earlyest"))  # pyright: ignore
builder.stream("x", str, str)  # pyright: ignore
builder.stream("x", keys=str)  # pyright: ignore
words.map_values(len, "length")  # pyright: ignore[reportCallIssue]
words.to("out", key=str, topic="out")  # pyright: ignore[reportCallIssue]

# Branches, travel by key, tables made of streams.
words.split().branch(lambda word: word)  # pyright: ignore
words.split().branch(two, function=len)  # pyright: ignore
words.split().map_values(len)  # pyright: ignore
words.repartition(key=int)  # pyright: ignore[reportArgumentType]
words.repartition(partitioner=lambda key: 0)  # pyright: ignore
words.to("out", partitioner=lambda _topic, _key, _value, _count: "0")  # pyright: ignore
words.to_table(value=int)  # pyright: ignore[reportArgumentType]
words.print("out.txt")  # pyright: ignore[reportArgumentType]
words.print(Printed(mapper=len))  # pyright: ignore
words.merge("words")  # pyright: ignore
Consumed(timestamp_extractor=lambda record: 0)  # pyright: ignore
AutoOffsetReset.by_duration(3600)  # pyright: ignore[reportArgumentType]

# What a handle cannot do.
words.count()  # pyright: ignore
counts.map(two)  # pyright: ignore
counts.to("out")  # pyright: ignore
words.foreach(print).to("out")  # pyright: ignore

# Joins: a stream needs windows, a table takes none, a global table needs a foreign key; keys of
# one type; a joiner that takes what it gets.
near = JoinWindows.of_time_difference(timedelta(seconds=1), grace=timedelta(0))
numbered = builder.stream("numbered", key=int, value=str)
everywhere = builder.global_table("everywhere", key=str, value=str)
words.join(words, str.__add__)  # pyright: ignore
words.join(numbered, str.__add__, windows=near)  # pyright: ignore
words.join(words, len, windows=near)  # pyright: ignore
words.join(counts, lambda word, count: word * count, windows=near)  # pyright: ignore
words.left_join(counts, lambda word, count: word * count)  # pyright: ignore
words.join(everywhere, str.__add__)  # pyright: ignore
words.outer_join(counts, lambda word, count: (word, count))  # pyright: ignore
JoinWindows(before=timedelta(0), after=timedelta(0))  # pyright: ignore[reportCallIssue]
JoinWindows.of_time_difference(timedelta(0))  # pyright: ignore[reportCallIssue]

# Windows: grace is always said; sessions cannot be aggregated without a merger.
TimeWindows(size=timedelta(hours=1))  # pyright: ignore[reportCallIssue]
SessionWindows(inactivity_gap=timedelta(hours=1))  # pyright: ignore[reportCallIssue]
sessions = SessionWindows(inactivity_gap=timedelta(hours=1), grace=timedelta(0))
by_session = words.group_by_key().windowed_by(sessions)
by_session.aggregate(lambda: 0, lambda key, value, total: total)  # pyright: ignore
words.group_by_key().windowed_by(timedelta(hours=1))  # pyright: ignore
by_session.emit_strategy("close")  # pyright: ignore[reportArgumentType]


# Timers: what is forwarded is what the processor says it gives; an interval is a timedelta.
class Free(Processor[str, int, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        context.schedule(10, PunctuationType.STREAM_TIME, print)  # pyright: ignore[reportArgumentType]

    def on_timer(self, timer: Timer[str], context: ProcessorContext[str, str]) -> None:
        context.forward(timer.with_value(1))  # pyright: ignore[reportArgumentType]


# Scheduled sources: records are pairs, and serdes are those of what the function gives.
builder.scheduled("beat", lambda tick: [tick.number], every=timedelta(hours=1))  # pyright: ignore
builder.scheduled("beat", lambda tick: [("a", 1)], every=60)  # pyright: ignore[reportArgumentType]
builder.scheduled("b", lambda tick: [], every=timedelta(hours=1), catch_up="some")  # pyright: ignore

# A listener has both methods, or derives from the class that has them.
App("shop").add_listener(object())  # pyright: ignore

# A handle with types knows its keys and methods; a store of a step is no handle.
counted = App("shop").store("counts", ReadOnlyKeyValueStore[str, int])
counted.get(1)  # pyright: ignore
counted.fetch("a", 0)  # pyright: ignore
App("shop").store("counts", KeyValueStore[str, int])  # pyright: ignore
