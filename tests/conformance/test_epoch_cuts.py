"""Where epochs are cut changes no result: over every operator, in both time modes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mustela import TopologyTestDriver
from tests.differential.draw import OPERATORS, Example, Input, examples
from tests.differential.steps import build

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


def merged(example: Example) -> list[Timed]:
    """Return the records in the order in which an epoch that holds them all looks at them.

    At the end comes a record of each topic that is much later, so that every window closes.
    """
    newest: dict[str, int] = {}
    records: list[Timed] = []
    end = FLUSH_AFTER_MS + max((record.timestamp for record in example.inputs), default=0)
    topics = sorted({step["topic"] for step in example.steps if step["op"] in SOURCES})
    for record in [*example.inputs, *(Input(topic, "z", "9", end) for topic in topics)]:
        newest[record.topic] = max(newest.get(record.topic, 0), record.timestamp)
        records.append(Timed(newest[record.topic], record))
    return sorted(records, key=lambda timed: (timed.order, timed.record.topic))


def run(
    example: Example, records: Sequence[Timed], cuts: Sequence[int], **values: str
) -> list[list[tuple[Any, Any, int]]]:
    """Return the rows of each sink, the records cut into epochs at these times."""
    with TopologyTestDriver(
        build(example.steps), settings=values, initial_wall_clock=0, key_groups=1
    ) as driver:
        sinks = [
            driver.create_output_topic(step["topic"])
            for step in example.steps
            if step["op"] == "to"
        ]
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


def by_key(rows: Sequence[tuple[Any, Any, int]]) -> dict[Any, list[tuple[Any, int]]]:
    found: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
    for key, value, time in rows:
        found[key].append((value, time))
    return found


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
    example = data.draw(examples((operator,)))
    if emit == "barrier":
        example = invertible(example)
    records = merged(example)
    options = {"event_time": event_time, "emit": emit}
    times = emit == "every" or operator not in UNSURE_TIMES
    each_moment = run(example, records, [timed.order for timed in records], **options)
    for chosen in ([], cuts):
        got = run(example, records, chosen, **options)
        for wanted, rows in zip(each_moment, got, strict=True):
            if OPERATORS[operator].output == "stream":
                assert Counter(rows) == Counter(wanted), f"cut at {chosen}"
            else:
                assert table(rows, times=times) == table(wanted, times=times), f"cut at {chosen}"


def invertible(example: Example) -> Example:
    """Return the example with counts where a fold shows each value that was taken out again."""
    steps = [
        {**step, "kind": "count"} if step["op"] == "table_aggregate" else step
        for step in example.steps
    ]
    return replace(example, steps=tuple(steps))
