"""What the code of a processor says of the stores that it will ask for."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import (
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
)
from mustela.api.errors import StoreAccessError
from mustela.api.stores import StoreBuilder
from mustela.processors import ContextualProcessor
from mustela.topology.asked_stores import asked_stores

KEPT = "kept"
Any1 = ContextualProcessor[Any, Any, Any, Any]


def store(name: str) -> StoreBuilder:
    supplier = Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, key=str, value=str)


class InInit(Processor[Any, Any, Any, Any]):
    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.kept = context.state_store("kept")

    def process(self, record: Record[Any, Any]) -> None:
        self.kept.put(record.key, record.value)


class InProcess(Any1):
    def process(self, record: Record[Any, Any]) -> None:
        before = self.context.get_state_store("kept").get(record.key)
        self.context.forward(record.with_value(before))


class ByConstant(Any1):
    def process(self, record: Record[Any, Any]) -> None:
        """Has a docstring, and takes some records only."""
        if record.value is None:
            return
        self.context.state_store(KEPT).put(record.key, record.value)


class ByField(Any1):
    def __init__(self, name: str = "kept") -> None:
        self.name = name

    def process(self, record: Record[Any, Any]) -> None:
        if record.value:
            self.context.state_store(self.name).put(record.key, record.value)


class Inherits(InInit):
    pass


class OfAnyLane(Any1):
    def process(self, record: Record[Any, Any]) -> None:
        other = self.context.any_key_store("kept").get(record.value)
        self.context.forward(record.with_value(other))


class Perhaps(Any1):
    """Asks for no store for sure."""

    deep = False

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        super().init(context)
        self.find = lambda: context.state_store("kept")
        self.kept = context.state_store("kept") if self.deep else None
        try:
            self.other = context.state_store("kept")
        except StoreAccessError:
            self.other = None
        self.last = context.state_store("kept")

    def process(self, record: Record[Any, Any]) -> None:
        name = record.value
        _ = self.deep and self.context.state_store("kept")
        self.elsewhere().state_store("kept")
        if self.deep:
            self.context.state_store("kept")
        self.context.state_store(name)

    def elsewhere(self) -> Any:
        return self.context


@pytest.mark.parametrize(
    "supplier",
    [InInit, InProcess, ByConstant, ByField, Inherits, OfAnyLane, lambda: ByField("kept")],
)
def test_a_store_that_a_step_does_not_name_is_missed_before_anything_runs(supplier: Any) -> None:
    """With the step's line, the line that asks, and the fix; once it is named all is well."""
    asks = asked_stores(supplier())
    assert [(asked.name, "_store(" in asked.at.code) for asked in asks] == [("kept", True)]
    option = asks[0].option

    def build(**uses: Any) -> StreamsBuilder:
        builder = StreamsBuilder().add_state_store(store("kept")).add_state_store(store("other"))
        table = builder.table("rows", key=str, value=str, store="rows-kept")
        table.to_stream().process(InInit, stores=["kept"], name="writes")
        records = builder.stream("in", key=str, value=str)
        records.process(supplier, name="step", **uses).to("out", key=str, value=str)
        return builder

    with pytest.raises(StoreAccessError, match="step 'step' asks for store 'kept'") as caught:
        TopologyTestDriver(build())
    assert f'{option}=["kept"]' in str(caught.value.fix)
    assert "records.process(supplier" in str(caught.value.at)
    assert caught.value.evidence["asks"] == str(asks[0].at)
    with pytest.raises(StoreAccessError):
        TopologyTestDriver(build(**{option: ["other"]} if option == "stores" else {}))
    with TopologyTestDriver(build(**{option: ["kept"]})) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")


def test_what_may_never_be_asked_refuses_no_program() -> None:
    """A condition, a function for later, an attempt, a name that only a record tells."""
    assert asked_stores(Perhaps()) == ()
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Perhaps, name="perhaps")
    with TopologyTestDriver(builder):
        pass


def test_what_has_no_source_is_asked_when_it_runs() -> None:
    """As is a program that was typed in."""
    made: dict[str, Any] = {"Any1": Any1}
    text = "class Typed(Any1):\n def process(self, record): self.context.state_store('kept')"
    exec(text, made)
    assert asked_stores(made["Typed"]()) == ()


def test_global_stores_need_no_word() -> None:
    """Every host has them whole."""
    builder = StreamsBuilder()
    builder.global_table("rows", key=str, value=str, store="kept")
    builder.stream("in", key=str, value=str).process(InProcess, name="step")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("rows").pipe_input("a", "row")
        driver.create_input_topic("in").pipe_input("a", "b")
