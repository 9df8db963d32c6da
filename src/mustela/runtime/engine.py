"""What the runtime requires of an engine: running the job of an epoch, and restoring state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from mustela.config.settings import Settings
from mustela.connectors.kafka.columns import RowColumns
from mustela.errors import EnvironmentFault, InvariantError
from mustela.logs.options import LogOptions
from mustela.plan.epoch import (
    EpochOrder,
    GlobalMark,
    OwnerReport,
    Placement,
    Program,
    RestoreOrder,
    RowOutline,
    TaskReport,
)
from mustela.plan.plan import Plan
from mustela.plan.ranges import RangeReport
from mustela.plan.sealed import SealedPart
from mustela.plan.ticket import Ticket
from mustela.state.interfaces import Snapshot
from mustela.topology.global_table import GlobalTableNode

__all__ = [
    "Engine",
    "EngineOptions",
    "EpochJobError",
    "EpochOutput",
    "GlobalReading",
    "JobInterruptedError",
    "ProcessingTimeoutError",
    "Reading",
    "refuse_two_writers",
]


def refuse_two_writers(store: str, group: int) -> NoReturn:
    """Raise the error of a partition that would have two writers in one transaction.

    Raises:
        InvariantError: Always.
    """
    what = f"two writers have rows for partition {group} of the changelog of store '{store}'"
    raise InvariantError(
        what,
        why="each numbers its rows from 0, so the broker would take the second's for the first's",
        fix="this is a bug in Mustela: please report it",
    )


class EpochJobError(EnvironmentFault):
    """The job of an epoch failed as a whole; the epoch can be run again.

    Attributes:
        suspect: A worker died, so local state must be checked before it is used.
        lost_executor: A host or an executor is gone, which no program is to blame for.
    """

    code = "EPOCH_JOB"
    retryable = True
    suspect: bool = False
    lost_executor: bool = False


class ProcessingTimeoutError(EnvironmentFault):
    """A step spent more than ``processing.timeout`` on one batch."""

    code = "PROCESSING_TIMEOUT"


class JobInterruptedError(EnvironmentFault):
    """The application was stopped, and its last epoch did not finish in ``shutdown.grace``."""

    code = "SHUTDOWN_UNFINISHED"


def _say_nothing(_text: str) -> None:
    """Ignore a message."""


@dataclass(slots=True, kw_only=True)
class EpochOutput:
    """The output of an epoch's job.

    Attributes:
        reports: One per task.
        rows: Sink rows, in order; can be iterated more than once. Tasks may have put some together.
        outlines: A summary of each part of the rows that is not put together, if one was made.
        sealed_outlines: Of each part that is, whoever writes it.
        changelogs: Rows for changelogs as (store, columns); one partition each.
        dead_letters: Dead letters.
        size: Bytes of all rows that came to the driver.
        ticket: The transaction that lanes could write into; None if none was lent to them.
        placement: Which lane had which key group, if the engine chose that.
        owned: What the owners of partitions have written.
    """

    reports: list[TaskReport]
    rows: Iterable[RowColumns | SealedPart]
    outlines: Sequence[RowOutline] = ()
    sealed_outlines: Sequence[RowOutline] = ()
    changelogs: Iterable[tuple[str, RowColumns]]
    dead_letters: Iterable[RowColumns]
    size: int
    ticket: Ticket | None = None
    placement: Placement | None = None
    owned: Sequence[OwnerReport] = ()

    @property
    def written(self) -> dict[tuple[str, int], int]:
        """By store and key group, where its changelog ends behind what its lane has written.

        Raises:
            InvariantError: If two tasks have written one partition.
        """
        found: dict[tuple[str, int], int] = {}
        for report in self.reports:
            for place, end in report.written.items():
                if place in found:
                    refuse_two_writers(*place)
                found[place] = end
        return found

    @property
    def is_of_lanes(self) -> bool:
        """Whether rows of it are not the driver's to send again: the epoch has to run again."""
        return any(report.written or report.sealed for report in self.reports)

    @property
    def owned_topics(self) -> set[str]:
        """The topics that owners of partitions have written to: nobody else may."""
        return {topic for report in self.owned for topic, _ in report.places}

    @property
    def all_bytes(self) -> int:
        """Bytes of all rows, whoever has written them."""
        by_lanes = sum(report.written_bytes for report in self.reports)
        return self.size + by_lanes + sum(report.size for report in self.owned)

    @property
    def worked(self) -> float:
        """Seconds that tasks worked."""
        by_lanes = sum(report.worked for report in self.reports)
        return by_lanes + sum(report.seconds for report in self.owned)

    def ranges_read(self) -> list[RangeReport]:
        """Return the tasks' reports of the ranges they read."""
        return [part for report in self.reports for part in report.ranges]

    def close(self) -> None:
        """Release the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What an engine needs before it receives the program.

    Attributes:
        application_id: The application.
        properties: The engine's own properties, such as Spark's.
        session: A session of the engine that the user's program already has.
        debug: Whether errors include the engine's own stack traces.
        class_archive: Whether the engine, when it stops, may prepare a faster next start.
        state_backend: Where local state is kept.
        warn_s: Seconds that a step may spend on a batch before it is reported.
        kill_s: Seconds after which its worker is killed; None never kills it.
        say: Called with reports of slow steps, in a thread of the engine.
        logs: How its processes log; None leaves that to them.
        standby_replicas: How many hosts besides its home keep a copy of each key group; None leaves
            that to the engine.
        standby_lag_s: So many seconds old their copies may become.
    """

    application_id: str
    properties: dict[str, str]
    session: Any = None
    debug: bool = False
    class_archive: bool = False
    state_backend: str = ""
    warn_s: float = 30.0
    kill_s: float | None = None
    say: Callable[[str], None] = _say_nothing
    logs: LogOptions | None = None
    standby_replicas: int | None = None
    standby_lag_s: float = 2.0

    @classmethod
    def of(
        cls, settings: Settings, *, session: Any, debug: bool, say: Callable[[str], None]
    ) -> EngineOptions:
        """Return the options from the settings and the arguments."""
        timeout = settings.processing.timeout
        return cls(
            application_id=settings.application_id,
            properties=dict(settings.spark),
            session=session,
            debug=debug,
            class_archive=settings.class_archive,
            state_backend=settings.state.backend,
            warn_s=settings.processing.warn_after.total_seconds(),
            kill_s=None if timeout is None else timeout.total_seconds(),
            say=say,
            standby_replicas=settings.state.standby_replicas,
            standby_lag_s=settings.state.standby_lag.total_seconds(),
        )


