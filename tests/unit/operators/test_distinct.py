"""Records that come again within a span of time are left out: against a model, and in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from mustela import Consumed, KStream, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadCallError, BadOptionError, FunctionError
from mustela.kernel.core.failures import ProcessingError
from mustela.plan.keygroups import key_group
from mustela.planner.planner import plan
from mustela.serdes.values import ValueSerde
from mustela.topology.graph import TopologyGraph
from mustela.topology.meaning_changes import compare_meanings
from mustela.topology.store_meaning import StoreMeaning
from mustela.windows import LatePolicy
from tests.epochs import cut, ms, pipe_in_epochs

WALL_CLOCK = 60_000


class Sent(NamedTuple):
    key: str | None
    value: int | None
    timestamp: int


def by_value(_key: str | None, value: int | None) -> int | None:
    return value


@dataclass
class Model:
    """What goes on, in plain Python, record by record; nothing is ever forgotten by it.

    Attributes:
        within: As in the program.
        grace: Likewise.
        group_of: Which keys share stream time.
        leaders: When the records of each key went on.
        now: Event time of each group of keys.
    """

    within: int
    grace: int
    group_of: Callable[[Any], int]
    leaders: dict[Any, list[int]] = field(default_factory=lambda: defaultdict(list))
    now: dict[int, int] = field(default_factory=dict[int, int])

    def goes(self, key: Any, timestamp: int) -> bool:
        group = self.group_of(key)
        now = self.now[group] = max(self.now.get(group, -1), timestamp)
        remembered = [one for one in self.leaders[key] if one >= now - self.within - self.grace]
        if any(abs(timestamp - one) <= self.within for one in remembered):
            return False
        self.leaders[key].append(timestamp)
        return True


def topology(within: int, grace: int, *, chosen: bool) -> TopologyGraph:
    builder = StreamsBuilder()
    stream: KStream[str | None, int | None] = builder.stream("in", key=str, value=int)
    key = by_value if chosen else None
    once = stream.distinct(within=ms(within), grace=ms(grace), key=key, store="seen")
    once.to("out")
    once.group_by_key().count(store="counts").to_stream().to("counts")
    return builder.build()


def run(
    built: TopologyGraph, records: Sequence[Sent], sizes: Sequence[int], **options: Any
) -> tuple[list[Sent], dict[str, int]]:
    """Run records in epochs; return what went on, and how often each key did."""
    with TopologyTestDriver(built, initial_wall_clock=WALL_CLOCK, **options) as driver:
        pipe_in_epochs(driver, cut(records, sizes), topic="in")
        found = driver.create_output_topic("out").read_records_to_list()
        counts = driver.create_output_topic("counts").read_key_values_to_map()
        return [Sent(one.key, one.value, one.timestamp) for one in found], counts


RECORDS = st.lists(
    st.builds(
        Sent,
        st.sampled_from(["a", "a", "b", "c", None]),
        st.sampled_from([1, 2, None]),
        st.integers(0, 40),
    ),
    max_size=30,
)
LANES = [{}, {"key_groups": 8, "lanes": 3, "crash_after_every_record": True}]


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
@given(
    records=RECORDS,
    sizes=st.lists(st.integers(1, 8), max_size=8),
    within=st.integers(1, 12),
    grace=st.sampled_from([0, 3, 15]),
    lanes=st.sampled_from(LANES),
)
def test_what_goes_on_is_the_models_however_epochs_are_cut(
    *,
    chosen: bool,
    event_time: str,
    records: list[Sent],
    sizes: list[int],
    within: int,
    grace: int,
    lanes: dict[str, Any],
) -> None:
    """Late records included, crashes too, by the records' keys and by what a function chooses."""
    settings = {"event_time": event_time}
    got, counts = run(
        topology(within, grace, chosen=chosen), records, sizes, settings=settings, **lanes
    )

    def group_of(key: Any) -> int:
        stored = ValueSerde(sort_keys=True).serialize(key) if chosen else key.encode()
        assert stored is not None
        groups = 1 if event_time == "watermark" else lanes.get("key_groups", 1)
        return key_group(stored, groups)

    model = Model(within, grace, group_of)
    expected: list[Sent] = []
    for sent in records:
        told = by_value(*sent[:2]) if chosen else sent.key
        if told is None:
            if event_time == "watermark":
                model.now[0] = max(model.now.get(0, -1), sent.timestamp)
            expected.append(sent)
        elif model.goes(told, sent.timestamp):
            expected.append(sent)
    assert sorted(got, key=repr) == sorted(expected, key=repr)
    for key in {sent.key for sent in records}:
        mine = [sent for sent in expected if sent.key == key]
        if key is not None and not chosen:
            assert [sent for sent in got if sent.key == key] == mine
        counted = [sent for sent in mine if sent.value is not None and key is not None]
        assert counts.get(key or "", 0) == len(counted)


