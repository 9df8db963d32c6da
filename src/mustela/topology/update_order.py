"""The place of the steps that make changes for other lanes: after all that send some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mustela.api.errors import SharedStoreError
from mustela.topology.node import Node
from mustela.topology.update import UpdateNode

__all__ = ["parents_first", "with_sender"]


def parents_first(nodes: Mapping[str, Node]) -> tuple[Node, ...]:
    """Return nodes as they were written, but steps that make changes after all that send some.

    Raises:
        SharedStoreError: If changes of a store depend on their own replies, or the store is used by
            another step too.
    """
    if not any(isinstance(node, UpdateNode) for node in nodes.values()):
        return tuple(nodes.values())
    _check_owners(nodes)
    placed: dict[str, Node] = {}
    begun: list[str] = []

    def put(name: str) -> None:
        if name in placed:
            return
        if name in begun:
            raise _circle(nodes, begun[begun.index(name) :])
        begun.append(name)
        for parent in nodes[name].parents:
            put(parent)
        begun.pop()
        placed[name] = nodes[name]

    for name in nodes:
        put(name)
    return tuple(placed.values())


def _check_owners(nodes: Mapping[str, Node]) -> None:
    for update in nodes.values():
        if not isinstance(update, UpdateNode):
            continue
        store = update.store.name
        for node in nodes.values():
            if node is not update and store in {spec.name for spec in node.stores}:
                msg = f"store {store!r} is changed from other lanes, but {node.name!r} uses it too"
                raise SharedStoreError(
                    msg,
                    evidence={"updates": update.origin or update.name},
                    at=node.origin,
                    why="all changes of an epoch are made in one place, in order",
                    fix=f'change it with ctx.update("{store}", ...) there too, and read it with '
                    f'reads=["{store}"]; or keep two stores',
                    fields={"store": store, "step": node.name},
                )


def _circle(nodes: Mapping[str, Node], names: Sequence[str]) -> SharedStoreError:
    update = next(nodes[name] for name in names if isinstance(nodes[name], UpdateNode))
    assert isinstance(update, UpdateNode)
    store = update.store.name
    return SharedStoreError(
        f"updates of store {store!r} depend on replies of the same store",
        evidence={"steps": ", ".join(names)},
        at=update.origin,
        why="all changes of an epoch are made before the first reply is sent",
        fix="do in fn what depends on the old value, or write the reply to a topic and read that",
        fields={"store": store, "steps": tuple(names)},
    )


def with_sender(node: UpdateNode, sender: str) -> UpdateNode:
    """Return a copy of the step that makes changes, with one more step that sends some."""
    return replace(node, parents=(*node.parents, sender))
