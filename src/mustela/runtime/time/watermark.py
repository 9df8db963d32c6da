"""The watermark: event time over all source partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from itertools import filterfalse
from operator import attrgetter
from typing import TypeVar

import msgspec

from mustela.api.watermarks import WatermarkStrategy
from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.plan.ranges import RangeReport
from mustela.plan.time import NEVER
from mustela.plan.watermark import (
    Others,
    PartitionMark,
    WatermarkOrder,
    said_by,
    watermark_after,
)

__all__ = [
    "Look",
    "PartitionTime",
    "WatermarkOptions",
    "WatermarkState",
    "scheduled_watermark",
    "steady_ms",
    "topic_options",
    "watermark_options",
]

T = TypeVar("T")

_TOPIC = attrgetter("topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkOptions:
    """How the watermark follows the partitions of a topic.

    Attributes:
        max_out_of_orderness_ms: How far the watermark trails the largest timestamps.
        idleness_ms: How long a partition must have been read to its known end before it is idle.
        max_future_skew_ms: A timestamp further ahead of the wall clock is ignored; None if any
            timestamp counts.
        takes_part: Whether the topic affects the watermark at all.
        custom: Replaces ``max_out_of_orderness_ms``: maps the largest timestamp to the time
            reached.
    """

    max_out_of_orderness_ms: int = 0
    idleness_ms: int = 60_000
    max_future_skew_ms: int | None = 86_400_000
    takes_part: bool = True
    custom: Callable[[int], int] | None = None

    def reached(self, timestamps: Collection[int]) -> Iterable[int]:
        """Return times that partitions have reached, including the lowest and the highest.

        Args:
            timestamps: Their largest timestamps.
        """
        if self.custom is not None:
            return map(self.custom, set(timestamps))
        ends = {min(timestamps), max(timestamps)} if timestamps else ()
        return [ms - self.max_out_of_orderness_ms for ms in ends]

    def latest_ms(self, now_ms: int) -> int:
        """Return the largest timestamp that counts."""
        skew = self.max_future_skew_ms
        return NEVER if skew is None else now_ms + skew


def watermark_options(settings: Settings, *, any_future: bool = False) -> WatermarkOptions:
    """Return the rules from the settings.

    Args:
        settings: The settings.
        any_future: Whether a timestamp counts no matter how far it is ahead of the wall clock.
    """
    by_record = settings.event_time == "stream-time"
    skew = None if any_future or by_record else settings.max_future_skew
    return WatermarkOptions(
        max_out_of_orderness_ms=_ms(settings.max_out_of_orderness),
        idleness_ms=_ms(settings.idleness),
        max_future_skew_ms=None if skew is None else _ms(skew),
    )


def topic_options(plan: Plan, options: WatermarkOptions) -> dict[str, WatermarkOptions]:
    """Return the rules of topics whose sources have their own strategy."""
    return {topic: _own(strategy, options) for topic, strategy in plan.strategies.items()}


def scheduled_watermark(plan: Plan, scheduled_ms: int | None, now_ms: int) -> int:
    """Return how far scheduled sources advance the watermark: not at all if any topic affects it.

    If none does, event time is the wall clock, but not past the first unhandled tick.

    Args:
        plan: The plan.
        scheduled_ms: The first tick still to come; see `DueTimes.scheduled_ms`.
        now_ms: Wall-clock time.

    Returns:
        Milliseconds, or -1.
    """
    strategies = plan.strategies
    silent = (topic in strategies and strategies[topic].kind == "none" for topic in plan.topics)
    if scheduled_ms is None or plan.has_patterns or not all(silent):
        return -1
    return min(scheduled_ms, now_ms)


def _own(strategy: WatermarkStrategy, options: WatermarkOptions) -> WatermarkOptions:
    idleness, skew = strategy.idleness, strategy.max_future_skew
    return WatermarkOptions(
        max_out_of_orderness_ms=_ms(strategy.out_of_orderness),
        idleness_ms=options.idleness_ms if idleness is None else _ms(idleness),
        max_future_skew_ms=options.max_future_skew_ms if skew is None else _ms(skew),
        takes_part=strategy.kind != "none",
        custom=strategy.reached if strategy.kind == "custom" else None,
    )


def steady_ms(clock: Clock) -> int:
    """Return monotonic milliseconds, which measure idleness unaffected by clock changes.

    Example:
        >>> from mustela.clock import ManualClock
        >>> steady_ms(ManualClock(1_500))
        1500
    """
    return int(clock.monotonic() * 1000)


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


class PartitionTime(msgspec.Struct, frozen=True, gc=False):
    """Event time of one partition; immutable.

    Attributes:
        max_timestamp: The largest timestamp that counts, or -1.
        seen_ms: When the partition last had a record, or was last not read to its end, in
            milliseconds of a monotonic clock.
        idle: Whether it is excluded from the minimum.
    """

    max_timestamp: int = -1
    seen_ms: int = 0
    idle: bool = False


_NO_TIME = PartitionTime()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the driver knows about an epoch before it runs.

    Attributes:
        now_ms: The epoch's one wall-clock time.
        short: The partitions that are not read to their known end.
        until_ms: The time at which it is cut, if it is cut by time; the partitions in ``short``
            hold no unread records before it.
        held: Partitions that hold, or may hold, more records of any time: those of an open
            transaction, or those not read because the partition is far ahead. They are not idle,
            and have advanced only as far as they were read.
        at_least_ms: A lower bound for the watermark, whatever the partitions have reached: for
            applications without partitions, and for tests.
        steady_ms: The time that idleness is measured by; None if that is ``now_ms``.
    """

    now_ms: int
    short: Collection[TopicPartition] = ()
    until_ms: int | None = None
    at_least_ms: int = -1
    steady_ms: int | None = None
    held: Collection[TopicPartition] = ()

    @property
    def seen_ms(self) -> int:
        """The time that idleness is measured by."""
        return self.now_ms if self.steady_ms is None else self.steady_ms

    @property
    def unread(self) -> set[TopicPartition]:
        """The partitions that are not idle, even if no record of them is read."""
        return {*self.short, *self.held}


