"""Requests by topic: each record waits for its own reply, over any crash, and not for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.api.errors import BadOptionError, MissingSerdeError, OtherBuilderError
from mustela.calls import RequestReply
from mustela.errors import DataError

SOON = timedelta(seconds=10)


def asking(on_timeout: Any = None, **choices: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str)
    replies = builder.stream("replies", key=bytes, value=int)
    rules = RequestReply(topic="requests", timeout=SOON, on_timeout=on_timeout)
    priced = orders.request_reply(replies, lambda o, p: f"{o}:{p}", rules, name="ask")
    priced.to("out", key=str, value=str)
    return TopologyTestDriver(builder, initial_wall_clock=1_000, **choices)


def rows(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    out = driver.create_output_topic("out", key=str, value=str)
    return [tuple(row) for row in out.read_key_values_to_list()]  # type: ignore[misc]


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("key_groups", [1, 8])
def test_each_record_goes_on_with_its_own_reply(crashes: bool, key_groups: int) -> None:
    """In the order of the replies; keys, times and headers are the record's own."""
    choices: Any = {"crash_after_every_record": crashes, "key_groups": key_groups, "lanes": 3}
    with asking(**choices) as driver:
        topic = driver.create_input_topic("orders")
        topic.pipe_input("k", "pear", timestamp=5, headers=(("h", b"1"),))
        topic.pipe_input("k", "plum", timestamp=6)
        topic.pipe_input(None, "fig", timestamp=7)
        requests = driver.create_output_topic("requests").read_records_to_list()
        assert [(r.key, r.value) for r in requests] == [
            ("k", "pear"),
            ("k", "plum"),
            (None, "fig"),
        ]
        assert len({dict(r.headers)["correlation-id"] for r in requests}) == 3
        reply = driver.create_input_topic("replies")
        for number in (1, 0, 2):
            reply.pipe_input(b"any", number, headers=requests[number].headers[-1:])
        records = driver.create_output_topic("out").read_records_to_list()
        assert [(r.key, r.value, r.timestamp, r.headers) for r in records] == [
            ("k", "plum:1", 6, ()),
            ("k", "pear:0", 5, (("h", b"1"),)),
            (None, "fig:2", 7, ()),
        ]


def test_replies_that_nobody_waits_for_are_counted() -> None:
    """A second one, one of a stranger, and one without an id."""
    with asking() as driver:
        driver.create_input_topic("orders").pipe_input("k", "pear")
        request = driver.create_output_topic("requests").read_record()
        reply = driver.create_input_topic("replies")
        with driver.epoch():
            reply.pipe_input(None, 1, headers=request.headers)
            reply.pipe_input(None, 2, headers=request.headers)
        reply.pipe_input(None, 3, headers=request.headers)
        reply.pipe_input(None, 4, headers=(("correlation-id", b"stranger"),))
        reply.pipe_input(None, 5, headers=(("correlation-id", b"\xff"),))
        reply.pipe_input(None, 6)
        assert rows(driver) == [("k", "pear:1")]
        assert driver.metrics["unmatched_replies:ask"] == 3
        assert driver.metrics["replies_without_id:ask.replies"] == 2


@pytest.mark.parametrize("lose_state", [False, True])
def test_a_reply_that_does_not_come_is_given_up(lose_state: bool) -> None:
    """By the clock, though nothing else comes, and over a crash; a late reply changes nothing."""
    with asking(lambda record, error: f"{record.value}!{error.fields['cause']}") as driver:
        driver.create_input_topic("orders").pipe_input("k", "pear", timestamp=5)
        request = driver.create_output_topic("requests").read_record()
        driver.advance_wall_clock_time(timedelta(seconds=9))
        driver.crash(lose_state=lose_state)
        driver.advance_wall_clock_time(timedelta(milliseconds=999))
        assert rows(driver) == []
        driver.advance_wall_clock_time(timedelta(milliseconds=1))
        driver.create_input_topic("replies").pipe_input(None, 1, headers=request.headers)
        driver.advance_wall_clock_time(SOON)
        assert rows(driver) == [("k", "pear!TimeoutError")]
        assert driver.metrics["request_timeouts:ask"] == 1


