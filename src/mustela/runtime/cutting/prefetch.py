"""Work on the next epoch while the rows of this one are being committed.

A commit keeps the driver and the broker busy, not the workers. If no lane keeps state, the next
epoch only needs to know where this one's records end, so its whole job can run meanwhile. Its rows
are sent when this epoch is known to be committed, and discarded otherwise. With state, a lane would
have to read what is not committed yet, so only the first stage runs: it reads the records, calls
the functions before the exchanges and stores its output for the lanes. The same where owners of
partitions write rows: there is no transaction for them before this one has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.plan.plan import Plan
from mustela.runtime.engine import Engine, EpochOutput, Reading
from mustela.runtime.record.source_offsets import Cut
from mustela.runtime.time.watermark import Look
from mustela.state.interfaces import Token

__all__ = ["Done", "Prefetch", "Turn", "Work", "prefetch_work"]

Done = EpochOutput | Reading | None
"""What was done ahead for an epoch: its whole job, the reading, or nothing because it is small."""

Work = Callable[[EpochOrder], Done]
"""The work done ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An epoch to run.

    Attributes:
        cuts: What it reads.
        look: What the driver knew when it chose that.
        order: The order for the engine.
        started: Monotonic time at which it was chosen, in seconds.
    """

    cuts: Mapping[TopicPartition, Cut]
    look: Look
    order: EpochOrder
    started: float


class Prefetch:
    """At most one job that runs ahead of the previous commit."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._begun: tuple[Turn, Future[Done]] | None = None

    def begin(self, turn: Turn, work: Work) -> None:
        """Start the work for an epoch, in a separate thread."""
        assert self._begun is None, "one job runs ahead, not two"
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="mustela-prefetch")
        self._begun = turn, self._threads.submit(work, turn.order)

    def take(self, token: Token) -> tuple[Turn, Callable[[], Done]] | None:
        """Return the turn that was started, and a function that waits for its result.

        Args:
            token: The next epoch. If a different one was started, because the previous epoch was
                not committed, its work is awaited and discarded.

        Returns:
            None if nothing was started for this token.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return None
        turn, job = begun
        if turn.order.token == token:
            return turn, job.result
        with suppress(Exception):  # its result is no longer needed
            if (done := job.result()) is not None:
                done.close()
        return None

    def close(self) -> None:
        """Wait for what was started, and discard it."""
        self.take(Token(-1, -1, -1))
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


def _run_or_read(engine: Engine, order: EpochOrder) -> Done:
    return engine.read(order) if order.owners else engine.run(order)


def prefetch_work(plan: Plan, guarantee: str, engine: Engine) -> Work | None:
    """Return the work that may be done for an epoch before the previous one is committed, or None.

    With ``at_least_once`` there is none: tasks send rows themselves, and a crash must repeat at
    most one epoch. A first stage that reads stores waits for the commit, too.
    """
    if guarantee == "at_least_once" or plan.global_tables or plan.reads_any:
        return None
    if not any(stage.stores for stage in plan.stages):
        return partial(_run_or_read, engine)
    return None if plan.stages[0].stores else engine.read
