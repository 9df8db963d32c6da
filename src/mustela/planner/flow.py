"""A plan before its stages are numbered: steps, and the edges on which records travel.

Rules turn one flow into another. Stages follow from a flow alone; see `assemble`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mustela.plan.step import Role, Step
from mustela.topology.graph import TopologyGraph
from mustela.topology.node import Arrival, Node

__all__ = ["Edge", "Flow", "FlowStep", "StepId"]

StepId = tuple[str, Role | None]
"""A node's name and the part of it that a step does; None for reading a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One input of a step.

    Attributes:
        source: The step whose output is read.
        shuffle: How it travels; None if it is read in the same stage.
    """

    source: StepId
    shuffle: Arrival | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """A step with its inputs.

    Attributes:
        node: What it means.
        role: Which part of the meaning; None for reading a source, which is not a step.
        inputs: What it reads, in order.
        wants_old: As in `mustela.plan.step.Step`, like the fields after it.
    """

    node: Node
    role: Role | None = "whole"
    inputs: tuple[Edge, ...] = ()
    wants_old: bool = False
    each_change: bool = False
    lag_ms: int = 0
    turns: tuple[int, ...] = ()
    numbers: bool = False
    spread: bool = False

    @property
    def id(self) -> StepId:
        """The name and the role."""
        return self.node.name, self.role

    def step(self, inputs: tuple[str, ...]) -> Step:
        """Return this as a step of a plan, reading ``inputs``."""
        assert self.role is not None, self.node.name
        return Step(
            name=self.node.name,
            inputs=inputs,
            node=self.node,
            role=self.role,
            wants_old=self.wants_old,
            each_change=self.each_change,
            lag_ms=self.lag_ms,
            turns=self.turns,
            numbers=self.numbers,
            spread=self.spread,
        )


@dataclass(frozen=True, slots=True)
class Flow:
    """All steps of an application, each after the steps it reads.

    Attributes:
        topology: The topology from which they were made.
        steps: The steps.
        merges_travels: Whether steps that want the same records by the same key share an exchange.
    """

    topology: TopologyGraph
    steps: tuple[FlowStep, ...]
    merges_travels: bool = False

    def __iter__(self) -> Iterator[FlowStep]:
        """Iterate over the steps, senders first."""
        return iter(self.steps)

    def up_to(self, steps: Iterable[FlowStep]) -> set[StepId]:
        """Return the given steps and all before them."""
        known = self.by_id()
        found: set[StepId] = set()
        waiting = list(steps)
        while waiting:
            step = waiting.pop()
            if step.id not in found:
                found.add(step.id)
                waiting += [known[edge.source] for edge in step.inputs]
        return found

    def by_id(self) -> dict[StepId, FlowStep]:
        """Return the steps by name and role."""
        return {step.id: step for step in self.steps}
