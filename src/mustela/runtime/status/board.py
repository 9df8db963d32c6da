"""The board to which the driver writes its status, and from which any thread may read.

Only the application's own thread writes. It replaces whole values, which are never changed
afterwards, so a reader needs no lock, never sees a partial update, and never makes the writer wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mustela.clock import Clock
from mustela.config.masking import mask_text
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.plan.epoch import TaskReport
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.events import AppState, EpochDone, Event, Listener, Restoring, StateChanged
from mustela.runtime.status.change_ring import ChangeRing
from mustela.runtime.status.measures import Measures
from mustela.runtime.status.snapshot import (
    EpochTrace,
    Fault,
    Histogram,
    Life,
    RestoreProgress,
    SourcesView,
    Totals,
)
from mustela.state.interfaces import Token

__all__ = ["CHOOSING", "COMMITTED", "TRACES_MAX", "StatusBoard"]

TRACES_MAX: Final = 100
"""How many ended epochs are remembered."""
_HISTORY_MAX: Final = 50
_FAULTS_MAX: Final = 20
_FAULT_LENGTH: Final = 500

CHOOSING: Final = "choosing"
COMMITTED: Final = "committed"


class StatusBoard(Listener):
    """The read model of one application.

    Args:
        clock: Wall and monotonic time.

    Attributes:
        clock: The same.
        life: The application's state and its history.
        in_flight: The epoch being chosen or run; None between two.
        recent: The last `TRACES_MAX` ended attempts of epochs, oldest first.
        sources: Offsets and event time; None before the state was restored.
        restore: The progress of the restore; None before it began.
        totals: The counters.
        measures: What tasks measured.
        faults: The last tolerated faults, oldest first.
        progress: Monotonic time of the application's last progress: it committed, found nothing to
            do, or changed state.
        is_blind: Whether the last look at the broker, or the last epoch, failed.
        changes: What the last epochs changed in stores that somebody follows.

    Example:
        >>> from datetime import UTC, datetime
        >>> from mustela.clock import ManualClock
        >>> board = StatusBoard(ManualClock(5_000))
        >>> at = datetime.fromtimestamp(5, UTC)
        >>> started = StateChanged(state=AppState.STARTING, before=AppState.CREATED, at=at)
        >>> board.on_event(started)
        >>> board.life.state, board.life.since_ms, board.life.history
        ('starting', 5000, (('created', 5000),))
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        now = clock.monotonic()
        self.life = Life(state=AppState.CREATED.value, since_ms=clock.now_ms(), since=now)
        self.in_flight: EpochTrace | None = None
        self.recent: tuple[EpochTrace, ...] = ()
        self.sources: SourcesView | None = None
        self.restore: RestoreProgress | None = None
        self.totals: Totals = Totals()
        self.measures = Measures()
        self.faults: tuple[Fault, ...] = ()
        self.progress = now
        self.is_blind = False
        self.changes = ChangeRing(clock)

    def stalled_s(self) -> float:
        """Return for how long a running application has had work and committed nothing; else 0."""
        if self.life.state != AppState.RUNNING.value:
            return 0.0
        return max(0.0, self.clock.monotonic() - self.progress)

    # -- events -----------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Note an event."""
        if isinstance(event, StateChanged):
            self._changed(event.state)
        elif isinstance(event, Restoring):
            self.restore = RestoreProgress(
                done=event.done,
                groups=event.groups,
                records=event.records,
                since=self.clock.monotonic(),
            )
            self.measures = self.measures.restored(event.reports)
        elif isinstance(event, EpochDone):
            self._learn(event)

    def on_error(self, error: BaseException) -> None:
        """Note a tolerated fault."""
        known = isinstance(error, MustelaError)
        code = error.code if known else type(error).__name__
        what = mask_text(error.what if known else repr(error))[:_FAULT_LENGTH]
        fault = Fault(time_ms=self.clock.now_ms(), code=code, what=what)
        self.faults = (*self.faults, fault)[-_FAULTS_MAX:]
        self.is_blind = True
        faults = _plus(self.totals.faults, {code: 1})
        self.totals = replace(self.totals, faults=faults)

    def _changed(self, state: AppState) -> None:
        before = self.life
        now = self.clock.monotonic()
        history = (*before.history, (before.state, before.since_ms))[-_HISTORY_MAX:]
        self.progress = now
        self.life = Life(
            state=state.value, since_ms=self.clock.now_ms(), since=now, history=history
        )

    def _learn(self, event: EpochDone) -> None:
        totals = self.totals
        self.totals = replace(
            totals,
            records=totals.records + event.records,
            counters=_plus(totals.counters, event.counters),
            busy_s=_busy(totals.busy_s, event.reports),
        )
        self.measures = self.measures.after(event.reports, self.clock.now_ms())
        self.is_blind = False
        if self.recent and self.recent[-1].epoch == event.epoch:
            last = replace(self.recent[-1], records=event.records)
            self.recent = (*self.recent[:-1], last)

    # -- the loop ---------------------------------------------------------------------------------

    def begin_turn(self, barrier: Barrier) -> None:
        """Note that the next epoch is being chosen."""
        incarnation, epoch, attempt = barrier.token
        self.in_flight = EpochTrace(
            incarnation=incarnation,
            epoch=epoch,
            attempt=attempt,
            began_ms=self.clock.now_ms(),
            marks=((CHOOSING, self.clock.monotonic()),),
        )

    def phase(self, token: Token, phase: Phase, outcome: str) -> None:
        """Note a step of the epoch protocol.

        Args:
            token: The attempt.
            phase: Its new phase.
            outcome: Its outcome, if it ended.
        """
        now = self.clock.monotonic()
        before = self.in_flight
        if before is None or before.ended is not None:
            before = EpochTrace(
                incarnation=token.incarnation,
                epoch=token.epoch,
                attempt=token.attempt,
                began_ms=self.clock.now_ms(),
                marks=(),
            )
        ends = phase is Phase.IDLE
        trace = EpochTrace(
            incarnation=token.incarnation,
            epoch=token.epoch,
            attempt=token.attempt,
            began_ms=before.began_ms,
            marks=before.marks if ends else (*before.marks, (phase.value, now)),
            ended=now if ends else None,
            outcome=outcome,
        )
        if not ends:
            self.in_flight = trace
        elif trace.marks:
            self._ended(trace, now)

    def _ended(self, trace: EpochTrace, now: float) -> None:
        self.recent = (*self.recent, trace)[-TRACES_MAX:]
        self.in_flight = None
        totals, spent = self.totals, trace.seconds(now)
        epochs = _plus(totals.epochs, {trace.outcome: 1})
        if trace.outcome != COMMITTED:
            self.totals = replace(totals, epochs=epochs)
            return
        phases = dict(totals.phases)
        for name, seconds in spent:
            phases[name] = phases.get(name, Histogram()).plus(seconds)
        begun = [at for name, at in trace.marks if name == Phase.BEGUN.value]
        self.progress = now
        self.totals = replace(
            totals,
            epochs=epochs,
            phases=phases,
            epoch_s=totals.epoch_s.plus(now - trace.marks[0][1]),
            commit_s=totals.commit_s.plus(now - begun[0]) if begun else totals.commit_s,
        )

    def heard(self, told: Mapping[str, Mapping[str, float]]) -> None:
        """Note what the driver's Kafka clients said of themselves, by the name of each."""
        if told:
            self.measures = self.measures.heard(0, told)

    def tended(self, lacking: int) -> None:
        """Note how many records the copies of second homes lack, -1 if there are none."""
        if lacking != self.measures.standby_lag:
            self.measures = replace(self.measures, standby_lag=lacking)

    def end_turn(
        self,
        state: CommittedState,
        ends: Mapping[TopicPartition, int],
        *,
        topics: Mapping[str, int],
        held: Collection[TopicPartition],
        is_well: bool,
    ) -> None:
        """Note what is committed, after an epoch or a look that found nothing to do.

        Args:
            state: The committed state.
            ends: The ends of source partitions; a new mapping for each look.
            topics: Index of each source topic in the running plan.
            held: Partitions whose records cannot be read yet.
            is_well: Whether the broker answered, and no epoch failed.
        """
        self.sources = SourcesView(
            seen_ms=self.clock.now_ms(),
            incarnation=state.incarnation,
            epoch=state.epoch,
            next_offsets=dict(state.sources.next_offsets),
            ends=ends,
            watermark=state.watermark.copy(),
            held=frozenset(held),
            changelog_ends=state.changelog_ends,
            topics=topics,
            lanes=state.lanes,
            key_groups=state.key_groups,
        )
        if self.in_flight is not None and self.in_flight.phase == CHOOSING:
            self.in_flight = None  # there was nothing to do
        self.is_blind = not is_well
        if is_well:
            self.progress = self.clock.monotonic()


def _plus(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    found = dict(counts)
    for name, count in more.items():
        found[name] = found.get(name, 0) + count
    return found


def _busy(
    before: Mapping[tuple[int, int], float], reports: Sequence[TaskReport]
) -> dict[tuple[int, int], float]:
    found = dict(before)
    for report in reports:
        place = report.stage, report.task
        found[place] = found.get(place, 0.0) + report.worked
    return found
