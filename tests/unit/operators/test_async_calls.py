"""Calls to the outside: order, parking, failures and exactly one result, over any crash."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import Record, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.api.errors import BadOptionError, FunctionError
from mustela.calls import AsyncCall, AsyncOptions, CallFailedError, CircuitBreaker, Retry
from mustela.errors import DataError

Rows = list[tuple[Any, Any]]


def driver(
    function: Callable[..., Any],
    options: AsyncOptions | None = None,
    **choices: Any,
) -> TopologyTestDriver:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    words.map_values_async(function, options, name="call").to("out", value=str)
    return TopologyTestDriver(builder, initial_wall_clock=1_000, **choices)


def rows(running: TopologyTestDriver, topic: str = "out") -> Rows:
    out = running.create_output_topic(topic, key=str, value=str)
    return [tuple(row) for row in out.read_key_values_to_list()]  # type: ignore[misc]


async def shout(word: str) -> str:
    return word.upper()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("key_groups", [1, 8])
def test_a_call_gives_each_record_its_value(plain: bool, crashes: bool, key_groups: int) -> None:
    """Coroutines and plain functions alike; keys, timestamps and headers stay."""
    function = str.upper if plain else shout
    choices = {"crash_after_every_record": crashes, "key_groups": key_groups, "lanes": 3}
    with driver(function, **choices) as running:
        topic = running.create_input_topic("in")
        topic.pipe_input("a", "x", timestamp=7, headers=(("h", b"1"),))
        topic.pipe_input(None, "y", timestamp=8)
        out = running.create_output_topic("out")
        records = out.read_records_to_list()
        assert [(r.key, r.value, r.timestamp, r.headers) for r in records] == [
            ("a", "X", 7, (("h", b"1"),)),
            (None, "Y", 8, ()),
        ]
        assert not running.held_calls()


def test_what_is_not_done_is_parked_and_goes_on_in_order() -> None:
    """Other keys do not wait; the key's own records do, also those that come later."""
    with driver(shout, hold_calls=True) as running:
        topic = running.create_input_topic("in")
        for key, value in [("a", "1x"), ("b", "2x"), ("a", "3x")]:
            topic.pipe_input(key, value)
        assert [(c.key, c.value) for c in running.held_calls()] == [("a", "1x"), ("b", "2x")]
        second = [call for call in running.held_calls() if call.key == "b"]
        running.complete_calls(second)
        assert rows(running) == [("b", "2X")]
        running.complete_calls()
        topic.pipe_input("a", "4x")
        assert [c.value for c in running.held_calls()] == ["3x"]
        while running.complete_calls():
            pass
        assert rows(running) == [("a", "1X"), ("a", "3X"), ("a", "4X")]
        assert running.metrics["parked:call"] > 0


def test_unordered_calls_of_a_key_overlap() -> None:
    """Results go on as they come."""
    with driver(shout, AsyncOptions(ordered=False), hold_calls=True) as running:
        running.create_input_topic("in").pipe_key_value_list([("a", "1x"), ("a", "2x")])
        calls = running.held_calls()
        assert len(calls) == 2
        running.complete_calls(calls[1:])
        running.complete_calls(calls[:1])
        assert rows(running) == [("a", "2X"), ("a", "1X")]


def test_calls_for_which_there_is_no_room_wait_their_turn() -> None:
    """In the order in which their records came, also those whose key is not new."""
    with driver(shout, AsyncOptions(capacity=2), hold_calls=True) as running:
        topic = running.create_input_topic("in")
        topic.pipe_key_value_list([(key, f"{n}x") for n, key in enumerate("abcdca")])
        made: list[list[str]] = []
        while calls := running.held_calls():
            made.append([call.value for call in calls])
            running.complete_calls()
        assert made == [["0x", "1x"], ["2x", "3x"], ["5x", "4x"]]
        assert len(rows(running)) == 6


