"""An engine that runs an epoch's tasks in this process, one after the other, with Spark's own code.

Frames, files and LMDB are those of workers; only the JVM between them is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from mustela.plan.epoch import EpochOrder, Program, TaskReport
from mustela.runtime.engine import EpochOutput
from mustela.spark.frames import REPORT, load_object, unpack
from mustela.spark.job_errors import error_of
from mustela.spark.process import Process
from mustela.spark.worker import lane_parcels, source_parcels

__all__ = ["InlineEngine"]


class InlineEngine:
    """Runs epochs; what of them goes to Kafka is left out."""

    def __init__(self, cores: int = 2) -> None:
        self.cores = cores
        self._process: Process | None = None

    def load(self, program: Program) -> None:
        """Take a program."""
        self.close()
        self._process = Process(os.getpid(), program)

    def run(self, order: EpochOrder) -> EpochOutput:
        """Run an epoch."""
        frames = map(unpack, self._frames(order))
        reports: list[TaskReport] = [load_object(f.body) for f in frames if f.kind == REPORT]
        for report in reports:
            if report.failure is not None:
                raise error_of(report.failure)
        return EpochOutput(reports=reports, rows=(), changelogs=(), dead_letters=(), size=0)

    def _frames(self, order: EpochOrder) -> Iterator[bytes]:
        process = self._process
        assert process is not None
        tasks = [source_parcels(process, order, task) for task in range(len(order.ranges))]
        for stage in range(1, len(process.program.plan.stages)):
            boxes: list[list[bytes]] = [[] for _ in range(process.program.lanes_in(order))]
            for lane, frame in chain.from_iterable(tasks):
                boxes[lane].append(frame)
            tasks = [lane_parcels(process, order, stage, n, box) for n, box in enumerate(boxes)]
        for _, frame in chain.from_iterable(tasks):
            yield frame

    def close(self) -> None:
        """Close what the program had open."""
        if self._process is not None:
            self._process.close()
            self._process = None
