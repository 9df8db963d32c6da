"""How verbs and options take their arguments, and what is said of a call that cannot be."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.errors import (
    BadCallError,
    BadOptionError,
    FunctionError,
    NoSuchNameError,
    NoSuchStepError,
)
from mustela.kernel.core.failures import ProcessingError
from mustela.processors import ContextualProcessor

NEAR = JoinWindows.of_time_difference(timedelta(seconds=5), grace=timedelta(0))
TEXTS: dict[str, Any] = {"key": str, "value": str}


class Topics:
    """Streams and tables of one builder."""

    def __init__(self) -> None:
        self.builder: Any = StreamsBuilder()
        self.left: Any = self.builder.stream("left", Consumed(**TEXTS))
        self.right: Any = self.builder.stream("right", **TEXTS)
        self.rows: Any = self.builder.table("rows", Consumed(**TEXTS), Materialized(store="rows"))
        self.whole: Any = self.builder.global_table("whole", **TEXTS)

    def text(self) -> str:
        return self.builder.build().describe()


def both(left: str, right: str) -> str:
    return f"{left}{right}"


Written = Callable[[Topics], object]


@pytest.mark.parametrize(
    ("as_kafka", "by_keyword"),
    [
        (
            lambda t: t.left.join(t.right, both, NEAR, StreamJoined(name="met", store="met")),
            lambda t: t.left.join(
                t.right, both, windows=NEAR, stream_joined=StreamJoined(name="met", store="met")
            ),
        ),
        (
            lambda t: t.left.left_join(t.rows, both, Joined(name="met")),
            lambda t: t.left.left_join(t.rows, both, joined=Joined(name="met")),
        ),
        (
            lambda t: t.left.join(t.whole, lambda _key, value: value, both),
            lambda t: t.left.join(t.whole, both, foreign_key_with_key=lambda _key, value: value),
        ),
        (
            lambda t: t.rows.join(t.rows, both, Materialized(store="met")),
            lambda t: t.rows.join(t.rows, both, materialized=Materialized(store="met")),
        ),
        (
            lambda t: t.left.group_by_key(Grouped(name="met")).count(Materialized(store="met")),
            lambda t: t.left.group_by_key(grouped=Grouped(name="met")).count(store="met"),
        ),
        (
            lambda t: t.left.repartition(Repartitioned(name="met")).to("out", Produced(name="o")),
            lambda t: t.left.repartition(name="met").to("out", produced=Produced(name="o")),
        ),
        (
            lambda t: t.left.split().branch(lambda _k, _v: True, Branched(name="met")),
            lambda t: t.left.split().branch(lambda _k, _v: True, branched=Branched(name="met")),
        ),
        (
            lambda t: t.rows.filter(lambda _k, _v: True, Materialized(store="met")),
            lambda t: t.rows.filter(lambda _k, _v: True, store="met"),
        ),
    ],
)
def test_options_may_stand_where_kafka_streams_has_them(
    as_kafka: Written, by_keyword: Written
) -> None:
    """By position or by keyword, the topology is the same."""
    texts: list[str] = []
    for write in (as_kafka, by_keyword):
        topics = Topics()
        written: Any = write(topics)
        if hasattr(type(written), "no_default_branch"):
            written.no_default_branch()
        texts.append(topics.text())
    assert texts[0] == texts[1]


def test_a_global_table_is_joined_in_the_order_of_kafka_streams() -> None:
    """The table, then how its key is found, then the joiner."""
    topics = Topics()
    topics.left.join(topics.whole, lambda _key, value: value, both).to("out", value=str)
    with TopologyTestDriver(topics.builder) as driver:
        driver.create_input_topic("whole").pipe_input("b", "!")
        driver.create_input_topic("left").pipe_input("a", "b")
        assert driver.create_output_topic("out").read_key_values_to_list() == [("a", "b!")]


@pytest.mark.parametrize(
    ("write", "said", "fix"),
    [
        (lambda t: t.left.join(t.rows), "KStream.join needs joiner=", "joiner=lambda left, right:"),
        (
            lambda t: t.left.join(t.right, both, within=timedelta(1)),
            "KStream.join has no within=",
            "windows=JoinWindows.of_time_difference(timedelta(...), grace=timedelta(0))",
        ),
        (lambda t: t.left.to(), "KStream.to needs topic=", 'topic="..."'),
        (lambda t: t.left.map_values(), "KStream.map_values needs mapper=", "mapper="),
        (lambda t: t.left.to("out", key_serde=str), "KStream.to has no key_serde=", "key=str"),
        (lambda t: t.left.filter(both, "named"), "tell what 'named' is", "name='named'"),
        (lambda t: t.left.foreach(print, nmae="x"), "foreach has no nmae=", "name=..."),
        (lambda t: t.left.foreach(print, qqq="x"), "foreach has no qqq=", "leave out qqq="),
        (
            lambda _: Materialized("totals"),  # type: ignore[misc] # pyright: ignore
            "Materialized cannot tell what 'totals'",
            "store='totals'",
        ),  # type: ignore[misc] # pyright: ignore
        (lambda _: TimeWindows(size=timedelta(1)), "TimeWindows needs grace=", "grace="),  # type: ignore[call-arg] # pyright: ignore
        (lambda _: Consumed(key_serde=str), "Consumed has no key_serde=", "key=str"),  # type: ignore[call-arg] # pyright: ignore
    ],
)
def test_a_call_that_cannot_be_is_answered_with_one_that_can(
    write: Written, said: str, fix: str
) -> None:
    """It names the user's line, the class that the user has, and what to write."""
    with pytest.raises(BadCallError) as caught:
        write(Topics())
    error = caught.value
    assert said in str(error)
    assert fix in str(error.fix)
    assert error.at is not None
    assert error.at.file == __file__
    assert isinstance(error, TypeError)


