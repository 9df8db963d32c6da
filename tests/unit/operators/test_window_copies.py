"""Joins of windowed tables forget the windows that can change no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import (
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.windows import BufferConfig
from tests.epochs import ms

SIZE, GRACE = 10, 5
# Each example runs two applications.
EXAMPLES = max(10, (settings.default or settings()).max_examples // 3)


def topology(windows: Any, *, held: bool = False) -> StreamsBuilder:
    builder = StreamsBuilder()
    counts: list[Any] = []
    for topic in ("a", "b"):
        grouped = builder.stream(topic, key=str, value=str).group_by_key()
        counts.append(grouped.windowed_by(windows).count(store=f"counts-{topic}"))
    left, right = counts
    if held:
        left = left.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    both = left.outer_join(right, lambda one, other: f"{one}-{other}", name="both")
    both.to_stream(lambda window, _value: f"{window.key}@{window.start}").to(
        "out", key=str, value=str
    )
    return builder


def stream_topology(windows: Any, *, left_grace: int = GRACE) -> StreamsBuilder:
    """Join each change of one windowed count with the row of another one."""
    builder = StreamsBuilder()
    own = windows if left_grace == GRACE else TimeWindows(size=ms(SIZE), grace=ms(left_grace))
    counts: list[Any] = []
    for topic, windowed in (("a", own), ("b", windows)):
        grouped = builder.stream(topic, key=str, value=str).group_by_key()
        counts.append(grouped.windowed_by(windowed).count(store=f"counts-{topic}"))
    changes = counts[0].to_stream()
    both = changes.left_join(counts[1], lambda one, other: f"{one}-{other}", name="both")
    both.select_key(lambda window, _value: f"{window.key}@{window.start}").to(
        "out", key=str, value=str
    )
    return builder


def copied(driver: TopologyTestDriver) -> int:
    """Return how many rows the copies hold."""
    cluster = driver._cluster
    total = 0
    for index, stage in enumerate(cluster.plan.stages):
        for spec in stage.stores:
            if spec.name.startswith("both") and spec.kind == "window":
                snapshot = cluster.environment((index, 0)).snapshot(cluster.committed((index, 0)))
                total += sum(key[0] >= 0x40 for key, _ in snapshot.range(spec.name, None, None))
                snapshot.close()
    return total


@pytest.mark.parametrize("build", [topology, stream_topology])
@pytest.mark.parametrize("event_time", ["stream-time", "watermark"])
@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows(size=ms(SIZE), grace=ms(GRACE)),
        SessionWindows(inactivity_gap=ms(SIZE), grace=ms(GRACE)),
    ],
    ids=["time", "session"],
)
def test_copies_of_windows_do_not_grow(
    windows: Any, event_time: str, build: Callable[[Any], StreamsBuilder]
) -> None:
    """However many windows there were, only those that may still change are kept."""
    with TopologyTestDriver(build(windows), settings={"event_time": event_time}) as driver:
        sides = [driver.create_input_topic(topic) for topic in ("b", "a")]
        for number in range(60):
            for side in sides:
                side.pipe_input("k", "x", timestamp=number * 40)
        assert 1 <= copied(driver) <= 6
        out = driver.create_output_topic("out", key=str, value=str).read_key_values_to_list()
        assert out.count(("k@2360", "1-1")) == 1


records = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("kl"), st.integers(0, 200)), max_size=25
)


@given(records, st.booleans())
def test_what_is_forgotten_is_never_missed(records: list[tuple[str, str, int]], held: bool) -> None:
    """The results are those of a join that keeps all, also where state is restored each time."""
    found: list[list[Any]] = []
    for keeps_all in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if keeps_all:
                patch.setattr("mustela.dsl.table_joins.tables_kept_ms", lambda *_tables: None)
            builder = topology(TimeWindows(size=ms(SIZE), grace=ms(GRACE)), held=held)
        with TopologyTestDriver(
            builder,
            settings={"event_time": "watermark"},
            crash_after_every_record=not keeps_all,
        ) as driver:
            topics = {name: driver.create_input_topic(name) for name in "ab"}
            for topic, key, time in records:
                topics[topic].pipe_input(key, "x", timestamp=time)
            out = driver.create_output_topic("out", key=str, value=str)
            found.append(out.read_records_to_list())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("windows", "sent", "told"),
    [
        (
            TimeWindows(size=ms(SIZE), grace=ms(GRACE)),
            "a3 a19 b5 a20 b6",
            "k@0=1-None k@10=1-None k@0=1-1 k@20=1-None k@0=None-2",
        ),
        (
            TimeWindows(size=ms(SIZE), grace=ms(GRACE)),
            "a3 b5 b100 a6 a14 a7",
            "k@0=1-None k@0=1-1 k@100=None-1 k@0=2-None k@10=1-None k@0=3-None",
        ),
        (
            SlidingWindows(time_difference=ms(SIZE), grace=ms(GRACE)),
            "a3 a19 b5 a20 b6",
            "k@0=1-None k@9=1-None k@0=1-1 k@20=1-None k@10=2-None k@6=None-1 k@0=1-2",
        ),
        (
            SessionWindows(inactivity_gap=ms(SIZE), grace=ms(GRACE)),
            "a3 b3 a17 b4 a18 b2",
            "k@3=1-None k@3=1-1 k@17=1-None k@3=1-None k@3=None-2 k@17=None k@17=2-None "
            "k@3=None k@2=None-3",
        ),
    ],
)
@pytest.mark.parametrize("crashes", [False, True])
def test_by_stream_time_a_side_forgets_as_its_own_table_does(
    windows: Any, sent: str, told: str, crashes: bool
) -> None:
    """Kafka Streams asks the table's store: until a window begins later by its retention."""
    builder, settings = topology(windows), {"event_time": "stream-time", "emit": "every"}
    with TopologyTestDriver(builder, settings=settings, crash_after_every_record=crashes) as driver:
        topics = {topic: driver.create_input_topic(topic) for topic in "ab"}
        for record in sent.split():
            topics[record[0]].pipe_input("k", "x", timestamp=int(record[1:]))
        out = driver.create_output_topic("out", key=str, value=str).read_key_values_to_list()
    assert [key if value is None else f"{key}={value}" for key, value in out] == [
        row.removesuffix("=None") for row in told.split()
    ]


