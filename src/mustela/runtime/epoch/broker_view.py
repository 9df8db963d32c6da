"""The driver's view of the broker between two epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from mustela.errors import EnvironmentFault
from mustela.model import TopicPartition
from mustela.plan.ranges import RangeReport
from mustela.runtime.commit.successor import FencedError
from mustela.runtime.cutting.prefetch import Turn
from mustela.runtime.epoch.run import Run
from mustela.runtime.gate.errors import SourceTruncatedError
from mustela.runtime.gate.watch import TruncationWatch
from mustela.runtime.time.watermark import steady_ms

__all__ = ["BrokerView"]

_OFFSET = attrgetter("offset")
_SURE_S = 0.5
"""For how long a commit proves that no other instance took over."""


class BrokerView:
    """Tracks the ends of partitions, the existing topics, and whether this instance is still valid.

    Args:
        run: What the parts of the loop share.

    Attributes:
        ends: The ends at the last look, those of global tables included.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cluster = run.world.cluster
        self._refresh_every_s = run.settings.topics.refresh.total_seconds()
        now = run.clock.monotonic()
        self._next_refresh = now + self._refresh_every_s
        self._sure_at = now - _SURE_S
        self._was_blind = False
        self.ends: Mapping[TopicPartition, int] = {}
        self._truncation = TruncationWatch(run.settings.application_id, self._cluster, run.clock)

    @property
    def wants_refresh(self) -> bool:
        """Return whether it is time to look for new partitions and topics."""
        return self._run.clock.monotonic() >= self._next_refresh

    def look(self) -> bool:
        """Ask for the end offsets, and from time to time for new partitions.

        Returns:
            False if no broker answers, or a log is shorter than it was.

        Raises:
            SourceTruncatedError: If a source lost records that were read.
            FencedError: If another instance took over.
            EnvironmentFault: If a fault is permanent, or lasts too long.
        """
        run, tables = self._run, self._run.opening.global_tables
        try:
            now = run.clock.monotonic()
            if now >= self._next_refresh:
                self._refresh(now)
            places, more = run.state.sources.next_offsets, tables.places
            found = self._cluster.log_ends([*places, *more])
            ends = found
            if more:
                ends = {place: end for place, end in found.items() if place in places}
                tables.see({place: found[place] for place in more})
            run.ends = dict(zip(ends, map(_OFFSET, ends.values()), strict=True))
            self.ends = {**run.ends, **{place: found[place].offset for place in more}}
            run.state.global_marks = dict(tables.marks)
            is_whole = self._truncation.see(run.state.sources, ends)
        except EnvironmentFault as fault:
            if isinstance(fault, SourceTruncatedError | FencedError):
                raise
            self.note(fault)
            return False
        run.faults.clear()
        if not is_whole:
            return False
        if self._was_blind:
            self._was_blind = False
            run.state.watermark.resume(steady_ms(run.clock))
        return True

    def peek(self) -> None:
        """Ask for the end offsets alone, for those who watch; a fault decides nothing."""
        run = self._run
        try:
            ends = self._cluster.log_ends(list(run.state.sources.next_offsets))
        except EnvironmentFault as fault:
            run.listener.on_error(fault)
            return
        run.ends = dict(zip(ends, map(_OFFSET, ends.values()), strict=True))
        run.tell_board()

    def _refresh(self, now: float) -> None:
        """Look for partitions and topics, and for a newer claim if there was no recent commit."""
        run = self._run
        run.opening.recovery.add_new_partitions(run.state)
        if run.opening.take_plan(run.state):
            run.name_topics()
        run.opening.global_tables.find()
        if now - self._sure_at >= self._refresh_every_s:
            run.outcome.look(run.barrier)
            self._sure_at = now
        self._next_refresh = now + self._refresh_every_s

    def note(self, fault: EnvironmentFault) -> None:
        """Record that the broker does not answer.

        Raises:
            EnvironmentFault: The fault, if it is permanent or lasts too long.
        """
        self._was_blind = True
        self._run.listener.on_error(fault)
        self._run.faults.note(fault)

    def is_claimed(self) -> bool:
        """Return whether tasks may send rows for this instance; False if no broker answers.

        A driver that was suspended does not know that another one took over, and no broker fences
        the rows of its tasks.
        """
        run, now = self._run, self._run.clock.monotonic()
        is_fenced_by_kafka = run.settings.processing_guarantee == "exactly_once"
        if is_fenced_by_kafka or now - self._sure_at < _SURE_S:
            return True
        try:
            run.outcome.look(run.barrier)
        except EnvironmentFault as fault:
            if isinstance(fault, FencedError):
                raise
            self.note(fault)
            return False
        self._sure_at = now
        return True

    def goes_on(self, turn: Turn, ranges: Sequence[RangeReport]) -> bool:
        """Return whether what was read continues what was read before; False if no broker answers.

        Between the look at the ends and the reading, a leader may have changed, or a topic may have
        been recreated. For the topic of a global table, the epoch is run again with a new copy.
        """
        run = self._run
        try:
            self._truncation.read(run.state.sources, run.topics, ranges)
            tables = run.opening.global_tables
            return tables.is_still_read(
                run.opening.recovery.refuse_recreated(run.state, turn.cuts, tables.topics)
            )
        except EnvironmentFault as fault:
            if not fault.retryable:
                raise
            self.note(fault)
            return False

    def leaders_of(
        self, places: Iterable[TopicPartition], ranges: Sequence[RangeReport]
    ) -> dict[TopicPartition, int]:
        """Return leader epochs in which the logs reached the offsets that an epoch read."""
        run = self._run
        return self._truncation.reached(run.state.sources, places, run.topics, ranges)

    def committed(self) -> None:
        """Record a successful commit, which shows that no other instance took over."""
        self._sure_at = self._run.clock.monotonic()
