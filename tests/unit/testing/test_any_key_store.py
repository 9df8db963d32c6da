"""Reading any key of any store: what a processor sees is the end of the epoch before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import (
    Materialized,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.errors import StoreAccessError, UnknownStoreError
from mustela.processors import ContextualProcessor
from mustela.state.faults import StoreError

WAYS: list[dict[str, Any]] = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 8, "lanes": 3, "crash_after_every_record": True},
    {"key_groups": 8, "lanes": 8, "settings": {"event_time": "stream-time"}},
    {"key_groups": 8, "lanes": 2, "settings": {"emit": "every"}},
]


class Ask(ContextualProcessor[Any, Any, Any, Any]):
    """Forwards the values of the keys that a record names, as far as they are known."""

    def process(self, record: Any) -> None:
        found = self.context.any_key_store("prices").get_many(record.value)
        values = [None if item is None else item.value for item in found]
        self.context.forward(record.with_value(values))


def table_and_questions() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    questions = builder.stream("questions", key=str, value=list)
    questions.process(Ask, reads=["prices"]).to("answers", key=str, value=list)
    return builder


Epoch = tuple[dict[str, int | None], list[list[str]]]
names = st.sampled_from("abcdefgh")
prices = st.dictionaries(names, st.one_of(st.none(), st.integers(0, 99)), max_size=4)
epochs = st.lists(st.tuples(prices, st.lists(st.lists(names, max_size=4), max_size=3)), max_size=5)


def answers(script: Sequence[Epoch], way: dict[str, Any]) -> list[list[int | None]]:
    """Run epochs of prices and questions; return what was answered."""
    with TopologyTestDriver(table_and_questions(), **way) as driver:
        table = driver.create_input_topic("prices")
        questions = driver.create_input_topic("questions")
        out = driver.create_output_topic("answers")
        found: list[list[int | None]] = []
        for changes, asked in script:
            with driver.epoch():
                for name, price in changes.items():
                    table.pipe_input(name, price)
                for keys in asked:
                    questions.pipe_input("q", keys)
            found += out.read_values_to_list()
        return found


@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=15)
@given(script=epochs)
def test_an_answer_is_that_of_the_end_of_the_epoch_before(
    way: dict[str, Any], script: list[Epoch]
) -> None:
    """Whatever lane a key belongs to, and though its lane writes it in the same epoch."""
    known: dict[str, int | None] = {}
    expected: list[list[int | None]] = []
    for changes, asked in script:
        expected += [[known.get(key) for key in keys] for keys in asked]
        known.update(changes)
    assert answers(script, way) == expected


def test_a_step_reads_its_own_store_as_it_was_before_the_epoch() -> None:
    """`state_store` shows what the epoch has written, `any_key_store` does not."""

    class Both(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            mine = self.context.state_store("seen")
            mine.put(record.key, record.value)
            whole = self.context.any_key_store("seen")
            told = (
                mine.get(record.key),
                whole.get(record.key),
                sorted(key for key, _ in whole.all()),
            )
            self.context.forward(record.with_value(list(told)))

    builder = StreamsBuilder()
    seen = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("seen"), key=str, value=int
    )
    stream = builder.stream("in", key=str, value=int)
    stream.process(Both, stores=[seen], reads=["seen"]).to("out", key=str, value=list)
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        pipe, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        with driver.epoch():
            pipe.pipe_key_value_list([("a", 1), ("b", 2), ("a", 3)])
        told = sorted(out.read_key_values_to_list())
        assert told == [("a", [1, None, []]), ("a", [3, None, []]), ("b", [2, None, []])]
        pipe.pipe_input("a", 4)
        assert out.read_values_to_list() == [[4, 3, ["a", "b"]]]


def test_every_kind_of_store_that_users_see_can_be_read() -> None:
    """Tables, versioned tables, windows and sessions, each as its kind shows itself."""
    told: list[Any] = []

    class Look(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            store = self.context.any_key_store
            told.append(
                [
                    store("counts").get("k"),
                    store("versions").get("k"),
                    [value.value for _, value in store("windows").fetch("k", 0, 100)],
                    [value for _, value in store("sessions").fetch("k")],
                    store("recent").get("k").value,
                ]
            )

    builder = StreamsBuilder()
    ticks = builder.stream("ticks", key=str, value=int)
    grouped = ticks.group_by_key()
    grouped.count(store="counts")
    window = TimeWindows(size=timedelta(milliseconds=10), grace=timedelta(0))
    grouped.windowed_by(window).count(store="windows")
    gap = SessionWindows(inactivity_gap=timedelta(milliseconds=5), grace=timedelta(0))
    grouped.windowed_by(gap).count(store="sessions")
    versions = Stores.persistent_versioned_key_value_store("versions", timedelta(hours=1))
    ticks.to_table(materialized=Materialized(supplier=versions))
    ticks.to_table(name="recent", materialized=Materialized(supplier=Stores.lru_map("recent", 9)))
    reads = ["counts", "versions", "windows", "sessions", "recent"]
    builder.stream("looks", key=str, value=str).process(Look, reads=reads)
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        driver.create_input_topic("ticks").pipe_input("k", 7, timestamp=3)
        driver.create_input_topic("looks").pipe_input("x", "y", timestamp=4)
    counts, version, windows, sessions, recent = told[-1]
    assert (counts.value, version.value, windows, sessions, recent) == (1, 7, [1], [1], 7)


def test_a_read_of_a_store_that_was_not_declared_says_how_to() -> None:
    """The error names the step, its line, and the option."""

    class Undeclared(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            for name in ["prices"]:  # what a loop does is not told before it runs
                self.context.any_key_store(name).get(record.key)

    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    builder.stream("in", key=str, value=str).process(Undeclared, name="ask")
    with TopologyTestDriver(builder) as driver, pytest.raises(Exception, match="ask") as caught:
        driver.create_input_topic("in").pipe_input("a", "b")
    cause: Any = caught.value.__cause__
    assert isinstance(cause, StoreAccessError)
    assert cause.fix == 'declare it: process(..., reads=["prices"])'
    assert cause.at is not None
    assert cause.at.file == __file__


def test_a_store_that_nobody_has_is_found_when_the_topology_is_built() -> None:
    """Also when the table that is meant keeps no store of that name."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Ask, reads=["prices"])
    with pytest.raises(UnknownStoreError, match="reads store 'prices', which no step has"):
        builder.build()


def test_what_belongs_to_other_lanes_is_not_written() -> None:
    """The error says that the store can only be read."""
    refused: list[StoreError] = []

    class Write(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            try:
                self.context.any_key_store("prices").put(record.key, 1)
            except StoreError as error:
                refused.append(error)

    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    builder.stream("in", key=str, value=str).process(Write, reads=["prices"])
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")
    assert "can only be read here" in str(refused[0])