@pytest.mark.parametrize("keys", ["abcdefab", "aaaaaaaa"])
@pytest.mark.parametrize("key_groups", [1, 8])
def test_nothing_is_read_while_as_many_records_are_parked_as_may_be(
    keys: str, key_groups: int
) -> None:
    """Records wait in their topic until calls have ended; each has its result, in order."""
    choices: Any = {"hold_calls": True, "key_groups": key_groups, "lanes": min(3, key_groups)}
    with driver(shout, AsyncOptions(max_parked=3), **choices) as running:
        topic = running.create_input_topic("in")
        sent = [(key, f"{number}x") for number, key in enumerate(keys)]
        topic.pipe_key_value_list(sent)
        assert running.metrics["parked:call"] == running.metrics["records:in"] == 3
        first = running.held_calls()[0]
        running.complete_calls([first])
        assert running.metrics["records:in"] == 4
        assert rows(running) == [(first.key, first.value.upper())]
        running.crash(lose_state=True)
        running.advance_wall_clock_time(1)
        while running.complete_calls():
            pass
        found = [*rows(running), (first.key, first.value.upper())]
        assert sorted(found) == sorted((key, value.upper()) for key, value in sent)
        assert running.metrics["records:in"] == len(sent)


def test_what_an_epoch_has_read_it_keeps() -> None:
    """An epoch may go over the bound; the next one reads when there is room again."""
    with driver(shout, AsyncOptions(max_parked=2), hold_calls=True) as running:
        topic = running.create_input_topic("in")
        with running.epoch():
            topic.pipe_key_value_list([(key, "x") for key in "abcd"])
        topic.pipe_input("e", "x")
        assert [call.key for call in running.held_calls()] == list("abcd")
        running.complete_calls(running.held_calls()[:2])
        assert [call.key for call in running.held_calls()] == list("cd")
        running.complete_calls(running.held_calls()[:1])
        assert [call.key for call in running.held_calls()] == list("de")


@pytest.mark.parametrize("crashes", [False, True])
def test_one_step_that_calls_can_follow_another(crashes: bool) -> None:
    """Each key's records stay in order through both."""
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    first = words.map_values_async(shout, name="first", value=str)
    first.map_values_async(lambda word: word + "!", name="second").to("out", value=str)
    choices: Any = {"hold_calls": True, "key_groups": 8, "crash_after_every_record": crashes}
    with TopologyTestDriver(builder, **choices) as running:
        topic = running.create_input_topic("in")
        topic.pipe_key_value_list([("a", "1x"), ("b", "2x"), ("a", "3x"), ("a", "4x")])
        while calls := running.held_calls():
            running.complete_calls(calls[-1:])
        found = rows(running)
    assert [value for key, value in found if key == "a"] == ["1X!", "3X!", "4X!"]
    assert [value for key, value in found if key == "b"] == ["2X!"]


@pytest.mark.parametrize("lose_state", [False, True])
def test_parked_calls_are_made_again_behind_a_crash(lose_state: bool) -> None:
    """By the same idempotency key; each record still has one result."""
    with driver(shout, hold_calls=True, key_groups=8) as running:
        topic = running.create_input_topic("in")
        topic.pipe_key_value_list([("a", "1x"), ("a", "2x"), ("b", "3x")])
        before = {call.idempotency_key for call in running.held_calls()}
        running.crash(lose_state=lose_state)
        assert running.held_calls() == []
        running.advance_wall_clock_time(1)
        assert {call.idempotency_key for call in running.held_calls()} == before
        while running.complete_calls():
            pass
        assert sorted(rows(running)) == [("a", "1X"), ("a", "2X"), ("b", "3X")]
        assert running.metrics["calls_made_again:call"] == 2


