"""What a task measured beside its work: for whoever watches, never for a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mustela.state.interfaces import StoreSize

__all__ = ["Measured"]


@dataclass(slots=True, kw_only=True)
class Measured:
    """What one task measured. All of it is per batch, or per key group: never per record.

    Attributes:
        taken: Records that each step took in.
        given: Records that each step passed on; of a sink, the rows that it wrote.
        stores: By store and key group that the task looked at, its size.
        parked: By step and key group, how many records wait for a result.
        clients: By name, what each Kafka client of the process said of itself since it was last
            asked; empty unless it is told to.
    """

    taken: dict[str, int] = field(default_factory=dict[str, int])
    given: dict[str, int] = field(default_factory=dict[str, int])
    stores: dict[tuple[str, int], StoreSize] = field(
        default_factory=dict[tuple[str, int], StoreSize]
    )
    parked: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    clients: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
