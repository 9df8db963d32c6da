"""The port of queries: where committed state comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.state.interfaces import Snapshot, StoreSpec
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.processor import ProcessorNode

__all__ = ["Edition", "StateSource", "StorePlace", "key_groups_of", "places_in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """Where a store is.

    Attributes:
        spec: Name, kind and serdes.
        stage: The stage that holds it; -1 and below for copies of global tables.
        groups: Its number of key groups.
        wanders: Whether a row may be in another key group than that of its key, because a processor
            may write any key, or because the key of the store is not that of the record.
        on_demand: Whether a snapshot opens it only when it is asked for.
    """

    spec: StoreSpec
    stage: int
    groups: int
    wanders: bool = True
    on_demand: bool = False


def key_groups_of(stores: Iterable[StorePlace]) -> list[tuple[int, int]]:
    """Return the key groups of stores, as stage and number, without those opened on demand.

    Example:
        >>> from mustela.state.interfaces import StoreSpec
        >>> spec = StoreSpec(name="counts")
        >>> key_groups_of([StorePlace(spec=spec, stage=1, groups=2)])
        [(1, 0), (1, 1)]
        >>> key_groups_of([StorePlace(spec=spec, stage=-1, groups=1, on_demand=True)])
        []
    """
    stages = {(place.stage, place.groups) for place in stores if not place.on_demand}
    return [(stage, group) for stage, groups in sorted(stages) for group in range(groups)]


def places_in(plan: Plan, key_groups: int) -> dict[str, StorePlace]:
    """Return where the stores of a plan are, without copies of global tables.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.planner.planner import plan
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str).group_by_key()
        >>> counts = words.count(store="counts")
        >>> places_in(plan(builder.build()), 4)["counts"].wanders
        False
    """
    free = {
        spec.name for node in plan.nodes if isinstance(node, ProcessorNode) for spec in node.stores
    }
    # Its keys hold two keys; the row is where the record of the foreign one is.
    free |= {
        node.subscriptions.name for node in plan.nodes if isinstance(node, ForeignKeyMatchNode)
    }
    return {
        name: StorePlace(spec=spec, stage=stage, groups=key_groups, wanders=name in free)
        for name, (stage, spec) in plan.stores.items()
    }


class Edition(Protocol):
    """What is committed as of one epoch; it does not change."""

    @property
    def epoch(self) -> int:
        """The number of the epoch; 0 before the first."""
        ...

    @property
    def watermark(self) -> int | None:
        """Event time as of the epoch, in milliseconds; None if there is none yet."""
        ...

    @property
    def stores(self) -> Mapping[str, StorePlace]:
        """All stores by name."""
        ...

    def mark(self, stage: int, group: int) -> object:
        """Return what identifies the state of a key group; equal marks mean equal state."""
        ...

    def open(self, stage: int, group: int) -> Snapshot:
        """Open a view of the state of a key group.

        Raises:
            StateNotReadyError: If this state is not there, or is no longer.
        """
        ...

    def has_read(self, sent: Mapping[TopicPartition, int]) -> bool:
        """Return whether the records at these offsets, and all before them, are in this state."""
        ...


class StateSource(Protocol):
    """Gives out editions."""

    def newest(self) -> Edition:
        """Return the newest edition; cheap, and safe to call from any thread.

        Raises:
            StateUnavailableError: If there is none now.
            StateElsewhereError: If this process cannot read it.
        """
        ...

    def wait(self, holds: Callable[[Edition], bool], seconds: float) -> bool:
        """Wait until the newest edition meets a condition; return False if the time is up first.

        Raises:
            StateUnavailableError: If no further edition will come.
        """
        ...
