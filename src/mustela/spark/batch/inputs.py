"""From a user's data to the files that epochs read: encoded, in order, indexed by time.

What is small, or in this process already, is sorted here; DataFrames and large files are sorted by
Spark, and no row of theirs comes to this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mustela.runtime.batch import BatchInput, BatchInputError
from mustela.spark.arrow import arrow as pa, parquet as pq
from mustela.spark.batch.encode import Encoder, Reads, encoder_of
from mustela.spark.batch.segments import Written, write_records
from mustela.spark.files import RECORDS
from mustela.spark.shipment import Packed

__all__ = ["HERE_BYTES", "prepare"]

HERE_BYTES = 64 << 20
"""Files up to this size are sorted in this process, without a job of Spark's."""

_SEQ = "~seq"
_PARTITION, _OFFSET = "~partition", "~offset"

_WRITTEN = "partition int, part int, path string, rows long, tops array<long>"


def prepare(
    topic: str, node: Reads, given: BatchInput, directory: Path, session: Callable[[], Any]
) -> dict[int, list[Written]]:
    """Write the records of an input to files.

    Args:
        topic: The topic.
        node: Who reads it.
        given: The input.
        directory: Where the files go.
        session: Returns the SparkSession, if it is needed.

    Returns:
        The files of each partition, in order.

    Raises:
        BatchInputError: If the input does not fit the source.
    """
    directory = directory / quote(topic, safe="")
    directory.mkdir(parents=True)
    data = _local(given.data, topic)
    if data is not None:
        return _prepare_here(topic, node, given, data, directory)
    frame = given.data
    if isinstance(frame, str | Path):
        path = str(frame)  # Spark's JVM may have another working directory
        frame = session().read.parquet(path if "://" in path else str(Path(path).absolute()))
    if not hasattr(frame, "mapInArrow"):
        msg = f"the input for topic {topic!r} is a {type(frame).__name__}"
        raise BatchInputError(
            msg,
            fix="give a Spark or pandas DataFrame, an Arrow table, or the path of a Parquet file",
        )
    return _prepare_on_spark(topic, node, given, frame, directory)


