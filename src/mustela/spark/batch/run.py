"""A batch from beginning to end: inputs into files, epochs over them, and the result."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from mustela.model import TopicPartition
from mustela.plan.epoch import Program
from mustela.plan.files import Files, Segment
from mustela.plan.plan import Plan
from mustela.runtime.batch import BatchRefusedError, BatchRequest, BatchResult
from mustela.runtime.time.watermark import watermark_options
from mustela.spark.batch.encode import Reads
from mustela.spark.batch.inputs import prepare
from mustela.spark.batch.loop import EpochRunner, Loop
from mustela.spark.batch.program import batch_program, check_steps, flush_span_ms
from mustela.spark.batch.result import FilesResult
from mustela.spark.batch.segments import PartitionIndex, Written
from mustela.spark.batch.stores import LeftState

__all__ = ["BatchRunner", "check_request", "run_batch"]


class BatchRunner(EpochRunner, Protocol):
    """What a batch needs of an engine."""

    def load(self, program: Program) -> None:
        """Send the program to the workers."""
        ...


def check_request(request: BatchRequest) -> None:
    """See whether an application can run as a batch.

    Raises:
        BatchRefusedError: If it cannot.
    """
    check_steps(request.plan)
    if request.flush and request.settings.event_time == "stream-time":
        msg = "flush needs event_time = watermark"
        raise BatchRefusedError(
            msg,
            why="with stream time only records move time on, and after the last one there is none",
            fix="leave out flush, or set event_time to watermark",
        )


def run_batch(
    request: BatchRequest, engine: BatchRunner, session: Callable[[], Any]
) -> BatchResult:
    """Run an application over its inputs.

    Args:
        request: What to run.
        engine: The started engine.
        session: Returns a SparkSession.
    """
    directory = Path(tempfile.mkdtemp(prefix="mustela-batch-", dir=request.directory))
    try:
        written = _written(request, directory / "inputs", session)
        indexes = {
            topic: [PartitionIndex(parts.get(n, [])) for n in range(max(parts, default=-1) + 1)]
            for topic, parts in written.items()
        }
        files = Files(
            inputs={topic: _segments(parts) for topic, parts in indexes.items()},
            output=str(directory / "output"),
        )
        program = batch_program(request, files, engine.cores, directory / "state")
        engine.load(program)
        partitions = {
            TopicPartition(topic, number): index
            for topic in request.plan.topics
            for number, index in enumerate(indexes[topic])
            if index.size
        }
        rules = watermark_options(request.settings, any_future=True)
        loop = Loop(program, engine, partitions, rules=rules, records=request.epoch_records)
        loop.run()
        if request.flush and loop.watermark.value >= 0:
            loop.flush(_last(partitions, loop) + flush_span_ms(request.plan))
        shutil.rmtree(directory / "inputs")
        left = LeftState(program, loop.marks, epoch=loop.epochs, watermark=loop.watermark.value)
        result = FilesResult(request.plan, directory, directory / "output", session, left)
        result.counters = dict(loop.counters)
        result.watermark = loop.watermark.value
        result.epochs = loop.epochs
        return result
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _last(partitions: dict[TopicPartition, PartitionIndex], loop: Loop) -> int:
    """Return the largest time of any record: a window may end after it."""
    tops = (index.tops[-1] for index in partitions.values())
    return max(loop.watermark.value, *tops)


def _written(
    request: BatchRequest, directory: Path, session: Callable[[], Any]
) -> dict[str, dict[int, list[Written]]]:
    readers = _readers(request.plan)
    return {
        topic: prepare(topic, readers[topic], given, directory, session)
        for topic, given in request.inputs.items()
    }


def _readers(plan: Plan) -> dict[str, Reads]:
    readers: dict[str, Reads] = {table.topic: table for table in plan.global_tables}
    for source in plan.stages[0].sources:
        for topic in source.topics:
            readers[topic] = source
    return readers


def _segments(parts: list[PartitionIndex]) -> tuple[tuple[Segment, ...], ...]:
    return tuple(tuple(part.segments) for part in parts)
