"""What leaves a stage: rows for later stages, rows for Kafka, and counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mustela.model import Headers
from mustela.plan.batch import Batch

__all__ = ["DeadLetters", "Place", "SinkRows", "StageOutput"]

Place = tuple[Any, ...]
"""The record (`mustela.plan.batch.SOURCE_ORDER`), the turn of the step that made the row from it,
the rest of the row's order, and the turn of the sink."""


@dataclass(slots=True, kw_only=True)
class SinkRows:
    """Encoded rows of one sink, as columns of equal length.

    Attributes:
        step: The sink.
        topic: One topic for all rows, or one per row.
        keys: Encoded keys.
        values: Encoded values.
        timestamps: Milliseconds.
        headers: Headers per row, or None where no row has any.
        partitions: Partition per row (None: the producer chooses), or None where no sink chose.
        places: The sort keys of the rows, if several sinks write their topic; see
            `mustela.kernel.records.sink_order`.
        steps: The sink of each row, if rows of several sinks are combined.
        spread: Whether rows of other stages go to the same topic, so that the engine sorts them.
    """

    step: str
    topic: str | list[str]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers] | None = None
    partitions: list[int | None] | None = None
    places: list[Place] | None = None
    steps: list[str] | None = None
    spread: bool = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)


@dataclass(slots=True, kw_only=True)
class DeadLetters:
    """Records that a handler sent to the dead-letter topic, as columns of equal length.

    Attributes:
        keys: The key's original bytes if they are known, otherwise the key as it was last encoded.
        values: The value's original bytes, or None where they are not known: the headers name
            topic, partition and offset.
        timestamps: Milliseconds.
        headers: The record's headers, then those named ``mustela.error.*``.
    """

    keys: list[bytes | None] = field(default_factory=list[bytes | None])
    values: list[bytes | None] = field(default_factory=list[bytes | None])
    timestamps: list[int] = field(default_factory=list[int])
    headers: list[Headers] = field(default_factory=list[Headers])

    def __len__(self) -> int:
        """Return the number of dead letters."""
        return len(self.values)


@dataclass(slots=True)
class StageOutput:
    """What a stage has emitted since it was last drained.

    Attributes:
        exchanges: Rows for later stages by exchange, ``key_bytes`` filled; where an exchange keeps
            null keys, the bytes of such a row are None and it belongs to key group 0.
        rows: Rows for sinks.
        dead_letters: Records that a handler gave up.
        counters: Counts named ``<what>:<step>``.
    """

    exchanges: dict[str, list[Batch]] = field(default_factory=dict[str, list[Batch]])
    rows: list[SinkRows] = field(default_factory=list[SinkRows])
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    counters: Counter[str] = field(default_factory=Counter[str])
