"""Rows of topics that several stages write: put in the order of their records by the driver."""

from __future__ import annotations

from collections.abc import Sequence

from mustela.kernel.core.output import SinkRows
from mustela.kernel.records.sink_order import in_record_order
from mustela.kernel.split_order import mend_places
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.spark.frames import FrameColumns
from mustela.spark.results import FrameStore

__all__ = ["gathered_rows"]


def gathered_rows(
    frames: FrameStore, order: EpochOrder, reports: Sequence[TaskReport]
) -> list[FrameColumns]:
    """Return the rows that tasks left for the driver to sort; they are held in memory.

    Args:
        frames: What tasks sent.
        order: The epoch.
        reports: What they reported.
    """
    markers = [seen for report in reports for seen in report.ranges]
    parts = [
        SinkRows(
            step=step,
            topic=columns.topics,
            keys=columns.keys,
            values=columns.values,
            timestamps=columns.timestamps or [],
            headers=columns.headers,
            partitions=columns.partitions if isinstance(columns.partitions, list) else None,
            places=mend_places(places, order.ranges, markers),
        )
        for step, columns, places in frames.placed()
    ]
    return [
        FrameColumns(
            rows.topic, rows.keys, rows.values, rows.timestamps, rows.headers, rows.partitions
        )
        for rows in in_record_order(parts, spread=True)
    ]
