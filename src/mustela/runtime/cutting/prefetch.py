"""What of the next epoch is done while the rows of this one are being committed.

A commit keeps the driver and the broker busy, not the workers. Where no lane keeps state, the next
epoch only has to know where this one's records end: so its whole job can run meanwhile. Its rows
are sent when this epoch is known to be committed, and thrown away if it is not. With state a lane
would have to read what nobody has committed yet: there only the first stage runs, which reads the
records, calls the functions in front of the lanes and leaves what the lanes will fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.plan.plan import Plan
from mustela.runtime.engine import Engine, EpochOutput, Reading
from mustela.runtime.record.source_offsets import Cut
from mustela.runtime.time.watermark import Look
from mustela.state.interfaces import Token

__all__ = ["Prefetch", "Turn", "Work", "prefetch_work"]

Work = Callable[[EpochOrder], EpochOutput | Reading]
"""What is done ahead for an epoch: all of its job, or the reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An epoch that is to be run.

    Attributes:
        cuts: What it reads.
        look: What the driver saw when it chose that.
        order: What the engine is told.
        started: Monotonic time at which it was chosen, in seconds.
    """

    cuts: Mapping[TopicPartition, Cut]
    look: Look
    order: EpochOrder
    started: float


class Prefetch:
    """At most one job that runs ahead of the commit before it."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._begun: tuple[Turn, Future[EpochOutput | Reading]] | None = None

    def begin(self, turn: Turn, work: Work) -> None:
        """Begin the work for an epoch, in a thread of its own."""
        assert self._begun is None, "one job runs ahead, not two"
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="mustela-prefetch")
        self._begun = turn, self._threads.submit(work, turn.order)

    def take(self, token: Token) -> tuple[Turn, Callable[[], EpochOutput | Reading]] | None:
        """Return the turn that was begun, and how to wait for what became of it.

        Args:
            token: The epoch that is next. If another one was begun, because the epoch before it
                was not committed, its work is waited for and thrown away.

        Returns:
            None if nothing was begun for this token.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return None
        turn, job = begun
        if turn.order.token == token:
            return turn, job.result
        with suppress(Exception):  # nobody asks any more what became of it
            job.result().close()
        return None

    def close(self) -> None:
        """Wait for what was begun, and throw it away."""
        self.take(Token(-1, -1, -1))
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


def prefetch_work(plan: Plan, guarantee: str, engine: Engine) -> Work | None:
    """Return what may be done for an epoch before the epoch before it is committed, if anything.

    Under ``at_least_once`` nothing may: tasks send rows themselves, and a crash is to repeat one
    epoch at most. A first stage that looks into stores waits for the commit, too.
    """
    if guarantee == "at_least_once" or plan.global_tables or plan.reads_any:
        return None
    if not any(stage.stores for stage in plan.stages):
        return engine.run
    return None if plan.stages[0].stores else engine.read