def kip(script: str) -> str:
    """Run ``k1@10 k2@20``; return the records that went on, with an interval of 10."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).distinct(within=ms(10), store="seen").to("out")
    with TopologyTestDriver(builder, settings={"event_time": "stream-time"}) as driver:
        for record in script.split():
            key, time = record.split("@")
            driver.create_input_topic("in").pipe_input(key, 1, timestamp=int(time))
        found = driver.create_output_topic("out").read_records_to_list()
    return " ".join(f"{record.key}@{record.timestamp}" for record in found)


@pytest.mark.parametrize(
    ("script", "goes"),
    [
        pytest.param("a@100 a@108 a@111", "a@100 a@111", id="what was left out extends nothing"),
        pytest.param("a@100 a@92 a@89", "a@100 a@89", id="likewise to the past"),
        pytest.param("a@10 b@20 a@9", "a@10 b@20", id="late, and what it is like is remembered"),
        pytest.param("a@10 b@21 a@9", "a@10 b@21 a@9", id="late, and nothing is remembered"),
        pytest.param("a@10 a@20 a@21", "a@10 a@21", id="both ends belong to the span"),
    ],
)
def test_it_means_what_kip_655_says(script: str, goes: str) -> None:
    """With a grace of nothing, which the proposal does not have."""
    assert kip(script) == goes


@pytest.mark.slow
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_what_is_remembered_is_bounded(event_time: str) -> None:
    """By the span and the grace: rows go, and what is known of their keys."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.distinct(within=ms(10), grace=ms(5), store="seen").to("out")
    settings = {"event_time": event_time}
    with TopologyTestDriver(builder, settings=settings, key_groups=1) as driver:
        for number in range(200):
            driver.create_input_topic("in").pipe_input(f"k{number}", 1, timestamp=number)
        shown = list(driver.get_window_store("seen").all())
        cluster = driver._cluster  # pyright: ignore[reportPrivateUsage]
        (place,) = cluster.environments
        snapshot = cluster.environments[place].snapshot(cluster.committed(place))
        kept = snapshot.count("seen")
    assert [window.start for window, _ in shown] == list(range(184, 200))
    assert kept <= 2 * len(shown) + 2  # a row and a line of the index each, and the clock


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_what_went_on_is_known_after_state_is_lost(event_time: str, lanes: int) -> None:
    """It comes back from the changelog, without what is forgotten by then."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.distinct(within=ms(10), store="seen").to("out")
    way: dict[str, Any] = {"lanes": lanes, "key_groups": 4 if lanes > 1 else 1}
    with TopologyTestDriver(builder, settings={"event_time": event_time}, **way) as driver:
        for time in (0, 5, 11, 20, 9, 21, 22):
            driver.create_input_topic("in").pipe_input("a", time, timestamp=time)
            driver.crash(lose_state=True)
        found = driver.create_output_topic("out").read_values_to_list()
    assert found == [0, 11, 22]


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("event_time", ["watermark", "stream-time"])
def test_a_late_record_becomes_a_dead_letter_where_its_source_says_so(
    event_time: str, *, chosen: bool
) -> None:
    """Only one that nothing is remembered of; it is the record as it was read."""
    builder = StreamsBuilder()
    late = Consumed[str, int](late=LatePolicy.DEAD_LETTER)
    stream = builder.stream("in", key=str, value=int, consumed=late)
    key = by_value if chosen else None
    stream.distinct(within=ms(10), key=key, store="seen").to("out")
    settings = {"event_time": event_time, "dead_letter_topic": "late"}
    with TopologyTestDriver(builder, settings=settings, key_groups=1) as driver:
        for time in (10, 90, 85, 79):
            driver.create_input_topic("in").pipe_input("a", 1, timestamp=time)
        found = driver.create_output_topic("out").read_records_to_list()
        (letter,) = driver.create_output_topic("late", key=str, value=int).read_records_to_list()
        metrics = driver.metrics
    assert [record.timestamp for record in found] == [10, 90]
    assert (letter.key, letter.value, letter.timestamp) == ("a", 1, 79)
    assert "mustela.error.value" not in dict(letter.headers)
    counts = ("duplicates", "late", "failed_records", "dead_letters")
    assert [metrics[f"{count}:in.distinct"] for count in counts] == [1, 1, 1, 1]


def test_a_record_goes_on_as_it_is_with_its_own_key() -> None:
    """Its headers too; by a key that a function chose, it is found in every lane."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.distinct(within=ms(10), key=lambda _key, value: value[0], store="seen").to("out")
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        topic = driver.create_input_topic("in")
        for number, value in enumerate(["xa", "xb", "ya", "yb", "xc"]):
            headers = (("n", bytes([number])),)
            topic.pipe_input(f"k{number}", value, timestamp=3 * number, headers=headers)
        found = driver.create_output_topic("out").read_records_to_list()
    told = {(r.key, r.value, r.timestamp, r.headers) for r in found}
    assert told == {
        ("k0", "xa", 0, (("n", b"\x00"),)),
        ("k2", "ya", 6, (("n", b"\x02"),)),
        ("k4", "xc", 12, (("n", b"\x04"),)),
    }


