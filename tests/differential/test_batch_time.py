"""By the watermark a batch gives the same wherever epochs are cut, and what the stream gives."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import (
    App,
    BatchInput,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.processors import ContextualProcessor
from mustela.spark import files
from mustela.spark.arrow import arrow as pa
from mustela.spark.batch import segments
from mustela.windows import EmitStrategy
from tests.batches import batched

pytestmark = pytest.mark.slow

Sent = tuple[str, str, str, int]
"""Topic, key, value, timestamp."""
TOPICS = ("left", "right", "table")
SETTINGS = {"emit": "every", "event_time": "watermark", "key_groups": 2}
SINKS = [
    *("out-tumbling", "out-hopping", "out-sliding", "out-session"),
    *("out-pairs", "out-looked", "out-timers"),
]
FAR = 100_000
EXAMPLES = int(os.environ.get("MUSTELA_BATCH_EXAMPLES", "6"))


def ms(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


class Reminder(ContextualProcessor[str, str, str, str]):
    """Speaks up ten milliseconds after each record."""

    def process(self, record: Any) -> None:
        at = record.timestamp + 10
        self.context.register_event_time_timer(at, name=str(at))

    def on_timer(self, timer: Any, context: Any) -> None:
        context.forward(timer.with_value(timer.name))


def build(builder: StreamsBuilder) -> None:
    left = builder.stream("left", key=str, value=str)
    right = builder.stream("right", key=str, value=str)
    table = builder.table("table", key=str, value=str, store="table")
    grouped = left.group_by_key()
    shapes = {
        "tumbling": TimeWindows(size=ms(10), grace=ms(3)),
        "hopping": TimeWindows(size=ms(10), advance=ms(5), grace=ms(0)),
        "sliding": SlidingWindows(time_difference=ms(6), grace=ms(2)),
        "session": SessionWindows(inactivity_gap=ms(4), grace=ms(1)),
    }
    for name, windows in shapes.items():
        counted = grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close())
        final = counted.count(store=name).to_stream(lambda w, _n: f"{w.key}{w.start}")
        final.to(f"out-{name}", key=str, value=int)
    within = JoinWindows(before=ms(5), after=ms(5), grace=ms(2))
    pairs = left.left_join(right, lambda x, y: f"{x}{y}", within, value=str, name="pairs")
    pairs.to("out-pairs", key=str, value=str)
    looked = left.left_join(table, lambda x, y: f"{x}{y}", value=str)
    looked.to("out-looked", key=str, value=str)
    left.process(Reminder, name="reminder").to("out-timers", key=str, value=str)


@st.composite
def sent(draw: st.DrawFn) -> list[Sent]:
    """Draw records; some are late."""
    one = st.tuples(
        st.sampled_from(TOPICS), st.sampled_from("abc"), st.sampled_from("123"), st.integers(0, 60)
    )
    ahead = sorted(draw(st.lists(one, min_size=12, max_size=24)), key=lambda record: record[3])
    late = draw(st.sets(st.integers(0, 23), min_size=2, max_size=6))
    return [
        (topic, key, value, max(0, time - 15)) if n in late else (topic, key, value, time)
        for n, (topic, key, value, time) in enumerate(ahead)
    ]


def app_of() -> App:
    app = App("batch-time", SETTINGS)
    app.topology(build)
    return app


def of_batch(records: Sequence[Sent], at_once: int) -> dict[str, Counter[Any]]:
    inputs = {
        topic: BatchInput(data=_table([record for record in records if record[0] == topic]))
        for topic in TOPICS
    }
    with batched(app_of(), inputs, epoch_records=at_once, flush=True) as result:
        return {
            topic: Counter((row["key"], row["value"]) for row in result.to_arrow(topic).to_pylist())
            for topic in result
        }


def _table(records: Sequence[Sent]) -> Any:
    return pa.table(
        {
            "key": pa.array([key for _, key, _, _ in records], pa.string()),
            "value": pa.array([value for _, _, value, _ in records], pa.string()),
            "timestamp": pa.array([time for *_, time in records], pa.int64()),
            "offset": pa.array(range(len(records)), pa.int64()),
        }
    )


def of_driver(records: Sequence[Sent]) -> dict[str, Counter[Any]]:
    """Return what an application writes that catches up, one moment after the other."""
    app = app_of()
    topics = {topic: index for index, topic in enumerate(app.built_plan().topics)}
    latest: dict[str, int] = dict.fromkeys(TOPICS, -1)
    placed: list[tuple[int, int, int, Sent]] = []
    for number, record in enumerate(records):
        latest[record[0]] = max(latest[record[0]], record[3])
        placed.append((latest[record[0]], topics[record[0]], number, record))
    placed.sort(key=lambda place: place[:3])
    with TopologyTestDriver(app, initial_wall_clock=0) as driver:
        for moment in sorted({place[0] for place in placed}):
            with driver.epoch(until=moment + 1):
                for time, _, _, (topic, key, value, timestamp) in placed:
                    if time == moment:
                        driver.create_input_topic(topic).pipe_input(key, value, timestamp=timestamp)
        driver.advance_watermark(FAR)
        return {
            topic: Counter(driver.create_output_topic(topic).read_key_values_to_list())
            for topic in SINKS
        }


@settings(max_examples=EXAMPLES)
@given(records=sent())
def test_a_batch_is_the_stream_that_catches_up(records: list[Sent]) -> None:
    """Windows of every kind, joins, timers; late records are left out in both."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (files, segments):
            patch.setattr(module, "BATCH_ROWS", 2)
        whole = of_batch(records, 1_000)
        assert of_batch(records, 3) == whole
    assert whole == of_driver(records)


def test_the_records_of_a_batch_reach_every_sink() -> None:
    """Else the test above would say nothing of some."""
    records = [(topic, "a", "1", time) for time in range(0, 60, 5) for topic in TOPICS]
    assert [topic for topic, rows in of_batch(records, 10).items() if not rows] == []
