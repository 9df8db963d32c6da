"""Topologies that are written step by step, and stores that every host has whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    App,
    Consumed,
    DataError,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
)
from mustela.api.errors import (
    DuplicateNameError,
    DuplicateStoreError,
    FunctionError,
    MissingSerdeError,
    SourceConflictError,
    UnknownStepError,
    UnknownStoreError,
)
from mustela.errors import MustelaError
from mustela.processors import ContextualProcessor, PunctuationType, RecordMetadata
from mustela.stores import StoreBuilder


def store(name: str, *, key: Any = str, value: Any = int) -> StoreBuilder:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=key, value=value)


class Sum(ContextualProcessor[str, int, str, int]):
    """Adds the numbers of a key up in the store ``sums``."""

    def process(self, record: Record[str, int]) -> None:
        sums = self.context.state_store("sums")
        sums.put(record.key, sums.get(record.key, 0) + record.value)
        self.context.forward(record.with_value(sums.get(record.key)))


class Negate(ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_value(-record.value))


class AddOne(ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_value(record.value + 1))


class Keep(ContextualProcessor[str, str, Any, Any]):
    """Writes what it is given into the store ``kept``, with where it came from."""

    def process(self, record: Record[str, str]) -> None:
        kept = self.context.state_store("kept")
        place = self.context.record_metadata()
        assert isinstance(place, RecordMetadata)
        before = kept.get(record.key)
        if record.value is None:
            kept.delete(record.key)
        else:
            kept.put(record.key, f"{before or ''}{record.value}@{place.offset}")


class Look(ContextualProcessor[str, str, str, str]):
    """Forwards what the store ``kept`` has for the value."""

    def process(self, record: Record[str, str]) -> None:
        kept = self.context.state_store("kept")
        seen = f"{kept.get(record.value)} of {len(list(kept.all()))}"
        self.context.forward(record.with_value(seen))


def sums() -> Topology:
    """Two topics into one processor with a store, two steps behind it, one sink of both."""
    topology = Topology()
    topology.add_source("left", "left", key=str, value=int)
    topology.add_source("right", ["right", "other"], key=str, value=int)
    topology.add_processor("sum", Sum, "left", "right")
    topology.add_state_store(store("sums"), "sum")
    topology.add_processor("negate", Negate, "sum")
    topology.add_processor("one", AddOne, "sum")
    topology.add_sink("out", "out", "negate", "one", key=str, value=int)
    return topology


@pytest.mark.parametrize(
    "options", [{}, {"key_groups": 4, "lanes": 2, "crash_after_every_record": True}]
)
def test_a_topology_runs_as_it_was_written(options: dict[str, Any]) -> None:
    """A step with several parents takes the records of all, in order."""
    with TopologyTestDriver(sums(), **options) as driver:
        for number, topic in enumerate(["left", "right", "other"]):
            driver.create_input_topic(topic).pipe_input("a", number + 1, timestamp=number)
        found = driver.create_output_topic("out").read_values_to_list()
        assert found == [-1, 2, -3, 4, -6, 7]


def test_a_topology_tells_its_shape() -> None:
    """As Kafka Streams prints it."""
    assert sums().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: left (topics: [left])\n"
        "      --> sum\n"
        "    Source: right (topics: [other, right])\n"
        "      --> sum\n"
        "    Processor: sum (stores: [sums])\n"
        "      --> negate, one\n"
        "      <-- left, right\n"
        "    Processor: negate (stores: [])\n"
        "      --> out\n"
        "      <-- sum\n"
        "    Processor: one (stores: [])\n"
        "      --> out\n"
        "      <-- sum\n"
        "    Sink: out (topic: out)\n"
        "      <-- negate, one\n\n"
    )


def test_a_processor_names_the_child_that_gets_a_record() -> None:
    """By the name that the child was added with."""

    class Route(ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record, "even" if record.value % 2 == 0 else "odd")

    topology = Topology().add_source("in", "in", key=str, value=int)
    topology.add_processor("route", Route, "in")
    for name in ("even", "odd"):
        topology.add_sink(name, name, "route", key=str, value=int)
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in").pipe_value_list([1, 2, 3])
        assert driver.create_output_topic("even").read_values_to_list() == [2]
        assert driver.create_output_topic("odd").read_values_to_list() == [1, 3]


def test_what_a_builder_gives_can_be_added_to() -> None:
    """By the names of its steps; the builder is as it was."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str)
    words.map_values(len, name="lengths")
    topology = builder.build()
    topology.add_processor("negate", Negate, "lengths").add_sink(
        "out", "out", "negate", key=str, value=int
    )
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("words").pipe_input("a", "sun")
        assert driver.create_output_topic("out").read_value() == -3
    assert [node.name for node in builder.build()] == ["words", "lengths"]


