"""The choice of the next epoch: what it reads, and the order for its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mustela.connectors.kafka.splitting import split_ranges
from mustela.errors import EnvironmentFault
from mustela.model import TopicPartition
from mustela.plan.epoch import EpochOrder
from mustela.plan.ranges import RangeReport
from mustela.plan.time import NEVER
from mustela.plan.watermark import watermark_after
from mustela.runtime.commit.committed import CommittedState, EpochChange
from mustela.runtime.cutting.epoch_cutter import EpochCutter, left_behind
from mustela.runtime.cutting.prefetch import Done, Prefetch, Turn, prefetch_work
from mustela.runtime.epoch.broker_view import BrokerView
from mustela.runtime.epoch.run import Run
from mustela.runtime.events import Said
from mustela.runtime.hunt import Hunt
from mustela.runtime.record.source_offsets import Cut, ranges_of
from mustela.runtime.start.opening import all_groups
from mustela.runtime.tidying import Tidying
from mustela.runtime.time.held import HeldPartitions
from mustela.runtime.time.watermark import Look, scheduled_watermark, steady_ms
from mustela.state.interfaces import Token

__all__ = ["EpochChooser"]

_TIME_EVERY_S = 0.2


class EpochChooser:
    """Chooses what the next epoch reads, and starts it ahead of a commit where that helps.

    Args:
        run: The state shared by the parts of the loop.
        view: The view of the broker.
        hunt: Knows which records are left out.
    """

    def __init__(self, run: Run, view: BrokerView, hunt: Hunt) -> None:
        self._run = run
        self._view = view
        self._hunt = hunt
        self._cutter = EpochCutter(run.settings, run.world.cluster, run.clock)
        self._held = HeldPartitions(run.world.cluster, run.clock)
        self._prefetch = Prefetch()
        self.tidying = Tidying(run.clock)
        self._next_time_look = 0.0

    def next_turn(self) -> tuple[Turn, Callable[[], Done] | None] | None:
        """Choose the next epoch.

        Returns:
            The epoch, with a function that waits for the work done ahead, if any; None if there is
            nothing to do.
        """
        begun = self._prefetch.take(self._run.barrier.token)
        if begun is not None:
            return begun
        turn = self._choose()
        return None if turn is None else (turn, None)

    def _choose(self) -> Turn | None:
        run = self._run
        if not self._view.look():
            return None
        now_ms = run.clock.now_ms()
        run.due.wake(run.engine.arrivals(), now_ms)
        try:
            cuts, look = self._cut(run.state, now_ms)
        except EnvironmentFault as fault:
            self._view.note(fault)
            return None
        run.look = look
        if not cuts and not self._is_due(look):
            self._rest(look)
            return None
        if not self._view.is_claimed():
            return None
        self._count_lanes()
        return self._turn(run.state, run.barrier.token, cuts, look)

    def _count_lanes(self) -> None:
        """Have as many lanes as there are cores now, where the settings name no number.

        Executors come and go; state belongs to key groups, so it stays where it is.
        """
        run = self._run
        lanes = run.settings.lanes or run.engine.cores
        if lanes != run.state.lanes:
            text = f"there are {lanes} lanes from now on, as many as cores; were {run.state.lanes}"
            run.listener.on_event(Said(text=text))
            run.state.lanes = lanes

    def prefetch(self, change: EpochChange) -> None:
        """Start the epoch after the one being committed, if enough records are waiting.

        Args:
            change: What the epoch that is being committed changes.
        """
        run = self._run
        work = prefetch_work(run.plan, run.settings.processing_guarantee, run.engine)
        if work is None or self._view.wants_refresh:
            return
        state = run.state.after(change)
        if state.sources.lag(run.ends) < run.budget.records:
            return
        now_ms = run.clock.now_ms()
        try:
            cuts, look = self._cut(state, now_ms)
        except EnvironmentFault:
            return  # the next turn asks again, and reports it
        if cuts:
            token = Token(state.incarnation, state.epoch + 1, 0)
            self._prefetch.begin(self._turn(state, token, cuts, look), work)

    def came_to_the_moment(self, ranges: Sequence[RangeReport], turn: Turn) -> bool:
        """Whether all partitions of an epoch that is cut by time were read up to its moment."""
        return self._cutter.came_to_the_moment(ranges, turn, self._run.topics)

    def close(self) -> None:
        """Discard what was started ahead."""
        self._prefetch.close()

    def _cut(self, state: CommittedState, now_ms: int) -> tuple[dict[TopicPartition, Cut], Look]:
        """Choose what the epoch after a state reads; return it with what is known of the rest."""
        run, seen_ms = self._run, steady_ms(self._run.clock)
        state.watermark.track(state.sources.next_offsets, seen_ms)
        ends = state.sources.next_offsets if run.due.is_full else run.ends
        cut = self._cutter.cut(run.plan, state, ends, budget=run.budget.records, now_ms=now_ms)
        short = left_behind(state, run.ends, cut.cuts)
        return cut.cuts, Look(
            now_ms=now_ms,
            steady_ms=seen_ms,
            short=short,
            held=cut.far | self._held.among(state.watermark, run.ends, short),
            until_ms=cut.until_ms,
            at_least_ms=scheduled_watermark(run.plan, run.due.scheduled_ms, now_ms),
        )

    def _is_due(self, look: Look) -> bool:
        """Return whether something must run even though there is nothing to read."""
        run, first = self._run, self._run.due.first
        if first.wall_ms <= look.now_ms:
            return True
        now = run.clock.monotonic()
        if first.event_ms == NEVER or now < self._next_time_look:
            return False
        # Without records, time advances only when a partition becomes idle: no need to look all the
        # time.
        self._next_time_look = now + _TIME_EVERY_S
        order = run.state.watermark.order(run.topics, look, ())
        return first.event_ms <= watermark_after(order, ())

    def _rest(self, look: Look) -> None:
        """Note that there is nothing to read: partitions read to their end may become idle."""
        run, state = self._run, self._run.state
        if self.tidying.is_due and not state.is_empty:
            self._tidy(state)
        run.board.tended(run.engine.tend(lambda: all_groups(state)))
        state.watermark.rest_all(look.seen_ms, unread=look.unread)

    def _tidy(self, state: CommittedState) -> None:
        """Free disk space; if that fails, the next epoch checks the state before using it."""
        order = all_groups(state)
        try:
            self.tidying.round(lambda places, soon: self._run.engine.tidy(order, places, soon=soon))
        except EnvironmentFault as error:
            self._run.is_suspect = True
            self._run.listener.on_error(error)

    def _turn(
        self,
        state: CommittedState,
        token: Token,
        cuts: Mapping[TopicPartition, Cut],
        look: Look,
    ) -> Turn:
        run, watermark = self._run, state.watermark
        times = watermark.partitions
        floors = {place: times[place].max_timestamp for place in cuts if place in times}
        latest = {topic: watermark.options_of(topic).latest_ms(look.now_ms) for topic in run.topics}
        ranges = ranges_of(cuts, run.topics, floors, latest, look.until_ms)
        header = None
        if run.settings.epoch_header:
            header = (run.settings.epoch_header, str(token.epoch).encode())
        seals = run.world.transactions.takes_sealed and run.may_seal and not run.driver_writes
        order = EpochOrder(
            token=token,
            ranges=split_ranges(ranges, run.engine.cores, whole=run.whole) or ((),),
            marks=state.marks(),
            now_ms=look.now_ms,
            event_time=watermark.order(run.topics, look, cuts),
            due=run.due.order(),
            suspect=run.is_suspect,
            header=header,
            global_marks=dict(run.opening.global_tables.marks),
            left_out=self._hunt.left_out,
            lanes=state.lanes,
            seals=seals,
            owners=run.owner_choice.owners(ranges, run.engine.owners) if seals else 0,
        )
        return Turn(cuts=cuts, look=look, order=order, started=run.clock.monotonic())
