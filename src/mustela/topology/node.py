"""The base of every node of the logical graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mustela.api.handlers import Handler
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.store_meaning import StoreMeaning, store_meaning

__all__ = ["Arrival", "Node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How the records of one parent reach a step: in the lane of their key.

    Attributes:
        key: Serde for the bytes of the key, which decide the key group.
        ordered: Whether the step must see the records in merged source order.
        keep_null_keys: Whether records without a key come too; they go to key group 0.
    """

    key: Serde[Any]
    ordered: bool = True
    keep_null_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step as the user wrote it.

    Attributes:
        name: Unique in the topology; made from the path or given by ``name=``, never from a
            counter.
        parents: Names of the nodes whose output this node reads, in the order of its inputs.
        origin: The user's line.
        explicit_name: Whether the user gave the name.
        on_error: What happens to a record that fails in this step; None takes the settings.
    """

    name: str
    parents: tuple[str, ...] = ()
    origin: Origin | None = None
    explicit_name: bool = False
    on_error: Handler | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores that this node reads or writes; nodes that share one stay together."""
        return ()

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """Return what the rows mean that this node keeps in one of its `stores`."""
        return store_meaning(store, owner=self.name, operation=self.operation)

    @property
    def operation(self) -> str:
        """What this node does with its stores, in a word that never changes between releases."""
        return type(self).__name__.removesuffix("Node")

    @property
    def reads_any(self) -> tuple[str, ...]:
        """Names of the stores in which this node reads any key, as of the end of the last epoch.

        They are other steps' stores, or its own; reading them moves no records.
        """
        return ()

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """How each parent's records reach this step; None if any place will do."""
        return (None,) * len(self.parents)

    @property
    def changes_keys(self) -> bool:
        """Whether records may leave this step with another key than they arrived with."""
        return False

    @property
    def keyed_by(self) -> Serde[Any] | None:
        """For a step that changes keys: the serde by whose bytes the new keys are in their lane.

        None if they are not in their lane, so that they have to travel.
        """
        return None

    @property
    def lag_ms(self) -> int:
        """How far behind event time this step may stamp rows that it held back."""
        return 0

    @property
    def acts_on_time(self) -> bool:
        """Whether the step may act without a record: when a window closes or a timer is due."""
        return False

    @property
    def acts_at_start(self) -> bool:
        """Whether the step wants a turn in each key group before any record.

        In that turn it says when it wants the next one.
        """
        return False

    @property
    def writes_letters(self) -> bool:
        """Whether the step writes dead letters, whatever the settings' handlers say."""
        return False

    @property
    def gives_several(self) -> bool:
        """Whether one record may become several.

        The operator numbers them if its step ``numbers``: sinks of one topic order them by that.
        """
        return False

    @property
    def drops_late(self) -> bool:
        """Whether the step leaves out late records, or makes dead letters of them."""
        return False

    @property
    def begins_in_lane(self) -> bool:
        """Whether the step, which reads nothing, runs in a lane and not where topics are read."""
        return False

    @property
    def asks_old(self) -> tuple[bool, ...]:
        """Which parents' changes must carry the old value; a parent without a store gets one."""
        return (False,) * len(self.parents)

    @property
    def passes_old(self) -> bool:
        """Whether a step that gives a table without a ``store`` of its own can give old values.

        It computes them from its parents' old values, which they are asked for in turn. If this is
        false, such a step gets a store of its own as soon as anybody asks.
        """
        return False

    @property
    def looks_up(self) -> tuple[bool, ...]:
        """Which parents' rows the step looks up; a parent whose rows are nowhere gets a store."""
        return (False,) * len(self.parents)

    @property
    def needs_order(self) -> bool:
        """Whether the step depends on the order of the rows that reach it."""
        arrivals = (arrival for arrival in self.arrivals if arrival is not None)
        return len(self.parents) > 1 or any(arrival.ordered for arrival in arrivals)
