"""Sink rows written by the owners of partitions: tasks behind the lanes, each with its partitions.

A partition has one writer in a transaction, and any lane may have rows for it. On one host that
writer is the driver: what lanes have put together reaches it by file. On a cluster all of it would
pass the driver's network and its JVM, so that one process bounds what any number of executors
write. There one more exchange brings each batch to the task that owns its partition, and the driver
hears only where rows were written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from pyspark import TaskContext
from pyspark.core.broadcast import Broadcast

from mustela.connectors.kafka.writers.sealed import SealedBatch
from mustela.faultpoints import reach
from mustela.plan.epoch import EpochOrder, OwnerReport
from mustela.plan.sealed import SealedPart
from mustela.spark.frames import OWNED, OWNER, Frame, dump_object, pack, unpack
from mustela.spark.outbox import DRIVER, Parcel, failure_of
from mustela.spark.process import Process, current
from mustela.spark.results import FrameStore
from mustela.spark.shipment import Shipment
from mustela.spark.worker import deliver, refuse_retry

__all__ = ["owner_parcels", "owner_task"]


def owner_task(
    program: Broadcast[Shipment], order: EpochOrder, owner: int, frames: Iterable[bytes]
) -> Iterator[bytes]:
    """Write what lanes have put together for the partitions of one owner."""
    refuse_retry()
    return deliver(owner_parcels(current(program.value), order, owner, frames), shuffled=False)


def owner_parcels(
    process: Process, order: EpochOrder, owner: int, frames: Iterable[bytes]
) -> Iterator[Parcel]:
    """Yield what one owner sends: where it has written, and what is not for it but the driver.

    Without a ticket everything is the driver's.
    """
    started = time.perf_counter()
    failure, places, size = None, (), 0
    store = FrameStore(process.program.result_bytes // max(1, order.owners))
    try:
        for data in frames:
            frame = unpack(data)
            if frame.kind == OWNED and order.ticket is not None:
                store.add(frame, data)
            else:
                yield owner, data
        places, size = _write(process, order, store)
    except Exception as error:  # noqa: BLE001 - the report carries it to the driver
        failure = failure_of(error)
    finally:
        store.close()
    context = TaskContext.get()
    report = OwnerReport(
        owner=owner,
        places=places,
        size=size,
        seconds=time.perf_counter() - started,
        spark_stage=-1 if context is None else context.stageId(),
        failure=failure,
    )
    stages = len(process.program.plan.stages)
    yield owner, pack(Frame(OWNER, DRIVER, stages, owner, 0, "", dump_object(report)))


def _write(
    process: Process, order: EpochOrder, store: FrameStore
) -> tuple[tuple[tuple[str, int], ...], int]:
    """Write batches in the order of those who put them together; return where, and their bytes."""
    if order.ticket is None or not store.size:
        return (), 0
    writer, size = process.transaction_writer(order.ticket), 0
    try:
        for part in store.sink_rows():
            assert isinstance(part, SealedPart), part
            for rows in part.rows:
                size += rows.size
                batches = (SealedBatch(*batch) for batch in rows.batches)
                writer.write_batches(rows.topic, rows.partition, batches)
            reach("in-owner-writing")
        places = tuple(sorted(writer.finish()))
        reach("in-owner-written")
    finally:
        writer.close()
    return places, size
