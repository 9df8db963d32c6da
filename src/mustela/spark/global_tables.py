"""The copies of global tables on a worker's host.

All processes of a host share one copy of each table, kept in LMDB. A task that looks a table up
brings the copy to what the epoch's order asks for, unless another process has done so already.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, Final

import msgspec

from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.log import read_chunks
from mustela.connectors.kafka.reading_time import ReadingSince, RestoreTooSlowError, refuse_slow
from mustela.connectors.kafka.truncation import LogPosition
from mustela.kernel.processors.global_store import GlobalRecords, write_global_store
from mustela.kernel.tables.global_table import GlobalView, global_rows
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder, GlobalMark, global_identity
from mustela.plan.plan import Stage
from mustela.plan.ranges import RawChunk
from mustela.processes import collection_paused
from mustela.spark.process import Process
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

_LEADERS: Final = b"leaders"
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(tuple[int, ...]).decode

_FOLLOW_TIMEOUT_MS: Final = 600_000
"""How long a task waits while another one of its host reads the topic."""


class GlobalCopy:
    """One host's copy of a global table.

    Each partition of the topic has a store beside the table's: its position is how far the
    partition was read. The first one also holds in which leaders' epochs they were read, as far as
    that is known: no record tells of a copy that an epoch has read which was not committed. Where a
    leader has changed since, the log is asked whether it is still what was read.

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
        self._admin: Callable[[], KafkaAdmin] = lambda: process.admin
        self._reader: Callable[[], Any] = lambda: process.reader

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
            view = environment.snapshot(wanted)
            if self._wanted_leaders(known := self._leaders_in(view)) == known:
                return view
            view.close()
        with self._lock().held():
            self._follow(now_ms)
            return environment.snapshot(self._committed(self._reached(), now_ms))

    def exactly(self, *, now_ms: int) -> Snapshot:
        """Return the copy, read as far as the mark says and no further.

        Args:
            now_ms: The wall-clock time.

        Raises:
            StateNotReadyError: If it was read further before.
        """
        wanted = self._committed(self._mark.ends, now_ms)
        with suppress(StateNotReadyError, StateDamagedError):
            return self._environment.snapshot(wanted)
        with self._lock().held():
            self._follow(now_ms)
            return self._environment.snapshot(wanted)

    def forget(self) -> None:
        """Delete the copy; the next use reads the topic from its start."""
        with self._lock().held():
            self._environment.destroy()

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
        """The same; the copy may be ahead in some partitions, and behind in others."""
        environment = self._environment
        condition = environment.condition(self._committed(self._mark.ends, now_ms))
        if condition is Condition.AHEAD:
            further = [*map(max, self._reached(), self._mark.ends)]
            condition = environment.condition(self._committed(further, now_ms))
        is_sound = condition.ready or condition.catches_up
        known = self._leaders(now_ms) if is_sound else ()
        if not is_sound or self._has_lost(known):
            environment.destroy()
            known = ()
        reached, since = self._reached(), ReadingSince.now()
        ends = tuple(map(max, reached, self._mark.ends))
        leaders = self._wanted_leaders(known)
        is_there = environment.condition(self._committed(ends, now_ms)).ready
        if is_there and leaders == known:
            return
        self._note_leaders(leaders, reached, now_ms)
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

    def _leaders(self, now_ms: int) -> Sequence[int]:
        """Return for each partition a leader epoch in which the log was what the copy has read."""
        reached = self._reached()
        if not any(reached):
            return ()
        so_far = self._committed(reached, now_ms)
        if not self._environment.condition(so_far).ready:  # it was cut short, and is read on
            self._environment.finish_restore(so_far)
        view = self._environment.snapshot(so_far)
        try:
            return self._leaders_in(view)
        finally:
            view.close()

    def _leaders_in(self, view: Snapshot) -> tuple[int, ...]:
        row = view.get(self._markers[0].name, _LEADERS)
        return () if row is None else _DECODE(row)

    def _wanted_leaders(self, known: Sequence[int]) -> tuple[int, ...]:
        """Return the leaders that are known when the copy has come to the mark."""
        found = zip_longest(known, self._mark.leaders, fillvalue=-1)
        return tuple(max(of_copy, of_mark) for of_copy, of_mark in found)

    def _has_lost(self, known: Sequence[int]) -> bool:
        """Whether the topic has lost what the copy read of it, by leaders that came since."""
        read = {
            TopicPartition(self._table.topic, n): LogPosition(end, known[n])
            for n, end in enumerate(self._reached()[: len(known)])
            if end and self._mark.leader(n) > known[n] >= 0
        }
        return bool(read) and bool(self._admin().kept_ends(read))

    def _note_leaders(self, leaders: Sequence[int], reached: Sequence[int], now_ms: int) -> None:
        """Keep whose logs the copy reads, before it reads them."""
        rows = [(_LEADERS, _ENCODE(leaders))]
        self._environment.restore(self._markers[0].name, rows, reached[0], time_ms=now_ms)

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
        if program.files is not None:
            return self._reader().read(self._table.topic, partition, start, end)
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