def _local(data: Any, topic: str) -> Any:
    """Return data that is here, or small, as an Arrow table; None for what Spark is to read."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, str | Path) and "://" not in str(data):
        path = Path(data)
        if not path.exists():
            msg = f"the input for topic {topic!r} is not there: {path}"
            raise BatchInputError(msg, fix="give the path of a Parquet file or directory")
        files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
        if sum(file.stat().st_size for file in files) <= HERE_BYTES:
            return _read_parquet(path, topic)
    return None


def _read_parquet(path: Path, topic: str) -> Any:
    try:
        return pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        msg = f"the input for topic {topic!r} cannot be read as Parquet: {path}: {error}"
        raise BatchInputError(msg, fix="give the path of a Parquet file or directory") from None


def _prepare_here(
    topic: str, node: Reads, given: BatchInput, data: Any, directory: Path
) -> dict[int, list[Written]]:
    encoder = encoder_of(topic, node, given, data.schema.names)
    records = pa.Table.from_batches(
        [encoder.records(batch) for batch in data.to_batches() if batch.num_rows], RECORDS
    )
    partitions = _column(data, given.partition)
    offsets = _column(data, given.offset)
    count = records.num_rows
    by = [(_SEQ, "ascending")]
    table = records.append_column(_SEQ, pa.array(range(count), pa.int64()))
    table = table.append_column(
        _PARTITION, pa.array([0] * count, pa.int32()) if partitions is None else partitions
    )
    if offsets is not None:
        table = table.append_column(_OFFSET, offsets)
        by = [(_OFFSET, "ascending"), *by]
    elif encoder.timestamp or encoder.retimes:
        by = [("time", "ascending"), *by]
    table = table.sort_by([(_PARTITION, "ascending"), *by])
    batches = _by_partition(table.to_batches(max_chunksize=100_000), len(RECORDS.names) + 1)
    found: dict[int, list[Written]] = {}
    for file in write_records(batches, lambda p: str(directory / f"{p}-0.arrow")):
        found.setdefault(file.partition, []).append(file)
    return found


def _column(data: Any, name: str) -> Any:
    if name not in data.schema.names:
        return None
    kind = pa.int32() if name == "partition" else pa.int64()
    return data.column(name).cast(kind)


def _by_partition(batches: Any, column: int) -> Iterator[tuple[int, Any]]:
    """Yield the records of batches that are sorted by a column of partitions."""
    for batch in batches:
        numbers = batch.column(column)
        records = batch.select(RECORDS.names)
        start = 0
        for run in numbers.value_counts():  # in the order in which the partitions appear
            count = run["counts"].as_py()
            yield run["values"].as_py(), records.slice(start, count)
            start += count


def _prepare_on_spark(
    topic: str, node: Reads, given: BatchInput, frame: Any, directory: Path
) -> dict[int, list[Written]]:
    from pyspark.sql import functions as f

    names = frame.columns
    encoder = encoder_of(topic, node, given, names)
    packed = Packed.of(encoder)
    numbered = frame.withColumn(_SEQ, f.monotonically_increasing_id())
    partition = f.col(given.partition).cast("int") if given.partition in names else f.lit(0)
    numbered = numbered.withColumn(_PARTITION, partition)
    parts = frame.rdd.getNumPartitions()  # as many as Spark makes of so much
    if encoder.retimes and given.offset not in names:
        kept = f"{_RECORDS_DDL}, `{_SEQ}` long, `{_PARTITION}` int"
        encoded = numbered.mapInArrow(partial(_encode, packed), kept)
        ordered = _sorted(encoded, parts, [_PARTITION, "time", _SEQ])
        written = partial(_only_write, str(directory))
    else:
        times = [given.offset] if given.offset in names else [encoder.timestamp]
        by = [_PARTITION, *(f.col(f"`{name}`") for name in times if name), _SEQ]
        ordered = _sorted(numbered, parts, by)
        written = partial(_encode_and_write, packed, str(directory))
    found: dict[int, list[tuple[int, Written]]] = {}
    for row in ordered.mapInArrow(written, _WRITTEN).collect():
        file = Written(row.partition, row.path, row.rows, list(row.tops))
        found.setdefault(row.partition, []).append((row.part, file))
    return {
        partition: [file for _, file in sorted(files, key=lambda pair: pair[0])]
        for partition, files in sorted(found.items())
    }


def _sorted(frame: Any, parts: int, by: list[Any]) -> Any:
    """Return a frame in order, from partition to partition and in each."""
    return frame.repartitionByRange(parts, *by).sortWithinPartitions(*by)


_RECORDS_DDL = "key binary, value binary, timestamp long, headers binary, time long"


def _encode(packed: Packed, batches: Iterator[Any]) -> Iterator[Any]:
    """Encode rows before they are sorted: their times are in their values."""
    encoder: Encoder = packed.unpack()
    for batch in batches:
        records = encoder.records(batch)
        columns = [*records.columns, batch.column(_SEQ), batch.column(_PARTITION)]
        yield pa.RecordBatch.from_arrays(columns, names=[*RECORDS.names, _SEQ, _PARTITION])


def _encode_and_write(packed: Packed, directory: str, batches: Iterator[Any]) -> Iterator[Any]:
    encoder: Encoder = packed.unpack()
    yield from _write(directory, ((encoder.records(b), b.column(_PARTITION)) for b in batches))


def _only_write(directory: str, batches: Iterator[Any]) -> Iterator[Any]:
    pairs = ((b.select(RECORDS.names).cast(RECORDS), b.column(_PARTITION)) for b in batches)
    yield from _write(directory, pairs)


def _write(directory: str, pairs: Iterator[tuple[Any, Any]]) -> Iterator[Any]:
    """Write sorted records, and tell which files there are now."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    whole = (
        pa.RecordBatch.from_arrays([*r.columns, p], names=[*RECORDS.names, _PARTITION])
        for r, p in pairs
    )
    parted = _by_partition(whole, len(RECORDS.names))
    for file in write_records(parted, lambda p: f"{directory}/{p}-{part}.arrow"):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([file.partition], pa.int32()),
                pa.array([part], pa.int32()),
                pa.array([file.path], pa.string()),
                pa.array([file.rows], pa.int64()),
                pa.array([file.tops], pa.list_(pa.int64())),
            ],
            names=["partition", "part", "path", "rows", "tops"],
        )
