"""The copies of global tables on a worker's host.

All processes of a host share one copy of each table, kept in LMDB. A task that looks a table up
brings the copy to what the epoch's order asks for, unless another process has done so already.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import Final

from mustela.connectors.kafka.log import read_chunks
from mustela.kernel.processors.global_store import GlobalRecords, write_global_store
from mustela.kernel.stage import collection_paused
from mustela.kernel.tables.global_table import GlobalView, global_rows
from mustela.plan.epoch import EpochOrder, GlobalMark, global_identity
from mustela.plan.plan import Stage
from mustela.plan.ranges import RawChunk
from mustela.spark.process import Process
from mustela.spark.reading_time import ReadingSince, RestoreTooSlowError, refuse_slow
from mustela.state.faults import StateDamagedError, StateNotReadyError
from mustela.state.interfaces import (
    Committed,
    Condition,
    EnvironmentSpec,
    Snapshot,
    StoreSpec,
    Token,
)
from mustela.state.kinds.layout import SnapshotView
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.locking import WriteLock
from mustela.state.overlay import Overlay
from mustela.state.verify import verify_environments
from mustela.topology.global_table import GlobalJoinNode, GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.processor import ProcessorNode

__all__ = ["GlobalCopy", "global_views"]

_READ: Final = Token(1, 1, 0)
"""Stands for any epoch: a copy has no pendings, only positions."""

_FOLLOW_TIMEOUT_MS: Final = 600_000
"""How long a task waits while another one of its host reads the topic."""


class GlobalCopy:
    """One host's copy of a global table.

    Each partition of the topic has a store beside the table's, which holds nothing: its position
    is how far the partition was read.

    Args:
        process: The process's things.
        table: The table.
        mark: How far the copy must have read.
    """

    def __init__(self, process: Process, table: GlobalTableNode, mark: GlobalMark) -> None:
        self._program = process.program
        self._options = process.options
        self._table = table
        self._mark = mark
        self._markers = tuple(
            StoreSpec(name=f"partition.{n}", kind="key_value") for n in range(len(mark.ends))
        )
        spec = EnvironmentSpec(
            application_id=process.program.application_id,
            cluster_id=process.program.cluster_id,
            stage=global_identity(table, mark),
            group=0,
            groups=1,
            stores=(replace(table.store, logged=False), *self._markers),
            stale_after_ms=process.program.stale_after_ms.get(table.topic),
        )
        self._environment: LmdbEnvironment = process.environment_of(spec)

    def snapshot(self, *, now_ms: int, suspect: bool = False) -> Snapshot:
        """Return the copy, read at least as far as the mark says.

        Args:
            now_ms: The epoch's wall-clock time.
            suspect: The copy may be damaged: look at all of it first.
        """
        environment = self._environment
        if suspect and environment.path.exists() and verify_environments([environment.path]):
            environment.destroy()
        wanted = self._committed(self._mark.ends, now_ms)
        with suppress(StateNotReadyError, StateDamagedError):
            return environment.snapshot(wanted)
        with self._lock().held():
            self._follow(now_ms)
            return environment.snapshot(self._committed(self._reached(), now_ms))

    def _committed(self, ends: Sequence[int], now_ms: int) -> Committed:
        names = (marker.name for marker in self._markers)
        return Committed(
            token=_READ, changelog_ends=dict(zip(names, ends, strict=True)), time_ms=now_ms
        )

    def _reached(self) -> list[int]:
        """Return how far the copy has read; another task may have gone further."""
        positions = self._environment.positions()
        return [positions.get(marker.name, 0) for marker in self._markers]

    def _lock(self) -> WriteLock:
        path = self._environment.path
        return WriteLock(path.with_name(f"{path.name}.follow"), _FOLLOW_TIMEOUT_MS)

    def _follow(self, now_ms: int) -> None:
        """Read on to the mark; alone on this host.

        Raises:
            RestoreTooSlowError: If it took too long twice to be sure of every deletion.
        """
        try:
            self._read_on(now_ms)
        except RestoreTooSlowError:
            self._environment.destroy()
            self._read_on(now_ms)

    def _read_on(self, now_ms: int) -> None:
        environment, ends = self._environment, self._mark.ends
        condition = environment.condition(self._committed(ends, now_ms))
        if condition.ready or condition is Condition.AHEAD:
            return
        if not condition.catches_up:
            environment.destroy()
        reached, since = self._reached(), ReadingSince.now()
        ends = tuple(map(max, reached, ends))
        if self._table.supplier is not None:
            for partition, end in enumerate(ends):
                if reached[partition] < end:
                    self._process(partition, end, now_ms)
        elif tuple(reached) != ends:
            # All partitions together: the copy is written once, in the order of its keys.
            rows = chain.from_iterable(map(self._rows, range(len(ends)), reached, ends))
            with collection_paused():
                anew = not any(reached)
                environment.restore(self._table.store.name, rows, 0, anew=anew, time_ms=now_ms)
        longest_ms = self._program.stale_after_ms.get(self._table.topic)
        refuse_slow(self._table.store.name, (self._table.topic, None), since, longest_ms)
        wrote = tuple(reached) != ends
        for marker, start, end in zip(self._markers, reached, ends, strict=True):
            environment.restore(marker.name, (), end, start=start, goes_on=wrote, time_ms=now_ms)
        environment.finish_restore(self._committed(ends, now_ms))

    def _process(self, partition: int, end: int, now_ms: int) -> None:
        """Let the table's processor write the copy, chunk by chunk.

        Each chunk is written before its position is: one that is cut short in between is given to
        the processor again.
        """
        environment, store = self._environment, self._table.store.name
        position = self._reached()[partition]
        for chunk in self._chunks(partition, position, end):
            so_far = self._committed(self._reached(), now_ms)
            environment.finish_restore(so_far)
            overlay = Overlay(environment.snapshot(so_far))
            try:
                write_global_store(
                    self._table,
                    overlay.store(store),
                    GlobalRecords(
                        partition,
                        chunk.offsets,
                        chunk.keys,
                        chunk.values,
                        chunk.timestamps,
                        chunk.headers,
                    ),
                    options=self._options,
                    now_ms=now_ms,
                )
                changes = overlay.changes().get(store, ())
            finally:
                overlay.close()
            environment.restore(store, changes, 0, time_ms=now_ms)
            marker = self._markers[partition].name
            after = chunk.offsets[-1] + 1
            environment.restore(marker, (), after, start=position, goes_on=True, time_ms=now_ms)
            position = after

    def _chunks(self, partition: int, start: int, end: int) -> Iterator[RawChunk]:
        program = self._program
        return read_chunks(
            program.consumer,
            self._table.topic,
            partition,
            start,
            end,
            timeout=program.read_timeout,
        )

    def _rows(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes, bytes | None]]:
        for chunk in self._chunks(partition, start, end):
            yield from global_rows(
                self._table, chunk.keys, chunk.values, chunk.timestamps, chunk.headers
            )


def _asked(node: Node) -> list[str]:
    """Return the names of the global tables that a step may look up."""
    if isinstance(node, GlobalJoinNode):
        return [node.table.name]
    if isinstance(node, ProcessorNode):
        return [store.spec.name for store in node.global_stores]
    return []


@contextmanager
def global_views(
    process: Process, order: EpochOrder, stage: Stage
) -> Generator[dict[str, GlobalView]]:
    """Give the copies that the steps of a stage look up, by store, for the length of a task.

    Args:
        process: The process's things.
        order: Says how far the copies must have read.
        stage: What runs.
    """
    asked = {name for step in stage.steps for name in _asked(step.node)}
    with ExitStack() as stack:
        views: dict[str, GlobalView] = {}
        for table in process.program.plan.global_tables:
            if table.store.name in asked:
                copy = GlobalCopy(process, table, order.global_marks[table.topic])
                snapshot = copy.snapshot(now_ms=order.now_ms, suspect=order.suspect)
                stack.callback(snapshot.close)
                views[table.store.name] = SnapshotView(snapshot, table.store.name)
        yield views
