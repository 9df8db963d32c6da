"""Steps that are written as processors, and what comes out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.asked_stores import AskedStore
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["ChildNode", "GlobalStore", "OutputNode", "ProcessorNode"]


@dataclass(frozen=True, slots=True)
class GlobalStore:
    """A store that every host has whole.

    Attributes:
        spec: The store.
        plain: Whether a window store shows values without their times.
    """

    spec: StoreSpec
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorNode(Node):
    """``process(record)`` of the user's for each record.

    Attributes:
        supplier: Gives a new processor each time it is called.
        connected: The stores that the processor uses. Other processors may use them too, and then
            records pass all of them one by one.
        plain: Names of the window stores among them that show values without their times.
        read_only: Names of the stores among them that another step alone writes.
        fixed_key: Whether it is a `FixedKeyProcessor`, which cannot change keys.
        key: Serde of the keys that come in; None takes the typed default.
        value: Serde of the values that come in, likewise.
        outputs: Names of its side outputs.
        children: Names of the steps that read it, in the order in which they were attached; the
            planner knows them.
        global_stores: What every host has whole; any processor may read it. The planner knows them.
        reads: Names of the stores of which it reads any key.
        updates: Names of the stores of which it has keys changed in their own lanes.
        replies: Names of the outputs by which it hears what was changed.
        transacts: Names of the stores of the transactions that it asks for.
        timers: Where timers and schedules are kept, if the processor may have any.
        asks: The stores that its code is sure to ask for.
    """

    supplier: Any
    connected: tuple[StoreSpec, ...] = ()
    plain: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()
    fixed_key: bool = False
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    outputs: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    global_stores: tuple[GlobalStore, ...] = ()
    reads: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    transacts: tuple[str, ...] = ()
    timers: StoreSpec | None = None
    asks: tuple[AskedStore, ...] = ()

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores that the processor uses."""
        return self.connected if self.timers is None else (*self.connected, self.timers)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """The stores are the user's; timers have no values."""
        if self.timers is None or store.name != self.timers.name:
            return store_meaning(store, owner=self.name, operation="process")
        plain = store_meaning(store, owner=self.name, operation="process", key=self.key)
        return packed_meaning(plain, "timers")

    @property
    def reads_any(self) -> tuple[str, ...]:
        """The stores that are said to be read, and those that are changed in other lanes."""
        return tuple(dict.fromkeys((*self.reads, *self.updates, *self.transacts)))

    @property
    def acts_on_time(self) -> bool:
        """Whether the processor has timers or punctuators."""
        return self.timers is not None

    @property
    def acts_at_start(self) -> bool:
        """Its ``init`` schedules punctuators before any record comes."""
        return self.timers is not None

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """With stores, records travel to the lane of their key; without, they stay in place."""
        if not self.stores:
            return (None,) * len(self.parents)
        arrival = Arrival(key=self.key or ValueSerde(sort_keys=True), keep_null_keys=True)
        return (arrival,) * len(self.parents)

    @property
    def divides(self) -> bool:
        """Whether not every reader gets all that is forwarded."""
        return bool(self.outputs or self.updates or self.transacts) or len(self.children) > 1

    @property
    def changes_keys(self) -> bool:
        """A processor may forward any key."""
        return not self.fixed_key


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNode(Node):
    """The records of one side output; reads a `ProcessorNode`.

    Attributes:
        output: The output's name.
    """

    output: str

    @property
    def changes_keys(self) -> bool:
        """An output may have other keys than the records that came in."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildNode(Node):
    """The records that one of several children of a processor gets; the planner makes it.

    Attributes:
        child: The child's name.
    """

    child: str
