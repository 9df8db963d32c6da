"""Which steps must see records together, one at a time: those that share a store, and between.

In Kafka Streams a record passes through all steps of its sub-topology before the next one is taken.
Steps that share nothing cannot tell the difference; processors that use one store can.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from mustela.topology.node import Node
from mustela.topology.processor import ProcessorNode

__all__ = ["sharing", "with_between"]

S = TypeVar("S", bound=Hashable)


def sharing(nodes: Mapping[S, Node]) -> list[set[S]]:
    """Return the sets of steps that are connected by stores, one of which a processor uses.

    Args:
        nodes: What each step means.

    Returns:
        Disjoint sets of two steps or more, in the order of their first steps.
    """
    users: dict[str, list[S]] = {}
    for step, node in nodes.items():
        for store in node.stores:
            users.setdefault(store.name, []).append(step)
    sets: list[set[S]] = []
    for steps in users.values():
        if len(steps) < 2 or not any(isinstance(nodes[step], ProcessorNode) for step in steps):
            continue
        touching = [known for known in sets if known & set(steps)]
        sets = [known for known in sets if known not in touching]
        sets.append(set(steps).union(*touching))
    place = {step: number for number, step in enumerate(nodes)}
    return sorted(sets, key=lambda steps: min(place[step] for step in steps))


def with_between(sets: Iterable[set[S]], inputs: Mapping[S, Sequence[S]]) -> list[set[S]]:
    """Return the sets, each with the steps on the paths between its own.

    Sets that meet in this way, or of which each feeds the other, become one.

    Args:
        sets: Sets of steps.
        inputs: The steps that each step reads; senders come first.

    Example:
        >>> inputs = {"a": [], "map": ["a"], "b": ["map"], "c": ["b"]}
        >>> [sorted(steps) for steps in with_between([{"a", "b"}], inputs)]
        [['a', 'b', 'map']]
    """
    found = [set(steps) for steps in sets]
    while True:
        grown = [_closed(steps, found, inputs) for steps in found]
        merged: list[set[S]] = []
        for steps in grown:
            touching = [known for known in merged if known & steps]
            merged = [known for known in merged if known not in touching]
            merged.append(steps.union(*touching))
        if merged == found:
            return found
        found = merged


def _closed(steps: set[S], sets: Sequence[set[S]], inputs: Mapping[S, Sequence[S]]) -> set[S]:
    """Return a set with all that lies between its steps; another set counts as one step."""
    set_of = {step: number for number, others in enumerate(sets) for step in others}
    outputs: dict[S, list[S]] = {step: [] for step in inputs}
    for step, senders in inputs.items():
        for sender in senders:
            outputs[sender].append(step)
    behind = _reached(steps, outputs, sets, set_of)
    before = _reached(steps, inputs, sets, set_of)
    return steps | (behind & before)


def _reached(
    steps: set[S],
    edges: Mapping[S, Sequence[S]],
    sets: Sequence[set[S]],
    set_of: Mapping[S, int],
) -> set[S]:
    todo, seen = list(steps), set[S]()
    while todo:
        for step in edges[todo.pop()]:
            if step in seen:
                continue
            fresh: set[S] = {step}
            if step in set_of and step not in steps:
                fresh |= sets[set_of[step]]
            todo.extend(fresh - seen)
            seen |= fresh
    return seen
