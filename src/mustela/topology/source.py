"""Where records come from: topics read as a stream or as a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mustela.api.watermarks import LatePolicy, WatermarkStrategy
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Arrival, Node

__all__ = ["SourceNode", "TableSourceNode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceNode(Node):
    """Topics read as a stream of records.

    Attributes:
        topics: The topics, in the order in which the user gave them; for a pattern, those found so
            far.
        pattern: Topics with names that it matches in full are read too, also those created later.
        key: Serde of the keys; None means raw bytes.
        value: Serde of the values; None means raw bytes.
        auto_offset_reset: Where to begin without a committed offset; None takes the setting.
        timestamp_extractor: Gives the timestamp of each record; None for the record's own.
        watermark: How event time advances; None takes the settings.
        late: What happens to records that come too late for their window.
    """

    topics: tuple[str, ...]
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    auto_offset_reset: str | None = None
    timestamp_extractor: Any = None
    watermark: WatermarkStrategy | None = None
    late: LatePolicy = LatePolicy.DROP
    pattern: re.Pattern[str] | None = None

    @property
    def writes_letters(self) -> bool:
        """A record that comes too late for its window may become a dead letter."""
        return self.late is LatePolicy.DEAD_LETTER

    def matches(self, topic: str) -> bool:
        """Say whether a topic is one of those that the source reads."""
        if topic in self.topics:
            return True
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSourceNode(Node):
    """One topic read as a table: the newest value of each key; a null value deletes.

    Attributes:
        topic: The topic.
        key: Serde of the keys.
        value: Serde of the values.
        store: The table's store; None if nobody needs the table's old values.
        auto_offset_reset: As for `SourceNode`.
        timestamp_extractor: As for `SourceNode`.
        watermark: As for `SourceNode`.
        late: As for `SourceNode`.
        explicit_store: Whether the user named the store.
    """

    topic: str
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    store: StoreSpec | None = None
    auto_offset_reset: str | None = None
    timestamp_extractor: Any = None
    watermark: WatermarkStrategy | None = None
    late: LatePolicy = LatePolicy.DROP

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic, as `SourceNode` names its topics."""
        return (self.topic,)

    explicit_store: bool = False

    @property
    def writes_letters(self) -> bool:
        """A record that comes too late for its window may become a dead letter."""
        return self.late is LatePolicy.DEAD_LETTER

    def matches(self, topic: str) -> bool:
        """Say whether a topic is the one that the source reads."""
        return topic == self.topic

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        """The table's store, if it has one."""
        return () if self.store is None else (self.store,)

    @property
    def arrivals(self) -> tuple[Arrival | None, ...]:
        """Records travel to the lane of their key, where the table is."""
        return (Arrival(key=self.key or BytesSerde()),)
