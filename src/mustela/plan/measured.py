"""Measurements of a task: for observers, never for results."""

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
        seconds: How long each step took, with what it wrote to its stores and handed on. Steps that
            share stores are measured together, as the first of them.
        stores: By store and key group that the task opened, its size.
        parked: By step and key group, how many records wait for a result.
        clients: By name, the statistics of each Kafka client of the process since they were last
            taken; empty unless they are switched on.
        standby_lag: Records that the copies of second homes lack; -1 if there are none to be.
    """

    taken: dict[str, int] = field(default_factory=dict[str, int])
    given: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    stores: dict[tuple[str, int], StoreSize] = field(
        default_factory=dict[tuple[str, int], StoreSize]
    )
    parked: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    clients: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    standby_lag: int = -1
