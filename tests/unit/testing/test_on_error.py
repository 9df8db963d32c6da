"""Each verb with a function of the user's takes ``on_error=``, and its step asks that handler."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    DataError,
    JoinWindows,
    Printed,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    UsageError,
)
from mustela.handlers import CONTINUE, ErrorContext
from mustela.processors import ValueTransformerWithKey

BAD = "bad"
Build = Callable[[StreamsBuilder, dict[str, Any]], object]

_NEAR = JoinWindows.of_time_difference(timedelta(seconds=1), grace=timedelta(0))
_WINDOWS = TimeWindows(size=timedelta(seconds=1), grace=timedelta(0))
_GAP = SessionWindows(inactivity_gap=timedelta(seconds=1), grace=timedelta(0))


def picky(*arguments: Any) -> Any:
    """Any of the functions: it gives its last argument, but refuses one value."""
    if BAD in arguments:
        msg = "it is bad"
        raise ValueError(msg)
    return arguments[-1]


def one(a: Any) -> Any:
    return picky(a)


def two(a: Any, b: Any) -> Any:
    return picky(a, b)


def three(a: Any, b: Any, c: Any) -> Any:
    return picky(a, b, c)


def pair(_key: Any, value: Any) -> Any:
    return picky(value), value


def folded(_key: Any, value: Any, aggregate: Any) -> Any:
    return [*aggregate, picky(value)]


def kept(_key: Any, _value: Any, aggregate: Any) -> Any:
    return aggregate


def same(_key: Any, aggregate: Any, _other: Any) -> Any:
    return aggregate


class Picky(ValueTransformerWithKey[Any, Any, Any]):
    """A transformer that refuses the same value."""

    def transform(self, read_only_key: Any, value: Any) -> Any:
        return picky(read_only_key, value)


def stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=str)


def table(builder: StreamsBuilder) -> Any:
    return builder.table("in", key=str, value=str, store="in-store")


def joined_streams(verb: str, joiner: Any) -> Build:
    def build(builder: StreamsBuilder, options: dict[str, Any]) -> object:
        other = builder.stream("other", key=str, value=str)
        return getattr(stream(builder), verb)(other, joiner, windows=_NEAR, **options)

    return build


def joined_table(verb: str, joiner: Any) -> Build:
    def build(builder: StreamsBuilder, options: dict[str, Any]) -> object:
        other = builder.table("other", key=str, value=str)
        return getattr(stream(builder), verb)(other, joiner, **options)

    return build


def joined_global(key: Any) -> Build:
    def build(builder: StreamsBuilder, options: dict[str, Any]) -> object:
        other = builder.global_table("other", key=str, value=str)
        return stream(builder).join(other, two, foreign_key=key, **options)

    return build


def joined_tables(verb: str, **more: Any) -> Build:
    def build(builder: StreamsBuilder, options: dict[str, Any]) -> object:
        other = builder.table("other", key=str, value=str)
        return getattr(table(builder), verb)(other, two, **more, **options)

    return build


def of_table(verb: str, function: Any) -> Build:
    return lambda builder, options: getattr(table(builder), verb)(function, **options)


def regrouped(builder: StreamsBuilder) -> Any:
    return table(builder).group_by(lambda key, value: (key, value), key=str, value=str)


def accounts() -> Any:
    return Stores.key_value_store_builder(
        Stores.persistent_key_value_store("accounts"), key=str, value=str
    )


def grouped(builder: StreamsBuilder) -> Any:
    return stream(builder).group_by_key().cogroup(folded)


VERBS: dict[str, Build] = {
    **{verb: joined_streams(verb, two) for verb in ("join", "left_join", "outer_join")},
    **{
        f"{verb}_with_key": joined_streams(f"{verb}_with_key", three)
        for verb in ("join", "left_join", "outer_join")
    },
    "join of a table": joined_table("join", two),
    "left_join of a table": joined_table("left_join_with_key", three),
    "join of a global table": joined_global(lambda _value: "k"),
    "join of a global table, its key": joined_global(one),
    **{f"tables: {v}": joined_tables(v) for v in ("join", "left_join", "outer_join")},
    "tables: by foreign key": joined_tables("join", foreign_key=lambda _value: "k"),
    "tables: the foreign key": joined_tables("left_join", foreign_key=one),
    "split": lambda b, o: stream(b).split(**o).branch(two, name="one").default_branch(),
    "group_by": lambda b, o: stream(b).group_by(two, **o).count(store="counts"),
    "distinct": lambda b, o: stream(b).distinct(within=timedelta(seconds=1), key=two, **o),
    "print": lambda b, o: stream(b).print(Printed.to_sys_out().with_key_value_mapper(two), **o),
    "repartition": lambda b, o: stream(b).repartition(
        partitioner=lambda _topic, _key, value, _count: {0} if one(value) else None, **o
    ),
    "filter of a table": of_table("filter", two),
    "filter_not of a table": of_table("filter_not", two),
    "map_values of a table": of_table("map_values", one),
    "map_values_with_key of a table": of_table("map_values_with_key", two),
    "transform_values": of_table("transform_values", two),
    "transform_values by a class": of_table("transform_values", Picky),
    "to_stream": of_table("to_stream", two),
    "group_by of a table": lambda b, o: (
        table(b).group_by(pair, key=str, value=str, **o).count(store="counts")
    ),
    "reduce of a grouped table": lambda b, o: regrouped(b).reduce(two, two, **o),
    "aggregate of a grouped table": lambda b, o: regrouped(b).aggregate(list, folded, kept, **o),
    "transact": lambda b, o: stream(b).transact(
        keys=lambda key, _value: [key], fn=three, stores=accounts(), **o
    ),
    "transact, its keys": lambda b, o: stream(b).transact(
        keys=lambda _key, value: [one(value)], fn=same, stores=accounts(), **o
    ),
    "cogroup": lambda b, o: grouped(b).aggregate(list, **o),
    "cogroup in windows": lambda b, o: grouped(b).windowed_by(_WINDOWS).aggregate(list, **o),
    "cogroup in sessions": lambda b, o: grouped(b).windowed_by(_GAP).aggregate(list, same, **o),
}


def topics_of(builder: StreamsBuilder) -> set[str]:
    """Return the topics that a topology reads."""
    nodes: list[Any] = [*builder.build()]
    return {getattr(node, "topic", "") for node in nodes} | {
        topic for node in nodes for topic in getattr(node, "topics", ())
    }


def run(build: Build, **options: Any) -> tuple[dict[str, int], list[Any]]:
    """Feed a step a good, a bad and a good record; return the counts, and the dead letters."""
    builder = StreamsBuilder()
    build(builder, {"name": "step", **options})
    with TopologyTestDriver(builder, settings={"naming.strict": False}) as driver:
        if "other" in topics_of(builder):
            driver.create_input_topic("other").pipe_input("k", "other", timestamp=0)
        topic = driver.create_input_topic("in")
        for at, value in enumerate(["good", BAD, "fine"]):
            topic.pipe_input("k", value, timestamp=at)
        counts = {
            name.partition(":")[0]: count
            for name, count in driver.metrics.items()
            if name.partition(":")[2].startswith("step")
        }
        letters: list[Any] = []
        if "test-dead-letters" in driver.produced_topic_names:
            letters = driver.create_output_topic("test-dead-letters").read_records_to_list()
    return counts, letters


@pytest.mark.parametrize("build", VERBS.values(), ids=VERBS.keys())
def test_a_step_asks_its_own_handler(build: Build) -> None:
    """The application's would stop it; the dead letter is the record as it was read."""
    with pytest.raises(DataError, match="it is bad"):
        run(build)
    counts, letters = run(build, on_error="continue")
    assert counts["failed_records"] >= 1
    assert letters == []
    seen: list[ErrorContext] = []

    def ask(error: Exception, _record: Any, context: ErrorContext) -> Any:
        assert isinstance(error, ValueError)
        seen.append(context)
        return CONTINUE if len(seen) > 1 else "dead_letter"

    counts, letters = run(build, on_error=ask)
    assert counts["dead_letters"] == len(letters) == 1
    assert seen[0].step.startswith("step")
    assert seen[0].kind == "processing"


@pytest.mark.parametrize("build", VERBS.values(), ids=VERBS.keys())
def test_what_is_no_handler_is_refused_when_the_step_is_made(build: Build) -> None:
    """With the line of the step."""
    with pytest.raises(UsageError, match="on_error"):
        run(build, on_error="later")
