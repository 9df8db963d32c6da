"""Holding back the changes of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mustela.api.suppression import SuppressUntil, WhenFull
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node
from mustela.topology.store_meaning import StoreMeaning, packed_meaning, store_meaning

__all__ = ["SuppressNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressNode(Node):
    """Hold back the changes of a table, and pass on only the last one of each key.

    Attributes:
        until: What a change waits for.
        wait_ms: ``time_limit``: how long a change waits, counted from the first one that is held
            back. ``window_closes``: from a window's end to the time from which on no record can
            change it.
        span_ms: How far a row's timestamp may be before the time at which it is passed on.
        buffer: Where rows wait.
        key: Serde of the keys; None takes the typed default (`mustela.serdes.values`).
        value: Serde of the values; None takes the typed default.
        max_records: Rows that may wait in a key group; None for any number.
        max_bytes: Bytes that they may take; None for any number.
        when_full: What happens at that limit.
        explicit_store: Whether the user named the step, and with it its buffer.
    """

    until: SuppressUntil
    wait_ms: int
    span_ms: int
    buffer: StoreSpec
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull = "emit_early"
    explicit_store: bool = False

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The buffer."""
        return (self.buffer,)

    def meaning_of(self, store: StoreSpec) -> StoreMeaning:
        """What waits is a change: the value now, and the one before."""
        plain = store_meaning(store, owner=self.name, operation=self.until, key=self.key)
        meaning = packed_meaning(plain, "changes", self.value or store.value_serde)
        return replace(meaning, grace_ms=self.wait_ms)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Changes are held back in the lane of their key."""
        return (Arrival(key=self.key or ValueSerde(sort_keys=True)),)

    @property
    def passes_old(self) -> bool:
        """A row's old value is the one that was passed on before; the first change reported it."""
        return True

    @property
    def acts_on_time(self) -> bool:
        """Rows go on when their time has come."""
        return True

    @property
    def lag_ms(self) -> int:
        """Rows are older than the time at which they are passed on."""
        return self.span_ms