def test_a_name_as_an_option_is_told_its_keyword() -> None:
    """``count("totals")`` is what is tried first."""
    with pytest.raises(BadOptionError) as caught:
        Topics().left.group_by_key().count("totals")
    assert caught.value.fix == "write store='totals'"


@pytest.mark.parametrize(
    ("write", "fix"),
    [
        (lambda: Consumed.with_(str, str), "Consumed(key=..., value=...)"),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: Materialized.as_("totals"), 'Materialized(store="...")'),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: Grouped.as_("totals"), 'Grouped(name="...")'),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: Materialized(store="t").with_key_serde(str), "Materialized(key=...)"),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: Materialized(store="t").withCachingDisabled(), "caching=False"),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: JoinWindows.of(1), "JoinWindows.of_time_difference("),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: JoinWindows.ofTimeDifferenceWithNoGrace(1), "of_time_difference("),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: TimeWindows.of_size_with_no_grace(1), "TimeWindows(size="),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: SessionWindows.of_inactivity_gap_with_no_grace(1), "inactivity_gap="),  # type: ignore[attr-defined] # pyright: ignore
        (lambda: SlidingWindows.of_time_difference_with_no_grace(1), "time_difference="),  # type: ignore[attr-defined] # pyright: ignore
    ],
)
def test_options_as_java_writes_them_name_what_to_write(
    write: Callable[[], object], fix: str
) -> None:
    """Options are keywords; Kafka Streams' factories and setters are known."""
    with pytest.raises(NoSuchStepError) as caught:
        write()
    assert fix in str(caught.value.fix)


def test_other_missing_attributes_are_plain() -> None:
    """``hasattr``, copies and pickles work as with any object."""
    options = Materialized(store="totals")
    assert not hasattr(options, "nothing")
    assert not hasattr(Materialized, "_nothing")
    assert pickle.loads(pickle.dumps(options)) == options
    assert pickle.loads(pickle.dumps(NEAR)) == NEAR


@pytest.mark.parametrize(
    ("name", "fix"), [("Serdes", "types stand for serdes"), ("Named", 'name="..."')]
)
def test_names_of_kafka_streams_that_are_not_needed_say_so(name: str, fix: str) -> None:
    """Imported or asked for."""
    import mustela

    with pytest.raises(NoSuchNameError, match=fix):
        getattr(mustela, name)
    with pytest.raises(NoSuchNameError, match=fix):
        exec(f"from mustela import {name}")
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from mustela import Nothing")


def forgets(_key: str, value: str, aggregate: list[str]) -> None:
    aggregate.append(value)


def gives_sometimes(_key: str, value: str, aggregate: list[str]) -> list[str] | None:
    if value:
        return [*aggregate, value]
    return None


def gives_or_deletes(_key: str, value: str, aggregate: list[str]) -> list[str] | None:
    aggregate.append(value)
    return aggregate if value else None


def test_an_adder_that_never_returns_is_refused() -> None:
    """What it returns is the next aggregate, and None deletes the row."""
    grouped = Topics().left.group_by_key()
    with pytest.raises(FunctionError, match="never returns a value") as caught:
        grouped.aggregate(list, forgets)
    assert caught.value.fix == "end it with: return aggregate"
    grouped.aggregate(list, gives_sometimes, name="sometimes")
    grouped.aggregate(list, gives_or_deletes, name="or-deletes")
    grouped.aggregate(list, lambda _key, _value, _aggregate: None, name="deletes")


class Forgets(ContextualProcessor[str, str, str, str]):
    def init(self, context: Any) -> None:
        del context

    def process(self, record: Any) -> None:
        self.context.forward(record)


def test_a_context_that_was_not_kept_is_named() -> None:
    """An ``init`` of one's own has to call the one that keeps the context."""
    topics = Topics()
    topics.left.process(Forgets).to("out", **TEXTS)
    with (
        pytest.raises(ProcessingError, match=r"super\(\).init\(context\)"),
        TopologyTestDriver(topics.builder) as driver,
    ):
        driver.create_input_topic("left").pipe_input("a", "b")
    assert not hasattr(Forgets(), "nothing")
