"""What all steps that park records share: call ids, encoding, failures."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from mustela.kernel.core.failures import Failures, ProcessingError
from mustela.kernel.core.operator import Operator
from mustela.kernel.core.options import Handler
from mustela.model import Headers
from mustela.plan.batch import Batch, Order, Origins

__all__ = ["ParkedRecord", "WaitingCall", "call_id", "fail_parked", "read_waiting", "write_waiting"]

_ID_BYTES: Final = 16
_PACK: Final = msgspec.msgpack.Encoder().encode


class WaitingCall(msgspec.Struct, frozen=True, array_like=True):
    """A record that waits, as its row in the parking store holds it.

    Attributes:
        call_id: Names record and step.
        value: The value as bytes.
        timestamp: Milliseconds.
        headers: Headers.
        order: The record's order.
        topic: The topic it came from, where it came from one.
        since_ms: When it was first parked.
        key: The key as bytes, where the row is not stored under it.
    """

    call_id: str
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]
    order: list[int]
    topic: str | None
    since_ms: int
    key: bytes | None = None

    @property
    def record_headers(self) -> Headers:
        """The headers, as records have them."""
        return tuple(self.headers)

    @property
    def record_order(self) -> Order:
        """The order, as batches have it."""
        return tuple(self.order)


write_waiting: Final = msgspec.msgpack.Encoder().encode
read_waiting: Final = msgspec.msgpack.Decoder(WaitingCall).decode


def call_id(
    application_id: str, step: str, place: tuple[str | None, Order, bytes | None], nth: int
) -> str:
    """Return an id for a record in a step, the same whenever the record is handled again.

    Args:
        application_id: The application.
        step: The step.
        place: The topic of the record, its order and its key.
        nth: Distinguishes records for which all of these are equal.

    Example:
        >>> one = call_id("app", "enrich", ("orders", (5, 0, 0, 17), b"k"), 0)
        >>> one == call_id("app", "enrich", ("orders", (9, 3, 0, 17), b"k"), 0), len(one)
        (True, 32)
    """
    topic, order, key = place
    # A record of a topic is identified by its offset alone: the time in its order depends on where
    # the epoch was cut, and the number of its topic on which topics there are.
    where = order if topic is None else (topic, *order[2:])
    facts = _PACK((application_id, step, where, key, nth))
    return blake2b(facts, digest_size=_ID_BYTES).hexdigest()


class ParkedRecord(Origins):
    """A record that waited; its raw bytes are those it was parked with.

    Args:
        waiting: The record.
        key: Its key as bytes.
        has_raw: Whether its value was encoded by a serde that the user chose.
    """

    __slots__ = ("raw_keys",)

    def __init__(self, waiting: WaitingCall, key: bytes | None, *, has_raw: bool) -> None:
        topics = () if waiting.topic is None else (waiting.topic,)
        order = (waiting.order[0], 0 if topics else -1, *waiting.order[2:])
        super().__init__([waiting.timestamp], [waiting.record_headers], [order], topics)
        self.raw_keys: list[bytes | None] = [key]
        self.raws = [(key, waiting.value if has_raw else None)]


def fail_parked(
    operator: Operator[Any],
    record: ParkedRecord,
    key: Any,
    error: Exception,
    handling: tuple[Handler, Callable[..., Any] | None],
) -> None:
    """Pass a record whose wait failed to the handler.

    Args:
        operator: The step.
        record: The record.
        key: Its key.
        error: What happened.
        handling: The handler, and the user's function that failed.

    Raises:
        DataError: If the handler is ``fail``.
    """
    handler, function = handling
    column: Any = record.raw_keys
    batch = Batch([key], [None], record, key_bytes=column)
    output = operator.context.output
    Failures(operator.node, handler, ProcessingError, output, function).one(batch, 0, error)