def test_a_processor_of_the_dsl_can_be_connected_to_more_stores() -> None:
    """To one that was added, and to that of a table."""

    class Both(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            count = self.context.state_store("counts").get(record.key)
            own = self.context.state_store("own")
            own.put(record.key, own.get(record.key, 0) + 10)
            told = f"{count and count.value} {own.get(record.key)}"
            self.context.forward(record.with_value(told))

    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str)
    words.group_by_key().count(store="counts")
    words.process(Both, name="both").to("out", key=str, value=str)
    topology = builder.build().add_state_store(store("own"))
    topology.connect_processor_and_state_stores("both", "own", "counts")
    with TopologyTestDriver(topology) as driver:
        with driver.epoch():
            driver.create_input_topic("words").pipe_key_value_list([("a", "x"), ("a", "y")])
        assert driver.create_output_topic("out").read_values_to_list() == ["1 10", "2 20"]


def test_an_application_runs_a_topology_that_its_function_returns() -> None:
    """Instead of what the builder was told."""
    app = App("sums", engine="none")

    @app.topology
    def build(builder: StreamsBuilder) -> Topology:
        del builder
        return sums()

    assert app.built_topology().describe() == build(StreamsBuilder()).describe()


def source() -> Topology:
    return Topology().add_source("in", "in", key=str, value=int)


