"""Stores of processors: what they hold, whose they are, and what those that share one see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela import Record, Stores, StreamsBuilder, TopologyTestDriver, Windowed
from mustela.api.errors import (
    DuplicateStoreError,
    ProcessorError,
    StorePathError,
    UnknownStoreError,
)
from mustela.processors import ContextualProcessor
from mustela.stores import ValueAndTimestamp
from tests.unit.testing.processors import WAYS, Count, store


def test_a_changelog_has_one_record_for_a_key_and_epoch() -> None:
    """Writes of an epoch gather before they are logged."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Count).to("out", key=str, value=int)
    with TopologyTestDriver(builder) as driver:
        with driver.epoch():
            driver.create_input_topic("in").pipe_key_value_list([("a", "x")] * 5)
        logged = driver._cluster.changelogs["counts", 0]  # pyright: ignore[reportPrivateUsage]
        assert [key for key, _ in logged] == [b"a"]


class Traced(ContextualProcessor[str, str, str, str]):
    """Writes its letter behind those of the key that the record came with, and forwards them."""

    letter = "?"
    copies = 1

    def process(self, record: Record[str, str]) -> None:
        traces = self.context.state_store("traces")
        root = record.key.rstrip("+")
        for copy in range(self.copies):
            trace = traces.get(root, "") + self.letter
            traces.put(root, trace)
            self.context.forward(Record(record.key + "+", f"{record.value}{copy}{trace}"))
        traces.put(root, traces.get(root) + self.letter.lower())


class TracedA(Traced):
    letter, copies = "A", 2


class TracedB(Traced):
    letter = "B"


class TracedC(Traced):
    letter, copies = "C", 2


def traced_model(records: Sequence[tuple[str, str, str]]) -> tuple[list[Any], dict[str, str]]:
    """What depth-first processing gives: in1 -> A -> (twice -> B, C); in2 -> C."""
    traces: dict[str, str] = {}
    out: list[Any] = []

    def visit(kind: type[Traced], key: str, value: str) -> None:
        root = key.rstrip("+")
        for copy in range(kind.copies):
            traces[root] = traces.get(root, "") + kind.letter
            follow(kind, key + "+", f"{value}{copy}{traces[root]}")
        traces[root] += kind.letter.lower()

    def follow(kind: type[Traced], key: str, value: str) -> None:
        if kind is TracedA:
            for part in (value + "l", value + "r"):
                visit(TracedB, key, part)
            visit(TracedC, key, value)
        else:
            out.append((kind.letter, key, value))

    for topic, key, value in records:
        visit(TracedA if topic == "in1" else TracedC, key, value)
    return out, traces


def traced_topology() -> StreamsBuilder:
    builder = StreamsBuilder().add_state_store(store("traces", value=str))
    first = builder.stream("in1", key=str, value=str).process(TracedA, stores=["traces"], name="a")
    twice = first.flat_map_values(lambda value: [value + "l", value + "r"], name="twice")
    second = twice.process(TracedB, stores=["traces"], name="b")
    both = first.merge(builder.stream("in2", key=str, value=str), name="both")
    third = both.process(TracedC, stores=["traces"], name="c")
    second.to("B", key=str, value=str)
    third.to("C", key=str, value=str)
    return builder


