"""Small topologies that tests of several rooms plan, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

from mustela.dsl.builder import StreamsBuilder
from mustela.dsl.grouped import KGroupedStream
from mustela.dsl.kstream import KStream
from mustela.dsl.ktable import KTable
from mustela.topology.graph import TopologyGraph

VERBS = (
    *("map", "map_values", "map_values_with_key", "flat_map", "flat_map_values", "filter"),
    *("filter_not", "select_key", "peek", "foreach", "merge", "to", "to_extractor"),
    *("count", "count_by", "reduce", "reduce_by", "combined_reduce", "aggregate", "merged"),
    *("table_filter", "stored_filter", "table_filter_not", "table_map_values", "stored_map"),
    *("to_stream", "to_stream_by", "stream", "table", "stored_table"),
    *("to_stream", "reduce", "count", "select_key", "merge"),
)

Handle = TypeVar("Handle")

Choice = tuple[str, int, int, int]
"""A verb, which stream it follows, which one it merges with, which key serde a grouping takes."""


def choices() -> st.SearchStrategy[list[Choice]]:
    """Draw the calls of a random program."""
    small = st.integers(0, 50)
    return st.lists(st.tuples(st.sampled_from(VERBS), small, small, small), min_size=5, max_size=30)


def two(key: Any, value: Any) -> Any:
    return key, value


def three(first: Any, second: Any, third: Any) -> Any:
    return "topic"


def recent(handles: list[Handle], number: int) -> Handle:
    """Choose one of the last handles mostly: long chains are where plans go wrong."""
    return handles[-1 - number % min(len(handles), 2 if number < 40 else len(handles))]


def write(program: list[Choice]) -> TopologyGraph:
    """Write a random program; every step is named after its number, every store too."""
    builder = StreamsBuilder()
    streams: list[KStream[Any, Any]] = [builder.stream("source", key=str, value=str)]
    tables: list[KTable[Any, Any]] = [builder.table("table-source", key=str, value=str)]
    for number, (verb, left, right, serde) in enumerate(program):
        stream, other = recent(streams, left), streams[right % len(streams)]
        table = recent(tables, left)
        made = _call(builder, verb, number, stream, other, table, (None, str, int)[serde % 3])
        if isinstance(made, KStream):
            streams.append(made)
        elif isinstance(made, KTable):
            tables.append(made)
    return builder.build()


def _call(
    builder: StreamsBuilder,
    verb: str,
    number: int,
    stream: KStream[Any, Any],
    other: KStream[Any, Any],
    table: KTable[Any, Any],
    serde: Any,
) -> object:
    name = f"s{number}"
    one_value: dict[str, Callable[..., Any]] = {
        "map_values": stream.map_values,
        "flat_map_values": stream.flat_map_values,
        "table_map_values": table.map_values,
    }
    pair: dict[str, Callable[..., Any]] = {
        **{v: getattr(stream, v) for v in ("map", "map_values_with_key", "flat_map", "filter")},
        **{v: getattr(stream, v) for v in ("filter_not", "select_key", "peek", "foreach")},
        "table_filter": table.filter,
        "table_filter_not": table.filter_not,
        "to_stream_by": table.to_stream,
    }
    same_key = stream.group_by_key

    def by_new_key() -> KGroupedStream[Any, Any]:
        return stream.group_by(two, key=serde, name=f"{name}-by")

    calls: dict[str, Callable[[], object]] = {
        "merge": lambda: stream.merge(other, name=name),
        "to": lambda: stream.to("out", key=str, value=str, name=name),
        "to_extractor": lambda: stream.to(three, key=str, value=str, name=name),
        "count": lambda: same_key(key=serde).count(name=name),
        "count_by": lambda: by_new_key().count(store=name),
        "reduce": lambda: same_key(key=serde).reduce(two, name=name),
        "reduce_by": lambda: by_new_key().reduce(two, store=name),
        "combined_reduce": lambda: same_key(key=serde).reduce(two, associative=True, name=name),
        "aggregate": lambda: same_key(key=serde).aggregate(list, three, name=name),
        "merged": lambda: same_key(key=serde).aggregate(list, three, merger=three, name=name),
        "stored_filter": lambda: table.filter(two, store=name, name=name),
        "stored_map": lambda: table.map_values(len, store=name, name=name),
        "to_stream": lambda: table.to_stream(name=name),
        "stream": lambda: builder.stream(f"topic{number}", key=str, value=str),
        "table": lambda: builder.table(f"topic{number}", key=str, value=str),
        "stored_table": lambda: builder.table(f"topic{number}", key=str, value=str, store=name),
    }
    if verb in one_value:
        return one_value[verb](len, name=name)
    if verb in pair:
        return pair[verb](two, name=name)
    return calls[verb]()
