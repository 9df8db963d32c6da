"""Any key of any store, read by a task: other key groups' state, as of the end of the epoch before.

All processes of a host may have an environment open at once. The lane that owns it writes one
pending in the epoch, in a local transaction that folds the committed one into the base: so at any
moment the committed state is there, as base and pending or as base alone, and one read transaction
shows all of it. A host that does not have it, or has it only up to an older epoch, reads on in the
changelogs, as it does before it runs a lane.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mustela.connectors.kafka.copies import open_current
from mustela.kernel.core.any_key import AnyKeyReader
from mustela.plan.epoch import EpochOrder
from mustela.plan.plan import Stage
from mustela.spark.process import Process
from mustela.state.interfaces import Snapshot

__all__ = ["OtherLanes", "any_key_reader"]


class OtherLanes:
    """Opens key groups for reading, each once in a task.

    Args:
        process: The process's things.
        order: Says what is committed of each key group.

    Attributes:
        restored: Records read from changelogs, by store.
    """

    def __init__(self, process: Process, order: EpochOrder) -> None:
        self._process = process
        self._order = order
        self._open: dict[tuple[int, int], Snapshot] = {}
        self.restored: dict[str, int] = {}

    def open(self, stage: int, group: int) -> Snapshot:
        """Return the state of a key group of a stage behind the epoch before."""
        found = self._open.get((stage, group))
        if found is None:
            found = self._open[stage, group] = self._snapshot(stage, group)
        return found

    def _snapshot(self, stage: int, group: int) -> Snapshot:
        logged = self._process.program.plan.stages[stage].logged
        committed = self._order.marks[stage][group].committed(logged)
        _, snapshot = open_current(self._process, stage, group, committed, self.restored)
        return snapshot

    def close(self) -> None:
        """Let go of what was opened."""
        for snapshot in self._open.values():
            snapshot.close()
        self._open.clear()


@contextmanager
def any_key_reader(
    process: Process, order: EpochOrder, stage: Stage, restored: dict[str, int]
) -> Generator[AnyKeyReader | None]:
    """Give what the steps of a stage read stores with, for the length of a task.

    Args:
        process: The process's things.
        order: Says what is committed.
        stage: What runs.
        restored: Takes the number of records that were read from changelogs, by store.
    """
    if not stage.reads_any:
        yield None
        return
    lanes = OtherLanes(process, order)
    program = process.program
    try:
        yield AnyKeyReader(program.plan.stores, lanes.open, program.key_groups)
    finally:
        lanes.close()
        for store, count in lanes.restored.items():
            restored[store] = restored.get(store, 0) + count
