"""Where each step of a flow runs, and whether its output is in the lane of its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from mustela.planner.flow import Edge, FlowStep, StepId
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.node import Arrival, Node
from mustela.topology.stateless import MergeNode

__all__ = ["Placement", "lifted", "place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a step runs.

    Attributes:
        stage: The stage's index.
        keyed_by: The serde by whose bytes the step's output is in the lane of its key; None if it
            is not, because it has not travelled yet or its keys have changed since.
        inputs: The step's inputs, with the shuffles that bring them into one stage.
    """

    stage: int
    keyed_by: Serde[Any] | None
    inputs: tuple[Edge, ...]


def place(step: FlowStep, placed: Mapping[StepId, Placement], floor: int = 0) -> Placement:
    """Return where a step runs, given where the steps it reads run.

    The stage is as early as possible: one after the last sender's if records travel, the sender's
    own if they do not. Inputs from an earlier stage travel into it. A step that reads nothing is in
    the first stage in which it can run.

    Args:
        step: The step.
        placed: The placement of each step that it reads.
        floor: The lowest stage in which it may run.
    """
    first = int(step.node.begins_in_lane)
    stage = max(floor, max((_arrival(edge, placed) for edge in step.inputs), default=first))
    inputs = tuple(
        edge
        if _arrival(edge, placed) == stage or edge.shuffle
        else replace(edge, shuffle=_meeting(step.node, number))
        for number, edge in enumerate(step.inputs)
    )
    keys = [edge.shuffle.key if edge.shuffle else placed[edge.source].keyed_by for edge in inputs]
    same = bool(keys) and all(key == keys[0] for key in keys)
    keyed_by = keys[0] if same else None
    if step.node.changes_keys or step.role == "combine":
        keyed_by = step.node.keyed_by if step.role != "combine" else None
    return Placement(stage=stage, keyed_by=keyed_by, inputs=inputs)


def lifted(
    steps: Sequence[FlowStep],
    placed: Mapping[StepId, Placement],
    fixed: Set[StepId] = frozenset(),
) -> dict[StepId, int]:
    """Return the stages of steps that run later than they could.

    A step whose rows are needed only later is moved there if its input travels anyway: the input
    then goes there at once, and the rows that the step makes from it do not travel. So the right
    table of a join by foreign key, which waits for the left one, is made at the join.

    Args:
        steps: All steps, senders first.
        placed: Where each runs when it runs as early as it can.
        fixed: Steps that are not moved.
    """
    while True:
        targets = _targets(steps, placed, fixed)
        held = {
            step.id
            for step in steps
            if step.id in targets
            and not all(edge.shuffle or edge.source in targets for edge in step.inputs)
        }
        if not held:
            return targets
        fixed = fixed | held


def _targets(
    steps: Sequence[FlowStep], placed: Mapping[StepId, Placement], fixed: Set[StepId]
) -> dict[StepId, int]:
    """Return the last stage in which the readers of each step find its rows, if it is a later one.

    A step that only passes its rows on has no reason to do so later.
    """
    targets: dict[StepId, int] = {}
    latest: dict[StepId, int] = {}
    read_here: set[StepId] = set()
    for step in reversed(steps):
        own = placed[step.id].stage
        here = step.id in read_here and step.id not in fixed
        if step.inputs and here and latest[step.id] > own:
            targets[step.id] = latest[step.id]
        for edge in step.inputs:
            stage = targets.get(step.id, own) if edge.shuffle is None else own - 1
            latest[edge.source] = min(stage, latest.get(edge.source, stage))
            if edge.shuffle is None:
                read_here.add(edge.source)
    return targets


def _arrival(edge: Edge, placed: Mapping[StepId, Placement]) -> int:
    return placed[edge.source].stage + (edge.shuffle is not None)


def _meeting(node: Node, number: int) -> Arrival:
    """Return how records travel only because other inputs of the step come from later stages."""
    if (arrival := node.arrivals[number]) is not None:
        return arrival
    key = node.key if isinstance(node, MergeNode) else None
    return Arrival(key=key or ValueSerde(sort_keys=True), keep_null_keys=True)
