"""One epoch of a replica, for readers in other threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mustela.model import TopicPartition
from mustela.plan.epoch import GroupMark
from mustela.plan.plan import Plan, Stage
from mustela.queries.source import StorePlace, places_in
from mustela.runtime.gate.adopt import global_marks_of
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.replica.global_copies import GlobalCopies
from mustela.state.interfaces import Snapshot

__all__ = ["Held", "Marks", "Opens", "ReplicaEdition"]

Marks = Mapping[int, tuple[GroupMark, ...]]
"""The committed state of each key group, by stage."""


class Opens(Protocol):
    """Where the copies of key groups are."""

    def snapshot(self, stage: Stage, group: int, mark: GroupMark) -> Snapshot:
        """Open a view of a key group as of a mark.

        Raises:
            StateNotReadyError: If it has moved on since, or is not there.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is on this host of an application's state.

    Attributes:
        copies: Where the key groups are.
        lock: Held while one is opened.
        unlogged: Whether stores without a changelog are there.
        tables: Opens global tables; None leaves them out.
    """

    copies: Opens
    lock: threading.Lock
    unlogged: bool = False
    tables: GlobalCopies | None = None


class ReplicaEdition:
    """The state of a replica as of one epoch; see `mustela.queries.source.Edition`.

    Stores without a changelog are not there, unless the copies are the application's own. Global
    tables have none: they are read from their topics, as far as the epoch had read them.

    Args:
        record: The epoch, with the program's names of stores.
        marks: The committed state of each key group.
        plan: The program.
        held: Where its rows are.
    """

    def __init__(self, record: EpochRecord, marks: Marks, plan: Plan, held: Held) -> None:
        self.record = record
        self.epoch = record.epoch
        self.watermark = None if record.watermark < 0 else record.watermark
        places = places_in(plan, record.key_groups)
        self._stores: Mapping[str, StorePlace] = {
            name: at for name, at in places.items() if at.spec.logged or held.unlogged
        }
        self._read = global_marks_of(record)
        self._marks = marks
        self._plan = plan
        self._held = held

    @property
    def stores(self) -> Mapping[str, StorePlace]:
        """All stores by name."""
        tables = self._held.tables
        return self._stores if tables is None else tables.beside(self._plan, self._stores)

    def mark(self, stage: int, group: int) -> object:
        """Return what identifies the state of a key group."""
        held = self._held
        if stage < 0 and held.tables is not None:
            return held.tables.mark(self._plan, stage, self._read)
        return self.record.life, self._marks[stage][group]

    def open(self, stage: int, group: int) -> Snapshot:
        """Open a view of the state of a key group.

        Raises:
            StateNotReadyError: If it has moved on since.
        """
        held = self._held
        if stage < 0 and held.tables is not None:
            return held.tables.open(self._plan, stage, self._read, self.epoch)
        with held.lock:
            return held.copies.snapshot(self._plan.stages[stage], group, self._marks[stage][group])

    def has_read(self, sent: Mapping[TopicPartition, int]) -> bool:
        """Return whether the records at these offsets, and all before them, are in this state."""
        ends = {part.place: part.end for part in self.record.partitions}
        return all(ends.get(place, 0) > offset for place, offset in sent.items())
