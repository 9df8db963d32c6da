"""What the job of an epoch leaves: for its lanes, and for the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mustela.connectors.kafka.row_checks import outline_of
from mustela.plan.epoch import EpochOrder, Failure, OwnerReport, Placement, TaskReport
from mustela.runtime.engine import EpochOutput
from mustela.spark.frames import (
    CHANGELOG,
    DEAD_LETTERS,
    OWNER,
    REPORT,
    ROWS,
    load_object,
    unpack,
)
from mustela.spark.gathered import gathered_rows
from mustela.spark.job import FrameExchange, Jobs
from mustela.spark.job_errors import error_of
from mustela.spark.located import Located
from mustela.spark.residents import PartsRead
from mustela.spark.results import FrameStore
from mustela.spark.spool import forget
from mustela.state.interfaces import Token

__all__ = ["Came", "SparkOutput", "SparkReading"]


@dataclass(slots=True)
class SparkReading:
    """What the first stage of an epoch left for its lanes, which are those of `placement`."""

    read: FrameExchange | PartsRead
    jobs: Jobs
    spool_dir: str
    token: Token
    placement: Placement | None
    where: Located | None

    def close(self) -> None:
        """Delete it."""
        if isinstance(self.read, FrameExchange):
            self.jobs.forget([self.read.shuffle])
        forget(self.spool_dir, self.token)


class Came:
    """What comes back from the job of an epoch.

    Args:
        result_bytes: What is kept of rows in memory.

    Attributes:
        frames: Rows for the driver.
        reports: What tasks did.
        owned: What owners of partitions wrote.
    """

    def __init__(self, result_bytes: int) -> None:
        self.frames = FrameStore(result_bytes)
        self.reports: list[TaskReport] = []
        self.owned: list[OwnerReport] = []

    def add(self, data: bytes) -> None:
        """Take a frame."""
        frame = unpack(data)
        if frame.kind == REPORT:
            self.reports.append(load_object(frame.body))
        elif frame.kind == OWNER:
            self.owned.append(load_object(frame.body))
        else:
            self.frames.add(frame, data)

    def raise_failure(self, made_of: Callable[[Failure], BaseException] = error_of) -> None:
        """Raise the first error that a task or an owner reports.

        Args:
            made_of: Makes it of what was reported.
        """
        in_order = sorted(self.reports, key=lambda r: (r.stage, r.task))
        for report in (*in_order, *self.owned):
            if report.failure is not None:
                raise made_of(report.failure)

    @property
    def spark_stages(self) -> set[int]:
        """Spark's numbers of the stages that they were in."""
        return {report.spark_stage for report in (*self.reports, *self.owned)}


class SparkOutput(EpochOutput):
    """An epoch's output over the frames that came back."""

    def __init__(self, came: Came, spool_dir: str, order: EpochOrder) -> None:
        frames, reports = came.frames, came.reports
        gathered = gathered_rows(frames, order, reports)
        in_order = sorted(reports, key=lambda r: (r.stage, r.task))
        outlines = [outline for report in in_order for outline in report.outlines]
        super().__init__(
            reports=reports,
            rows=frames.view(ROWS, and_then=gathered),
            outlines=outlines + [outline_of(columns) for columns in gathered],
            sealed_outlines=[one for report in in_order for one in report.sealed_outlines],
            changelogs=frames.named(CHANGELOG),
            dead_letters=frames.view(DEAD_LETTERS),
            size=frames.size,
            ticket=order.ticket,
            placement=order.placement,
            owned=came.owned,
        )
        self._frames = frames
        self._spool_dir = spool_dir
        self._token = order.token

    def close(self) -> None:
        """Delete what was spilled or left on disk."""
        self._frames.close()
        forget(self._spool_dir, self._token)
