"""Requests by topic: a record waits while somebody else answers what was asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mustela.serdes.base import Serde
from mustela.serdes.primitives import StrSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.async_calls import (
    CallFailedError,
    OnFailure,
    check_on_failure,
    check_span,
)
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["CorrelateNode", "ReplyKeyNode", "RequestReply", "RequestReplyNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReply:
    """How a step asks by topic.

    Attributes:
        topic: Where requests go.
        timeout: How long a reply is waited for, by the clock.
        key: Type or serde of the requests' keys; the stream's if not given.
        value: Type or serde of the requests' values; the stream's if not given.
        header: Name of the header that a reply must have like its request.
        on_timeout: What becomes of a record without a reply: a word, or a function of the record
            and the error that gives its result. None: what ``processing_handler`` of the settings
            says.

    Example:
        >>> RequestReply(topic="price-requests", timeout=timedelta(seconds=30)).header
        'correlation-id'
    """

    topic: str
    timeout: timedelta
    key: Any = None
    value: Any = None
    header: str = "correlation-id"
    on_timeout: OnFailure | Callable[[Any, CallFailedError], Any] | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_span("RequestReply", "timeout", self.timeout)
        check_on_failure("RequestReply", "on_timeout", self.on_timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelateNode(Node):
    """Give each record a correlation id, as key and as header; the value is key and value.

    Attributes:
        header: Name of the header.
        step: The step that waits for replies; the id is made of its name.
    """

    header: str
    step: str

    @property
    def changes_keys(self) -> bool:
        """The correlation id is the key."""
        return True

    @property
    def needs_order(self) -> bool:
        """The id is made of the record's order."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyKeyNode(Node):
    """Take the correlation id out of each reply's header as its key; drop replies without.

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
    """Let records wait for their replies; both come by correlation id.

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
        """Records and replies meet in the lane of their correlation id."""
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
        """The time of a reply can be over."""
        return True