@given(
    records=st.lists(
        st.tuples(st.sampled_from(["in1", "in2"]), st.sampled_from("abc"), st.sampled_from("xy")),
        max_size=6,
    ),
    cuts=st.lists(st.booleans(), min_size=6, max_size=6),
    way=st.sampled_from(WAYS),
)
def test_processors_that_share_a_store_see_records_one_by_one(
    records: list[tuple[str, str, str]], cuts: list[bool], way: dict[str, Any]
) -> None:
    """Depth-first, in order of attachment, however the records are cut into epochs.

    Steps lie between, one takes records from elsewhere too, and keys change on the way: state
    stays that of the key group of the record that came in.
    """
    out, traces = traced_model(records)
    with TopologyTestDriver(traced_topology(), **way) as driver:
        topics = {name: driver.create_input_topic(name) for name in ("in1", "in2")}
        epochs: list[list[int]] = []
        for number in range(len(records)):
            if epochs and cuts[number]:
                epochs[-1].append(number)
            else:
                epochs.append([number])
        for epoch in epochs:
            with driver.epoch():
                for number in epoch:
                    topic, key, value = records[number]
                    topics[topic].pipe_input(key, value, timestamp=number)
        for letter in "BC":
            found = driver.create_output_topic(letter).read_key_values_to_list()
            wanted = [(key, value) for kind, key, value in out if kind == letter]
            for root in "abc":  # the order over key groups is the lanes'
                assert [row for row in found if row[0].startswith(root)] == [
                    row for row in wanted if row[0].startswith(root)
                ]
        assert dict(driver.get_key_value_store("traces").all()) == traces


def test_a_processor_reads_and_sees_the_table_as_of_its_record() -> None:
    """A table's store that a processor uses changes record by record, not by the epoch."""

    class Peek(ContextualProcessor[str, Any, str, str]):
        def process(self, record: Record[str, Any]) -> None:
            counts = self.context.state_store("counts")
            self.context.forward(record.with_value(f"{record.value}:{counts.get(record.key)[0]}"))

    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    counts = words.group_by_key().count(store="counts")
    words.process(Peek, stores=["counts"], name="peek").to("seen", key=str, value=str)
    counts.to_stream().process(Peek, stores=["counts"], name="behind").to(
        "behind", key=str, value=str
    )
    with TopologyTestDriver(builder, key_groups=4, lanes=2) as driver:
        with driver.epoch():
            driver.create_input_topic("in").pipe_key_value_list([("a", "x"), ("a", "y")])
        assert driver.create_output_topic("seen").read_values_to_list() == ["x:1", "y:2"]
        assert driver.create_output_topic("behind").read_values_to_list() == ["1:1", "2:2"]


def test_a_step_that_lies_between_users_of_a_store_cannot_send_records_away() -> None:
    """The topology is refused before it runs, and says which step it is."""
    builder = StreamsBuilder().add_state_store(store("s"))
    first = builder.stream("in", key=str, value=str).process(Count, stores=["s"], name="first")
    counted = first.group_by(lambda _key, value: value, key=str).count(store="by-value")
    counted.to_stream().process(Count, stores=["s"], name="last")
    with pytest.raises(StorePathError) as caught:
        TopologyTestDriver(builder)
    assert caught.value.fields["first"] == "first"
    assert caught.value.fields["last"] == "last"


STORE_KINDS = {
    "key_value": (store("s"), lambda s: (s.put("k", 1), s.get("k"))[1], 1),
    "timestamped": (
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), key=str, value=int
        ),
        lambda s: (s.put("k", 1, timestamp=7), s.get("k"))[1],
        ValueAndTimestamp(1, 7),
    ),
    "window": (
        Stores.window_store_builder(
            Stores.persistent_window_store("s", timedelta(minutes=1), timedelta(seconds=1)),
            key=str,
            value=int,
        ),
        lambda s: (s.put("k", 1, 5), s.fetch("k", 5))[1],
        1,
    ),
    "timestamped window": (
        Stores.timestamped_window_store_builder(
            Stores.persistent_window_store("s", timedelta(minutes=1), timedelta(seconds=1)),
            key=str,
            value=int,
        ),
        lambda s: (s.put("k", 1, 5, timestamp=6), s.fetch("k", 5))[1],
        ValueAndTimestamp(1, 6),
    ),
    "session": (
        Stores.session_store_builder(
            Stores.persistent_session_store("s", timedelta(minutes=1)), key=str, value=int
        ),
        lambda s: (s.put(Windowed("k", 1, 2), 1), list(s.fetch("k")))[1],
        [(Windowed("k", 1, 2), 1)],
    ),
    "versioned": (
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("s", timedelta(minutes=1)),
            key=str,
            value=int,
        ),
        lambda s: (s.put("k", 1, 5), s.get("k").value)[1],
        1,
    ),
    "lru": (
        Stores.key_value_store_builder(Stores.lru_map("s", 1), key=str, value=int),
        lambda s: (s.put("j", 1), s.put("k", 2), dict(s.all()))[2],
        {"k": 2},
    ),
}


