"""The driver's loop: cut an epoch, run its job, commit it, and begin again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.connectors.kafka.errors import TransactionFailed
from mustela.connectors.kafka.splitting import split_ranges
from mustela.errors import DataError, EnvironmentFault, MustelaError
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.plan.feeds import topics_sent_on
from mustela.plan.plan import Plan
from mustela.plan.ranges import RangeReport
from mustela.plan.time import NEVER
from mustela.plan.watermark import watermark_after
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.committed import CommittedState, EpochChange
from mustela.runtime.commit.committer import Committer
from mustela.runtime.commit.epochs import EpochReader
from mustela.runtime.commit.outcome import Outcome
from mustela.runtime.commit.successor import FencedError, Successor
from mustela.runtime.cutting.epoch_cutter import EpochCutter, left_behind
from mustela.runtime.cutting.prefetch import Prefetch, Turn, prefetch_work
from mustela.runtime.cutting.sizing import EpochBudget, EpochLimits
from mustela.runtime.engine import Engine, EpochJobError, EpochOutput, Reading
from mustela.runtime.events import EpochDone, Listener, Said
from mustela.runtime.gate.errors import SourceTruncatedError
from mustela.runtime.gate.watch import TruncationWatch
from mustela.runtime.hunt import Hunt
from mustela.runtime.kafka_world import kafka_world
from mustela.runtime.passing_faults import PassingFaults
from mustela.runtime.ports import World
from mustela.runtime.record.source_offsets import Cut, cuts_made, ranges_of
from mustela.runtime.start.opening import Opening, all_groups
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.tidying import Tidying
from mustela.runtime.time.due_times import DueTimes
from mustela.runtime.time.held import HeldPartitions
from mustela.runtime.time.watermark import Look, scheduled_watermark, steady_ms
from mustela.state.faults import StateDamagedError
from mustela.state.interfaces import Token

__all__ = ["Coordinator", "FencedError"]

_FAILURES_MAX = 5
_MIRROR_EVERY_MS = 3_600_000
_TIME_EVERY_S = 0.2
_OFFSET = attrgetter("offset")
_SURE_S = 0.5
"""So long a commit says that no other instance took over."""


class Coordinator:
    """Runs the epochs of one application.

    Args:
        settings: The settings.
        plan: The physical plan.
        engine: A started engine.
        clock: Wall and monotonic time.
        listener: Is told of what happens.
        world: Kafka and disk; by default those that the settings name.
        checked: What `check_before_start` gave, if it was called.
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
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._clock = clock
        self._listener = listener
        self.lanes = settings.lanes or engine.cores
        self._world = world = world or kafka_world(settings, clock)
        self._cluster = world.cluster
        epochs = EpochReader(world.epochs, settings.application_id)
        self._successor = Successor(settings.application_id, epochs.newest, clock)
        self._outcome = Outcome(world.transactions, epochs, self._successor)
        self._opening = Opening(
            settings,
            plan,
            engine,
            world=world,
            listener=listener,
            lanes=self.lanes,
            checked=checked,
        )
        self._committer = Committer(
            world.transactions,
            application_id=settings.application_id,
            dead_letter_topic=settings.dead_letter_topic,
            header=settings.epoch_header,
            handler=settings.production_handler,
            checks=self._opening.row_checks(),
            log_names=plan.log_names,
            records=world.records,
            crash_point=world.crash_point,
        )
        self._budget = EpochBudget(
            EpochLimits(
                max_records=settings.epoch.max_records,
                max_bytes=settings.epoch.max_bytes,
                target_seconds=settings.epoch.max_time.total_seconds() * 0.8,
            )
        )
        self._name_topics()
        self._failures, self._suspect = 0, False
        self._faults = PassingFaults(clock, limit=settings.commit_timeout.total_seconds())
        self._refresh_every_s = settings.topics.refresh.total_seconds()
        self._next_refresh = clock.monotonic() + self._refresh_every_s
        self._tidying = Tidying(clock)
        self._cutter = EpochCutter(settings, world.cluster, clock)
        self.state = CommittedState(plan=plan, key_groups=settings.key_groups, lanes=self.lanes)
        self.barrier = Barrier(incarnation=0, last_epoch=0)
        self.ends: dict[TopicPartition, int] = {}
        self._was_blind = False
        self._truncation = TruncationWatch(settings.application_id, world.cluster, clock)
        self._held = HeldPartitions(world.cluster, clock)
        self._next_time_look = 0.0
        self._sure_at = clock.monotonic() - _SURE_S
        self._due = DueTimes(plan, settings.key_groups, known=True)
        self._prefetch = Prefetch()
        self._hunt = Hunt(
            settings.processing_handler,
            lambda: self._plan.topics,
            lambda text: listener.on_event(Said(text=text)),
        )

    def prepare(self) -> None:
        """Check topics, fence older instances, read the last epoch and restore what is missing.

        Raises:
            MustelaError: If the application cannot go on.
        """
        try:
            self.state = self._opening.open(self._committer, self._successor, self._faults)
        except FencedError:
            self.barrier.phase = Phase.FENCED
            raise
        except EnvironmentFault as error:
            self._refuse_if_deposed(error)
            raise
        self._name_topics()
        self.barrier = Barrier(incarnation=self.state.incarnation, last_epoch=self.state.epoch)
        self._due = DueTimes(
            self._plan, self._settings.key_groups, known=not self.state.has_lane_state
        )

    def _refuse_if_deposed(self, error: EnvironmentFault) -> None:
        for topic in self._plan.topics[:1]:
            self._outcome.refuse_if_deposed(error, self.barrier, TopicPartition(topic, 0))

    @property
    def _plan(self) -> Plan:
        """The plan that runs."""
        return self._opening.plan

    def _name_topics(self) -> None:
        self._topics = {topic: index for index, topic in enumerate(self._plan.topics)}
        self._whole = self._plan.unsplit
        if self._settings.processing_guarantee == "at_least_once":
            self._whole |= topics_sent_on(self._plan)

    def lag(self) -> int:
        """Return how many records are waiting, as of the last look at the broker."""
        return self.state.sources.lag(self.ends)

    def run_once(self) -> bool:
        """Run and commit one epoch; return False if there was nothing to do.

        Raises:
            FencedError: If another instance took over.
            MustelaError: If the epoch cannot be run.
        """
        try:
            return self._run_once()
        except EnvironmentFault as error:
            self._refuse_if_deposed(error)
            raise

    def _run_once(self) -> bool:
        begun = self._prefetch.take(self.barrier.token)
        turn = begun[0] if begun else self._next_turn()
        if turn is None:
            return False
        try:
            output = self._run_job(partial(self._finish, turn, begun[1] if begun else None))
        except MustelaError as error:
            self._outcome.refuse_if_replaced(error, self.barrier)
            if not (isinstance(error, EnvironmentFault) and error.retryable):
                raise
            self._failed(error, turn.order)
            return True
        job_seconds = self._clock.monotonic() - turn.started
        before = self.barrier.last_epoch
        try:
            if not self._cutter.came_to_the_moment(output, turn, self._topics):
                self.barrier.nothing_to_say()
                return True
            if not self._goes_on(turn, output):
                self.barrier.give_up()
                return True
            self._commit(output, turn)
        finally:
            output.close()
        if self.barrier.last_epoch > before:  # what was not committed teaches nothing
            self._learn(output, turn.started, job_seconds)
        return True

    def _goes_on(self, turn: Turn, output: EpochOutput) -> bool:
        """Whether what was read goes on what was read before; False if nobody answers.

        Between the look at the ends and the reading a leader may have changed, or a topic may have
        been made anew. With a global table's topic the epoch is run again, over a new copy.
        """
        try:
            self._truncation.read(self.state.sources, self._topics, _ranges_of(output))
            tables = self._opening.global_tables
            return tables.is_still_read(
                self._opening.recovery.refuse_recreated(self.state, turn.cuts, tables.topics)
            )
        except EnvironmentFault as fault:
            if not fault.retryable:
                raise
            self._note(fault)
            return False

    def _next_turn(self) -> Turn | None:
        """Choose the next epoch; None if there is nothing to do."""
        if not self._look():
            return None
        now_ms = self._clock.now_ms()
        self._due.wake(self._engine.arrivals(), now_ms)
        try:
            cuts, look = self._cut(self.state, now_ms)
        except EnvironmentFault as fault:
            self._note(fault)
            return None
        if not cuts and not self._is_due(look):
            self._rest(look)
            return None
        if not self._is_claimed():
            return None
        return self._turn(self.state, self.barrier.token, cuts, look)

    def _is_claimed(self) -> bool:
        """Whether tasks may send rows for this instance; False if nobody answers.

        A driver that stood still does not know that another one took over, and no broker fences
        what its tasks send.
        """
        now = self._clock.monotonic()
        if self._settings.processing_guarantee == "exactly_once" or now - self._sure_at < _SURE_S:
            return True
        try:
            self._outcome.look(self.barrier)
        except EnvironmentFault as fault:
            if isinstance(fault, FencedError):
                raise
            self._note(fault)
            return False
        self._sure_at = now
        return True

    def _finish(self, turn: Turn, begun: Callable[[], EpochOutput | Reading] | None) -> EpochOutput:
        """Run the job of an epoch, or what was not done of it ahead."""
        if begun is None:
            return self._engine.run(turn.order)
        made = begun()
        if isinstance(made, EpochOutput):
            return made
        # What was read ahead did not have to know how the commit before it would end; lanes do.
        order = replace(
            turn.order, marks=self.state.marks(), due=self._due.order(), suspect=self._suspect
        )
        return self._engine.run(order, made)

    def _prefetch_next(self, change: EpochChange) -> None:
        """Begin the epoch behind the one that is committed now, if enough is waiting for it."""
        work = prefetch_work(self._plan, self._settings.processing_guarantee, self._engine)
        if work is None or self._clock.monotonic() >= self._next_refresh:
            return
        state = self.state.after(change)
        if state.sources.lag(self.ends) < self._budget.records:
            return
        now_ms = self._clock.now_ms()
        try:
            cuts, look = self._cut(state, now_ms)
        except EnvironmentFault:
            return  # the next turn asks again, and says so
        if cuts:
            token = Token(state.incarnation, state.epoch + 1, 0)
            self._prefetch.begin(self._turn(state, token, cuts, look), work)

    def _cut(self, state: CommittedState, now_ms: int) -> tuple[dict[TopicPartition, Cut], Look]:
        """Choose what the epoch behind a state reads; return it with what was seen of the rest."""
        seen_ms = steady_ms(self._clock)
        state.watermark.track(state.sources.next_offsets, seen_ms)
        budget = self._budget.records
        ends = state.sources.next_offsets if self._due.is_full else self.ends
        cut = self._cutter.cut(self._plan, state, ends, budget=budget, now_ms=now_ms)
        short = left_behind(state, self.ends, cut.cuts)
        return cut.cuts, Look(
            now_ms=now_ms,
            steady_ms=seen_ms,
            short=short,
            held=cut.far | self._held.among(state.watermark, self.ends, short),
            until_ms=cut.until_ms,
            at_least_ms=scheduled_watermark(self._plan, self._due.scheduled_ms, now_ms),
        )

    def _is_due(self, look: Look) -> bool:
        """Whether something wants to run though there is nothing to read."""
        first = self._due.first
        if first.wall_ms <= look.now_ms:
            return True
        now = self._clock.monotonic()
        if first.event_ms == NEVER or now < self._next_time_look:
            return False
        # Without a record time moves when a partition becomes idle: no reason to look all the time.
        self._next_time_look = now + _TIME_EVERY_S
        order = self.state.watermark.order(self._topics, look, ())
        return first.event_ms <= watermark_after(order, ())

    def _look(self) -> bool:
        """Ask for the end offsets, and now and then for new partitions; False if nobody answers."""
        tables = self._opening.global_tables
        try:
            now = self._clock.monotonic()
            if now >= self._next_refresh:
                self._refresh(now)
            places, more = self.state.sources.next_offsets, tables.places
            found = self._cluster.log_ends([*places, *more])
            ends = found
            if more:
                ends = {place: end for place, end in found.items() if place in places}
                tables.see({place: found[place] for place in more})
            self.ends = dict(zip(ends, map(_OFFSET, ends.values()), strict=True))
            self.state.global_marks = dict(tables.marks)
            is_whole = self._truncation.see(self.state.sources, ends)
        except EnvironmentFault as fault:
            if isinstance(fault, SourceTruncatedError | FencedError):
                raise
            self._note(fault)
            return False
        self._faults.clear()
        if not is_whole:
            return False
        if self._was_blind:
            self._was_blind = False
            self.state.watermark.resume(steady_ms(self._clock))
        return True

    def _refresh(self, now: float) -> None:
        """Look for partitions and topics, and where Kafka was not asked to commit, for a claim."""
        self._opening.recovery.add_new_partitions(self.state)
        if self._opening.take_plan(self.state):
            self._name_topics()
        self._opening.global_tables.find()
        if now - self._sure_at >= self._refresh_every_s:
            self._outcome.look(self.barrier)
            self._sure_at = now
        self._next_refresh = now + self._refresh_every_s

    def _note(self, fault: EnvironmentFault) -> None:
        """Note that the broker does not answer; raise that if it cannot pass, or lasts too long."""
        self._was_blind = True
        self._listener.on_error(fault)
        self._faults.note(fault)

    def _rest(self, look: Look) -> None:
        """Nothing to read: partitions that were read to their end may become idle."""
        if self._tidying.is_due() and not self.state.is_empty:
            self._tidy()
        self.state.watermark.rest_all(look.seen_ms, unread=look.unread)

    def _tidy(self) -> None:
        """Give disk back; where that fails the next epoch looks at the state before it uses it."""
        try:
            self._engine.tidy(all_groups(self.state))
        except EnvironmentFault as error:
            self._suspect = True
            self._listener.on_error(error)

    def _turn(
        self,
        state: CommittedState,
        token: Token,
        cuts: Mapping[TopicPartition, Cut],
        look: Look,
    ) -> Turn:
        watermark = state.watermark
        times = watermark.partitions
        floors = {place: times[place].max_timestamp for place in cuts if place in times}
        latest = {
            topic: watermark.options_of(topic).latest_ms(look.now_ms) for topic in self._topics
        }
        ranges = ranges_of(cuts, self._topics, floors, latest, look.until_ms)
        header = None
        if self._settings.epoch_header:
            header = (self._settings.epoch_header, str(token.epoch).encode())
        order = EpochOrder(
            token=token,
            ranges=split_ranges(ranges, self._engine.cores, whole=self._whole) or ((),),
            marks=state.marks(),
            now_ms=look.now_ms,
            event_time=watermark.order(self._topics, look, cuts),
            due=self._due.order(),
            suspect=self._suspect,
            header=header,
            global_marks=dict(self._opening.global_tables.marks),
            left_out=self._hunt.left_out,
        )
        return Turn(cuts=cuts, look=look, order=order, started=self._clock.monotonic())

    def _run_job(self, run: Callable[[], EpochOutput]) -> EpochOutput:
        self.barrier.start()
        self._world.crash_point("before-job")
        try:
            output = run()
        except BaseException:
            self.barrier.give_up()
            raise
        self.barrier.move(Phase.IN_HAND)
        return output

    def _is_found(self, error: EnvironmentFault, order: EpochOrder) -> bool:
        """Whether a record that kills workers was found, and is left out from now on."""
        try:
            return self._hunt.is_on(error) and self._hunt.find(order, self._probe)
        except EpochJobError:
            return False  # something else failed meanwhile: the epoch is tried again first

    def _probe(self, order: EpochOrder) -> EpochOutput | MustelaError:
        """Run an epoch that is not to be committed."""
        state = {"marks": self.state.marks(), "due": self._due.order(), "suspect": True}
        order = replace(order, token=self.barrier.token, probe=True, **state)
        try:
            output = self._run_job(partial(self._engine.run, order))
        except EpochJobError as error:
            if not error.suspect:
                raise
            return error
        except DataError as error:
            return error
        self.barrier.give_up()
        return output

    def _failed(self, error: EnvironmentFault, order: EpochOrder) -> None:
        """Note a failed job; the epoch runs again with half the offsets, or the error ends it."""
        self._failures += 1
        self._suspect = self._suspect or isinstance(error, EpochJobError | StateDamagedError)
        self._listener.on_error(error)
        if self._is_found(error, order):
            self._failures = 0
            return
        if self._failures >= _FAILURES_MAX:
            raise error
        self._budget.halve()

    def _commit(self, output: EpochOutput, turn: Turn) -> None:
        look = turn.look
        now_ms = look.now_ms
        ranges = _ranges_of(output)
        watermark = self.state.watermark.after(self._topics, look, ranges)
        cuts = cuts_made(turn.cuts, self._topics, ranges)
        token = self.barrier.token
        wrote: dict[int, list[int]] = {}
        for report in output.reports:
            if report.wrote:
                wrote.setdefault(report.stage, []).extend(report.wrote)
        if not (cuts or wrote or output.size):
            self.barrier.nothing_to_say()
            self.state.watermark = watermark
            self._due.learn(output.reports, watermark=watermark.value, now_ms=now_ms)
            return
        mirror_all = now_ms - self.state.mirrored_ms >= _MIRROR_EVERY_MS
        change = EpochChange(
            token=token,
            time_ms=now_ms,
            cuts=cuts,
            wrote=wrote,
            changelog_ends={},
            watermark=watermark,
            leaders=self._truncation.reached(self.state.sources, cuts, self._topics, ranges),
            mirrored=mirror_all,
        )
        offsets = {place: cut.end for place, cut in cuts.items()}
        if mirror_all:
            offsets = {**self.state.sources.next_offsets, **offsets}
        after: list[CommittedState] = []

        def record(ends: Mapping[tuple[str, int], int]) -> Any:
            after[:] = [self.state.after(replace(change, changelog_ends=ends))]
            return after[0].to_record(now_ms)

        self._prefetch_next(change)
        try:
            self._committer.commit(output, barrier=self.barrier, offsets=offsets, record=record)
        except TransactionFailed as error:
            if not self._settle_outcome(error):
                return
        except EnvironmentFault as error:
            self._outcome.refuse_if_replaced(error, self.barrier)
            raise
        self.state = after[0]
        self._sure_at = self._clock.monotonic()
        self._due.learn(output.reports, watermark=watermark.value, now_ms=now_ms)
        self._failures = 0
        self._suspect = False
        self._hunt.committed(self.state.sources.next_offsets)

    def _settle_outcome(self, error: TransactionFailed) -> bool:
        """Find out whether the epoch whose transaction failed was committed."""
        self._listener.on_error(error)
        self._failures += 1
        # To open the producer would fence a newer instance: so it is looked for first.
        self._outcome.refuse_if_replaced(error, self.barrier)
        if self._failures >= _FAILURES_MAX:
            raise error
        committed = self._faults.retry(
            lambda: self._outcome.settle(error, self.barrier), self._listener.on_error
        )
        if not committed:
            self._budget.halve()
        return committed

    def _learn(self, output: EpochOutput, started: float, job_seconds: float) -> None:
        seconds = self._clock.monotonic() - started
        ranges = _ranges_of(output)
        records = sum(part.records for part in ranges)
        size = sum(part.size for part in ranges) + output.size
        self._tidying.worked()
        self._opening.recovery.unlogged.lost(output.reports)
        self._budget.learn(records=records, size=size, seconds=seconds)
        refused = self._committer.left_out.items()
        counters = {f"refused_rows:{topic}": count for topic, count in refused}
        for report in output.reports:
            for name, count in report.counters.items():
                counters[name] = counters.get(name, 0) + count
        self._listener.on_event(
            EpochDone(
                epoch=self.state.epoch,
                records=records,
                lag=self.lag(),
                seconds=seconds,
                job_seconds=job_seconds,
                watermark=self.state.watermark.value,
                counters=counters,
                reports=output.reports,
            )
        )

    def close(self) -> None:
        """Sync local state and let go of the broker.

        A fenced instance leaves the state alone: it is the newer one's.
        """
        fenced = self.barrier.phase is Phase.FENCED
        self._prefetch.close()
        try:
            if not fenced:
                self._opening.settle(self.state)
        except MustelaError as error:
            # What was not settled is looked at, or restored, by the next start.
            self._listener.on_error(error)
        finally:
            if not fenced:
                self._opening.release()
            self._world.transactions.close()
            self._cluster.close()


def _ranges_of(output: EpochOutput) -> list[RangeReport]:
    return [part for report in output.reports for part in report.ranges]
