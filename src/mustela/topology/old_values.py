"""Tables that get a store because a later step needs their old values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node

__all__ = ["with_store"]


def with_store(node: Node, name: str) -> Node:
    """Return a copy of a step that gives a table but keeps none, with a store for it.

    Args:
        node: A node with the fields ``store``, ``key`` and ``value``.
        name: The store's name.

    Example:
        >>> from mustela.topology.source import TableSourceNode
        >>> with_store(TableSourceNode(name="prices", topic="prices"), "prices").stores[0].name
        'prices'
    """
    given: Any = node
    store = StoreSpec(
        name=name,
        key_serde=given.key or ValueSerde(sort_keys=True),
        value_serde=given.value or ValueSerde(),
    )
    return replace(given, store=store)
