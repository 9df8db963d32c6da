"""Transactions over several keys, in four steps.

Each record says which keys it will touch; one lane puts the records of the epoch in order and finds
those that share keys; the lanes run them, each group of connected records in one lane; what they
wrote travels to the lane of its key, where the stores are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mustela.api.errors import SharedStoreError
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node

__all__ = [
    "REFUSED",
    "RESULTS",
    "WRITTEN",
    "TransactApplyNode",
    "TransactKeysNode",
    "TransactNode",
    "TransactOrderNode",
    "check_transacted",
]

RESULTS, REFUSED, WRITTEN = range(3)
"""The branches of a `TransactNode`: records that go on, records whose transaction was refused, and
rows for the stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactKeysNode(Node):
    """Says for each record which keys of which stores its transaction may touch.

    keys: (key, value) -> keys for all stores, or a mapping from store to keys; None if the values
        are requests, which name the keys themselves.
            values are requests, which say it themselves.
        touches: The stores.
        step: The name of the `TransactNode`.
    """

    keys: Callable[[Any, Any], Any] | None
    touches: tuple[StoreSpec, ...]
    step: str

    @property
    def changes_keys(self) -> bool:
        """All records of a step go to the one lane that orders them."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactOrderNode(Node):
    """Finds the transactions of an epoch that share keys, and gives each such group a lane."""

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """All transactions come to one lane, in merged order."""
        return (Arrival(key=BytesSerde()),)

    @property
    def changes_keys(self) -> bool:
        """A transaction goes to the lane that was chosen for it."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactNode(Node):
    """Runs transactions, those of a lane one at a time.

    Attributes:
        fn: (key, value, transaction) -> None, or the value of a record that goes on; None if the
            values are requests.
        touches: The stores.
        key: Serde of the records' keys, if it is known.
    """

    fn: Callable[[Any, Any, Any], Any] | None
    touches: tuple[StoreSpec, ...]
    key: Serde[Any] | None = None

    @property
    def reads_any(self) -> tuple[str, ...]:
        """The stores: their rows are in the lanes of their keys, in the next stage."""
        return tuple(spec.name for spec in self.touches)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Transactions come to the lane that was chosen for them."""
        return (Arrival(key=BytesSerde()),)

    @property
    def changes_keys(self) -> bool:
        """Its records have their own keys again."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactApplyNode(Node):
    """Puts what transactions wrote into the stores.

    Attributes:
        touches: The stores.
        explicit_store: The user names every store of a transaction.
    """

    touches: tuple[StoreSpec, ...]
    explicit_store: bool = True

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The stores."""
        return self.touches

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Rows travel to the lane of their key; each key has one row in an epoch."""
        return (Arrival(key=BytesSerde(), ordered=False),)


def check_transacted(nodes: Iterable[Node]) -> None:
    """Check that the stores of transactions belong to no other step.

    Raises:
        SharedStoreError: If one is.
    """
    owners: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: not isinstance(node, TransactApplyNode)):
        for store in node.stores:
            owner = owners.get(store.name)
            if owner is not None:
                raise _shared(store.name, owner, node)
            if isinstance(node, TransactApplyNode):
                owners[store.name] = node


def _shared(store: str, owner: Node, other: Node) -> SharedStoreError:
    both = isinstance(other, TransactApplyNode)
    fix = (
        "merge the streams, and distinguish their records inside one transact()"
        if both
        else f'read it with reads=["{store}"], change it in a transaction; or keep two stores'
    )
    return SharedStoreError(
        f"store {store!r} belongs to transactions, but {other.name!r} uses it too",
        evidence={"transactions": owner.origin or owner.name},
        at=other.origin,
        why="all transactions of an epoch are put in one order, before any of them runs",
        fix=fix,
        fields={"store": store, "step": other.name},
    )
