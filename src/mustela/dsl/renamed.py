"""Stores that continue under another name."""

from __future__ import annotations

from collections.abc import Iterable

from mustela.api.errors import BadOptionError, DuplicateStoreError
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node

__all__ = ["check_renamed"]


def check_renamed(nodes: Iterable[Node]) -> None:
    """Check that each renamed store has a changelog, which no other store has.

    Raises:
        BadOptionError: If it has none.
        DuplicateStoreError: If another store has the name that it had.
    """
    stores = {store.name: (store, node) for node in nodes for store in node.stores}
    for store, node in stores.values():
        former = store.renamed_from
        if former is None:
            continue
        if isinstance(node, GlobalTableNode) or not store.logged:
            raise _not_logged(store, node)
        others = [other for other, _ in stores.values() if other.log_name == former]
        if len(others) > 1:
            raise _taken(store, next(other for other in others if other is not store), node)


def _not_logged(store: StoreSpec, node: Node) -> BadOptionError:
    whole = isinstance(node, GlobalTableNode)
    return BadOptionError(
        f"store {store.name!r} cannot be renamed_from={store.renamed_from!r}: it has no changelog",
        at=node.origin,
        why="a renamed store is rebuilt from its changelog",
        fix="leave out renamed_from=: the copy is read from its topic under any name"
        if whole
        else "keep the old name, or leave out logged=False",
        fields={"store": store.name, "option": "renamed_from"},
    )


def _taken(store: StoreSpec, other: StoreSpec, node: Node) -> DuplicateStoreError:
    former = store.renamed_from
    return DuplicateStoreError(
        f"store {store.name!r} is renamed_from={former!r}, and so is store {other.name!r}"
        if other.renamed_from
        else f"store {store.name!r} is renamed_from={former!r}, but there is a store {former!r}",
        at=node.origin,
        why="a store has one changelog, and a changelog has the rows of one store",
        fix=f"give the changelog of {former!r} to one store only: leave out renamed_from=, or"
        " give the other store another name",
        fields={"store": store.name, "renamed_from": former},
    )