def test_a_function_that_raises_meets_the_handler_with_the_users_line() -> None:
    """Each record by itself."""

    def strict(_key: str, value: int) -> int:
        return 1 // value

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.distinct(within=ms(10), key=strict, name="once").to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as raised:
        driver.create_input_topic("in").pipe_input("a", 0)
    assert raised.value.fields["line"].code == "return 1 // value"
    with TopologyTestDriver(builder, settings={"processing_handler": "continue"}) as driver:
        for value in (1, 0, 2):
            driver.create_input_topic("in").pipe_input("a", value, timestamp=value)
        found = driver.create_output_topic("out").read_values_to_list()
    assert found == [1, 2]


def test_what_cannot_be_is_refused_at_the_users_line() -> None:
    """With what to write."""
    stream: Any = StreamsBuilder().stream("in", key=str, value=int)
    with pytest.raises(BadCallError, match=r"write distinct\(..., within=timedelta\(hours=1\)\)"):
        stream.distinct()
    for wrong in (None, 5, timedelta(0), timedelta(seconds=-1)):
        with pytest.raises(BadOptionError, match="within="):
            stream.distinct(within=wrong)
    with pytest.raises(BadOptionError, match="grace="):
        stream.distinct(within=ms(1), grace=ms(-1))
    with pytest.raises(FunctionError):
        stream.distinct(within=ms(1), key=lambda value: value)


def test_changed_spans_are_told_to_the_gate() -> None:
    """Another span gives rows another meaning; another grace holds from now on."""
    meanings: list[StoreMeaning] = []
    for within, grace in ((10, 0), (20, 0), (10, 5)):
        planned = plan(topology(within, grace, chosen=False))
        meanings.append(planned.meanings["seen"])
    span = compare_meanings(meanings[0], meanings[1])
    grace = compare_meanings(meanings[0], meanings[2])
    assert [(c.field, c.compatible) for c in span if not c.compatible] == [("window", False)]
    assert [(c.field, c.compatible) for c in grace] == [("grace_ms", True), ("retention_ms", True)]
