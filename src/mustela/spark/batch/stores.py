"""The stores as a batch left them, read as those of a running application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mustela.model import TopicPartition
from mustela.plan.epoch import GroupMark, Program
from mustela.queries.queries import Queries
from mustela.queries.source import Edition, StorePlace, places_in
from mustela.spark.process import state_readers
from mustela.state.interfaces import Snapshot
from mustela.state.lmdb_reader import LmdbReaders

__all__ = ["LeftState"]


class LeftState:
    """What a batch left; the port of queries to it.

    Args:
        program: What ran.
        marks: What is committed of each key group, by stage.
        epoch: The last epoch.
        watermark: Event time.
    """

    def __init__(
        self,
        program: Program,
        marks: Mapping[int, Sequence[GroupMark]],
        *,
        epoch: int,
        watermark: int,
    ) -> None:
        self._readers = state_readers(program)
        self._edition = _Edition(program, self._readers, marks, epoch, watermark)
        self.queries = Queries(self)

    def newest(self) -> Edition:
        """Return the only edition."""
        return self._edition

    def wait(self, holds: Callable[[Edition], bool], seconds: float) -> bool:
        """Return whether it meets a condition; nothing changes any more."""
        del seconds
        return holds(self._edition)

    def close(self) -> None:
        """Close the files."""
        self.queries.close()
        self._readers.close()


class _Edition:
    def __init__(
        self,
        program: Program,
        readers: LmdbReaders,
        marks: Mapping[int, Sequence[GroupMark]],
        epoch: int,
        watermark: int,
    ) -> None:
        self._program, self._readers, self._marks = program, readers, marks
        self.epoch = epoch
        self.watermark = None if watermark < 0 else watermark
        self.stores: Mapping[str, StorePlace] = places_in(program.plan, program.key_groups)

    def mark(self, stage: int, group: int) -> object:
        """Return what identifies the state of a key group."""
        return self._marks[stage][group]

    def open(self, stage: int, group: int) -> Snapshot:
        """Open a view of the state of a key group."""
        committed = self._marks[stage][group].committed(())
        return self._readers.snapshot(self._program.environment(stage, group), committed)

    def has_read(self, sent: Mapping[TopicPartition, int]) -> bool:
        """Return that everything is read."""
        del sent
        return True
