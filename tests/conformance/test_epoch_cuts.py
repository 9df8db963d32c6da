"""Where epochs are cut changes no result: over every operator, in both time modes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from mustela import TopologyTestDriver
from tests.differential.draw import OPERATORS, Example, Input, examples
from tests.differential.steps import Step, build
from tests.epochs import by_key

# There are many operators: a tenth of the examples each.
EXAMPLES_PER_OPERATOR = max(3, (settings.default or settings()).max_examples // 10)
FLUSH_AFTER_MS = 100_000
# Global tables are read to their end before each epoch, in Kafka Streams too: what a record finds
# there depends on when it comes.
NOT_TIMED = {"global_inner", "global_left"}
# With one change a key and epoch, what a buffer lets go early depends on how many changes it sees.
BY_CHANGES = {"suppress_time"}
# A group has the largest time of the changes that it was told of, a joined row that of the last.
# With one change a key and epoch some are not told, such as a row that came and went, as with the
# record cache of Kafka Streams: the values are sure then, their times are not.
UNSURE_TIMES = {"table_aggregate", "table_join_left", "table_join_outer", "fk_inner", "fk_left"}


SOURCES = {"stream", "table", "global_table"}


class Timed(NamedTuple):
    """A record and its order time: the largest time of its topic so far."""

    order: int
    record: Input


def merged(steps: Sequence[Step], inputs: Sequence[Input]) -> list[Timed]:
    """Return the records in the order in which an epoch that holds them all looks at them.

    At the end comes a record of each topic that is much later, so that every window closes.
    """
    newest: dict[str, int] = {}
    records: list[Timed] = []
    end = FLUSH_AFTER_MS + max((record.timestamp for record in inputs), default=0)
    topics = sorted({step["topic"] for step in steps if step["op"] in SOURCES})
    for record in [*inputs, *(Input(topic, "z", "9", end) for topic in topics)]:
        newest[record.topic] = max(newest.get(record.topic, 0), record.timestamp)
        records.append(Timed(newest[record.topic], record))
    return sorted(records, key=lambda timed: (timed.order, timed.record.topic))


def run(
    steps: Sequence[Step], records: Sequence[Timed], cuts: Sequence[int], **values: str
) -> list[list[tuple[Any, Any, int]]]:
    """Return the rows of each sink, the records cut into epochs at these times."""
    with TopologyTestDriver(
        build(steps), settings=values, initial_wall_clock=0, key_groups=1
    ) as driver:
        sinks = [driver.create_output_topic(step["topic"]) for step in steps if step["op"] == "to"]
        last = records[-1].order + 1
        start = 0
        for end in [*sorted(set(cuts)), last]:
            with driver.epoch(until=end):
                for order, record in records:
                    if start <= order < end:
                        topic = driver.create_input_topic(record.topic)
                        topic.pipe_input(record.key, record.value, timestamp=record.timestamp)
            start = end
        return [
            [(row.key, row.value, row.timestamp) for row in sink.read_records_to_list()]
            for sink in sinks
        ]


def table(
    rows: Sequence[tuple[Any, Any, int]], *, times: bool = True
) -> dict[Any, tuple[Any, int | None]]:
    """Return what the rows leave: the last value of each key that has one, with its time if asked.

    A group that was emptied again counts as none, and so does what a function makes of a deletion:
    an epoch that holds its whole life, and tells one change of each key, never sees it.
    """
    last = {key: changes[-1] for key, changes in by_key(rows).items()}
    return {
        key: (value, time if times else None)
        for key, (value, time) in last.items()
        if value not in {None, "0", "nil"}
    }


@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() - NOT_TIMED))
@settings(
    max_examples=EXAMPLES_PER_OPERATOR, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), cuts=st.lists(st.integers(1, 80), max_size=12))
def test_results_do_not_depend_on_where_epochs_are_cut(
    operator: str, data: st.DataObject, cuts: list[int]
) -> None:
    """An epoch for each moment, all records in one, and between: late records included."""
    event_time = data.draw(st.sampled_from(["stream-time", "watermark"]))
    emit = "every" if operator in BY_CHANGES else data.draw(st.sampled_from(["every", "barrier"]))
    example = never_full(data.draw(examples((operator,))))
    if emit == "barrier":
        example = invertible(example)
    records = merged(example.steps, example.inputs)
    options = {"event_time": event_time, "emit": emit}
    times = emit == "every" or operator not in UNSURE_TIMES
    each_moment = run(example.steps, records, [timed.order for timed in records], **options)
    for chosen in ([], cuts):
        got = run(example.steps, records, chosen, **options)
        for wanted, rows in zip(each_moment, got, strict=True):
            if OPERATORS[operator].output == "stream":
                assert Counter(rows) == Counter(wanted), f"cut at {chosen}"
            else:
                assert table(rows, times=times) == table(wanted, times=times), f"cut at {chosen}"


def never_full(example: Example) -> Example:
    """Return the example without bounds at which a buffer stops the application."""
    bounds = {"max_records", "max_bytes"}
    steps = [
        {name: value for name, value in step.items() if name not in bounds or "when_full" in step}
        for step in example.steps
    ]
    return replace(example, steps=tuple(steps))


def invertible(example: Example) -> Example:
    """Return the example with counts where a fold shows each value that was taken out again."""
    steps = [
        {**step, "kind": "count"} if step["op"] == "table_aggregate" else step
        for step in example.steps
    ]
    return replace(example, steps=tuple(steps))


# --- what no single operator shows: what is made of tables of windows and of versions -------------

HOPPING = {"type": "time", "size": 10, "advance": 5, "grace": 3}
TUMBLING = {"type": "time", "size": 10, "advance": 10, "grace": 0}
SESSION = {"type": "session", "gap": 4, "grace": 3}
SLIDING = {"type": "sliding", "diff": 4, "grace": 3}


def step(name: str, op: str, *inputs: str, **options: Any) -> Step:
    return {"id": name, "op": op, **({"in": list(inputs)} if inputs else {}), **options}


def folded(name: str, stream: str, window: Step, emit: str = "update") -> Step:
    return step(name, "aggregate", stream, kind="aggregate", f="concat", window=window, emit=emit)


def streams(count: int) -> list[Step]:
    return [step(f"t{n}", "stream", topic=f"t{n}") for n in range(count)]


def told(sink: int, table: str, *, windowed: bool = True) -> list[Step]:
    """Write a table to a topic; windowed keys as text."""
    shown = ("to_stream_key", {"f": "same"}) if windowed else ("to_stream", {})
    return [
        step(f"shown{sink}", shown[0], table, **shown[1]),
        step(f"out{sink}", "to", f"shown{sink}", topic=f"o{sink}"),
    ]


def of_windows(window: Step, emit: str = "update") -> list[Step]:
    """Join, filter, map, and group anew two tables of windows."""
    return [
        *streams(2),
        folded("left", "t0", window, emit),
        folded("right", "t1", window, emit),
        step("inner", "table_join", "left", "right", how="inner"),
        step("outer", "table_join", "left", "right", how="outer", store=True),
        step("odd", "table_filter_not", "outer", f="even"),
        step("marked", "table_map_values_with_key", "odd", f="with_key"),
        step("groups", "table_aggregate", "left", kind="count", f="by_value", g="concat"),
        *told(0, "inner"),
        *told(1, "outer"),
        *told(2, "marked"),
        *told(3, "groups", windowed=False),
    ]


def of_versions() -> list[Step]:
    """Filter, transform, group and join a versioned table."""
    return [
        step("rows", "table", topic="t0", versioned=12),
        step("t1", "stream", topic="t1"),
        step("other", "table", topic="t2", store=True),
        step("some", "table_filter", "rows", f="even"),
        step("shown", "transform_values", "some", f="drop_2"),
        step("groups", "table_aggregate", "shown", kind="count", f="same_value", g="concat"),
        step("left", "table_join", "shown", "other", how="left"),
        step("foreign", "fk_join", "rows", "other", how="left", f="always"),
        step("joined", "stream_table_join", "t1", "shown", how="left"),
        step("waiting", "stream_table_join", "t1", "rows", how="inner", grace=3),
        *told(0, "groups", windowed=False),
        *told(1, "left", windowed=False),
        *told(2, "foreign", windowed=False),
        step("out3", "to", "joined", topic="o3"),
        step("out4", "to", "waiting", topic="o4"),
    ]


def suppressed(window: Step, *, cogroups: bool) -> list[Step]:
    """Hold windows back until they close and for a time, of one stream or of two."""
    table = (
        step("table", "cogroup", "t0", "t1", f="concat", window=window)
        if cogroups
        else folded("table", "t0", window)
    )
    return [
        *streams(2),
        table,
        step("last", "suppress_window", "table"),
        step("marked", "table_map_values_with_key", "table", f="with_key"),
        step("rare", "suppress_time", "marked", limit=3),
        *told(0, "table"),
        *told(1, "last"),
        *told(2, "rare"),
    ]


COMPOSED = {
    "joined_hopping": of_windows(HOPPING),
    "joined_tumbling_final": of_windows(TUMBLING, "close"),
    "joined_sessions": of_windows(SESSION),
    "joined_sliding": of_windows(SLIDING),
    "versions": of_versions(),
    "suppressed_hopping": suppressed(HOPPING, cogroups=False),
    "suppressed_sessions": suppressed(SESSION, cogroups=False),
    "suppressed_cogroup_tumbling": suppressed(TUMBLING, cogroups=True),
    "suppressed_cogroup_sliding": suppressed(SLIDING, cogroups=True),
    "suppressed_cogroup_sessions": suppressed(SESSION, cogroups=True),
}
AHEAD = [("t0", 0), ("t1", 0), ("t0", 12), ("t0", 24)]
"""One topic so far ahead that a window of it is forgotten when the other topic's closes."""

