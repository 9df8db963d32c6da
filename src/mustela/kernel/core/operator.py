"""The base of every operator: created once per task, fed with batches, finished at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, TypeVar

from mustela.api.handlers import Handler
from mustela.errors import DataError
from mustela.kernel.core.any_key import AnyKeyReader
from mustela.kernel.core.each import keep_mask
from mustela.kernel.core.failures import (
    Failures,
    LateRecordError,
    ProcessingError,
    SerializationError,
    instead_of,
)
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.model import Record
from mustela.plan.batch import Batch
from mustela.plan.step import Step
from mustela.plan.time import EpochTime
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde
from mustela.topology.node import Node

__all__ = ["EXCHANGED", "Operator", "OperatorContext"]

N = TypeVar("N", bound=Node)


class ExchangedKeys(BytesSerde):
    """Placeholder for the serde of an exchange: right for the aggregation that it feeds."""

    name = "exchanged"


EXCHANGED: Final = ExchangedKeys()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What an operator knows of the stage around it.

    Attributes:
        options: The engine's settings.
        output: Collects what the stage emits; a new object after each drain.
        state: The lane's state, or None in the source stage.
        key_serde: The serde of the incoming ``key_bytes``, `EXCHANGED` if an exchange made them, or
            None if they are not known to be of one serde.
        key_serdes: The same for each input separately.
        ordered: Whether any later step depends on the order of its rows.
        global_tables: The copies that this task may look up, by store; see
            `mustela.kernel.tables.global_table.GlobalView`.
        any_key: Reads any key of any store as of the end of the previous epoch; set in a stage with
            a step whose node has `reads_any`.
        time: Event time and wall-clock time of the epoch.
        topics: The plan's topics, by their index in a record's order.
    """

    options: KernelOptions
    output: Callable[[], StageOutput]
    state: LaneState | None = None
    key_serde: Serde[Any] | None = None
    key_serdes: tuple[Serde[Any] | None, ...] = ()
    ordered: bool = True
    global_tables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    any_key: AnyKeyReader | None = None
    time: EpochTime = field(default_factory=EpochTime)
    topics: Sequence[str] = ()


class Operator(Generic[N]):
    """The meaning of one step; subclasses override what they need.

    Life cycle: created once per task; `process` for each batch of rows; `finish` when the task has
    no more input. Batches are never changed in place: they may be shared with other branches.

    Attributes:
        reads_only: The operator neither changes nor keeps the values it is given, so it may look
            at the same objects as another branch.
        replaces: The output consists of records, and a handler may replace one that
            failed.
        unprompted: The operator must run before the steps after it see their rows, even if it has
            no input.
    """

    reads_only: ClassVar[bool] = False
    unprompted: ClassVar[bool] = False
    replaces: ClassVar[bool] = False

    def __init__(self, step: Step, node: N, context: OperatorContext) -> None:
        self.step = step
        self.node = node
        self.context = context
        self.options = context.options
        self.replaced: list[Batch] = []
        self.open()

    def open(self) -> None:
        """Prepare; called once, before the first batch."""

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Handle one batch per input, not all of them empty; return the rows to forward."""
        return self.process_one(inputs[0] if len(inputs) == 1 else Batch.merge(inputs))

    def process_one(self, batch: Batch) -> Batch | None:
        """Handle a batch of the only input, or of all inputs merged in order."""
        raise NotImplementedError

    def finish(self) -> Batch | None:
        """Return the rows that were held back; the task has no more input."""
        return None

    def due_event_times(self) -> dict[int, int]:
        """Return the watermark at which each key group needs to run even if it gets no record.

        Called after `finish`, for open key groups only, and only if the operator's node has
        `acts_on_time`. A key group that is left out waits for a record.

        Returns:
            Key group to milliseconds, each above the epoch's watermark.
        """
        return {}

    def due_processing_times(self) -> dict[int, int]:
        """Return the wall-clock time at which each key group needs to run; as `due_event_times`."""
        return {}

    def parked(self) -> dict[int, int]:
        """Return what share of this step's parking limit each key group uses.

        Called after `finish`, as due times are. While all key groups together have reached the
        limit, no records are read.

        Returns:
            Key group to a part of `mustela.plan.time.FULL`.
        """
        return {}

    def parked_records(self) -> dict[int, int]:
        """Return how many records this step has parked in each key group; as `parked`."""
        return {}

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the serde of the ``key_bytes`` in the output, if they have one."""
        return self.context.key_serde

    def count(self, what: str, number: int = 1) -> None:
        """Add to a counter of this step."""
        self.context.output().counters[f"{what}:{self.step.name}"] += number

    def without_null(self, batch: Batch, what: str, column: Sequence[Any]) -> Batch:
        """Drop and count the rows that have null in a column of keys or values."""
        if all(column) or None not in column:  # all() is faster, but takes 0 and "" for null
            return batch
        null = [row for row, item in enumerate(column) if item is None]
        self.count(f"dropped_null_{what}", len(null))
        return batch.select(keep_mask(len(batch), null))

    def with_replaced(self, batch: Batch | None) -> Batch | None:
        """Return rows with those that handlers put in the place of others, in their order."""
        if not self.replaced:
            return batch
        parts, self.replaced = self.replaced, []
        if batch is not None and len(batch):
            parts = [batch, *parts]
        in_order = all(part.order is not None for part in parts)
        return Batch.merge(parts) if in_order else Batch.concatenate(parts)

    def put_instead(self, batch: Batch, row: int, records: Sequence[Record[Any, Any]]) -> None:
        """Take the records that a handler puts in the place of a row.

        Raises:
            ErrorHandlerAnswerError: If one has another key where keys must stay.
        """
        self.replaced.append(self._instead_of(batch, row, records))

    def _instead_of(self, batch: Batch, row: int, records: Sequence[Record[Any, Any]]) -> Batch:
        keeps_key = not self.node.changes_keys
        return instead_of(batch, row, records, keeps_key=keeps_key, step=self.node)

    @property
    def processing_handler(self) -> Handler:
        """What happens to records on which a function of the user's raises."""
        own: Handler | None = self.node.on_error
        return self.options.processing_handler if own is None else own

    @property
    def production_handler(self) -> Handler:
        """What happens to rows that cannot be encoded."""
        own: Handler | None = self.node.on_error
        return self.options.production_handler if own is None else own

    def user_failures(self, function: Callable[..., Any] | None) -> Failures:
        """Return what happens to records on which ``function`` raises."""
        return self._failures(ProcessingError, function)

    def late_failures(self) -> Failures:
        """Return what happens to late records that become dead letters."""
        return Failures(self.node, "dead_letter", LateRecordError, self.context.output)

    def encode_failures(self) -> Failures:
        """Return what happens to rows that cannot be encoded."""
        return self._failures(SerializationError, None)

    def _failures(self, kind: type[DataError], function: Callable[..., Any] | None) -> Failures:
        processing = kind is ProcessingError
        handler = self.processing_handler if processing else self.production_handler
        failures = Failures(self.node, handler, kind, self.context.output, function)
        failures.pause = self.options.pause
        failures.application_id = self.options.application_id
        if self.replaces:
            failures.instead = self.put_instead
        return failures
