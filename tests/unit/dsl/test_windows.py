"""Windows as they are written: what is refused, and what a topology says of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import (
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.errors import (
    BadOptionError,
    DuplicateNameError,
    FunctionError,
    InitializerError,
    MissingSerdeError,
    RetentionError,
)
from mustela.errors import UsageError
from mustela.model import TIME_MAX
from mustela.plan.partitions import partition_of
from mustela.planner.explain import explain
from mustela.planner.planner import plan
from mustela.streams import SessionWindowedKStream, TimeWindowedKStream
from mustela.topology.sink import SinkNode
from mustela.topology.window_aggregate import WindowAggregateNode
from mustela.windows import EmitStrategy, SessionWindowedSerde, UnlimitedWindows, WindowedSerde
from tests.unit.kernel.stages import batch, runner

NONE, SECOND = timedelta(0), timedelta(seconds=1)
HERE = "test_windows.py"


def grouped() -> Any:
    return StreamsBuilder().stream("in", key=str, value=str).group_by_key()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TimeWindows(size=NONE, grace=NONE), "size"),
        (lambda: TimeWindows(size=-SECOND, grace=NONE), "size"),
        (lambda: TimeWindows(size=SECOND, advance=NONE, grace=NONE), "advance"),
        (lambda: TimeWindows(size=SECOND, advance=2 * SECOND, grace=NONE), "advance"),
        (lambda: TimeWindows(size=SECOND, grace=-SECOND), "grace"),
        (lambda: TimeWindows(size=5, grace=NONE), "size"),  # type: ignore[arg-type]
        (lambda: TimeWindows(size=timedelta(microseconds=1), grace=NONE), "size"),
        (lambda: SlidingWindows(time_difference=-SECOND, grace=NONE), "time_difference"),
        (lambda: SlidingWindows(time_difference=SECOND, grace=-SECOND), "grace"),
        (lambda: SessionWindows(inactivity_gap=NONE, grace=NONE), "inactivity_gap"),
        (lambda: SessionWindows(inactivity_gap=SECOND, grace=-SECOND), "grace"),
        (lambda: UnlimitedWindows(start=datetime(2026, 1, 1)), "start"),  # noqa: DTZ001
        (lambda: UnlimitedWindows(start=datetime(1969, 1, 1, tzinfo=UTC)), "start"),
    ],
)
def test_windows_that_cannot_be_are_refused(make: Callable[[], Any], said: str) -> None:
    """With the option, the user's line and a fix."""
    with pytest.raises(BadOptionError) as found:
        make()
    assert found.value.fields["option"] == said
    assert found.value.at is not None
    assert found.value.at.file.endswith(HERE)
    assert found.value.fix


def test_the_grace_is_always_said() -> None:
    """It decides what is lost, so there is no default."""
    for make in (
        lambda: TimeWindows(size=SECOND),  # type: ignore[call-arg]
        lambda: SlidingWindows(time_difference=SECOND),  # type: ignore[call-arg]
        lambda: SessionWindows(inactivity_gap=SECOND),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="grace"):
            make()


@pytest.mark.parametrize(
    ("windows", "needed"),
    [
        (TimeWindows(size=SECOND, grace=SECOND), 2_000),
        (SlidingWindows(time_difference=SECOND, grace=SECOND), 3_000),
        (SessionWindows(inactivity_gap=SECOND, grace=SECOND), 2_000),
    ],
)
def test_a_store_keeps_windows_as_long_as_they_take_records(windows: Any, needed: int) -> None:
    """A shorter retention is refused when the topology is written; the needed one is not."""
    short = Materialized[Any, Any](retention=timedelta(milliseconds=needed - 1))
    with pytest.raises(RetentionError) as found:
        grouped().windowed_by(windows).count(materialized=short)
    assert found.value.fields["needed_ms"] == needed
    assert found.value.at is not None
    assert found.value.at.file.endswith(HERE)
    enough = Materialized[Any, Any](retention=timedelta(milliseconds=needed))
    grouped().windowed_by(windows).count(materialized=enough)


def test_a_retention_needs_a_window_that_ends() -> None:
    """Unlimited windows are kept for ever."""
    for_a_day = Materialized[Any, Any](retention=timedelta(days=1))
    with pytest.raises(RetentionError):
        grouped().windowed_by(UnlimitedWindows()).count(materialized=for_a_day)


