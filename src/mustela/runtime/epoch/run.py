"""What the parts of the driver's loop share."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Says what follows an error that would end the application."""

    def __call__(self, error: BaseException, /, *, may_skip: bool = False) -> UncaughtAnswer:
        """Return what follows.

        Args:
            error: The error.
            may_skip: Whether it names a record that can be left out.
        """
        ...


def shuts_down(_error: BaseException, /, *, may_skip: bool = False) -> UncaughtAnswer:
    """Shut down: what follows where nobody was asked to say."""
    del may_skip
    return UncaughtAnswer.SHUTDOWN


@dataclass(slots=True, kw_only=True)
class Run:
    """One life of an application, from its claim to its end.

    Attributes:
        settings: The settings.
        engine: The engine, started.
        clock: Wall and monotonic time.
        listener: Is told of what happens.
        world: Kafka and disk.
        opening: Began it; follows topics that patterns find, and those of global tables.
        outcome: Says how commits ended, and whether another instance took over.
        faults: Bears what may pass.
        budget: How large an epoch may be.
        state: What is committed.
        barrier: The step of the epoch protocol.
        due: When key groups want to run though no record comes.
        board: Is written what the loop is at, for those who look from outside.
        uncaught: Says what follows an error that is not tried again.
        ends: Where source partitions ended at the last look.
        topics: Index of each source topic in the plan.
        whole: Indexes of topics whose ranges are not split among tasks.
        failures: Epochs that failed since the last commit.
        is_suspect: Whether local state is looked at before it is used.
        look: What was seen when the last epoch was chosen, or found to have nothing to do.
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
    board: StatusBoard
    uncaught: Uncaught = shuts_down
    ends: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    topics: Mapping[str, int] = field(default_factory=dict[str, int])
    whole: frozenset[int] = frozenset()
    failures: int = 0
    is_suspect: bool = False
    look: Look | None = None

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.opening.plan

    def tell_board(self) -> None:
        """Write to the board what is committed, and what was seen of the rest."""
        self.board.heard(statistics_of(self.world.transactions))
        self.board.end_turn(
            self.state,
            self.ends,
            topics=self.topics,
            held=() if self.look is None else self.look.held,
            is_well=not (self.failures or self.faults.is_tried),
        )

    def name_topics(self) -> None:
        """Number the topics of the plan that runs."""
        self.topics = {topic: index for index, topic in enumerate(self.plan.topics)}
        self.whole = frozenset(self.plan.unsplit)
        if self.settings.processing_guarantee == "at_least_once":
            self.whole |= topics_sent_on(self.plan)
