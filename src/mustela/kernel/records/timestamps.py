"""The timestamps of a chunk's records, by the timestamp extractor of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mustela.api.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from mustela.kernel.core.failures import Failures, ProcessingError
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.model import SourceRecord
from mustela.plan.batch import Batch, SourceChunk
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["own_times", "user_times"]

OnFailure = Callable[[int, Exception], None]


def own_times(
    source: SourceNode | TableSourceNode,
    chunk: SourceChunk,
    now_ms: int,
    on_failure: OnFailure,
    output: Callable[[], StageOutput],
) -> set[int]:
    """Set the times of a chunk's records where they do not depend on keys and values.

    A column without a negative timestamp, the usual case, costs one search for its minimum.

    Returns:
        The rows that have no time and are dropped.
    """
    extractor = source.timestamp_extractor
    if isinstance(extractor, WallclockTimestampExtractor):
        chunk.timestamps = [now_ms] * len(chunk.timestamps)
        return set()
    plain = FailOnInvalidTimestamp | LogAndSkipOnInvalidTimestamp
    if not isinstance(extractor, plain | UsePartitionTimeOnInvalidTimestamp | None):
        return set()  # a user's function: see `user_times`
    times = chunk.timestamps
    if not times or min(times) >= 0:
        return set()
    mended, negative = _running(times, chunk.floor, chunk.latest)
    if isinstance(extractor, LogAndSkipOnInvalidTimestamp):
        _count_skipped(source, len(negative), output)
        refused: list[int] = []
    elif isinstance(extractor, UsePartitionTimeOnInvalidTimestamp):
        negative = refused = [row for row in negative if mended[row] < 0]
    else:
        refused = negative
    for row in refused:
        on_failure(row, ValueError(f"the record's timestamp is negative: {times[row]}"))
    chunk.timestamps = mended
    return set(negative)


def _running(times: Sequence[int], floor: int, latest: int) -> tuple[list[int], list[int]]:
    """Return the times, the partition time for each negative one, and the places of those."""
    mended: list[int] = []
    negative: list[int] = []
    for row, time in enumerate(times):
        if time < 0:
            negative.append(row)
            mended.append(floor)
        else:
            mended.append(time)
            floor = max(floor, time) if time <= latest else floor
    return mended, negative


def _count_skipped(
    source: SourceNode | TableSourceNode, number: int, output: Callable[[], StageOutput]
) -> None:
    if number:
        output().counters[f"skipped_invalid_timestamp:{source.name}"] += number


def user_times(
    source: SourceNode | TableSourceNode,
    chunk: SourceChunk,
    batch: Batch,
    bad: set[int],
    options: KernelOptions,
    output: Callable[[], StageOutput],
) -> set[int]:
    """Set the times of a chunk's records by the user's function, if the source has one.

    Args:
        source: The source.
        chunk: Its timestamps are replaced.
        batch: The decoded records.
        bad: Rows that could not be decoded; the function is not called for them.
        options: Decide about records on which the function raises.
        output: Where counts go.

    Returns:
        The rows that get no time and are dropped.
    """
    extractor: Any = source.timestamp_extractor
    if not callable(extractor):
        return set()
    handler = source.on_error or options.processing_handler
    failures = Failures(source, handler, ProcessingError, output, extractor)
    failures.application_id = options.application_id
    headers = chunk.headers
    topic = chunk.topics[chunk.topic_index]
    times: list[int] = []
    refused: set[int] = set()
    skipped, partition_time, latest = 0, chunk.floor, chunk.latest
    for row, timestamp in enumerate(chunk.timestamps):
        time = partition_time
        if row not in bad:
            record: SourceRecord[Any, Any] = SourceRecord(
                key=batch.keys[row],
                value=batch.values[row],
                timestamp=timestamp,
                headers=() if headers is None else headers[row],
                topic=topic,
                partition=chunk.partition,
                offset=chunk.offsets[row],
            )
            try:
                time = _whole(extractor(record, partition_time))
            except Exception as error:  # noqa: BLE001 - the function is the user's
                failures.one(batch, row, error)
                refused.add(row)
                time = partition_time
            if time < 0 and row not in refused:
                refused.add(row)
                skipped += 1
                time = partition_time
        times.append(time)
        if partition_time < time <= latest:
            partition_time = time
    _count_skipped(source, skipped, output)
    chunk.timestamps = times
    return refused


def _whole(time: object) -> int:
    if isinstance(time, bool) or not isinstance(time, int):
        msg = f"a timestamp extractor must return whole milliseconds, not {type(time).__name__}"
        raise TypeError(msg)
    return time