class Reading(Protocol):
    """The records of an epoch, read and ready for its lanes."""

    def close(self) -> None:
        """Discard them."""
        ...


class Engine(Protocol):
    """Runs epochs. The runtime finds engines by entry point and never imports one."""

    def start(self, options: EngineOptions) -> None:
        """Start, or join the user's session."""
        ...

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        ...

    @property
    def owners(self) -> int:
        """How many tasks may write sink rows, each those of its partitions, in place of the driver.

        None where rows reach the driver at little cost.
        """
        ...

    def check(self, plan: Plan) -> None:
        """Check that a plan can be sent to the tasks, and its state kept; nothing is sent.

        Before `start`, only what does not depend on where the tasks run is checked.

        Raises:
            UsageError: If it cannot, naming the step.
        """
        ...

    def rehearse(self, program: Program, order: EpochOrder) -> None:
        """Run an epoch that reads nothing and writes nothing, while another instance runs.

        The first real epoch then finds everything in its place: the workers, what they import, the
        program, and the files of local state.

        Args:
            program: The application; it is sent unless it is the one of the last rehearsal.
            order: The epoch, without ranges; its marks name the key groups.

        Raises:
            MustelaError: If the program cannot be run.
        """
        ...

    def load(self, program: Program) -> None:
        """Send the program to the workers; earlier programs are forgotten.

        One with the identity of a program that was rehearsed is there already.
        """
        ...

    def read(self, order: EpochOrder) -> Reading | None:
        """Run the first stage of an epoch whose lanes will run later.

        Args:
            order: The epoch; its first stage must not read anything that the previous commit
                changes.

        Returns:
            None if that would not pay, and all of the epoch is to run later.

        Raises:
            EpochJobError: If it failed; nothing of it may be used.
        """
        ...

    def run(self, order: EpochOrder, reading: Reading | None = None) -> EpochOutput:
        """Run the whole job of one epoch.

        Args:
            order: The epoch.
            reading: The result of `read` for this epoch; it is consumed.

        Raises:
            EpochJobError: If the job failed; nothing of it may be used.
        """
        ...

    def arrivals(self) -> Iterable[tuple[int, int]]:
        """Return the stages and key groups for which something has arrived since the last call.

        An engine that cannot know returns nothing; lanes then check for themselves.
        """
        ...

    def restore(
        self, order: RestoreOrder, on_progress: Callable[[Sequence[TaskReport], int, int], None]
    ) -> list[TaskReport]:
        """Bring all key groups to the committed state, in parallel.

        Args:
            order: The committed state.
            on_progress: Called with new reports, the number of key groups done, and their total.
        """
        ...

    def settle(self, order: RestoreOrder) -> None:
        """Sync and close local state before a clean stop."""
        ...

    def tidy(
        self, order: RestoreOrder, places: Sequence[tuple[int, int]] = (), *, soon: bool = False
    ) -> list[tuple[int, int]]:
        """Free disk space that local state does not need, for a fraction of a second.

        Called while idle. The key groups that were begun are ended, however long one takes.

        Args:
            order: The committed state.
            places: The stages and key groups to look at; all if there are none.
            soon: Leave out those that take long.

        Returns:
            Those that there was no time for.
        """
        ...

    def tend(self, committed: Callable[[], RestoreOrder]) -> int:
        """Begin to bring copies on other hosts up to date, if that is due; called while idle.

        Args:
            committed: Returns the committed state.

        Returns:
            How many records of changelogs copies lack; -1 if there are to be none.
        """
        ...

    def interrupt(self) -> None:
        """End the running job, and start no other; may be called from any thread.

        Callers that wait for it get a `JobInterruptedError`.
        """
        ...

    def stop(self) -> None:
        """Stop; a session that belongs to the user keeps running."""
        ...


class GlobalReading(Protocol):
    """Opens copies of global tables for those who read them, beside the copies of the workers."""

    def open(self, table: GlobalTableNode, mark: GlobalMark, epoch: int) -> Snapshot:
        """Open a table as of exactly the offsets of its topic that a mark says.

        Args:
            table: The table.
            mark: The offsets.
            epoch: The committed epoch that had read the topic up to there.

        Raises:
            StateNotReadyError: If a later epoch was opened before.
            StateGoneError: If the copies were closed.
            EnvironmentFault: If the topic cannot be read.
        """
        ...

    def close(self) -> None:
        """Close the copies; views of them end, and none is opened any more."""
        ...