@pytest.mark.parametrize("kind", STORE_KINDS)
def test_a_processor_uses_stores_of_every_kind(kind: str) -> None:
    """As what its builder makes of it."""
    built, use, wanted = STORE_KINDS[kind]
    got: list[Any] = []

    class Use(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            got.append(use(self.context.get_state_store("s")))

    builder = StreamsBuilder().add_state_store(built)
    builder.stream("in", key=str, value=str).process(Use, stores=["s"])
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "x")
    assert got == [wanted]


def test_a_store_shows_the_key_group_of_the_record_in_hand() -> None:
    """What Kafka Streams has in a task is here in a key group."""
    seen: dict[str, list[str]] = {}

    class All(ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            numbers = self.context.state_store("s")
            numbers.put(record.key, record.value)
            seen[record.key] = [key for key, _ in numbers.all()]

    builder = StreamsBuilder().add_state_store(store("s"))
    builder.stream("in", key=str, value=int).process(All, stores=["s"])
    keys = [f"k{n}" for n in range(20)]
    with TopologyTestDriver(builder, key_groups=4, lanes=2) as driver:
        topic = driver.create_input_topic("in")
        for _ in range(2):
            topic.pipe_key_value_list([(key, 1) for key in keys])
    groups = {tuple(seen[key]) for key in keys}
    assert len(groups) == 4
    assert sorted(key for group in groups for key in group) == sorted(keys)


def test_a_store_is_added_before_it_is_used() -> None:
    """And has one meaning."""
    builder = StreamsBuilder().add_state_store(store("s"))
    stream = builder.stream("in", key=str, value=str)
    with pytest.raises(UnknownStoreError, match="'missing'") as caught:
        stream.process(Count, stores=["missing"])
    assert "add_state_store" in str(caught.value)
    builder.add_state_store(store("s"))
    with pytest.raises(DuplicateStoreError):
        builder.add_state_store(store("s", value=str))
    with pytest.raises(DuplicateStoreError):
        stream.group_by_key().count(store="s")


def test_a_store_that_was_not_declared_is_refused_with_the_fix() -> None:
    """The user's line and the list of the step's stores."""

    class Forgot(ContextualProcessor[str, str, str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            for name in ["other"]:  # what a loop does is not told before it runs
                context.state_store(name)

        def process(self, record: Record[str, str]) -> None:
            raise NotImplementedError

    builder = StreamsBuilder().add_state_store(store("s")).add_state_store(store("other"))
    builder.stream("in", key=str, value=str).process(Forgot, stores=["s"], name="forgot")
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessorError) as caught:
        driver.create_input_topic("in").pipe_input("a", "x")
    text = str(caught.value)
    assert 'stores=["other"]' in text
    assert "context.state_store(name)" in text
    assert caught.value.at is not None


def test_a_batch_fetches_the_rows_of_its_keys_at_once() -> None:
    """Reading the store by the record's key costs no look at the disk."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Count).to("out", key=str, value=int)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_key_value_list([(key, "x") for key in "abc"])
        environment = driver._cluster.environment((1, 0))  # pyright: ignore[reportPrivateUsage]
        calls: list[str] = []
        original = type(environment).snapshot

        def spied(self: Any, committed: Any) -> Any:
            snapshot: Any = original(self, committed)
            get, getmulti = snapshot.get, snapshot.getmulti
            snapshot.get = lambda *given: (calls.append("get"), get(*given))[1]
            snapshot.getmulti = lambda *given: (calls.append("getmulti"), getmulti(*given))[1]
            return snapshot

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(environment), "snapshot", spied)
            with driver.epoch():
                topic.pipe_key_value_list([(key, "x") for key in "abcabc"])
        assert calls == ["getmulti"]
