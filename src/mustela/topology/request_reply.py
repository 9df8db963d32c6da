"""Requests by topic: a record waits until its request has been answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.api.calls import RequestReply
from mustela.serdes.base import Serde
from mustela.serdes.primitives import StrSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["CorrelateNode", "ReplyKeyNode", "RequestReplyNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelateNode(Node):
    """Give each record a correlation id, as key and as header; the value is key and value.

    Attributes:
        header: Name of the header.
        step: The step that waits for replies; the id is derived from its name.
    """

    header: str
    step: str

    @property
    def changes_keys(self) -> bool:
        """The correlation id is the key."""
        return True

    @property
    def needs_order(self) -> bool:
        """The id is derived from the record's place in the order."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyKeyNode(Node):
    """Use the correlation id in each reply's header as its key; drop replies without one.

    Attributes:
        header: Name of the header.
    """

    header: str

    @property
    def changes_keys(self) -> bool:
        """The correlation id is the key."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReplyNode(Node):
    """Make records wait for their replies; both arrive by correlation id.

    Attributes:
        joiner: ``joiner(value, reply)`` gives the result.
        timeout_ms: How long a record waits.
        rules: The user's options.
        parking: Where records wait.
        key: Serde of the records' keys; None takes the typed default (`mustela.serdes.values`).
        value: Serde of the records' values; None takes the typed default.
    """

    joiner: Callable[[Any, Any], Any]
    timeout_ms: int
    rules: RequestReply
    parking: StoreSpec
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The parking store."""
        return (self.parking,)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """Records wait by correlation id, with their own keys."""
        plain = store_meaning(store, owner=self.name, operation="requests", key=StrSerde())
        parts = (self.key or store.key_serde, self.value or store.value_serde)
        return packed_meaning(plain, "waiting", *parts)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records and replies travel to the lane of their correlation id."""
        return (Arrival(key=StrSerde()), Arrival(key=StrSerde()))

    @property
    def changes_keys(self) -> bool:
        """Records have their own keys again."""
        return True

    @property
    def writes_letters(self) -> bool:
        """A record without a reply may become a dead letter."""
        return self.rules.on_timeout == "dead_letter"

    @property
    def acts_on_time(self) -> bool:
        """The time to wait for a reply may run out."""
        return True
