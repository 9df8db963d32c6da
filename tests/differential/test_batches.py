"""A batch writes what the stream writes, whatever the topology."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, seed, settings, strategies as st

from mustela import App, BatchInput
from mustela.runtime.batch import BatchRequest, BatchResult
from mustela.spark.arrow import arrow as pa
from mustela.spark.batch.run import run_batch
from tests.differential.campaign import ANY_HEALTH
from tests.differential.draw import OPERATORS, STATELESS, Example, Input, examples
from tests.differential.sides import SETTINGS, Row, of_mustela
from tests.differential.steps import build
from tests.inline_engine import InlineEngine

SEED = int(os.environ.get("MUSTELA_DIFFERENTIAL_SEED", "1"))
EXAMPLES = int(os.environ.get("MUSTELA_BATCH_EXAMPLES", "2"))

pytestmark = pytest.mark.slow


def in_order(plan: Any, inputs: Sequence[Input]) -> list[Input]:
    """Return inputs as a stream takes them: smallest timestamp first, topics in their order."""
    topics = {topic: index for index, topic in enumerate(plan.topics)}
    latest: dict[str, int] = defaultdict(lambda: -1)
    placed: list[tuple[tuple[int, int, int], Input]] = []
    for number, one in enumerate(inputs):
        if one.topic in topics:
            latest[one.topic] = max(latest[one.topic], one.timestamp)
            place = latest[one.topic], topics[one.topic], number
        else:
            place = -1, -1, number  # a global table is there from the start
        placed.append((place, one))
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]


def table_of(inputs: Sequence[Input]) -> Any:
    headers = [
        [{"key": n, "value": None if v is None else v.encode()} for n, v in given.headers]
        for given in inputs
    ]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.table(
        {
            "key": pa.array([given.key for given in inputs], pa.string()),
            "value": pa.array([given.value for given in inputs], pa.string()),
            "timestamp": pa.array([given.timestamp for given in inputs], pa.int64()),
            "headers": pa.array(headers, kind),
            "offset": pa.array(range(len(inputs)), pa.int64()),
        }
    )


def of_batch(example: Example, inputs: Sequence[Input], records: int) -> list[list[Row]]:
    """Return what a batch in one key group writes to each sink, as the test driver has one."""
    app = App("batches", {**SETTINGS, "key_groups": 1})
    app.topology(lambda _builder: build(example.steps))
    plan = app.built_plan()
    topics = [*plan.topics, *(table.topic for table in plan.global_tables)]
    data = {
        topic: BatchInput(data=table_of([given for given in inputs if given.topic == topic]))
        for topic in topics
    }
    request = BatchRequest(settings=app.settings, plan=plan, inputs=data, epoch_records=records)
    engine = InlineEngine()
    try:
        with run_batch(request, engine, lambda: None) as result:
            sinks = [step["topic"] for step in example.steps if step["op"] == "to"]
            return [rows_of(result, topic) for topic in sinks]
    finally:
        engine.close()


def rows_of(result: BatchResult, topic: str) -> list[Row]:
    rows = []
    for row in result.to_arrow(topic).to_pylist():
        headers = tuple(
            (h["key"], None if h["value"] is None else h["value"].decode())
            for h in row["headers"] or ()
        )
        time = round(row["timestamp"].timestamp() * 1000)
        rows.append(Row(row["key"], row["value"], time, headers))
    return rows


def by_key(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.key].append(row)
    return dict(found)


@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() | STATELESS.keys()))
def test_a_batch_writes_what_the_stream_writes(operator: str) -> None:
    """Every row, in the order of its key, wherever epochs are cut."""

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=ANY_HEALTH,
    )
    @given(example=examples((operator,)), records=st.sampled_from([1, 3, 100]))
    def same(example: Example, records: int) -> None:
        app = App("batches", SETTINGS)
        app.topology(lambda _builder: build(example.steps))
        inputs = in_order(app.built_plan(), example.inputs)
        example = replace(example, inputs=tuple(inputs))
        alone = of_mustela(example)
        if len(alone) < len(inputs):
            return  # a full buffer stops the application
        # An epoch sends what no step brings together topic by topic, in a stream as well.
        together = operator in OPERATORS or len({one.topic for one in inputs}) < 2
        for sink, got in enumerate(of_batch(example, inputs, records)):
            wanted = [row for rows in alone for row in rows[sink]]
            if together:
                assert by_key(got) == by_key(wanted)
            else:
                assert Counter(got) == Counter(wanted)

    same()
