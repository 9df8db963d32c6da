"""Processors: the user's own code, record by record, with state and a context.

How records pass. A processor without stores is fed batch by batch: it sees all rows of the epoch,
and what it forwards is collected until it has seen them. Processors that share a store must see
records one by one, each record through all of them before the next, as in Kafka Streams; they, and
the steps between them, are run as one by `mustela.kernel.processors.processor_group`. A Kafka
Streams task corresponds to a key group here: each has its own processor instance, which sees only
its key group's part of the stores. An instance lives for an epoch.

How to add a context method. Write it, with its docstring, a runnable example and its checks, in
`mustela.api.context` (`ProcessingContext` for both kinds of processors), using what the port
offers. If an engine has to do something new for it, add that to `ContextPort`, and implement it in
`TaskPort` (`mustela.kernel.processors.processor_port`), in `GlobalPort` and in the mock's port. A
`TaskPort` has the `ProcessorOperator` (``node``, ``context`` with time, lane state and global
tables, ``lane_store(spec)``) and the `Task` of one key group (``group``, ``processor``,
``store(spec)``). To forward outside of ``process``, call ``operator.take_in_hand(Hand(...))``
first: it says which order, headers and metadata apply.

How to act on time. ``operator.timing`` is created once, before the first instance; None for a node
that does not act on time. The operator notifies it of each new task (``timing.opened(task)``, after
``init``), of each record that advances time (``timing.after(task, hand, now)``, after ``process``),
of the end of the epoch (``timing.finish()``, which may forward), and asks it for due times. What it
forwards leaves with the operator's own rows, or passes through the group at once. The node must
have `acts_on_time`, and a store for what it must remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.api.errors import ProcessorError
from mustela.api.handlers import Handling
from mustela.errors import InvariantError, MustelaError
from mustela.kernel.core.expiry import earliest
from mustela.kernel.core.failures import failing_line, instead_of
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.processors.processor_expiry import ProcessorExpiry
from mustela.kernel.processors.processor_output import Forwarded
from mustela.kernel.processors.processor_port import make_context
from mustela.kernel.processors.processor_step import (
    NO_GROUP,
    DrawnColumns,
    Hand,
    ProcessorStep,
    Task,
)
from mustela.kernel.processors.processor_time import ProcessorTime
from mustela.kernel.processors.processor_undo import Undo
from mustela.model import Record, fixed_key_record
from mustela.plan.batch import Batch
from mustela.plan.keygroups import row_groups
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec

__all__ = ["ProcessorOperator"]


class ProcessorOperator(ProcessorStep):
    """Calls a processor for each record; see the module's text."""

    def open(self) -> None:
        """Prepare; instances are created when their key group has something to do."""
        node = self.node
        self.use_key_serde(node.key)
        self.hand = None
        self.group_in_hand = NO_GROUP
        self.topics = self.context.topics
        self.sender = Forwarded(self)
        self.tasks = {}
        self._lane_stores: dict[str, LaneStore] = {}
        self._bad_rows = self.user_failures(None)
        self._bad_rows.instead = self._forward_instead
        self.undo = Undo() if isinstance(self.processing_handler, Handling) else None
        timers = None if node.timers is None else self.lane_store(node.timers)
        self.clock = self.event_clock(timers)
        self.timing = None if timers is None else ProcessorTime(self, timers)
        self.facts = None
        timed = [spec for spec in self.node.stores if spec.ttl_ms is not None]
        self._expiries = [ProcessorExpiry(self, spec) for spec in timed]

    def key_serde_out(self) -> Serde[Any] | None:
        """Return None: what is forwarded may have other keys."""
        return None

    def lane_store(self, spec: StoreSpec) -> LaneStore:
        """Return a store of the lane, the same object each time."""
        found = self._lane_stores.get(spec.name)
        if found is None:
            found = self._lane_stores[spec.name] = super().lane_store(spec)
        return found

    def task(self, group: int) -> Task:
        """Return the task of a key group, opening it first if it is new.

        Raises:
            ProcessorError: If the processor cannot be created, or its ``init`` fails.
        """
        found = self.tasks.get(group)
        if found is None:
            try:
                found = Task(self, group)
                found.context = make_context(self, found)
                self.tasks[group] = found
                found.processor.init(found.context)
            except Exception as error:
                raise self._failed(error, method="init") from error
            if self.timing is not None:
                self.timing.opened(found)
        return found

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Handle the rows of all inputs in order; return what was forwarded."""
        batch = Batch.merge(inputs) if len(inputs) > 1 else inputs[0]
        batch, groups = self.grouped(batch)
        self.prefetch(batch, groups)
        columns = DrawnColumns(batch)
        for row, group in enumerate(groups):
            self.handle(columns, row, group)
        return self.sender.take(self.topics)

    def grouped(self, batch: Batch) -> tuple[Batch, list[int]]:
        """Return the rows that have a key group, and the key group of each."""
        if not self.node.stores:
            return batch, [NO_GROUP] * len(batch)
        batch, keys = self.encoded_keys(batch, self.context.key_serde)
        if keys is not batch.key_bytes:
            batch = batch.with_key_bytes(keys)
        suffix = self._key.group_suffix
        return batch, row_groups(keys, self.options.key_groups, suffix=suffix)

    def prefetch(self, batch: Batch, groups: Sequence[int]) -> None:
        """Fetch the rows of the batch's keys from each store that has such keys."""
        wanted = [
            spec
            for spec in self.node.stores
            if spec.traits.by_key
            and spec.max_entries is None
            and (spec.key_serde is None or spec.key_serde == self._key)
        ]
        if not wanted or batch.key_bytes is None:
            return
        by_group: dict[int, list[bytes]] = {}
        column: Any = batch.key_bytes  # None where a row has no key
        for group, key in zip(groups, column, strict=True):
            if key is not None:
                by_group.setdefault(group, []).append(key)
        for spec in wanted:
            store = self.lane_store(spec)
            for group, keys in by_group.items():
                store.group(group).load(keys)

    def handle(self, columns: DrawnColumns, row: int, group: int) -> None:
        """Let the processor of a key group handle one row; failures go to the handler."""
        task = self.tasks.get(group) or self.task(group)
        batch, headers, order = columns.batch, columns.headers, columns.order
        timestamp = columns.timestamps[row]
        record_headers = () if headers is None else headers[row]
        place = None if order is None else order[row]
        hand = Hand(timestamp, record_headers, place, batch, row)
        self.hand, timing = hand, self.timing
        # Without timers, time is that of all records read so far, as for a task of Kafka Streams.
        passed = self.clock.move(group, timestamp if timing or place is None else place[0])
        for expiry in self._expiries:
            expiry.meet(group, timestamp)
        undo, fixed = self.undo, self.node.fixed_key
        try:
            if undo is None:  # here, and not in a method: it runs for every record
                make = fixed_key_record if fixed else Record
                task.process(make(batch.keys[row], batch.values[row], timestamp, record_headers))
            else:
                self._try(task, hand, undo)
        except Exception as error:
            if undo is not None:
                raise  # its handler was asked
            self._bad_rows.function = task.process
            self._bad_rows.one(batch, row, error)
        finally:
            self.hand = None
            for expiry in self._expiries:
                expiry.leave(group)
        if timing is not None and passed is not None:
            timing.after(task, hand, passed)

    def _try(self, task: Task, hand: Hand, undo: Undo) -> None:
        """Let a processor handle a row, as often as its handler says.

        What an attempt wrote and forwarded is taken back before the next. The last one's stays,
        whatever becomes of the record, as in Kafka Streams.
        """
        batch, row = hand.batch, hand.row
        assert batch is not None, self.step.name
        make = fixed_key_record if self.node.fixed_key else Record
        while True:
            undo.begin()
            sent = self.sender.sent
            try:
                task.process(make(batch.keys[row], batch.values[row], hand.timestamp, hand.headers))
            except Exception as error:  # noqa: BLE001 - the processor is the user's
                self._bad_rows.function = task.process
                self.group_in_hand = task.group
                repeats = self.sender.can_forget(sent)
                if not self._bad_rows.one(batch, row, error, repeats=repeats):
                    return
                undo.back()
                self.sender.forget(sent)
            else:
                return

    def _forward_instead(self, batch: Batch, row: int, records: Sequence[Record[Any, Any]]) -> None:
        """Forward what a handler puts in the place of a record.

        Raises:
            ErrorHandlerAnswerError: If one has another key where keys must stay.
        """
        keeps = self.node.fixed_key
        instead_of(batch, row, records, keeps_key=keeps, step=self.node)
        for record in records:
            self.sender.send(record, None)

    def finish(self) -> Batch | None:
        """Advance time, then close the instances; return what was forwarded."""
        for expiry in self._expiries:
            expiry.meet_all()
        if self.timing is not None:
            self.timing.finish()
        for task in self.tasks.values():
            try:
                task.processor.close()
            except Exception as error:
                raise self._failed(error, method="close") from error
        for expiry in self._expiries:
            expiry.end()
        return self.sender.take(self.topics)

    def due_event_times(self) -> dict[int, int]:
        """Return when timers are due by event time."""
        due = dict[int, int]() if self.timing is None else self.timing.due_event_times()
        return earliest(due, *(one.due_event_times() for one in self._expiries))

    def due_processing_times(self) -> dict[int, int]:
        """Return when timers are due by the wall clock."""
        due = dict[int, int]() if self.timing is None else self.timing.due_processing_times()
        return earliest(due, *(one.due_processing_times() for one in self._expiries))

    def _failed(self, error: Exception, *, method: str) -> Exception:
        if isinstance(error, InvariantError | ProcessorError):
            return error
        line = failing_line(error, getattr(self.node.supplier, method, None))
        told = error.what if isinstance(error, MustelaError) else str(error)
        return ProcessorError(
            f"{method} of step {self.step.name!r} failed: {type(error).__name__}: {told}",
            evidence=None if line is None else {"line": line},
            at=self.node.origin,
            why=error.why if isinstance(error, MustelaError) else None,
            fix=error.fix if isinstance(error, MustelaError) else None,
            fields={"step": self.step.name, "cause": type(error).__name__, "line": line},
        )
