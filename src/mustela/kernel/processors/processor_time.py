"""Time in a processor step: its timers, its punctuators, and its current time.

Where a record advances event time (see `EventClock.move`), the record is processed first, then
everything due fires, before the next record. Kafka Streams does the same, and so it makes no
difference how records are cut into epochs. Where time advances when an epoch ends, the epoch's
records are processed first, then everything due fires. Wall-clock timers fire at the end of an
epoch, at the epoch's one wall-clock time.

At the end of an epoch all timers of the lane fire in the order of their times, whichever key group
they belong to; event-time timers first, then stream-time punctuators, wall-clock timers, and
wall-clock punctuators. A timer that is registered meanwhile and is already due fires too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, Final, cast

from mustela.api.timers import (
    FixedKeyTimer,
    PunctuationType,
    Punctuator,
    TimeDomain,
    Timer,
)
from mustela.kernel.core.event_time import EventClock
from mustela.kernel.core.failures import Failures
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.processors.processor_step import Hand, ProcessorStep, Task
from mustela.kernel.processors.punctuation import GroupSchedules, Schedule
from mustela.kernel.processors.timers import StepTimers
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.time import NEVER
from mustela.state.kinds.timer import StoredTimer

__all__ = ["ProcessorTime", "event_time_at"]

EVENT: Final = TimeDomain.EVENT_TIME
CLOCK: Final = TimeDomain.PROCESSING_TIME


class ProcessorTime:
    """The timers and schedules of one processor step in a lane.

    Args:
        operator: The step.
        store: Where timers and schedules are kept.
    """

    def __init__(self, operator: ProcessorStep, store: LaneStore) -> None:
        self._operator = operator
        self._store = store
        self._time = operator.context.time
        self._clock = operator.clock
        self._timers = StepTimers(store, self._prefetch)
        self._schedules: dict[int, GroupSchedules] = {}
        self._firing: StoredTimer | None = None
        self._last: dict[int, tuple[int, int]] = {}

    def opened(self, task: Task) -> None:
        """Seal the schedules of a task whose ``init`` has run."""
        self._of(task.group).seal()

    def after(self, task: Task, hand: Hand, now: int) -> None:
        """Fire what is due at the event time after a record."""
        group = task.group
        while self._timers.due_time(EVENT, group, now) is not None:
            self._fire(EVENT, group, now, hand.order)
        if self._of(group).next_ms(PunctuationType.STREAM_TIME) <= now:
            self._punctuate(group, PunctuationType.STREAM_TIME, now, hand.order)

    def finish(self) -> None:
        """Fire what is due at the end of the epoch, and write what must be remembered."""
        for group in self._store.groups:
            self._operator.task(group)  # its init schedules, even if no record arrived
        self._fire_all(EVENT)
        self._punctuate_all(PunctuationType.STREAM_TIME)
        self._fire_all(CLOCK)
        self._punctuate_all(PunctuationType.WALL_CLOCK_TIME)
        while self._fire_all(EVENT) + self._fire_all(CLOCK):
            pass  # what fired has registered timers that are due
        self._timers.save()
        for _, schedules in sorted(self._schedules.items()):
            schedules.save()
        self._clock.save()

    def due_event_times(self) -> dict[int, int]:
        """Return the watermark at which each key group has a timer or a tick."""
        lag = self._operator.step.lag_ms
        times = self._next(EVENT, PunctuationType.STREAM_TIME)
        return {group: time + lag for group, time in times.items()}

    def due_processing_times(self) -> dict[int, int]:
        """Return the wall-clock time at which each key group has a timer or a tick."""
        return self._next(CLOCK, PunctuationType.WALL_CLOCK_TIME)

    def schedule(
        self,
        task: Task,
        interval: int,
        kind: PunctuationType,
        punctuator: Punctuator,
        *,
        start_ms: int | None = None,
    ) -> Schedule:
        """Schedule a punctuator of a key group.

        Raises:
            TimerError: If ``init`` is over.
        """
        now_ms = self._time.now_ms
        return self._of(task.group).add(
            kind, interval, punctuator, now_ms=now_ms, start_ms=start_ms
        )

    def register(self, task: Task, domain: TimeDomain, timer: StoredTimer) -> None:
        """Register a timer of a key of the task's key group."""
        self._remember(task, domain, timer.key, timer.name)
        self._timers.register(domain, task.group, timer)

    def delete(self, task: Task, domain: TimeDomain, key: bytes, name: bytes) -> None:
        """Remove a timer of a key of the task's key group."""
        self._remember(task, domain, key, name)
        self._timers.delete(domain, task.group, key, name)

    def key_in_hand(self) -> bytes | None:
        """Return the current key, or None if there is none."""
        if self._firing is not None:
            return self._firing.key
        hand = self._operator.hand
        if hand is None or hand.batch is None:
            return None
        known = hand.batch.key_bytes
        if known is not None:
            return known[hand.row]
        key = hand.batch.keys[hand.row]  # another processor of the lane forwarded it
        return None if key is None else self._operator.own_key_serde.serialize(key)

    def _of(self, group: int) -> GroupSchedules:
        found = self._schedules.get(group)
        if found is None:
            found = self._schedules[group] = GroupSchedules(self._store.group(group))
        return found

    def _now(self, domain: TimeDomain, group: int) -> int:
        return self._time.now_ms if domain is CLOCK else self._clock.closed_until(group)

    def _next(self, domain: TimeDomain, kind: PunctuationType) -> dict[int, int]:
        times = self._timers.next_times(domain)
        for group, schedules in self._schedules.items():
            tick = schedules.next_ms(kind)
            if tick != NEVER:
                times[group] = min(tick, times.get(group, NEVER))
        return times

    def _fire_all(self, domain: TimeDomain) -> int:
        """Fire the timers of all key groups in order of time; return how many fired."""
        timers = self._timers
        now = {group: self._now(domain, group) for group in self._store.groups}
        found = ((timers.due_time(domain, group, now[group]), group) for group in now)
        heap = [(time, group) for time, group in found if time is not None]
        heapify(heap)
        fired = 0
        while heap:
            _, group = heappop(heap)
            self._fire(domain, group, now[group], None)
            fired += 1
            following = timers.due_time(domain, group, now[group])
            if following is not None:
                heappush(heap, (following, group))
        return fired

    def _punctuate_all(self, kind: PunctuationType) -> None:
        domain = CLOCK if kind is PunctuationType.WALL_CLOCK_TIME else EVENT
        for group in self._store.groups:
            now = self._now(domain, group)
            if now >= 0 and self._of(group).next_ms(kind) <= now:
                self._punctuate(group, kind, now, None)

    def _fire(self, domain: TimeDomain, group: int, now: int, order: Order | None) -> None:
        """Fire the first timer that is due; with ``order``, right after a record."""
        operator = self._operator
        stored = self._timers.pop_due(domain, group, now)
        assert stored is not None, operator.step.name
        task = operator.task(group)
        fixed = operator.node.fixed_key
        make = cast("Callable[..., Timer[Any]]", FixedKeyTimer if fixed else Timer)
        timer = make(
            key=operator.own_key_serde.deserialize(stored.key),
            timestamp=stored.time,
            name=stored.name.decode(),
            domain=domain,
        )
        self._firing = stored
        self._now_in_hand(stored.time, order or self._order(group, stored.time))
        call = partial(task.processor.on_timer, timer, task.context)
        try:
            self._try(call, timer.key, stored.key)
        finally:
            operator.take_in_hand(None)
            self._firing = None
            self._timers.settle()

    def _punctuate(self, group: int, kind: PunctuationType, now: int, order: Order | None) -> None:
        """Call the punctuators of a key group that are due."""
        for schedule in self._of(group).due(kind, now):
            self._now_in_hand(now, order or self._order(group, now))
            try:
                self._try(partial(schedule.punctuator, now))
            finally:
                self._operator.take_in_hand(None)

    def _now_in_hand(self, time: int, order: Order) -> None:
        """Set the place of what is forwarded from now on."""
        self._operator.take_in_hand(Hand(max(time, 0), order=order))

    def _try(self, call: partial[None], key: Any = None, key_bytes: bytes | None = None) -> None:
        """Call a timer or a punctuator, as often as its handler says.

        What a call wrote, forwarded and registered is taken back before the next. The last one's
        stays, as a record's does.
        """
        operator, undo, sender = self._operator, self._operator.undo, self._operator.sender
        asked: tuple[Failures, Batch] | None = None
        while True:
            sent = sender.sent
            if undo is not None:
                undo.begin()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the function is the user's
                asked = asked or self._asked(call.func, key, key_bytes)
                failures, batch = asked
                repeats = undo is not None and sender.can_forget(sent)
                if not failures.one(batch, 0, error, repeats=repeats):
                    return
                assert undo is not None, operator.step.name
                undo.back()
                sender.forget(sent)
            else:
                return

    def _asked(
        self, function: Callable[..., Any], key: Any, key_bytes: bytes | None
    ) -> tuple[Failures, Batch]:
        """Return who decides about what has fired and failed, and that as a record."""
        operator = self._operator
        failures = operator.user_failures(function)
        failures.subject = "a punctuator" if key_bytes is None else "a timer"
        hand = operator.hand
        assert hand is not None, operator.step.name
        origins = Origins([hand.timestamp], None, None if hand.order is None else [hand.order])
        known = None if key_bytes is None else [key_bytes]
        return failures, Batch([key], [None], origins, key_bytes=known)

    def _remember(self, task: Task, domain: TimeDomain, key: bytes, name: bytes) -> None:
        """Let a change of a timer be taken back if the call that makes it fails."""
        undo = self._operator.undo
        if undo is not None:
            timers = self._timers.of(domain, task.group)
            undo.remember(timers, (key, name), timers.before(key, name))

    def _prefetch(self, group: int, keys: list[bytes]) -> None:
        """Fetch the state of the keys of timers that are about to fire."""
        nulls: list[Any] = [None] * len(keys)
        batch = Batch(nulls, nulls, Origins([0] * len(keys)), key_bytes=keys)
        self._operator.prefetch(batch, [group] * len(keys))

    def _order(self, group: int, time: int) -> Order:
        """Return the order of what fires at the end of an epoch: by time, after what has fired."""
        last, number = self._last.get(group, (time, -1))
        time, number = max(last, time), number + 1
        self._last[group] = (time, number)
        return (time, -1, -1, -1, group, number)


def event_time_at(operator: ProcessorStep, clock: EventClock, group: int) -> int:
    """Return the event time of a step's current record or timer, -1 if there is none yet.

    For a record it is the event time at its place, as for the windows of other steps; for what
    fires it is the time after the epoch's records.

    Args:
        operator: The step.
        clock: The clock of the step, or of one of its stores.
        group: The key group of the current record or timer.
    """
    hand = operator.hand
    if hand is None or hand.batch is None:
        return max(clock.closed_until(group), -1)
    return max(clock.at(group, hand.order), -1)