def test_a_record_keeps_its_idempotency_key() -> None:
    """Two records never share one, though they are equal; a retry does not change it."""
    seen: list[tuple[str, int]] = []

    def flaky(word: str, *, call: AsyncCall) -> str:
        seen.append((call.idempotency_key, call.attempt))
        if call.attempt < 3:
            raise ConnectionError(word)
        return f"{call.key}-{word}"

    with driver(flaky, AsyncOptions(retry=Retry(attempts=3))) as running:
        running.create_input_topic("in").pipe_key_value_list([("a", "x"), ("a", "x")])
        assert rows(running) == [("a", "a-x"), ("a", "a-x")]
        assert running.metrics["call_retries:call"] == 4
    names = [name for name, _ in seen]
    assert names == [names[0]] * 3 + [names[3]] * 3
    assert names[0] != names[3]
    assert [attempt for _, attempt in seen] == [1, 2, 3, 1, 2, 3]


def test_rows_made_of_one_record_have_keys_of_their_own() -> None:
    """What a step before made several of is several calls."""
    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str)
    words = lines.flat_map_values(str.split)
    words.map_values_async(lambda _word, call: call.idempotency_key, name="c").to("out", value=str)
    with TopologyTestDriver(builder) as running:
        running.create_input_topic("in").pipe_input("a", "x x x")
        assert len({value for _, value in rows(running)}) == 3


def broken(word: str) -> str:
    raise ConnectionError(f"no answer for {word}")


def test_a_failed_call_stops_the_application() -> None:
    """By default, as any function that raises."""
    with driver(broken) as running, pytest.raises(DataError) as caught:
        running.create_input_topic("in").pipe_input("a", "x")
    assert "ConnectionError: no answer for x" in str(caught.value)
    assert caught.value.fields["topic"] == "in"


@pytest.mark.parametrize("crashes", [False, True])
def test_a_failed_call_can_become_a_dead_letter(crashes: bool) -> None:
    """With its bytes and where it came from."""
    rules = AsyncOptions(on_failure="dead_letter")
    with driver(broken, rules, crash_after_every_record=crashes) as running:
        topic = running.create_input_topic("in")
        topic.pipe_input("z", "w")
        topic.pipe_input("a", "x", timestamp=5)
        assert rows(running) == []
        dead = next(name for name in running.produced_topic_names if name != "out")
        letters = running.create_output_topic(dead).read_records_to_list()
        assert [(one.key, one.value) for one in letters] == [(b"z", b"w"), (b"a", b"x")]
        headers = dict(letters[1].headers)
        assert headers["mustela.error.offset"] == b"1"
        assert b"ConnectionError" in (headers["mustela.error.text"] or b"")


def test_a_function_can_stand_in_for_a_failed_call() -> None:
    """It is given the record and the error."""

    def instead(record: Record[str, str], error: CallFailedError) -> str:
        return f"{record.key}:{record.value}:{error.fields['cause']}:{error.fields['attempts']}"

    rules = AsyncOptions(on_failure=instead, retry=Retry(attempts=2))
    with driver(broken, rules) as running:
        running.create_input_topic("in").pipe_input("a", "x")
        assert rows(running) == [("a", "a:x:ConnectionError:2")]


def test_an_error_that_is_not_to_be_retried_is_final() -> None:
    """The call is made once."""
    made = Counter[str]()

    def refuse(word: str) -> str:
        made[word] += 1
        raise ValueError(word)

    rules = AsyncOptions(retry=Retry(attempts=5, on=(OSError,)), on_failure="continue")
    with driver(refuse, rules) as running:
        running.create_input_topic("in").pipe_input("a", "x")
        assert made == {"x": 1}
        assert rows(running) == []
        assert running.metrics["failed_records:call"] == 1


def test_a_held_call_times_out_by_the_drivers_clock() -> None:
    """Each attempt has its time; what waits behind goes on."""
    rules = AsyncOptions(
        timeout=timedelta(seconds=2),
        retry=Retry(attempts=2),
        on_failure=lambda record, error: f"{record.value} {error.fields['cause']}",
    )
    with driver(shout, rules, hold_calls=True) as running:
        running.create_input_topic("in").pipe_key_value_list([("a", "1x"), ("a", "2x")])
        running.advance_wall_clock_time(timedelta(seconds=2))
        assert [(c.value, c.attempt) for c in running.held_calls()] == [("1x", 2)]
        running.advance_wall_clock_time(timedelta(seconds=1))
        assert rows(running) == []
        running.advance_wall_clock_time(timedelta(seconds=1))
        assert rows(running) == [("a", "1x TimeoutError")]
        assert [c.value for c in running.held_calls()] == ["2x"]
        running.fail_calls(OSError("gone"))
        assert rows(running) == [("a", "2x OSError")]