@dataclass(slots=True)
class WatermarkState:
    """Event time of all partitions; it advances once per epoch and never goes back.

    Attributes:
        options: The rules.
        value: The watermark in milliseconds, or -1.
        partitions: Each partition's event time.
        future_records: Records whose timestamps were too far ahead to count.
        by_topic: The rules of topics with their own.
    """

    options: WatermarkOptions = field(default_factory=WatermarkOptions)
    value: int = -1
    partitions: dict[TopicPartition, PartitionTime] = field(
        default_factory=dict[TopicPartition, PartitionTime]
    )
    future_records: int = 0
    by_topic: Mapping[str, WatermarkOptions] = field(default_factory=dict[str, WatermarkOptions])

    def copy(self) -> WatermarkState:
        """Return a copy to advance while the epoch is not committed."""
        return replace(self, partitions=dict(self.partitions))

    def options_of(self, topic: str) -> WatermarkOptions:
        """Return the rules of a topic."""
        return self.by_topic.get(topic, self.options)

    def observe(self, place: TopicPartition, max_timestamp: int, now_ms: int) -> None:
        """Record that an epoch read records of ``place``.

        Args:
            place: The partition.
            max_timestamp: The largest timestamp that counts, or -1.
            now_ms: The time that idleness is measured by.
        """
        time = self.partitions.get(place, _NO_TIME)
        latest = max(time.max_timestamp, max_timestamp)
        self.partitions[place] = PartitionTime(latest, now_ms)

    def rest(self, place: TopicPartition, now_ms: int, *, read_to_end: bool) -> None:
        """Record that an epoch, or a look at the broker, found no record of ``place``.

        Only a partition that was read to its known end may become idle: an outage or a long restore
        is not idleness. A partition known to have waiting records is no longer idle.
        """
        time = self.partitions.get(place)
        if time is None or not read_to_end:
            latest = -1 if time is None else time.max_timestamp
            self.partitions[place] = time = PartitionTime(latest, now_ms)
        if read_to_end and now_ms - time.seen_ms >= self.options_of(place.topic).idleness_ms:
            self.partitions[place] = PartitionTime(time.max_timestamp, time.seen_ms, idle=True)

    def rest_all(
        self,
        now_ms: int,
        *,
        unread: Collection[TopicPartition],
        apart: Container[TopicPartition] = (),
    ) -> None:
        """Record that no partition had a record.

        Args:
            now_ms: The time that idleness is measured by.
            unread: The partitions that were not read to their known end.
            apart: Partitions to leave unchanged.
        """
        for place in unread:
            if place in self.partitions and place not in apart:
                self.rest(place, now_ms, read_to_end=False)
        waited = set(unread)
        for place in self.turning(now_ms):
            if place not in waited and place not in apart:
                self.rest(place, now_ms, read_to_end=True)

    def turning(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that have been silent long enough to become idle."""
        limit_ms = now_ms - min(rules.idleness_ms for rules in self._rules())
        found = [
            place
            for place, time in self.partitions.items()
            if time.seen_ms <= limit_ms and not time.idle
        ]
        return [place for place in found if self._is_silent(place, now_ms, 1)]

    def quiet(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that take part and are idle, or halfway to becoming idle."""
        limit_ms = now_ms - min(rules.idleness_ms for rules in self._rules()) / 2
        found = [
            place
            for place, time in self.partitions.items()
            if time.seen_ms <= limit_ms or time.idle
        ]
        if not self.by_topic:
            return found
        return [
            place
            for place in found
            if self.options_of(place.topic).takes_part
            and (self.partitions[place].idle or self._is_silent(place, now_ms, 2))
        ]

    def _rules(self) -> Iterable[WatermarkOptions]:
        return (self.options, *self.by_topic.values())

    def _is_silent(self, place: TopicPartition, now_ms: int, part: int) -> bool:
        """Return whether a partition has had no records for some fraction of the idle time."""
        silent_ms = now_ms - self.partitions[place].seen_ms
        return silent_ms >= self.options_of(place.topic).idleness_ms / part

    def track(self, places: Iterable[TopicPartition], now_ms: int) -> None:
        """Add new partitions; they hold the watermark until they are idle."""
        for place in filterfalse(self.partitions.__contains__, places):
            self.partitions[place] = PartitionTime(seen_ms=now_ms)

    def resume(self, now_ms: int) -> None:
        """Restart every idle period, after a time without looks at the broker."""
        for place, time in self.partitions.items():
            self.partitions[place] = PartitionTime(time.max_timestamp, now_ms, time.idle)

    def near(
        self, waiting: Mapping[TopicPartition, T], drift_ms: int | None
    ) -> dict[TopicPartition, T]:
        """Return the waiting partitions that are not too far ahead of the watermark.

        The watermark is computed as of now: while a partition is held back there may be no epoch,
        and the partitions it waits for may have become idle since the last one.

        Args:
            waiting: Partitions that have records.
            drift_ms: How far a partition may be ahead, in milliseconds; None for any distance.
        """
        if drift_ms is None or self.value < 0:
            return dict(waiting)
        most = self.copy().advance() + drift_ms
        return {
            place: what
            for place, what in waiting.items()
            if not self.options_of(place.topic).takes_part
            or place not in self.partitions
            or self._reached(place) <= most
        }

    def _reached(self, place: TopicPartition) -> int:
        """Return the time that a partition has reached."""
        options, latest = self.options_of(place.topic), self.partitions[place].max_timestamp
        if latest < 0 or options.custom is None:
            return latest - options.max_out_of_orderness_ms
        return options.custom(latest)

    def order(
        self,
        topics: Mapping[str, int],
        look: Look,
        read: Collection[TopicPartition] | None = None,
    ) -> WatermarkOrder:
        """Return what the lanes of an epoch need to compute its watermark.

        Args:
            topics: Index of each topic in the plan; other topics are ignored.
            look: What is known about the epoch.
            read: The partitions that it may read; None for any.
        """
        rested = self.copy()
        unread, held = look.unread, set(look.held)
        rested.rest_all(look.seen_ms, unread=unread)
        return rested._order(
            topics,
            rested.partitions if read is None else read,
            short=unread - held,
            until_ms=look.until_ms,
            at_least_ms=look.at_least_ms,
        )

    def after(
        self, topics: Mapping[str, int], look: Look, reports: Iterable[RangeReport]
    ) -> WatermarkState:
        """Return the state after an epoch, from the reports of its source tasks.

        The watermark is that of `watermark_after`, which the epoch's lanes also used.
        """
        reports = list(reports)
        names = {index: topic for topic, index in topics.items()}
        seen: dict[TopicPartition, int] = {}
        unread = look.unread
        for report in reports:
            place = TopicPartition(names[report.topic_index], report.partition)
            if report.records:
                seen[place] = max(seen.get(place, -1), report.max_timestamp)
            if report.next_ms >= 0:
                unread.add(place)
        state = self.copy()
        state.rest_all(look.seen_ms, unread=unread, apart=seen)
        for place, latest in seen.items():
            state.observe(place, latest, look.seen_ms)
        state.future_records += sum(report.future for report in reports)
        read = {TopicPartition(names[part.topic_index], part.partition) for part in reports}
        state.value = watermark_after(self.order(topics, look, read), reports)
        return state

    def advance(self) -> int:
        """Advance the watermark as far as the partitions allow and return it."""
        topics = {topic: number for number, topic in enumerate(self._topics())}
        self.value = watermark_after(self._order(topics, ()), ())
        return self.value

    def _topics(self) -> set[str]:
        return set(map(_TOPIC, self.partitions))

    def _order(
        self,
        topics: Mapping[str, int],
        read: Collection[TopicPartition],
        *,
        short: Collection[TopicPartition] = (),
        until_ms: int | None = None,
        at_least_ms: int = -1,
    ) -> WatermarkOrder:
        """Return the order, from what is known about each partition now.

        Args:
            topics: Index of each topic in the plan.
            read: The partitions that may be read.
            short: Those known to hold records at or after the time of a cut.
            until_ms: That time.
            at_least_ms: A lower bound for the watermark.
        """
        rules = {
            topic: self.options_of(topic)
            for topic in self._topics() & topics.keys()
            if self.options_of(topic).takes_part
        }
        others = dict(self.partitions)
        for place in read:
            others.pop(place, None)
        unread = [place for place in short if others.pop(place, None) is not None]
        said = said_by(self._marks(topics, rules, unread, short), until_ms, {}, ())
        return WatermarkOrder(
            before=self.value,
            at_least_ms=at_least_ms,
            partitions=self._marks(topics, rules, read, short),
            others=reduce(Others.beside, _said_by_all(rules, others), said),
            until_ms=until_ms,
            late_ms={
                topics[topic]: rule.max_out_of_orderness_ms
                for topic, rule in rules.items()
                if rule.max_out_of_orderness_ms
            },
            custom={topics[topic]: rule.custom for topic, rule in rules.items() if rule.custom},
        )

    def _marks(
        self,
        topics: Mapping[str, int],
        rules: Mapping[str, WatermarkOptions],
        places: Iterable[TopicPartition],
        short: Collection[TopicPartition],
    ) -> tuple[PartitionMark, ...]:
        times = self.partitions
        return tuple(
            PartitionMark(
                topics[place.topic],
                place.partition,
                times[place].max_timestamp,
                rules[place.topic].max_out_of_orderness_ms,
                times[place].idle,
                place in short,
                rules[place.topic].custom,
            )
            for place in places
            if place.topic in rules and place in times
        )


def _said_by_all(
    rules: Mapping[str, WatermarkOptions], times: Mapping[TopicPartition, PartitionTime]
) -> Iterator[Others]:
    """Yield what each topic's partitions have reached, for those of which only times are known."""
    topics = set(map(_TOPIC, times))
    by_topic: dict[str, Collection[PartitionTime]] = dict.fromkeys(topics, times.values())
    if len(topics) > 1:
        lists: dict[str, list[PartitionTime]] = {topic: [] for topic in topics}
        for place, time in times.items():
            lists[place.topic].append(time)
        by_topic = {**lists}
    for topic in topics & rules.keys():
        rule, some = rules[topic], by_topic[topic]
        active = [time.max_timestamp for time in some if not time.idle]
        resting = [time.max_timestamp for time in some if time.idle and time.max_timestamp >= 0]
        if min(active, default=0) < 0:
            yield Others(is_stuck=True)
            continue
        yield Others(
            min(rule.reached(active), default=None),
            resting_ms=max(rule.reached(resting), default=-1),
        )
