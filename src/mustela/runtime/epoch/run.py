"""The state shared by the parts of the driver's loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.model import TopicPartition
from mustela.plan.feeds import topics_sent_on
from mustela.plan.plan import Plan
from mustela.runtime.commit.barrier import Barrier
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.commit.outcome import Outcome
from mustela.runtime.cutting.sizing import EpochBudget
from mustela.runtime.engine import Engine
from mustela.runtime.epoch.owner_choice import OwnerChoice
from mustela.runtime.events import Listener, UncaughtAnswer
from mustela.runtime.passing_faults import PassingFaults
from mustela.runtime.ports import World
from mustela.runtime.start.opening import Opening
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.talk import statistics_of
from mustela.runtime.time.due_times import DueTimes
from mustela.runtime.time.watermark import Look

__all__ = ["Run", "Uncaught", "shuts_down"]


class Uncaught(Protocol):
    """Decides what to do about an error that would end the application."""

    def __call__(self, error: BaseException, /, *, may_skip: bool = False) -> UncaughtAnswer:
        """Return what follows.

        Args:
            error: The error.
            may_skip: Whether it names a record that can be left out.
        """
        ...


def shuts_down(_error: BaseException, /, *, may_skip: bool = False) -> UncaughtAnswer:
    """Shut down, which is what happens without a handler."""
    del may_skip
    return UncaughtAnswer.SHUTDOWN


def _tells_nobody(_state: CommittedState) -> None:
    """Tell nobody."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One life of an application, from its claim to its end.

    Attributes:
        settings: The settings.
        engine: The engine, started.
        clock: Wall and monotonic time.
        listener: Receives the events.
        world: Kafka and disk.
        opening: Started it; follows topics that match patterns, and those of global tables.
        outcome: Finds out how commits ended, and whether another instance took over.
        faults: Tolerates transient faults.
        budget: The size limit of an epoch.
        state: The committed state.
        barrier: The step of the epoch protocol.
        due: When key groups need to run without records.
        board: Receives the state of the loop, for readers in other threads.
        uncaught: Decides what to do about an error that is not retried.
        ends: The ends of source partitions at the last look.
        topics: Index of each source topic in the plan.
        whole: Indexes of topics whose ranges are not split among tasks.
        failures: Number of epochs that failed since the last commit.
        losses: Number of epochs since then that failed because an executor was lost.
        is_suspect: Whether local state must be checked before it is used.
        driver_writes: Whether lanes write nothing until something is committed: with them, a
            transaction has failed.
        spread: Says whether owners of partitions write an epoch's sink rows.
        may_seal: Whether tasks put sink rows together; they do not once some were refused.
        on_committed: Called with each newly committed state.
        look: What was known when the last epoch was chosen, or found unnecessary.
    """

    settings: Settings
    engine: Engine
    clock: Clock
    listener: Listener
    world: World
    opening: Opening
    outcome: Outcome
    faults: PassingFaults
    budget: EpochBudget
    state: CommittedState
    barrier: Barrier
    due: DueTimes
    owner_choice: OwnerChoice
    board: StatusBoard
    uncaught: Uncaught = shuts_down
    ends: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    topics: Mapping[str, int] = field(default_factory=dict[str, int])
    whole: frozenset[int] = frozenset()
    failures: int = 0
    losses: int = 0
    is_suspect: bool = False
    driver_writes: bool = False
    may_seal: bool = True
    on_committed: Callable[[CommittedState], None] = _tells_nobody
    look: Look | None = None

    @property
    def plan(self) -> Plan:
        """The running plan."""
        return self.opening.plan

    def tell_board(self) -> None:
        """Write to the board what is committed, and what is known of the rest."""
        self.board.heard(statistics_of(self.world.transactions))
        self.board.end_turn(
            self.state,
            self.ends,
            topics=self.topics,
            held=() if self.look is None else self.look.held,
            is_well=not (self.failures or self.faults.is_tried),
        )

    def name_topics(self) -> None:
        """Number the topics of the running plan."""
        self.topics = {topic: index for index, topic in enumerate(self.plan.topics)}
        self.whole = frozenset(self.plan.unsplit)
        if self.settings.processing_guarantee == "at_least_once":
            self.whole |= topics_sent_on(self.plan)
