"""Global stores: a user's processor writes the copy of each host, and all processors read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from mustela.api.context import ProcessorContext, RecordMetadata
from mustela.api.context_port import StepFacts
from mustela.api.errors import StoreAccessError, UnknownChildError
from mustela.api.timers import TimeDomain
from mustela.kernel.core.failures import DeserializationError, Failures, ProcessingError
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.processors.processor_step import AnyRecord
from mustela.kernel.processors.processor_stores import open_group_store
from mustela.model import Headers, Record
from mustela.plan.batch import Batch, Order, Origins
from mustela.state.kinds.layout import RowView
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalPort", "GlobalRecords", "write_global_store"]


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

    A record that cannot be decoded, or on which the processor raises, fails the task if the handler
    is ``fail`` and is dropped otherwise; there is no dead letter, because every host reads the
    topic.

    Args:
        node: The store, its topic and its processor.
        rows: The copy, to read and write.
        records: Records of the topic.
        options: Settings of the engine.
        now_ms: The epoch's wall-clock time.

    Raises:
        DataError: If a record is bad and its handler is ``fail``.
    """
    port = GlobalPort(node, rows, now_ms)
    processor: Any = node.supplier()
    processor.init(_context(node, port, processor, options))
    output = StageOutput()
    decoding = node.on_error or options.deserialization_handler
    processing = node.on_error or options.processing_handler
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
        port.take(batch, row)
        try:
            processor.process(Record(*decoded, max(records.timestamps[row], 0), port.headers()))
        except Exception as error:  # noqa: BLE001 - the processor is the user's
            failed.one(batch, row, error)
    port.take(None, -1)
    processor.close()


class GlobalPort:
    """The port of a global store's processor, which may only write its store, not forward.

    Args:
        node: The store.
        rows: The copy.
        now_ms: The epoch's wall-clock time.
    """

    def __init__(self, node: GlobalTableNode, rows: RowView, now_ms: int) -> None:
        self._node = node
        self._now_ms = now_ms
        self._store: Any = open_group_store(rows, node.store, plain=node.plain)
        self._batch: Batch | None = None
        self._row = -1
        self._stream_time = -1

    def take(self, batch: Batch | None, row: int) -> None:
        """Set the current record."""
        self._batch, self._row = batch, row
        if batch is not None:
            self._stream_time = max(self._stream_time, batch.timestamps[row])

    def time(self, domain: TimeDomain) -> int:
        """Return the epoch's wall-clock time, or the largest timestamp of the records."""
        return self._stream_time if domain is TimeDomain.EVENT_TIME else self._now_ms

    def headers(self) -> Headers:
        """Return the headers of the current record."""
        return () if self._batch is None else self._batch.context(self._row).headers

    def metadata(self) -> RecordMetadata | None:
        """Return where the current record was read."""
        if self._batch is None:
            return None
        place = self._batch.context(self._row)
        return RecordMetadata(
            topic=self._node.topic, partition=place.partition, offset=place.offset
        )

    def store(self, name: str) -> Any:
        """Return the global store.

        Raises:
            StoreAccessError: If another store is asked for.
        """
        if name == self._node.store.name:
            return self._store
        msg = f"the processor of global store {self._node.store.name!r} has no store {name!r}"
        raise StoreAccessError(
            msg,
            at=self._node.origin,
            why="every host runs it, so it has only the copy that it writes",
            fields={"step": self._node.name, "store": name},
        )

    def count(self, name: str, number: int) -> None:
        """Do nothing: every host would count the same events."""

    def commit(self) -> None:
        """Do nothing: writes take effect at once."""

    def send(self, record: AnyRecord, target: str | None) -> bool:
        """Refuse: nothing reads a global store's processor.

        Raises:
            UnknownChildError: Always.
        """
        del record, target
        msg = f"the processor of global store {self._node.store.name!r} cannot forward"
        raise UnknownChildError(
            msg,
            at=self._node.origin,
            why="every host runs it, so what it forwards would arrive several times",
            fix="read the topic as a stream too, and forward from a processor there: "
            'stream(..., name="...").process(...)',
            fields={"step": self._node.name},
        )

    def _refuse(self, *_: object) -> NoReturn:
        """Refuse what needs a lane.

        Raises:
            StoreAccessError: Always.
        """
        msg = f"the processor of global store {self._node.store.name!r} has no lane"
        raise StoreAccessError(
            msg,
            at=self._node.origin,
            why="every host runs it, so it reads no other store, sets no timers and asks nothing",
            fix="read the topic as a stream too, and do it in a processor there: "
            'stream(..., name="...").process(...)',
            fields={"step": self._node.name},
        )

    any_key_store = ask = schedule = set_timer = _refuse


def _context(
    node: GlobalTableNode, port: GlobalPort, processor: object, options: KernelOptions
) -> ProcessorContext[Any, Any]:
    facts = StepFacts(
        name=node.name,
        application_id=options.application_id,
        app_configs=options.app_configs,
        key=node.key,
        value=node.value,
        processor=type(processor).__name__,
        acts_on_time=True,
        stores=(node.store.name,),
        children=None,
        outputs=None,
        reads=None,
        updates=None,
        replies=None,
        transacts=True,
        at=node.origin,
    )
    return ProcessorContext[Any, Any](port, facts, -1)