def test_a_timeout_stops_the_application_or_makes_a_dead_letter() -> None:
    """As the user says."""
    with asking() as driver:
        driver.create_input_topic("orders").pipe_input("k", "pear")
        with pytest.raises(DataError, match="no reply came within 10 s"):
            driver.advance_wall_clock_time(SOON)
    with asking("dead_letter") as driver:
        driver.create_input_topic("orders").pipe_input("k", "pear")
        driver.advance_wall_clock_time(SOON)
        dead = driver.produced_topic_names - {"requests", "out"}
        letter = driver.create_output_topic(dead.pop()).read_record()
        assert (letter.key, letter.value) == (b"k", b"pear")


def test_a_request_can_be_made_of_the_record() -> None:
    """Its serdes are said in the options then."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str)
    replies = builder.stream("replies", key=bytes, value=str)
    rules = RequestReply(topic="requests", timeout=SOON, value=int, header="id")
    found = orders.request_reply(
        replies, lambda o, r: o + r, rules, request=lambda _key, order: len(order)
    )
    counts = found.group_by_key(key=str).count(store="counts")
    counts.to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder, key_groups=8, lanes=2) as driver:
        driver.create_input_topic("orders").pipe_input("k", "pear")
        request = driver.create_output_topic("requests").read_record()
        assert request.value == 4
        driver.create_input_topic("replies").pipe_input(None, "!", headers=request.headers)
        assert driver.get_key_value_store("counts")["k"] == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: RequestReply(topic="t", timeout=timedelta(0)),
        lambda: RequestReply(topic="t", timeout=SOON, on_timeout="drop"),  # type: ignore[arg-type]
    ],
)
def test_options_are_checked_when_they_are_made(make: Callable[[], Any]) -> None:
    """With a fix."""
    with pytest.raises(BadOptionError) as caught:
        make()
    assert caught.value.fix


def test_what_cannot_be_asked_is_refused_when_it_is_written() -> None:
    """Replies of another builder; requests that nobody can write."""
    orders = StreamsBuilder().stream("orders", key=str, value=str)
    other = StreamsBuilder().stream("replies", key=bytes, value=int)
    rules = RequestReply(topic="requests", timeout=SOON)
    with pytest.raises(OtherBuilderError):
        orders.request_reply(other, lambda o, r: o, rules)
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str)
    replies = builder.stream("replies", key=bytes, value=int)
    with pytest.raises(MissingSerdeError):
        orders.request_reply(replies, lambda o, r: o, rules, request=lambda _k, v: len(v))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abc")),
        st.tuples(st.just("reply"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("crash"), st.booleans()),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(STEPS, st.sampled_from([1, 8]), st.booleans())
def test_each_record_has_one_result(
    steps: list[tuple[str, Any]], key_groups: int, crashes: bool
) -> None:
    """Its reply's if that came in time, else the timeout's: against a model in plain Python."""
    now, sent = 0, 0
    ends: dict[str, int] = {}
    requests: list[Any] = []
    wanted: Counter[str] = Counter()
    choices: Any = {"key_groups": key_groups, "lanes": 2, "crash_after_every_record": crashes}
    with asking(lambda record, _error: f"{record.value}:late", **choices) as driver:
        topic, reply = driver.create_input_topic("orders"), driver.create_input_topic("replies")
        out = driver.create_output_topic("requests", key=str, value=str)
        for what, fact in steps:
            if what == "ask":
                name = f"o{sent}"
                sent += 1
                topic.pipe_input(fact, name)
                requests += out.read_records_to_list()
                ends[name] = now + 10
            elif what == "reply" and requests:
                request = requests[fact % len(requests)]
                reply.pipe_input(None, fact, headers=request.headers)
                if ends.pop(request.value, None) is not None:
                    wanted[f"{request.value}:{fact}"] += 1
            elif what == "wait":
                now += fact
                driver.advance_wall_clock_time(timedelta(seconds=fact))
            elif what == "crash":
                driver.crash(lose_state=fact)
            for name in [name for name, end in ends.items() if end <= now]:
                wanted[f"{name}:late"] += 1
                del ends[name]
        driver.advance_wall_clock_time(timedelta(seconds=20))
        wanted.update(f"{name}:late" for name in ends)
        assert Counter(value for _, value in rows(driver)) == wanted
        assert len(requests) == sent