def test_an_open_breaker_leaves_records_parked() -> None:
    """Until it has been open for its time; then one call tries, and the rest follows."""
    made: list[str] = []
    is_down = True

    def flaky(word: str) -> str:
        made.append(word)
        if is_down:
            raise ConnectionError(word)
        return word.upper()

    breaker = CircuitBreaker(failures=2, open_for=timedelta(seconds=10))
    rules = AsyncOptions(circuit_breaker=breaker, on_failure=lambda _record, _error: "lost")
    with driver(flaky, rules) as running:
        topic = running.create_input_topic("in")
        topic.pipe_key_value_list([("a", "1x"), ("b", "2x"), ("c", "3x"), ("d", "4x")])
        assert made == ["1x", "2x"]
        assert rows(running) == [("a", "lost"), ("b", "lost")]
        running.advance_wall_clock_time(timedelta(seconds=5))
        assert made == ["1x", "2x"]
        is_down = False
        running.advance_wall_clock_time(timedelta(seconds=6))
        assert rows(running) == [("c", "3X"), ("d", "4X")]


def test_process_async_may_give_any_records() -> None:
    """None, one record or several; new keys travel to their lane; a record has its own time."""

    async def spread(record: Record[str, str]) -> Any:
        match record.value:
            case "none":
                return None
            case "one":
                return Record("solo", "1", 99, (("h", b"x"),))
            case _:
                return [(word, record.key) for word in record.value.split()]

    builder = StreamsBuilder()
    lines = builder.stream("in", key=str, value=str)
    found = lines.process_async(spread, name="spread")
    found.to("out", key=str, value=str)
    counts = found.group_by_key(key=str, value=str).count(store="counts")
    counts.to_stream().to("counts", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as running:
        topic = running.create_input_topic("in")
        for key, value in [("k", "none"), ("k", "one"), ("k", "x y x")]:
            topic.pipe_input(key, value, timestamp=5)
        records = running.create_output_topic("out").read_records_to_list()
        assert [(r.key, r.value, r.timestamp) for r in records] == [
            ("solo", "1", 99),
            ("x", "k", 5),
            ("y", "k", 5),
            ("x", "k", 5),
        ]
        assert records[0].headers == (("h", b"x"),)
        assert running.get_key_value_store("counts")["x"] == 2


@pytest.mark.parametrize("given", ["text", 7, [("a", "b", "c")], ["ab"]])
def test_process_async_refuses_what_is_no_record(given: Any) -> None:
    """With a word on what was given."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process_async(lambda _record: given).to("out", key=str, value=str)
    with TopologyTestDriver(builder) as running, pytest.raises(DataError) as caught:
        running.create_input_topic("in").pipe_input("a", "x")
    assert "TypeError" in str(caught.value)


def test_a_result_that_cannot_be_parked_fails_at_once() -> None:
    """Not on the day on which a call takes longer."""
    with driver(lambda _word: object()) as running, pytest.raises(DataError) as caught:
        running.create_input_topic("in").pipe_input("a", "x")
    assert "object" in str(caught.value)


def test_event_time_can_wait_for_what_is_parked() -> None:
    """A window behind the step closes so much later."""
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    rules = AsyncOptions(event_time_lag=timedelta(milliseconds=100))
    called = words.map_values_async(shout, rules, name="call", value=str)
    minutes = TimeWindows(size=timedelta(milliseconds=10), grace=timedelta(0))
    counts = called.group_by_key(key=str, value=str).windowed_by(minutes).count(store="counts")
    counts.to_stream(lambda key, _count: key.key).to("out", key=str, value=int)
    choices: Any = {"settings": {"event_time": "watermark"}, "hold_calls": True}
    with TopologyTestDriver(builder, **choices) as running:
        topic = running.create_input_topic("in")
        topic.pipe_input("a", "x", timestamp=1)
        topic.pipe_input("b", "x", timestamp=100)
        while running.complete_calls():
            pass
        out = running.create_output_topic("out", key=str, value=int)
        assert out.read_key_values_to_map() == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda: AsyncOptions(capacity=0),
        lambda: AsyncOptions(max_parked=0),
        lambda: AsyncOptions(timeout=timedelta(0)),
        lambda: AsyncOptions(on_failure="ignore"),  # type: ignore[arg-type]
        lambda: Retry(attempts=0),
        lambda: CircuitBreaker(failures=0),
    ],
)
def test_options_are_checked_when_they_are_made(make: Callable[[], Any]) -> None:
    """With a fix in the error."""
    with pytest.raises(BadOptionError) as caught:
        make()
    assert caught.value.fix


def test_functions_are_checked_when_the_topology_is_built() -> None:
    """By what they will be called with; a parameter ``call`` is no value."""
    stream = StreamsBuilder().stream("in", key=str, value=str)
    with pytest.raises(FunctionError):
        stream.map_values_async(lambda key, value: value)
    with pytest.raises(FunctionError):
        stream.map_values_async_with_key(lambda value, call: value)
    with pytest.raises(FunctionError):
        stream.process_async(lambda: None)
    with pytest.raises(FunctionError):
        stream.map_values_async(str.upper, AsyncOptions(on_failure=lambda error: "x"))  # type: ignore[arg-type]


KEYS = st.sampled_from(["a", "b", "c", "d", ""])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pipe"), KEYS),
        st.tuples(st.just("epoch"), st.lists(KEYS, min_size=1, max_size=6)),
        st.tuples(st.just("complete"), st.integers(0, 7)),
        st.tuples(st.just("fail"), st.integers(0, 7)),
        st.tuples(st.just("crash"), st.booleans()),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(STEPS, st.booleans(), st.sampled_from([1, 8]), st.booleans(), st.sampled_from([3, 99]))
def test_each_record_has_one_result_in_the_order_of_its_key(
    steps: list[tuple[str, Any]], ordered: bool, key_groups: int, crashes: bool, most: int
) -> None:
    """Whatever is parked, held back, completed, failed or lost, and wherever it crashes."""
    by_watermark = len(steps) % 2 == 0
    rules = AsyncOptions(
        ordered=ordered,
        on_failure=lambda record, _error: record.value.upper(),
        capacity=2,
        max_parked=most,
    )
    sent: dict[str, list[str]] = defaultdict(list)
    choices: Any = {"hold_calls": True, "key_groups": key_groups, "lanes": 3}
    if by_watermark:
        choices["settings"] = {"event_time": "watermark"}
    with driver(shout, rules, crash_after_every_record=crashes, **choices) as running:
        topic = running.create_input_topic("in")
        number = 0
        for what, fact in steps:
            if what in {"pipe", "epoch"}:
                keys = [fact] if what == "pipe" else fact
                with running.epoch():
                    for key in keys:
                        topic.pipe_input(key, f"v{number}")
                        sent[key].append(f"V{number}")
                        number += 1
            elif what == "crash":
                running.crash(lose_state=fact)
            else:
                calls = running.held_calls()[fact : fact + 2]
                end = running.complete_calls
                (end(calls) if what == "complete" else running.fail_calls(OSError("x"), calls))
        running.advance_wall_clock_time(1)
        while running.complete_calls():
            pass
        assert not running.held_calls()
        got: dict[str, list[str]] = defaultdict(list)
        for key, value in rows(running):
            got[key].append(value)
        if not ordered:
            got = {key: sorted(values) for key, values in got.items()}  # type: ignore[assignment]
            sent = {key: sorted(values) for key, values in sent.items()}  # type: ignore[assignment]
        assert got == sent
