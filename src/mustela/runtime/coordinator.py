"""The driver's loop: choose an epoch, run its job, commit it, repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mustela.api.handlers import app_handlers
from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.errors import EnvironmentFault, MustelaError
from mustela.logs.form import bind
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.committed import CommittedState, kept_of
from mustela.runtime.commit.committer import Committer
from mustela.runtime.commit.epochs import EpochReader
from mustela.runtime.commit.outcome import Outcome
from mustela.runtime.commit.successor import FencedError, Successor
from mustela.runtime.cutting.prefetch import Done, Turn
from mustela.runtime.cutting.sizing import EpochBudget, EpochLimits
from mustela.runtime.engine import Engine, EpochOutput, JobInterruptedError
from mustela.runtime.epoch.broker_view import BrokerView
from mustela.runtime.epoch.epoch_chooser import EpochChooser
from mustela.runtime.epoch.epoch_commit import EpochCommit
from mustela.runtime.epoch.epoch_job import EpochJob
from mustela.runtime.epoch.owner_choice import OwnerChoice
from mustela.runtime.epoch.rest import Rest
from mustela.runtime.epoch.run import Run, Uncaught, shuts_down
from mustela.runtime.events import Listener, Said
from mustela.runtime.gate.refusals import keep_refusing
from mustela.runtime.hunt import Hunt
from mustela.runtime.kafka_world import kafka_world
from mustela.runtime.passing_faults import PassingFaults
from mustela.runtime.ports import World
from mustela.runtime.reading import Published
from mustela.runtime.record.history_row import history_parts, history_row
from mustela.runtime.start.opening import Opening, row_handler
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.time.due_times import DueTimes
from mustela.runtime.time.watermark import steady_ms

__all__ = ["Coordinator", "FencedError"]


class Coordinator:
    """Runs the epochs of one application.

    Args:
        settings: The settings.
        plan: The physical plan.
        engine: A started engine.
        clock: Wall and monotonic time.
        listener: Receives the events.
        world: Kafka and disk; default: those that the settings name.
        checked: The result of `check_before_start`, if it was called.
        board: Receives the state of the loop; by default not read by anyone.
        uncaught: Decides what to do about an error that is not retried.
        published: Receives each committed state, for readers of stores.

    Attributes:
        run: The state shared by the parts of the loop.
        target: The application as its user names it on the command line, if that is known.
    """

    def __init__(  # noqa: PLR0913 - an application, and its world
        self,
        settings: Settings,
        plan: Plan,
        engine: Engine,
        *,
        clock: Clock,
        listener: Listener,
        world: World | None = None,
        checked: Recovery | None = None,
        board: StatusBoard | None = None,
        uncaught: Uncaught = shuts_down,
        published: Published | None = None,
    ) -> None:
        board = board or StatusBoard(clock)
        lanes = settings.lanes or engine.cores
        self._published = published
        self.target = ""
        self._world = world = world or kafka_world(settings, clock)
        opening = Opening(
            settings, plan, engine, world=world, listener=listener, lanes=lanes, checked=checked
        )
        epochs = EpochReader(world.epochs, settings.application_id)
        self._successor = Successor(settings.application_id, epochs.newest, clock)
        self._committer = _committer(settings, plan, world, opening)
        self.run = run = Run(
            settings=settings,
            engine=engine,
            clock=clock,
            listener=listener,
            world=world,
            opening=opening,
            outcome=Outcome(world.transactions, epochs, self._successor),
            faults=PassingFaults(clock, limit=settings.commit_timeout.total_seconds()),
            budget=_budget(settings),
            state=CommittedState(plan=plan, key_groups=1, lanes=lanes),
            barrier=Barrier(incarnation=0, last_epoch=0, on_phase=board.phase),
            due=DueTimes(plan, 1, known=True),
            owner_choice=OwnerChoice(settings.commit.owner_bytes),
            board=board,
            uncaught=uncaught,
        )
        run.name_topics()
        self._hunt = Hunt(
            app_handlers(settings)["processing_handler"],
            lambda: run.plan.topics,
            lambda text: listener.on_event(Said(text=text)),
        )
        self._view = BrokerView(run)
        self._chooser = EpochChooser(run, self._view, self._hunt)
        self._job = EpochJob(run, self._hunt)
        self._rest = Rest(run)
        self._commit = EpochCommit(run, self._view, self._committer, self._chooser.prefetch)

    @property
    def state(self) -> CommittedState:
        """The committed state."""
        return self.run.state

    @property
    def barrier(self) -> Barrier:
        """The step of the epoch protocol."""
        return self.run.barrier

    def prepare(self) -> None:
        """Check topics, fence older instances, read the last epoch and restore what is missing.

        Raises:
            MustelaError: If the application cannot continue.
        """
        run = self.run
        try:
            run.state = run.opening.open(self._committer, self._successor, run.faults)
        except FencedError:
            run.barrier.phase = Phase.FENCED
            raise
        except EnvironmentFault as error:
            self._refuse_if_deposed(error)
            raise
        run.name_topics()
        run.barrier = Barrier(
            incarnation=run.state.incarnation,
            last_epoch=run.state.epoch,
            on_phase=run.board.phase,
        )
        run.tell_board()
        run.due = DueTimes(run.plan, self.state.key_groups, known=not self.state.has_lane_state)
        if (published := self._published) is not None:
            run.on_committed = lambda state: published.publish(state, run.engine)
            run.on_committed(run.state)

    def _refuse_if_deposed(self, error: EnvironmentFault) -> None:
        for topic in self.run.plan.topics[:1]:
            self.run.outcome.refuse_if_deposed(error, self.barrier, TopicPartition(topic, 0))

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """The ends of source partitions; each look at the broker makes a new mapping."""
        return self.run.ends

    def lag(self) -> int:
        """Return how many records are waiting, as of the last look at the broker."""
        return self.state.sources.lag(self.run.ends)

    def run_once(self) -> bool:
        """Run and commit one epoch; return False if there was nothing to do.

        Raises:
            FencedError: If another instance took over.
            MustelaError: If the epoch cannot be run.
        """
        self.run.board.begin_turn(self.barrier)
        bind(epoch=self.barrier.token.epoch)
        try:
            chosen = self._chooser.next_turn()
            if chosen is None:
                self.run.tell_board()
                return False
            self._rest.ends()
            turn, begun = chosen
            output = self._output(turn, begun)
            if output is not None:
                job_seconds = self.run.clock.monotonic() - turn.started
                try:
                    self._conclude(turn, output, job_seconds)
                finally:
                    output.close()
        except EnvironmentFault as error:
            self._refuse_if_deposed(error)
            now_ms, listener = self.run.clock.now_ms(), self.run.listener
            keep_refusing(error, self.state, self._committer, now_ms=now_ms, listener=listener)
            raise
        self.run.tell_board()
        return True

    def _output(self, turn: Turn, begun: Callable[[], Done] | None) -> EpochOutput | None:
        """Run the job of an epoch; if it fails for good, note how to run it again."""
        try:
            return self._job.output(turn, begun)
        except (FencedError, JobInterruptedError):
            raise
        except MustelaError as error:
            self._note_failure(turn, error)
            raise

    def _note_failure(self, turn: Turn, error: MustelaError) -> None:
        """Keep what a failed epoch had planned, and name the command that runs it again."""
        run, epoch = self.run, turn.order.token.epoch
        target = self.target or "MODULE:APP"
        error.evidence.setdefault("replay", f"mustela replay {target} --epoch {epoch}")
        if not run.settings.history.epochs:
            return
        failure = f"{error.code}: {error.what}"
        order = replace(turn.order, due=run.due.order())
        row = history_row(order, kept_of(run.state), failure=failure)
        try:
            self._committer.remember(history_parts(row, run.settings.history.epochs))
        except EnvironmentFault as fault:
            # The epoch can be replayed all the same, from the last committed one on.
            run.listener.on_error(fault)

    def look_around(self) -> None:
        """See whether another instance took over, and what waits, while no epoch would show it.

        Raises:
            FencedError: If one did.
        """
        try:
            self.run.outcome.look(self.barrier)
        except FencedError:
            raise
        except EnvironmentFault as error:
            self.run.listener.on_error(error)  # nobody says; the next look may tell
            return
        self._view.peek()

    def rest(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait for a record while there is nothing to do; see `Rest.wait`."""
        if self._chooser.tidying.is_under_way:
            return False
        return self._rest.wait(self._view.ends, is_wanted)

    def resume(self) -> None:
        """Continue after a pause: idle periods start again."""
        self.state.watermark.resume(steady_ms(self.run.clock))

    def _conclude(self, turn: Turn, output: EpochOutput, job_seconds: float) -> None:
        """Commit the output of an epoch, if it read what it was meant to read."""
        ranges = output.ranges_read()
        if not self._chooser.came_to_the_moment(ranges, turn):
            self.barrier.nothing_to_say()
            return
        if not self._view.goes_on(turn, ranges):
            self.barrier.give_up()
            return
        if self._commit.commit(output, turn, ranges):  # an uncommitted epoch teaches nothing
            self._hunt.committed(self.state.sources.next_offsets)
            self._chooser.tidying.worked(job_seconds)
            self._commit.learn(output, ranges, started=turn.started, job_seconds=job_seconds)

    def close(self) -> None:
        """Sync local state and close the connections to the broker.

        A fenced instance does not touch the state: it belongs to the newer one.
        """
        run, fenced = self.run, self.barrier.phase is Phase.FENCED
        self._chooser.close()
        if self._published is not None:
            self._published.end()
        try:
            if not fenced:
                run.opening.settle(run.state)
        except MustelaError as error:
            # The next start checks or restores what was not settled.
            run.listener.on_error(error)
        finally:
            if not fenced:
                run.opening.release()
            self._world.close()


def _committer(settings: Settings, plan: Plan, world: World, opening: Opening) -> Committer:
    return Committer(
        world.transactions,
        application_id=settings.application_id,
        dead_letter_topic=settings.dead_letter_topic,
        header=settings.epoch_header,
        handler=row_handler(settings, plan),
        checks=opening.row_checks(),
        log_names=plan.log_names,
        records=world.records,
        crash_point=world.crash_point,
    )


def _budget(settings: Settings) -> EpochBudget:
    return EpochBudget(
        EpochLimits(
            max_records=settings.epoch.max_records,
            max_bytes=settings.epoch.max_bytes,
            target_seconds=settings.epoch.max_time.total_seconds() * 0.8,
        )
    )