def of_streams(
    found: list[tuple[str, str, int]], event_time: str, *, at_once: bool, **options: Any
) -> list[Any]:
    """Return what a stream with a long grace finds in windows with a short one."""
    builder = stream_topology(TimeWindows(size=ms(SIZE), grace=ms(GRACE)), left_grace=1000)
    settings = {"event_time": event_time, "emit": "every"}
    with TopologyTestDriver(builder, settings=settings, **options) as driver:
        topics = {name: driver.create_input_topic(name) for name in "ab"}
        if at_once:
            with driver.epoch():
                for topic, key, time in found:
                    topics[topic].pipe_input(key, "x", timestamp=time)
        else:
            for topic, key, time in found:
                topics[topic].pipe_input(key, "x", timestamp=time)
        out = driver.create_output_topic("out", key=str, value=str)
        return sorted(out.read_key_values_to_list())


def told(found: list[tuple[str, str, int]], kept_ms: int) -> list[tuple[str, str]]:
    """Return the same by stream time, in plain Python."""
    counts: dict[tuple[str, str, int], int] = {}
    now, newest = {"a": -1, "b": -1}, {"a": -1, "b": -1}
    rows: list[tuple[str, str]] = []
    for topic, key, time in found:
        now[topic] = max(now[topic], time)
        start = time - time % SIZE
        if start + SIZE + (1000 if topic == "a" else GRACE) <= now[topic]:
            continue
        newest[topic] = max(newest[topic], start)
        counts[topic, key, start] = counts.get((topic, key, start), 0) + 1
        if topic == "a":
            other = counts.get(("b", key, start)) if start > newest["b"] - kept_ms else None
            rows.append((f"{key}@{start}", f"{counts['a', key, start]}-{other}"))
    return sorted(rows)


@settings(max_examples=EXAMPLES)
@given(
    records,
    st.sampled_from(["stream-time", "watermark"]),
    st.lists(st.tuples(st.just("a"), st.sampled_from("kl"), st.integers(0, 100)), max_size=4),
)
def test_a_stream_finds_windows_as_long_as_their_table_keeps_them(
    found: list[tuple[str, str, int]], event_time: str, late: list[tuple[str, str, int]]
) -> None:
    """However the records are cut into epochs, and if the program crashes behind each of them."""
    found.sort(key=lambda record: (record[2], record[0]))
    newest = max((time for _, _, time in found), default=0) + 1
    found = [*found, ("a", "k", newest), *late]  # piped in the order in which an epoch merges them
    whole = of_streams(found, event_time, at_once=True)
    parts = of_streams(found, event_time, at_once=False, crash_after_every_record=True)
    assert whole == parts
    if event_time == "stream-time":
        assert parts == told(found, SIZE + GRACE)
