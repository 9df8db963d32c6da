"""What a dead letter of a record that came too late for its window holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mustela import (
    Consumed,
    Processor,
    ProcessorContext,
    Record,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.planner.planner import plan
from mustela.windows import LatePolicy
from tests.epochs import ms

LATE = Consumed[str, int](late=LatePolicy.DEAD_LETTER)
TEN = TimeWindows(size=ms(10), grace=ms(0))
TWICE = TimeWindows(size=ms(10), advance=ms(5), grace=ms(0))
NEAR = SlidingWindows(time_difference=ms(10), grace=ms(0))
VISITS = SessionWindows(inactivity_gap=ms(3), grace=ms(0))


def cogrouped(stream: Any) -> None:
    def add(_key: str, value: int, total: int) -> int:
        return total + value

    more = stream.filter(lambda _key, value: value > 100, name="large").group_by_key()
    both = stream.group_by_key().cogroup(add).cogroup(more, add)
    both.windowed_by(TEN).aggregate(int, value=int, store="both")


FOLDS: dict[str, Callable[[Any], Any]] = {
    "re-keyed": lambda s: s.group_by(lambda _k, v: f"{v}", key=str).windowed_by(TEN).count(),
    "mapped": lambda s: s.map_values(lambda v: {"v": v}).group_by_key().windowed_by(TEN).count(),
    "hopping": lambda s: s.group_by_key().windowed_by(TWICE).count(),
    "reduced": lambda s: s.group_by_key().windowed_by(TEN).reduce(int.__add__, associative=True),
    "folded": lambda s: (
        s.group_by_key()
        .windowed_by(TEN)
        .aggregate(int, lambda _k, v, total: total + v, merger=lambda _k, a, b: a + b)
    ),
    "sliding": lambda s: s.group_by_key().windowed_by(NEAR).reduce(int.__add__),
    "session": lambda s: s.group_by_key().windowed_by(VISITS).count(),
    "cogrouped": cogrouped,
}


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
@pytest.mark.parametrize("fold", FOLDS)
def test_it_is_the_record_as_it_was_read(fold: str, event_time: str, lanes: int) -> None:
    """However it was re-keyed and mapped before its window, so that it can be sent again."""
    builder = StreamsBuilder()
    FOLDS[fold](builder.stream("one", key=str, value=int, consumed=LATE))
    settings = {"event_time": event_time, "dead_letter_topic": "late"}
    way = {"settings": settings, "lanes": lanes, "key_groups": 4 if lanes > 1 else 1}
    with TopologyTestDriver(builder, **way) as driver:  # pyright: ignore[reportArgumentType]
        topic = driver.create_input_topic("one", key=str, value=int)
        for time in (5, 90, 6):
            topic.pipe_input("a", 5, timestamp=time)
        (letter,) = driver.create_output_topic("late", key=str, value=int).read_records_to_list()
    assert (letter.key, letter.value, letter.timestamp) == ("a", 5, 6)
    headers = dict(letter.headers)
    assert "mustela.error.value" not in headers
    place = [headers[f"mustela.error.{part}"] for part in ("topic", "partition", "offset")]
    assert place == [b"one", b"0", b"2"]


class Doubles(Processor[str, int, str, int]):
    def init(self, context: ProcessorContext[str, int]) -> None:
        self.forward = context.forward

    def process(self, record: Record[str, int]) -> None:
        self.forward(record.with_value(2 * record.value))


def test_of_a_record_that_a_processor_made_it_has_the_value() -> None:
    """As it reached the step; headers say so, and which record it comes from."""
    builder = StreamsBuilder()
    doubled = builder.stream("one", key=str, value=int, consumed=LATE).process(Doubles, name="two")
    doubled.group_by_key(key=str, value=int).windowed_by(TEN).reduce(int.__add__, store="sums")
    with TopologyTestDriver(builder, settings={"dead_letter_topic": "late"}) as driver:
        for time in (5, 90, 6):
            driver.create_input_topic("one").pipe_input("a", 1, timestamp=time)
        (letter,) = driver.create_output_topic("late", key=str, value=int).read_records_to_list()
    assert (letter.key, letter.value) == ("a", 2)
    headers = dict(letter.headers)
    assert headers["mustela.error.value"] == b"as it reached the step"
    assert headers["mustela.error.offset"] == b"2"


def test_what_was_read_travels_only_where_a_late_record_needs_it() -> None:
    """It would double what other exchanges carry."""
    builder = StreamsBuilder()
    for name, consumed in (("one", LATE), ("two", Consumed[str, int]())):
        numbers = builder.stream(name, key=str, value=int, consumed=consumed)
        numbers.group_by_key().count(store=f"count-{name}")
    plain = plan(builder.build())
    assert not any(exchange.raw for stage in plain.stages for exchange in stage.exchanges)
