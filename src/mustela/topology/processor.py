"""Steps written as processors, and their outputs."""

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
    """A store of which every host has a full copy.

    Attributes:
        spec: The store.
        plain: Whether a window store shows values without their timestamps.
    """

    spec: StoreSpec
    plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorNode(Node):
    """Call the user's ``process(record)`` for each record.

    Attributes:
        supplier: Makes a new processor on each call.
        connected: The stores that the processor uses. If other processors use them too, records
            pass all of these one by one.
        plain: Names of the window stores among them that show values without their timestamps.
        read_only: Names of the stores among them that only another step writes.
        fixed_key: Whether it is a `FixedKeyProcessor`, which cannot change keys.
        key: Serde of the incoming keys; None takes the typed default.
        value: Serde of the incoming values, likewise.
        outputs: Names of its side outputs.
        children: Names of the steps that read it, in the order in which they were attached; the
            planner knows them.
        global_stores: Stores of which every host has a full copy; any processor may read them. The
            planner knows them.
        reads: Names of the stores in which it reads any key.
        updates: Names of the stores in which it changes keys, in the keys' own lanes.
        replies: Names of the outputs that receive the results of such changes.
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
        """The stores that it declares to read, and those that it changes in other lanes."""
        return tuple(dict.fromkeys((*self.reads, *self.updates, *self.transacts)))

    @property
    def acts_on_time(self) -> bool:
        """Whether the processor has timers or punctuators."""
        return self.timers is not None

    @property
    def acts_at_start(self) -> bool:
        """Its ``init`` schedules punctuators before any record arrives."""
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
        """Whether some readers do not receive all that is forwarded."""
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
    """The records for one of several children of a processor; the planner makes it.

    Attributes:
        child: The child's name.
    """

    child: str
