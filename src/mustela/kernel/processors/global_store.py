"""Global stores: a processor of the user's writes each host's copy, and all processors read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mustela.api.context import ProcessorContext, RecordMetadata
from mustela.api.errors import StoreAccessError, UnknownChildError
from mustela.kernel.core.failures import DeserializationError, Failures, ProcessingError
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.processors.processor_stores import open_group_store
from mustela.model import Headers, Record
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.state.kinds.layout import RowView
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalContext", "GlobalRecords", "write_global_store"]


class GlobalRecords(NamedTuple):
    """Consecutive records of one partition, as they were read.

    Attributes:
        partition: The partition.
        offsets: Offsets, ascending.
        keys: Keys.
        values: Values.
        timestamps: Milliseconds.
        headers: Headers per record, or None where no record has any.
    """

    partition: int
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers] | None = None


def write_global_store(
    node: GlobalTableNode,
    rows: RowView,
    records: GlobalRecords,
    *,
    options: KernelOptions,
    now_ms: int,
) -> None:
    """Let the processor of a global store handle records, in order.

    A record that cannot be decoded, or on which the processor raises, fails the task, or is left
    out if the handler is another one: there is no dead letter, because every host reads the topic.

    Args:
        node: The store, its topic and its processor.
        rows: The copy, to be read and written.
        records: What the topic says.
        options: Settings of the engine.
        now_ms: The epoch's wall-clock time.

    Raises:
        DataError: If a record is bad and its handler is ``fail``.
    """
    context = GlobalContext(node, rows, options, now_ms)
    processor: Any = node.supplier()
    processor.init(context)
    output = StageOutput()
    decoding, processing = options.deserialization_handler, options.processing_handler
    undecoded = Failures(node, decoding, DeserializationError, lambda: output)
    failed = Failures(node, processing, ProcessingError, lambda: output, processor.process)
    order: list[Order] = [
        (timestamp, 0, records.partition, offset)
        for timestamp, offset in zip(records.timestamps, records.offsets, strict=True)
    ]
    headers = None if records.headers is None else list(records.headers)
    origins = Origins(list(records.timestamps), headers, order, (node.topic,))
    batch = Batch(list(records.keys), list(records.values), origins)
    for row, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
        try:
            decoded = node.key.deserialize(key), node.value.deserialize(value)
        except Exception as error:  # noqa: BLE001 - a serde of the user's may raise anything
            undecoded.one(batch, row, error)
            continue
        context.take(batch, row)
        try:
            processor.process(Record(*decoded, max(records.timestamps[row], 0), context.headers))
        except Exception as error:  # noqa: BLE001 - the processor is the user's
            failed.one(batch, row, error)
    context.take(None, -1)
    processor.close()


class GlobalContext(ProcessorContext[Any, Any]):
    """What the processor of a global store may ask and do: write its store, and forward nothing.

    Args:
        node: The store.
        rows: The copy.
        options: Settings of the engine.
        now_ms: The epoch's wall-clock time.
    """

    def __init__(
        self, node: GlobalTableNode, rows: RowView, options: KernelOptions, now_ms: int
    ) -> None:
        self._node = node
        self._options = options
        self._now_ms = now_ms
        self._store: Any = open_group_store(rows, node.store, plain=node.plain)
        self._batch: Batch | None = None
        self._row = -1
        self._stream_time = -1

    def take(self, batch: Batch | None, row: int) -> None:
        """Say which record is in hand."""
        self._batch, self._row = batch, row
        if batch is not None:
            self._stream_time = max(self._stream_time, batch.timestamps[row])

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._options.application_id

    @property
    def task_id(self) -> int:
        """Always -1: every host has all of the store."""
        return -1

    @property
    def step_name(self) -> str:
        """The step's name."""
        return self._node.name

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of the keys."""
        return self._node.key

    @property
    def value_serde(self) -> Serde[Any]:
        """The serde of the values."""
        return self._node.value

    @property
    def headers(self) -> Headers:
        """The headers of the record in hand."""
        return () if self._batch is None else self._batch.context(self._row).headers

    def app_configs(self) -> Mapping[str, Any]:
        """Return the application's settings by name."""
        return dict(self._options.app_configs)

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the record in hand was read."""
        if self._batch is None:
            return None
        place = self._batch.context(self._row)
        return RecordMetadata(
            topic=self._node.topic, partition=place.partition, offset=place.offset
        )

    def state_store(self, name: str) -> Any:
        """Return the global store."""
        if name == self._node.store.name:
            return self._store
        msg = f"the processor of global store {self._node.store.name!r} has no store {name!r}"
        raise StoreAccessError(
            msg,
            at=self._node.origin,
            why="every host runs it, so it has nothing but the copy that it writes",
            fields={"step": self._node.name, "store": name},
        )

    def current_stream_time(self) -> int:
        """Return the largest timestamp of the records that were given."""
        return self._stream_time

    def current_system_time(self) -> int:
        """Return the epoch's wall-clock time."""
        return self._now_ms

    def commit(self) -> None:
        """Do nothing: what is written is there already."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Refuse: nothing reads a global store's processor.

        Raises:
            UnknownChildError: Always.
        """
        del record, child
        msg = f"the processor of global store {self._node.store.name!r} cannot forward"
        raise UnknownChildError(
            msg,
            at=self._node.origin,
            why="every host runs it, so what it forwards would come several times",
            fix="read the topic as a stream too, and forward from a processor there: "
            'stream(..., name="...").process(...)',
            fields={"step": self._node.name},
        )