@pytest.mark.parametrize(
    ("error", "write"),
    [
        (DuplicateNameError, lambda: source().add_source("in", "other")),
        (SourceConflictError, lambda: source().add_source("again", "in", key=str, value=int)),
        (UnknownStepError, lambda: source().add_processor("p", Sum, "nowhere")),
        (UnknownStepError, lambda: source().add_processor("p", Sum)),
        (UnknownStepError, lambda: source().add_processor("p", Sum, "p")),
        (FunctionError, lambda: source().add_processor("p", object, "in")),
        (DuplicateNameError, lambda: source().add_processor("in", Sum, "in")),
        (UnknownStepError, lambda: source().add_sink("out", "out")),
        (UnknownStepError, lambda: source().add_sink("out", "out", "nowhere")),
        (
            UnknownStepError,
            lambda: source().add_sink("out", "out", "in").add_sink("next", "next", "out"),
        ),
        (
            MissingSerdeError,
            lambda: source().add_processor("p", Negate, "in").add_sink("out", "out", "p"),
        ),
        (UnknownStepError, lambda: source().add_state_store(store("s"), "nowhere")),
        (UnknownStepError, lambda: source().add_state_store(store("s"), "in")),
        (
            UnknownStoreError,
            lambda: (
                source().add_processor("p", Sum, "in").connect_processor_and_state_stores("p", "s")
            ),
        ),
        (
            DuplicateStoreError,
            lambda: source().add_state_store(store("s")).add_state_store(store("s", value=str)),
        ),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_written(
    error: type[MustelaError], write: Any
) -> None:
    """With the user's line."""
    with pytest.raises(error) as caught:
        write()
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


KEPT = Consumed(key=str, value=str)


def with_global_store() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.add_global_store(store("kept", value=str), "facts", Keep, consumed=KEPT)
    asked = builder.stream("questions", key=str, value=str)
    asked.process(Look, name="look").to("answers", key=str, value=str)
    builder.add_state_store(store("own"))
    asked.process(Look, stores=["own"], name="look-too").to("more", key=str, value=str)
    return builder


@pytest.mark.parametrize(
    "options", [{}, {"key_groups": 4, "lanes": 2, "crash_after_every_record": True}]
)
def test_a_global_store_is_written_by_its_processor_and_read_by_all(
    options: dict[str, Any],
) -> None:
    """Without being connected, in any lane; a processor reads every key of it."""
    with TopologyTestDriver(with_global_store(), **options) as driver:
        facts = driver.create_input_topic("facts")
        facts.pipe_key_value_list([("sky", "blue"), ("grass", "green"), ("sky", "grey")])
        questions = driver.create_input_topic("questions")
        questions.pipe_key_value_list([("1", "sky"), ("2", "grass"), ("3", "sea")])
        facts.pipe_input("grass", None)
        questions.pipe_input("4", "grass")
        wanted = ["blue@0grey@2 of 2", "green@1 of 2", "None of 2", "None of 1"]
        for topic in ("answers", "more"):
            assert driver.create_output_topic(topic).read_values_to_list() == wanted
        assert driver.get_key_value_store("kept").get("sky") == "blue@0grey@2"


def test_a_global_store_is_read_only_and_its_processor_forwards_nothing() -> None:
    """Both are refused with the reason."""

    class Write(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.state_store("kept").put("a", "b")

    class Forward(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

    builder = StreamsBuilder()
    builder.add_global_store(store("kept", value=str), "facts", Keep, consumed=KEPT)
    builder.stream("in", key=str, value=str).process(Write)
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError, match="only be read"):
        driver.create_input_topic("in").pipe_input("a", "x")
    topology = Topology().add_global_store(store("kept", value=str), "facts", Forward)
    topology.add_source("in", "in")
    with TopologyTestDriver(topology) as driver, pytest.raises(DataError, match="cannot forward"):
        driver.create_input_topic("facts").pipe_input(b"a", b"x")


@pytest.mark.parametrize(
    "call",
    [
        lambda context: context.any_key_store("other"),
        lambda context: context.update("other", "a", max),
        lambda context: context.transact(["a"], print),
        lambda context: context.register_event_time_timer(5),
        lambda context: context.delete_timer(),
        lambda context: context.schedule(
            timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, print
        ),
    ],
)
def test_a_global_stores_processor_is_told_that_it_has_no_lane(
    call: Callable[[Any], object],
) -> None:
    """What needs one is refused with a way to do it; time and counts are there for it too."""

    class Ask(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            assert self.context.current_watermark() == self.context.current_stream_time() == 7
            assert self.context.current_processing_time() == self.context.current_system_time()
            self.context.metrics().counter("seen").increment()
            call(self.context)

    topology = Topology().add_global_store(store("kept", value=str), "facts", Ask)
    topology.add_source("in", "in")
    with TopologyTestDriver(topology) as driver, pytest.raises(DataError, match="has no lane"):
        driver.create_input_topic("facts").pipe_input(b"a", b"x", timestamp=7)


def test_a_bad_record_of_a_global_store_meets_the_handler() -> None:
    """Left out and counted on, or the end of the epoch."""
    for handler, wanted in (("continue", ["ok@1 of 1"]), ("fail", None)):
        settings = {"deserialization_handler": handler}
        with TopologyTestDriver(with_global_store(), settings=settings) as driver:
            facts = driver.create_input_topic("facts", key=bytes, value=bytes)
            questions = driver.create_input_topic("questions")
            if wanted is None:
                with pytest.raises(DataError, match="'facts'"):
                    facts.pipe_input(b"bad", b"\xff")
            else:
                facts.pipe_input(b"bad", b"\xff")
                facts.pipe_input(b"good", b"ok")
                questions.pipe_input("1", "good")
                assert driver.create_output_topic("answers").read_values_to_list() == wanted


def test_a_read_only_store_is_filled_from_its_topic_alone() -> None:
    """Its processor writes it, others that are connected read it."""

    class Spoil(ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.state_store("kept").delete(record.value)

    topology = Topology()
    built = store("kept", value=str)
    topology.add_read_only_state_store(built, "facts", "facts", "keep", Keep, consumed=KEPT)
    topology.add_source("in", "in", key=str, value=str)
    topology.add_processor("look", Look, "in")
    topology.add_processor("spoil", Spoil, "in")
    topology.add_sink("out", "out", "look", key=str, value=str)
    topology.connect_processor_and_state_stores("look", "kept")
    topology.connect_processor_and_state_stores("spoil", "kept")
    settings = {"processing_handler": "continue"}
    with TopologyTestDriver(topology, settings=settings) as driver:
        driver.create_input_topic("facts").pipe_input("sky", "blue")
        driver.create_input_topic("in").pipe_input("sky", "sky")
        driver.create_input_topic("in").pipe_input("sky", "sky")
        assert driver.create_output_topic("out").read_values_to_list() == ["blue@0 of 1"] * 2
        assert driver.metrics["failed_records:spoil"] == 2


class Sort(ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        if record.value < 0:
            self.context.output("negative", record)
        else:
            self.context.forward(record)


def _add(old: int | None, more: int) -> int:
    return (old or 0) + more


def _move(tx: Any, source: str, amount: int) -> int:
    if amount > 99:
        tx.abort("too much")
    balances = tx.store("balances")
    balances.put(source, balances.get(source, 0) + amount)
    return balances.get(source)


class Shared(ContextualProcessor[str, int, Any, Any]):
    """Reads, changes and transacts on stores of other lanes."""

    def process(self, record: Record[str, int]) -> None:
        seen = self.context.any_key_store("sums").get("all", 0)
        self.context.update("sums", "all", _add, record.value, reply_to="summed")
        self.context.transact([record.key], _move, record.key, record.value)
        self.context.forward(record.with_value(seen))


@pytest.mark.parametrize("key_groups", [1, 8])
def test_a_processor_of_a_topology_reaches_other_lanes_as_one_of_a_stream(key_groups: int) -> None:
    """``reads``, ``updates``, ``replies`` and ``transacts`` mean what they mean in the DSL."""
    topology = (
        Topology()
        .add_source("numbers", "numbers", key=str, value=int)
        .add_processor(
            "shared",
            Shared,
            "numbers",
            reads=["sums"],
            updates=[store("sums")],
            replies=["summed"],
            transacts=store("balances"),
        )
        .add_sink("seen", "seen", "shared", key=str, value=int)
        .add_processor("new", New, "shared.reply.summed", key=str)
        .add_sink("sums", "sums", "new", key=str, value=int)
        .add_sink("moved", "moved", "shared.transacted", key=str, value=int)
        .add_processor("why", Why, "shared.refused", key=str)
        .add_sink("refused", "refused", "why", key=str, value=str)
    )
    with TopologyTestDriver(topology, key_groups=key_groups, lanes=min(3, key_groups)) as driver:
        driver.create_input_topic("numbers").pipe_key_value_list([("a", 5), ("b", 7), ("a", 100)])
        outputs = {
            topic: driver.create_output_topic(topic).read_key_values_to_list()
            for topic in ("seen", "sums", "moved", "refused")
        }
    assert outputs == {
        "seen": [("a", 0), ("b", 5), ("a", 12)],
        "sums": [("all", 5), ("all", 12), ("all", 112)],
        "moved": [("a", 5), ("b", 7)],
        "refused": [("a", "too much")],
    }


class New(ContextualProcessor[str, Any, str, int]):
    def process(self, record: Record[str, Any]) -> None:
        self.context.forward(record.with_value(record.value.new))


class Why(ContextualProcessor[str, Any, str, str]):
    def process(self, record: Record[str, Any]) -> None:
        self.context.forward(record.with_value(record.value.reason))


def test_a_side_output_is_read_by_its_name() -> None:
    """A side output has types of its own, and is there only if a step reads it."""
    topology = Topology().add_source("numbers", "numbers", key=str, value=int)
    topology = topology.add_processor("sort", Sort, "numbers", outputs=["negative"])
    assert "sort.output.negative" not in [node.name for node in topology.nodes]
    topology = topology.add_sink("bad", "bad", "sort.output.negative")
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("numbers").pipe_value_list([1, -2])
        assert driver.create_output_topic("bad").read_values_to_list() == [-2]


def test_a_processor_is_given_its_stores_where_it_is_added() -> None:
    topology = Topology().add_source("numbers", "numbers", key=str, value=int)
    topology = topology.add_processor("sum", Sum, "numbers", stores=[store("sums")])
    topology = topology.add_sink("out", "out", "sum", key=str, value=int)
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("numbers").pipe_key_value_list([("a", 1), ("a", 2)])
        assert driver.create_output_topic("out").read_values_to_list() == [1, 3]