def test_windows_without_end_cannot_be_told_when_they_close() -> None:
    """Kafka Streams refuses it too."""
    with pytest.raises(BadOptionError):
        grouped().windowed_by(UnlimitedWindows()).emit_strategy(EmitStrategy.on_window_close())


@pytest.mark.parametrize("wrong", [None, timedelta(1), "5m", EmitStrategy.on_window_close()])
def test_windowed_by_takes_windows(wrong: Any) -> None:
    """And emit_strategy a strategy."""
    with pytest.raises(BadOptionError):
        grouped().windowed_by(wrong)
    for strategy in ("close", None, UnlimitedWindows()):
        with pytest.raises(BadOptionError):
            grouped().windowed_by(UnlimitedWindows()).emit_strategy(strategy)


def test_functions_are_checked_when_the_topology_is_written() -> None:
    """As in plain aggregations, and the merger of sessions too."""
    windows = grouped().windowed_by(TimeWindows(size=SECOND, grace=NONE))
    sessions = grouped().windowed_by(SessionWindows(inactivity_gap=SECOND, grace=NONE))
    with pytest.raises(InitializerError):
        windows.aggregate([], lambda k, v, t: t)
    with pytest.raises(FunctionError):
        windows.aggregate(list, lambda v, t: t)
    with pytest.raises(FunctionError):
        windows.reduce(lambda v: v)
    with pytest.raises(FunctionError):
        sessions.aggregate(list, lambda k, v, t: t, lambda a, b: a)
    with pytest.raises(TypeError, match="merger"):
        sessions.aggregate(list, lambda k, v, t: t)


def test_names_come_from_the_place() -> None:
    """Of the grouping, the windows and the verb; two of a kind need names."""
    builder = StreamsBuilder()
    windows = TimeWindows(size=SECOND, grace=NONE)
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    assert isinstance(windowed, TimeWindowedKStream)
    assert windowed.count().name == "in.windowed_by.count"
    assert windowed.count(store="more").name == "in.windowed_by.count.more"
    with pytest.raises(DuplicateNameError):
        windowed.count(name="in.windowed_by.count")
    named = windowed.count(name="named")
    assert named.queryable_store_name == "named"


def test_a_topology_says_everything_of_its_windows() -> None:
    """The store's kind and retention, the serde of the keys, when changes go on."""
    windows = SessionWindows(inactivity_gap=SECOND, grace=SECOND)
    builder = StreamsBuilder()
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    assert isinstance(windowed, SessionWindowedKStream)
    final = windowed.emit_strategy(EmitStrategy.on_window_close())
    final.count(name="counts").to_stream().to("out")
    built = builder.build()
    node, sink = built["counts"], built["counts.to_stream.to.out"]
    assert isinstance(node, WindowAggregateNode)
    assert isinstance(sink, SinkNode)
    assert (node.store.kind, node.store.retention_ms) == ("session", 2_000)
    assert node.emit == "close"
    assert sink.key == SessionWindowedSerde(str)


def test_a_sink_writes_windowed_keys_unless_their_keys_have_no_serde() -> None:
    """Nothing is written in a format that nobody declared."""
    builder = StreamsBuilder()
    by_value = builder.stream("in", key=str, value=str).group_by(lambda _k, v: v)
    counts = by_value.windowed_by(TimeWindows(size=SECOND, grace=NONE)).count(name="counts")
    with pytest.raises(MissingSerdeError):
        counts.to_stream().to("out")
    counts.to_stream(name="named").to("out", key=WindowedSerde(str, window_size=SECOND))
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "b", timestamp=1_500)
        rows = driver.create_output_topic("out").read_key_values_to_list()
        assert [(key.key, key.start, key.end, count) for key, count in rows] == [
            ("b", 1_000, 2_000, 1)
        ]


def test_windowed_keys_go_to_the_partition_of_the_key_inside() -> None:
    """So that all windows of a key are in one partition, as Kafka Streams has it."""
    serde = WindowedSerde(str, window_size=SECOND)
    sink = SinkNode(name="sink", parents=("in",), topic="out", key=serde, value=None)
    keys: list[Any] = [serde.deserialize(b"k%d" % n + bytes(8)) for n in range(20)]
    stage = runner(sink, topic_partitions={"out": 7})
    stage.run({"in": batch([(key, b"v") for key in keys])})
    rows = stage.take_output().rows[0]
    assert rows.partitions == [partition_of(b"k%d" % n, 7) for n in range(20)]
    assert len(set(rows.partitions or ())) > 3


