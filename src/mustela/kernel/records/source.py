"""Where records enter the kernel: the bytes read are decoded into keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from mustela.api.handlers import wants_raws
from mustela.errors import EnvironmentFault
from mustela.kernel.core.each import keep_mask, repeated
from mustela.kernel.core.encode import FailingRows, failing
from mustela.kernel.core.failures import DeserializationError, Failures, instead_of
from mustela.kernel.core.operator import Operator
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.records.timestamps import own_times, user_times
from mustela.model import Record
from mustela.plan.batch import Batch, SourceChunk
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BytesSerde, Int16Serde, Int32Serde, IntSerde, StrSerde
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["SourceOperator", "decode_source", "is_canonical"]

_CANONICAL: Final = (StrSerde, BytesSerde, IntSerde, Int32Serde, Int16Serde)


def is_canonical(serde: Serde[Any] | None) -> bool:
    """Say whether decoding and encoding again always gives the same bytes.

    JSON with different white space does not, so the bytes read cannot represent the key.
    """
    return serde is None or type(serde) in _CANONICAL


def _remembering(
    chunk: SourceChunk, keys: list[bytes | None], values: list[bytes | None]
) -> SourceChunk:
    """Return a chunk that remembers its raw bytes, for dead letters."""
    kept = SourceChunk(
        topics=chunk.topics,
        topic_index=chunk.topic_index,
        partition=chunk.partition,
        offsets=chunk.offsets,
        timestamps=chunk.timestamps,
        floor=chunk.floor,
        headers=chunk.headers,
        latest=chunk.latest,
    )
    kept.raws = list(zip(keys, values, strict=True))
    return kept


def decode_source(  # noqa: PLR0913 - one call for each chunk, from two engines
    source: SourceNode | TableSourceNode,
    chunk: SourceChunk,
    keys: list[bytes | None],
    values: list[bytes | None],
    *,
    options: KernelOptions,
    output: Callable[[], StageOutput],
    now_ms: int = 0,
) -> Batch:
    """Decode the records of a chunk; only those that cannot be decoded go to the handler.

    The chunk's timestamps are replaced by those of the source's timestamp extractor.

    Args:
        source: The source node that reads the chunk's topic.
        chunk: The chunk.
        keys: The keys as they were read.
        values: The values as they were read.
        options: Hold the handler.
        output: Where dead letters and counts go.
        now_ms: The epoch's wall-clock time.

    Raises:
        DeserializationError: If the handler is ``fail`` and a record is bad.
        ProcessingError: If a timestamp extractor raises and the processing handler is ``fail``.
    """
    handlers = options.deserialization_handler, options.processing_handler
    buries = (
        options.letter_raws or wants_raws(handlers) or chunk.topic_index in options.late_letters
    )
    origins = _remembering(chunk, keys, values) if buries else chunk
    raw = Batch(keys, values, origins)
    failures = Failures(
        source, source.on_error or options.deserialization_handler, DeserializationError, output
    )
    failures.pause, failures.application_id = options.pause, options.application_id
    instead: list[Batch] = []
    failures.instead = lambda bad, row, records: instead.append(_instead(source, bad, row, records))
    on_failure = failing(raw, failures)
    bad = own_times(source, chunk, now_ms, on_failure, output)
    decoded_keys = _decode(source.key, keys, on_failure, bad)
    decoded_values = _decode(source.value, values, on_failure, bad)
    key_bytes: Any = keys if is_canonical(source.key) else None
    batch = Batch(decoded_keys, decoded_values, origins, key_bytes=key_bytes)
    if source.timestamp_extractor is not None:
        bad |= user_times(source, chunk, batch, bad, options, output)
    origins.timestamps = chunk.timestamps
    if not bad:
        return batch
    good = batch.select(keep_mask(len(keys), sorted(bad)))
    return Batch.merge([good, *instead]) if instead else good


def _instead(
    source: SourceNode | TableSourceNode,
    raw: Batch,
    row: int,
    records: Sequence[Record[Any, Any]],
) -> Batch:
    """Return what a handler puts in the place of a record, as if it had been decoded."""
    made = instead_of(raw, row, records, keeps_key=False, step=source)
    if not is_canonical(source.key):
        return made
    serde: Serde[Any] = source.key or BytesSerde()
    encoded: Any = serde.serialize_many(made.keys)
    return made.with_key_bytes(encoded)


def _decode(
    serde: Serde[Any] | None,
    column: list[bytes | None],
    on_failure: FailingRows,
    bad: set[int],
) -> list[Any]:
    """Decode a column; rows in ``bad`` are skipped, and rows that fail are added to it."""
    if serde is None:
        return column
    try:
        if not bad:
            return serde.deserialize_many(column)
    except EnvironmentFault:
        raise  # asking a schema registry again for each row would not help
    except Exception:  # noqa: BLE001 - found again below, with its row
        pass
    decoded: list[Any] = []
    for row, item in enumerate(column):
        value = None
        if row not in bad:
            try:
                value = serde.deserialize(item)
            except Exception as error:  # noqa: BLE001 - a serde of the user's may raise anything
                value, decodes = repeated(serde.deserialize, (column,), row, error, on_failure)
                if not decodes:
                    bad.add(row)
        decoded.append(value)
    return decoded


class SourceOperator(Operator[SourceNode]):
    """Forwards the decoded records of a source."""

    def process_one(self, batch: Batch) -> Batch:
        """Return the batch."""
        return batch

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the source's serde if it would write the same bytes that were read."""
        return source_key_serde(self.node)


def source_key_serde(node: SourceNode | TableSourceNode) -> Serde[Any] | None:
    """Return the serde of the key bytes that `decode_source` returns, if they have one."""
    if not is_canonical(node.key):
        return None
    return BytesSerde() if node.key is None else node.key
