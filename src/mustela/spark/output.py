"""What the job of an epoch leaves: for its lanes, and for the driver."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.connectors.kafka.row_checks import outline_of
from mustela.plan.epoch import EpochOrder, Placement, TaskReport
from mustela.runtime.engine import EpochOutput
from mustela.spark.frames import CHANGELOG, DEAD_LETTERS, ROWS
from mustela.spark.gathered import gathered_rows
from mustela.spark.job import FrameExchange, Jobs
from mustela.spark.located import Located
from mustela.spark.results import FrameStore
from mustela.spark.spool import forget
from mustela.state.interfaces import Token

__all__ = ["SparkOutput", "SparkReading"]


@dataclass(slots=True)
class SparkReading:
    """What the first stage of an epoch left for its lanes, which are those of `placement`."""

    read: FrameExchange
    jobs: Jobs
    spool_dir: str
    token: Token
    placement: Placement | None
    where: Located | None

    def close(self) -> None:
        """Delete it."""
        self.jobs.forget([self.read.shuffle])
        forget(self.spool_dir, self.token)


class SparkOutput(EpochOutput):
    """An epoch's output over the frames that came back."""

    def __init__(
        self, reports: list[TaskReport], frames: FrameStore, spool_dir: str, order: EpochOrder
    ) -> None:
        gathered = gathered_rows(frames, order, reports)
        outlines = [
            outline
            for report in sorted(reports, key=lambda r: (r.stage, r.task))
            for outline in report.outlines
        ]
        super().__init__(
            reports=reports,
            rows=frames.view(ROWS, and_then=gathered),
            outlines=outlines + [outline_of(columns) for columns in gathered],
            changelogs=frames.named(CHANGELOG),
            dead_letters=frames.view(DEAD_LETTERS),
            size=frames.size,
            ticket=order.ticket,
            placement=order.placement,
        )
        self._frames = frames
        self._spool_dir = spool_dir
        self._token = order.token

    def close(self) -> None:
        """Delete what was spilled or left on disk."""
        self._frames.close()
        forget(self._spool_dir, self._token)
