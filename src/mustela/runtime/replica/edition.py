"""One epoch of a replica, for readers in other threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from mustela.model import TopicPartition
from mustela.plan.epoch import GroupMark
from mustela.plan.plan import Plan, Stage
from mustela.queries.source import StorePlace
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.state.interfaces import Snapshot

__all__ = ["Marks", "Opens", "ReplicaEdition"]

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


class ReplicaEdition:
    """The state of a replica as of one epoch; see `mustela.queries.source.Edition`.

    Stores without a changelog are not there, unless the copies are the application's own.

    Args:
        record: The epoch, with the program's names of stores.
        marks: The committed state of each key group.
        plan: The program.
        copies: Where they are.
        lock: Held while one is opened.
        unlogged: Whether stores without a changelog are there.
    """

    def __init__(
        self,
        record: EpochRecord,
        marks: Marks,
        plan: Plan,
        copies: Opens,
        lock: threading.Lock,
        *,
        unlogged: bool = False,
    ) -> None:
        self.record = record
        self.epoch = record.epoch
        self.watermark = None if record.watermark < 0 else record.watermark
        self.stores: Mapping[str, StorePlace] = {
            name: StorePlace(spec=spec, stage=stage, groups=record.key_groups)
            for name, (stage, spec) in plan.stores.items()
            if spec.logged or unlogged
        }
        self._marks = marks
        self._plan = plan
        self._copies = copies
        self._lock = lock

    def mark(self, stage: int, group: int) -> object:
        """Return what identifies the state of a key group."""
        return self.record.life, self._marks[stage][group]

    def open(self, stage: int, group: int) -> Snapshot:
        """Open a view of the state of a key group.

        Raises:
            StateNotReadyError: If it has moved on since.
        """
        with self._lock:
            return self._copies.snapshot(self._plan.stages[stage], group, self._marks[stage][group])

    def has_read(self, sent: Mapping[TopicPartition, int]) -> bool:
        """Return whether the records at these offsets, and all before them, are in this state."""
        ends = {part.place: part.end for part in self.record.partitions}
        return all(ends.get(place, 0) > offset for place, offset in sent.items())
