"""The physical plan: stages of steps, with exchanges between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mustela.plan.step import Step
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["PLAN_FORMAT", "Exchange", "Plan", "Stage"]

PLAN_FORMAT = 1
"""Version of what stages say to each other; an epoch record names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Records leave one stage and reach the lane of their key in a later one.

    Attributes:
        name: The name of the target stage's input.
        step: The step (or source) of the sending stage whose output travels.
        key: Serde that makes the key bytes, which decide the key group.
        target: Index of the receiving stage.
        ordered: Whether the receiver must see records in merged source order; a combined
            aggregation does not.
        keep_null_keys: Whether records without a key travel too (they go to key group 0).
        table: Whether changes (new and old value) travel instead of records.
    """

    name: str
    step: str
    key: Serde[Any]
    target: int
    ordered: bool = True
    keep_null_keys: bool = False
    table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one Spark stage does.

    Attributes:
        index: 0 for the source stage, then upwards.
        sources: The source nodes read here; only stage 0 has any.
        inputs: Names of the exchanges that end here.
        steps: The steps, each after the steps it reads.
        exchanges: What leaves for later stages.
        stores: The stores that live here, by name; a store belongs to exactly one stage.
        identity: Hash of the store set, part of the state's path on disk.
    """

    index: int
    sources: tuple[SourceNode | TableSourceNode, ...] = ()
    inputs: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
    identity: str = ""

    @property
    def logged(self) -> tuple[str, ...]:
        """Names of the stores that have a changelog, in the order of a key group's marks."""
        return tuple(store.name for store in self.stores if store.logged)

    @property
    def acts_on_time(self) -> bool:
        """Whether a step may act without a record: because a window closes or a timer is due."""
        return bool(self.stores) and any(step.node.acts_on_time for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything an engine needs to run a topology.

    Attributes:
        stages: The stages; the first one reads the sources.
        topics: All source topics in a fixed order; a topic's index is part of a record's order.
        fingerprint: Hash of the topology's shape, kept in each epoch record.
    """

    stages: tuple[Stage, ...]
    topics: tuple[str, ...]
    fingerprint: str

    @property
    def stores(self) -> dict[str, tuple[int, StoreSpec]]:
        """Each store's stage index and specification, by store name."""
        return {spec.name: (stage.index, spec) for stage in self.stages for spec in stage.stores}