def test_errors_are_errors_of_usage() -> None:
    """All of the above are found before anything runs."""
    assert issubclass(RetentionError, UsageError)


def test_a_plan_tells_its_windows() -> None:
    """In words, for whoever reads `mustela explain`."""
    second, none = timedelta(seconds=1), timedelta(0)
    told: dict[Any, str] = {
        TimeWindows(size=second, grace=none): "windows of 1000 ms, grace 0 ms",
        TimeWindows(size=second, advance=second / 4, grace=second): (
            "windows of 1000 ms every 250 ms, grace 1000 ms"
        ),
        SlidingWindows(time_difference=second, grace=none): "sliding windows of 1000 ms",
        SessionWindows(inactivity_gap=second, grace=none): "sessions with pauses up to 1000 ms",
        UnlimitedWindows(): "one window from 0 ms on",
    }
    for windows, words in told.items():
        builder = StreamsBuilder()
        windowed: Any = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
        windowed.count(name="counts")
        assert f"window aggregate counts <- in=>1: count, {words}" in explain(plan(builder.build()))
    builder = StreamsBuilder()
    hours = (
        builder.stream("in", key=str)
        .group_by_key()
        .windowed_by(TimeWindows(size=second, grace=none))
    )
    hours.emit_strategy(EmitStrategy.on_window_close()).count(name="counts")
    assert "sent when closed" in explain(plan(builder.build()))


def test_the_windows_of_a_moment() -> None:
    """Those that the aggregation puts a record of that moment into."""
    hops = TimeWindows(size=timedelta(seconds=2), advance=timedelta(seconds=1), grace=timedelta(0))
    assert hops.windows_for(0) == [(0, 2_000)]
    assert hops.windows_for(1_999) == [(0, 2_000), (1_000, 3_000)]
    later = UnlimitedWindows(start=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert later.windows_for(999) == []
    assert later.windows_for(1_000) == [(1_000, TIME_MAX)]
    assert JoinWindows(
        before=timedelta(seconds=-1), after=timedelta(seconds=5), grace=timedelta(0)
    ).size == timedelta(seconds=4)


class Daily(TimeWindows):
    """Windows that begin at six in the morning, it was thought."""

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        """Return one window of a day."""
        start = timestamp - (timestamp - 6 * 3_600_000) % 86_400_000
        return [(start, start + 86_400_000)]


class Pauses(SessionWindows):
    """Sessions have nothing of that name, so nobody would notice."""

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        """Return a session of one record."""
        return [(timestamp, timestamp)]


class Near(JoinWindows):
    """As above."""

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        """Return nothing."""
        return []


class Minutes(TimeWindows):
    """Says more, and changes nothing."""

    def minutes(self) -> float:
        """Return the size."""
        return self.size / timedelta(minutes=1)


def test_windows_that_choose_by_themselves_are_refused() -> None:
    """Nothing would call their windows_for; other classes made of windows are welcome."""
    daily = Daily(size=timedelta(days=1), grace=NONE)
    cogrouped = grouped().cogroup(lambda _key, value, total: total + value)
    other = StreamsBuilder().stream("other", key=str, value=str)
    near = Near(before=SECOND, after=SECOND, grace=NONE)
    for line in (
        lambda: grouped().windowed_by(daily),
        lambda: cogrouped.windowed_by(daily),
        lambda: grouped().windowed_by(Pauses(inactivity_gap=SECOND, grace=NONE)),
        lambda: other.join(other, str.__add__, windows=near),
    ):
        with pytest.raises(BadOptionError, match="its own windows_for") as raised:
            line()
        assert raised.value.at is not None
        assert HERE in raised.value.at.file
    minutes: Any = grouped().windowed_by(Minutes(size=SECOND, grace=NONE))
    assert minutes.count(store="c") is not None


def test_a_window_may_be_a_part_of_the_key() -> None:
    """Which is what the refusal of windows that choose by themselves advises."""

    def day_of(visit: int) -> int:
        return (visit - 6) // 24

    builder = StreamsBuilder()
    hours = builder.stream("hours", key=str, value=int)
    days = hours.group_by(lambda key, value: f"{key}@{day_of(value)}", key=str)
    days.count(store="visits").to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        for hour in (5, 6, 29, 30):
            driver.create_input_topic("hours").pipe_input("a", hour)
        told = driver.create_output_topic("out").read_key_values_to_list()
    assert told == [("a@-1", 1), ("a@0", 1), ("a@0", 2), ("a@1", 1)]
