"""Processors around those of the user's, for a whole topology."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import Consumed, Record, Stores, StreamsBuilder, Topology, TopologyTestDriver
from mustela.api.errors import FunctionError
from mustela.processors import (
    ContextualFixedKeyProcessor,
    ContextualProcessor,
    ProcessorWrapper,
    WrappedProcessor,
)


def store(name: str) -> Any:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=str, value=int)


class Noted(WrappedProcessor):
    """Notes the last value of each key in a store of its own, before it hands a record on."""

    @staticmethod
    def stores() -> Any:
        return [store("noted")]

    def init(self, context: Any) -> None:
        self.noted = context.state_store("noted")
        super().init(context)

    def process(self, record: Any) -> None:
        self.noted.put(record.key, record.value)
        super().process(record)


class Supplier:
    """Gives a wrapped processor, and names its store."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.stores = Noted.stores

    def __call__(self) -> Noted:
        return Noted(self.inner())


class NoteAll(ProcessorWrapper):
    """Tells which steps it has wrapped."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        self.names.append(name)
        return Supplier(supplier)

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Any) -> Any:
        self.names.append(f"{name} (fixed)")
        return supplier


class Delay(ContextualProcessor[str, int, str, int]):
    """Sums a key up in its own store; tells by a timer."""

    @staticmethod
    def stores() -> Any:
        return [store("sums")]

    def process(self, record: Record[str, int]) -> None:
        sums = self.context.state_store("sums")
        sums.merge(record.key, record.value, int.__add__)
        self.context.register_event_time_timer(record.timestamp + 10)

    def on_timer(self, timer: Any, context: Any) -> None:
        context.forward(timer.with_value(context.state_store("sums").get(timer.key)))


class Negate(ContextualFixedKeyProcessor[str, int, int]):
    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(-record.value))


@pytest.mark.parametrize("crashes", [False, True])
def test_each_processor_of_a_program_is_wrapped(crashes: bool) -> None:
    """With its stores, its timers and those of the wrapper; other steps are not."""
    wrapper = NoteAll()
    builder = StreamsBuilder(processor_wrapper=wrapper)
    numbers = builder.stream("in", key=str, value=int).map_values(lambda value: value + 1)
    numbers.process(Delay, name="delay").to("out", key=str, value=int)
    numbers.process_values(Negate, name="negate").to("negative", value=int)
    choices: Any = {"key_groups": 8, "settings": {"event_time": "watermark"}}
    with TopologyTestDriver(builder, crash_after_every_record=crashes, **choices) as driver:
        topic = driver.create_input_topic("in")
        for key, value, time in [("a", 1, 0), ("a", 2, 5), ("b", 7, 50)]:
            topic.pipe_input(key, value, timestamp=time)
        assert driver.create_output_topic("out").read_key_values_to_list() == [("a", 5)]
        assert driver.create_output_topic("negative").read_values_to_list() == [-2, -3, -8]
        assert dict(driver.get_key_value_store("noted").all()) == {"a": 3, "b": 8}
    assert wrapper.names == ["delay", "negate (fixed)"]


class Copy(ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)


class Keep(ContextualProcessor[str, int, Any, Any]):
    def process(self, record: Record[str, int]) -> None:
        self.context.state_store("rates").put(record.key, record.value)


class Names(ProcessorWrapper):
    def __init__(self) -> None:
        self.names: list[str] = []

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        self.names.append(name)
        return lambda: WrappedProcessor(supplier())


def test_a_topology_wraps_too_and_what_is_built_goes_on_to() -> None:
    """Steps that are added to a built topology, and global stores, are wrapped as well."""
    wrapper = Names()
    topology = Topology(processor_wrapper=wrapper).add_source("in", "in", key=str, value=int)
    topology = topology.add_processor("copy", Copy, "in").add_sink(
        "out", "out", "copy", key=str, value=int
    )
    consumed = Consumed(key=str, value=int)
    topology = topology.add_global_store(store("rates"), "rates", Keep, consumed=consumed)
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("rates").pipe_input("x", 5)
        driver.create_input_topic("in").pipe_input("a", 1)
        assert driver.create_output_topic("out").read_value() == 1
    assert wrapper.names == ["copy", "rates"]
    builder = StreamsBuilder(processor_wrapper=wrapper)
    builder.stream("in")
    builder.build().add_processor("later", Copy, "in")
    assert wrapper.names[2:] == ["later"]


class Lossy(ContextualProcessor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Loses(ProcessorWrapper):
    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        return Lossy


class Same(ProcessorWrapper):
    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        return Copy()


def test_what_a_wrapper_gives_is_checked() -> None:
    """A wrapper that would lose timers, or that gives no supplier, is refused when it is used."""
    numbers = StreamsBuilder(processor_wrapper=Loses()).stream("in", key=str, value=int)
    numbers.process(Copy)
    with pytest.raises(FunctionError, match="has no on_timer"):
        numbers.process(Delay)
    with pytest.raises(FunctionError, match="not a supplier of them"):
        StreamsBuilder(processor_wrapper=Same()).stream("in").process(Copy)
