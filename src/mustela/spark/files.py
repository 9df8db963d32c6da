"""Reading records from files and writing rows to files, in place of Kafka; see `plan.files`.

Records are in Arrow files that are mapped into memory. Rows go to Parquet files, which Spark reads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from mustela.connectors.kafka.small_fetch import OffsetRange
from mustela.model import Headers
from mustela.plan.files import LETTERS, Files, Segment, row_place
from mustela.plan.ranges import RawChunk
from mustela.spark.arrow import arrow as pa, parquet as pq
from mustela.spark.frames import FrameColumns

__all__ = [
    "BATCH_ROWS",
    "RECORDS",
    "ROWS",
    "FileReader",
    "RowFiles",
    "pack_headers",
    "rows_directory",
]

BATCH_ROWS = 8_192
"""Records in each batch of a file, except for the last."""

RECORDS: Any = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64()),
        pa.field("headers", pa.binary()),
        pa.field("time", pa.int64()),
    ]
)
"""The columns of records: ``time`` is the timestamp that the source's extractor gives."""

ROWS: Any = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64()),
        pa.field("headers", pa.binary()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)
"""The columns of rows."""

_FILES_OPEN_MAX = 64

_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...]).decode


def pack_headers(headers: Headers) -> bytes | None:
    """Return headers as bytes, None for none."""
    return _ENCODE(headers) if headers else None


def unpack_headers(data: bytes | None) -> Headers:
    """Return the headers that `pack_headers` made ``data`` from."""
    return () if data is None else _DECODE(data)


def rows_directory(output: str | Path, topic: str, step: str) -> Path:
    """Return the directory for the rows that a sink writes to a topic."""
    return Path(output) / quote(topic, safe="") / quote(step, safe="")


class FileReader:
    """Reads ranges of offsets; has the methods of `connectors.kafka.ranges.RangeReader`.

    Args:
        inputs: The segments of each topic's partitions.
    """

    def __init__(self, inputs: Mapping[str, tuple[tuple[Segment, ...], ...]]) -> None:
        self._inputs = inputs
        self._open: dict[str, Any] = {}

    def read(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_batch: int = 20_000,
        goes_on: bool = False,
    ) -> Iterator[RawChunk]:
        """Yield the records of a range, in chunks of the files' batches."""
        del goes_on, max_batch
        segments = self._inputs[topic][partition]
        first = max(0, bisect_right([segment.start for segment in segments], start) - 1)
        for segment in segments[first:]:
            if segment.start >= end:
                break
            low = max(start, segment.start)
            high = min(end, segment.start + segment.rows)
            if low < high:
                yield from self._segment(segment, low, high)

    def _segment(self, segment: Segment, low: int, high: int) -> Iterator[RawChunk]:
        file = self._file(segment.path)
        position = low
        while position < high:
            number, skipped = divmod(position - segment.start, BATCH_ROWS)
            batch = file.get_batch(number)
            taken = min(high - position, batch.num_rows - skipped)
            yield _chunk(batch.slice(skipped, taken), position)
            position += taken

    def times(self, segment: Segment, number: int) -> list[int]:
        """Return the times of the records in a batch of a segment."""
        return self._file(segment.path).get_batch(number).column(4).to_pylist()

    def _file(self, path: str) -> Any:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _FILES_OPEN_MAX:
                self._open.clear()
            file = self._open[path] = pa.ipc.open_file(pa.memory_map(path))
        return file

    def gather(self, wanted: Sequence[OffsetRange]) -> None:
        """Do nothing: there is nobody to ask."""

    def ahead(self, topic: str, partition: int, start: int) -> None:
        """Do nothing: the operating system reads ahead."""

    def drop_ahead(self) -> None:
        """Do nothing."""

    def statistics(self) -> dict[str, Any]:
        """Return nothing: there are no clients."""
        return {}

    def close(self) -> None:
        """Close the files."""
        self._open.clear()


def _chunk(batch: Any, start: int) -> RawChunk:
    headers: list[Headers] | None = None
    if batch.column(3).null_count < batch.num_rows:
        headers = [unpack_headers(data) for data in batch.column(3).to_pylist()]
    return RawChunk(
        list(range(start, start + batch.num_rows)),
        batch.column(0).to_pylist(),
        batch.column(1).to_pylist(),
        batch.column(2).to_pylist(),
        headers,
    )


class RowFiles:
    """The files that one task of an epoch writes.

    Args:
        files: Says where.
        epoch: The epoch.
        stage: The task's stage.
        task: The task.
    """

    def __init__(self, files: Files, epoch: int, stage: int, task: int) -> None:
        self._output = files.output
        self._name = f"{epoch}-{stage}-{task}.parquet"
        self._next = row_place(epoch, stage, task)
        self._writers: dict[tuple[str, str], Any] = {}

    def write(self, step: str, columns: FrameColumns, steps: Sequence[str] | None = None) -> None:
        """Write rows of a sink, or of several; those of dead letters have the step `LETTERS`."""
        count = len(columns.values)
        offsets = list(range(self._next, self._next + count))
        self._next += count
        partitions = columns.partitions
        if not isinstance(partitions, list):
            partitions = [partitions] * count
        headers = columns.headers
        table = pa.Table.from_arrays(
            [
                pa.array(columns.keys, pa.binary()),
                pa.array(columns.values, pa.binary()),
                pa.array(columns.timestamps, pa.int64()),
                pa.nulls(count, pa.binary())
                if headers is None
                else pa.array(map(pack_headers, headers), pa.binary()),
                pa.array(partitions, pa.int32()),
                pa.array(offsets, pa.int64()),
            ],
            schema=ROWS,
        )
        for place, part in _by_sink(columns.topics, steps or step, table):
            self._writer(*place).write_table(part)

    def _writer(self, topic: str, step: str) -> Any:
        place = topic, step
        if place not in self._writers:
            directory = rows_directory(self._output, *place)
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / self._name
            self._writers[place] = pq.ParquetWriter(path, ROWS, compression="lz4")
        return self._writers[place]

    def close(self) -> None:
        """Finish the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def _by_sink(
    topics: str | Sequence[str], steps: str | Sequence[str], table: Any
) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield the rows of each topic and sink."""
    if isinstance(topics, str) and isinstance(steps, str):
        yield (topics or LETTERS, steps), table
        return
    every_topic = repeat(topics) if isinstance(topics, str) else topics
    every_step = repeat(steps) if isinstance(steps, str) else steps
    rows: dict[tuple[str, str], list[int]] = {}
    for row, place in enumerate(zip(every_topic, every_step)):  # noqa: B905 - one may be endless
        rows.setdefault(place, []).append(row)
    for place, index in rows.items():
        yield place, table.take(index)
