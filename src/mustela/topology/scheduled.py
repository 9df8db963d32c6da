"""Sources whose records come from no topic: a user function, called by a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mustela.api.schedule import CatchUp, Schedule
from mustela.api.scheduled import TickFunction
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["ScheduledSourceNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSourceNode(Node):
    """Call a function at each tick of a schedule; its records begin a stream.

    It runs in the key group of its own name, where it remembers the last tick that was handled.

    Attributes:
        function: Makes the records of a tick.
        schedule: When ticks are due.
        catch_up: What happens to missed ticks.
        progress: Remembers the last tick.
        reads: Names of the stores that the function reads.
        key: Serde of the keys, if given.
        value: Serde of the values, if given.
    """

    function: TickFunction
    schedule: Schedule
    catch_up: CatchUp
    progress: StoreSpec
    reads: tuple[str, ...] = ()
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The store that remembers the last tick."""
        return (self.progress,)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """There is one row: up to which tick the source has come."""
        plain = store_meaning(store, owner=self.name, operation="schedule")
        return packed_meaning(plain, "progress")

    @property
    def reads_any(self) -> tuple[str, ...]:
        """The stores of other steps that the function reads."""
        return self.reads

    @property
    def changes_keys(self) -> bool:
        """The function may give its records any keys."""
        return True

    @property
    def acts_on_time(self) -> bool:
        """It acts on nothing but time."""
        return True

    @property
    def begins_in_lane(self) -> bool:
        """Its state is in a lane, and it reads nothing that would have to travel there."""
        return True