STREAMS = {"joined", "waiting"}
"""What is no table: all its rows count."""


@st.composite
def inputs(draw: st.DrawFn) -> list[Input]:
    """Draw records of three topics; some come late."""
    found: list[Input] = []
    now = draw(st.sampled_from([0, 40]))
    for _ in range(draw(st.integers(1, 20))):
        now = max(0, now + draw(st.sampled_from([0, 1, 1, 2, 3, 5, 12, 30, -1, -3, -8, -20])))
        topic = draw(st.sampled_from(["t0", "t0", "t1", "t2"]))
        key = draw(st.sampled_from(["a", "b", "a1", None]))
        found.append(Input(topic, key, draw(st.sampled_from(["a", "b1", "12", "a2", None])), now))
    return found


@pytest.mark.parametrize("name", sorted(COMPOSED))
@settings(
    max_examples=EXAMPLES_PER_OPERATOR, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    drawn=inputs(),
    cuts=st.lists(st.integers(1, 80), max_size=12),
    event_time=st.sampled_from(["stream-time", "watermark"]),
    emit=st.sampled_from(["every", "barrier"]),
)
@example(
    drawn=[Input(topic, "a", "a", time) for topic, time in AHEAD],
    cuts=[],
    event_time="stream-time",
    emit="every",
)
def test_tables_of_windows_and_versions_do_not_depend_on_where_epochs_are_cut(
    name: str, drawn: list[Input], cuts: list[int], event_time: str, emit: str
) -> None:
    """Nor what is made of them: joins, groups, and what is held back until it is final."""
    steps = COMPOSED[name]
    sources = {each["topic"] for each in steps if each["op"] in SOURCES}
    records = merged(steps, [record for record in drawn if record.topic in sources])
    options = {"event_time": event_time, "emit": emit}
    each_moment = run(steps, records, [timed.order for timed in records], **options)
    sinks = [each["in"][0] for each in steps if each["op"] == "to"]
    for chosen in ([], cuts):
        got = run(steps, records, chosen, **options)
        for sink, wanted, rows in zip(sinks, each_moment, got, strict=True):
            if sink in STREAMS:
                assert Counter(rows) == Counter(wanted), f"{sink}, cut at {chosen}"
            else:
                times = emit == "every"
                assert table(rows, times=times) == table(wanted, times=times), (
                    f"{sink}, cut at {chosen}"
                )
