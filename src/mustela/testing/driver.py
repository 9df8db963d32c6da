"""The test driver: a topology run record by record, without Spark and without a broker."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, Self

from mustela.api.handlers import app_handlers, wants_raws
from mustela.clock import ManualClock, SystemClock
from mustela.config.settings import Settings, app_configs
from mustela.kernel.core.options import KernelOptions
from mustela.model import TopicPartition
from mustela.plan.bound import SerdeBinder
from mustela.plan.watermark import watermark_after
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.queries.queries import Queries
from mustela.runtime.time.watermark import (
    Look,
    PartitionTime,
    WatermarkOptions,
    scheduled_watermark,
    watermark_options,
)
from mustela.runtime.traces import ended_epoch, span_writer
from mustela.serdes.base import Serde
from mustela.testing.both_groups import MANY_GROUPS, BothGroups, Tap, check_both
from mustela.testing.calls import DriverCalls, HoldsCalls
from mustela.testing.cluster import BrokerRow, JobResult, MemoryCluster
from mustela.testing.faults import TestDriverError
from mustela.testing.job import run_job
from mustela.testing.reading import DriverSource
from mustela.testing.store_access import StoreAccess
from mustela.testing.stores import DriverStores
from mustela.testing.subject import read_subject
from mustela.testing.times import to_milliseconds, to_span
from mustela.testing.topics import TestInputTopic, TestOutputTopic
from mustela.testing.written import (
    check_written,
    reader_of,
    sinks_of,
    topic_serde,
    why_no_letters,
)
from mustela.topology.graph import TopologyGraph
from mustela.topology.scheduled import ScheduledSourceNode

__all__ = ["EPOCHS_PER_CALL_MAX", "TopologyTestDriver"]

EPOCHS_PER_CALL_MAX = 10_000
"""How often rows may come back to the topology that wrote them before it is taken for an endless
loop."""


class TopologyTestDriver(StoreAccess, HoldsCalls):
    """Runs a topology in this process, processing each piped record completely.

    It uses the same planner and the same kernel as Spark, with state in memory and the same commit
    protocol. Each piped record is an epoch; `epoch` groups several.

    Args:
        subject: An App, a StreamsBuilder or a Topology.
        settings: Settings, or a mapping of them. A mapping overrides an App's own settings; with a
            builder or a topology, event time is ``stream-time`` unless it says otherwise, and
            neither environment variables nor files are read.
        initial_wall_clock: The initial time of the driver's clock: an aware datetime or
            milliseconds; default: now.
        key_groups: Number of key groups, a power of two; default: an App's own number, otherwise
            one.
        lanes: Number of lanes; it does not affect results.
        crash_after_every_record: Whether each epoch is run, lost to a crash before its commit, run
            again, committed, and followed by another crash. Results stay the same.
        hold_calls: Whether external calls wait for `complete_calls`. Otherwise they are made at
            once, and nothing is ever parked.
        groups: ``both`` runs everything a second time, in 32 key groups (in one if the first run
            has several), and raises `GroupsDifferError` for the first step whose results differ;
            functions are called twice for each record.

    Raises:
        UsageError: If the subject cannot be tested, or an App could not be started: a stateful step
            has no name, or a function cannot be sent to workers.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> counts = words.group_by(lambda _key, word: word, key=str).count(store="counts")
        >>> counts.to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("words").pipe_value_list(["a", "b", "a"])
        ...     driver.create_output_topic("counts").read_key_values_to_list()
        ...     driver.get_key_value_store("counts")["a"]
        [('a', 1), ('b', 1), ('a', 2)]
        2
    """

    __test__ = False

    def __init__(  # noqa: PLR0913 - keywords, each of which a test may leave out
        self,
        subject: object,
        settings: Settings | Mapping[str, Any] | None = None,
        initial_wall_clock: int | datetime | None = None,
        *,
        key_groups: int | None = None,
        lanes: int = 1,
        crash_after_every_record: bool = False,
        hold_calls: bool = False,
        groups: Literal["both"] | None = None,
    ) -> None:
        if groups is not None:
            check_both(groups, hold_calls=hold_calls)
        tested = read_subject(subject, settings, key_groups)
        self._topology, self._settings = tested.topology, tested.settings
        key_groups = tested.key_groups
        start = SystemClock().now_ms() if initial_wall_clock is None else initial_wall_clock
        self._clock = ManualClock(to_milliseconds(start))
        self._calls = DriverCalls(self._clock, held=hold_calls)
        self._options = KernelOptions(
            calls=self._calls,
            emit=self._settings.emit,
            event_time=self._settings.event_time,
            key_groups=key_groups,
            **dict[str, Any](app_handlers(self._settings)),
            topic_partitions=defaultdict(lambda: 1),
            traces=self._settings.traces.enabled,
            application_id=self._settings.application_id,
            app_configs=app_configs(self._settings),
        )
        self._spans = span_writer(self._settings)
        self._lanes = min(lanes, key_groups)
        self._crashes = crash_after_every_record
        self._binder = SerdeBinder(self._settings.application_id, self._settings.schema_registry)
        planned = plan(
            self._topology,
            options=PlanOptions(
                emit=self._settings.emit,
                event_time=self._settings.event_time,
                rules_off=self._settings.topology.rules,
            ),
        )
        self._cluster = MemoryCluster(
            self._binder.bind(planned),
            application_id=self._settings.application_id,
            key_groups=key_groups,
            dead_letter_topic=self._settings.dead_letter_topic,
            watermark=_watermark_options(self._settings),
        )
        tap = None if groups is None else Tap()
        late = self._cluster.plan.late_letters
        raws = wants_raws(node.on_error for node in self._cluster.plan.nodes)
        self._options = replace(self._options, late_letters=late, on_rows=tap, letter_raws=raws)
        self._cluster.global_topics.options = self._options
        self._positions: dict[str, list[int]] = {}
        self._group: list[BrokerRow] | None = None
        self._waiting: deque[list[BrokerRow]] = deque()
        self._until: int | None = None
        self._at_least = -1
        self._triggered: tuple[str, ...] = ()
        self._closed, self._queries = False, self._made_queries()
        self._both: BothGroups | None = None
        if tap is not None:
            self._both = self._second(tap)
        begins = any(stage.acts_at_start for stage in self._cluster.plan.stages)
        if begins or self._cluster.due.scheduled_ms is not None:
            self._tick()  # schedules begin
            if tap is not None:
                tap.take()  # the second run's tap was not there yet

    def _second(self, tap: Tap) -> BothGroups:
        """Return the run with a different number of key groups."""
        mine = self._cluster.key_groups
        other = TopologyTestDriver(
            self._topology,
            self._settings,
            self._clock.now_ms(),
            key_groups=MANY_GROUPS if mine == 1 else 1,
            crash_after_every_record=self._crashes,
        )
        theirs = Tap()
        other._options = replace(other._options, on_rows=theirs)
        counts = mine, other._cluster.key_groups
        return BothGroups(self._cluster.plan, (counts[0], tap), (counts[1], theirs), other)

    def _follow(self, method: str, *given: Any, **named: Any) -> None:
        """Repeat in the second run, if there is one, what this one did."""
        if self._both is not None:
            self._both.follow(method, *given, **named)

    def create_input_topic(
        self,
        name: str,
        key: Any = None,
        value: Any = None,
        start: int | datetime | None = None,
        auto_advance: int | timedelta | None = None,
    ) -> TestInputTopic[Any, Any]:
        """Return a topic to pipe records into.

        Args:
            name: A source topic of the topology, or one that a source's pattern matches.
            key: Type or serde of the keys; default: the source's.
            value: Type or serde of the values; default: the source's.
            start: Time of the first record; default: the driver's clock.
            auto_advance: How far the topic's time moves after each record.

        Raises:
            TestDriverError: If the topology does not read the topic.
        """
        self._check_open()
        node = reader_of(self._topology, name)
        self._cluster.add_topic(name)
        self._follow("create_input_topic", name)
        return TestInputTopic(
            name,
            key=self._serde(name, key, node.key, key=True),
            value=self._serde(name, value, node.value, key=False),
            pipe=self._pipe,
            clock=self._clock.now_ms,
            start=start,
            auto_advance=auto_advance,
        )

    def create_output_topic(
        self, name: str, key: Any = None, value: Any = None
    ) -> TestOutputTopic[Any, Any]:
        """Return a topic to read results from.

        Args:
            name: A topic that the topology may write, or the dead-letter topic.
            key: Type or serde of the keys; default: that of the sink which wrote the record, bytes
                for dead letters.
            value: Type or serde of the values; the same default.

        Raises:
            TestDriverError: If no step writes the topic.
        """
        self._check_open()
        check_written(name, self._topology, self._settings)
        return TestOutputTopic(
            name,
            key=None if key is None else self._serde(name, key, None, key=True),
            value=None if value is None else self._serde(name, value, None, key=False),
            rows=lambda: self._cluster.outputs.get(name, []),
            position=self._positions.setdefault(name, [0]),
            sinks=sinks_of(self._topology, name, self._binder),
            why_empty=why_no_letters(name, self._cluster.plan, self._settings),
        )

    @contextmanager
    def epoch(self, *, until: int | datetime | None = None) -> Generator[None]:
        """Group what is piped inside the block into one epoch, which runs at the end of the block.

        Args:
            until: Promises that all records piped after this epoch, in every topic, are at or after
                this time. An application that catches up knows this, because it cuts its backlog by
                time; the watermark then advances this far, however old the last records are.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str).group_by_key()
            >>> words.count(store="counts").to_stream().to("counts", key=str, value=int)
            >>> with TopologyTestDriver(builder) as driver:
            ...     with driver.epoch():
            ...         driver.create_input_topic("words").pipe_input("a", "x")
            ...         driver.create_input_topic("words").pipe_input("a", "y")
            ...     driver.create_output_topic("counts").read_key_values_to_list()
            [('a', 2)]
        """
        self._check_open()
        if self._group is not None:
            msg = "an epoch is already open"
            raise TestDriverError(msg, fix="end it before the next one begins")
        self._group = []
        try:
            yield
            rows = self._group
        finally:
            self._group = None
        if rows or until is not None:
            self._until = None if until is None else to_milliseconds(until)
            try:
                self._run_all(rows, grouped=True)
            finally:
                self._until = None
            if self._both is not None:
                with self._both.driver.epoch(until=until):
                    self._both.driver._pipe(rows)
                self._both.compare()

    def advance_wall_clock_time(self, span: int | timedelta) -> None:
        """Advance the driver's clock; event time does not advance.

        A topic that had no record for longer than the ``idleness`` setting no longer holds the
        watermark. Everything due by then runs, as in an application that slept for that long: a
        scheduled source that ticks several times in the span catches up according to its policy.
        """
        self._check_open()
        self._clock.advance(to_span("advance_wall_clock_time", "span", span))
        self._tick()
        while self._cluster.has_ticks_left:
            self._tick()
        self._follow("advance_wall_clock_time", span)

    def advance_watermark(self, to: int | datetime) -> None:
        """Advance the watermark as if every topic had reached this time, and run what is due.

        It never goes back: a time in the past changes nothing. Only for ``event_time = watermark``.

        In the driver each topic has one partition. The watermark is the lowest time that any topic
        has reached, except for idle topics; a topic that never had a record counts as idle, because
        a test that does not use it does not define its time.

        Args:
            to: The new watermark: milliseconds or an aware datetime.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.stream("words", key=str, value=str).to("copy")
            >>> with TopologyTestDriver(builder, settings={"event_time": "watermark"}) as driver:
            ...     driver.advance_watermark(1_000)
            ...     driver.watermark
            1000

        Raises:
            TestDriverError: If ``event_time`` is ``stream-time``.
        """
        self._check_watermark("advance_watermark")
        self._tick(at_least_ms=to_milliseconds(to))
        self._follow("advance_watermark", to)

    def mark_idle(self, topic: str) -> None:
        """Exclude a topic from the watermark until it has a record again, and run what is due.

        Args:
            topic: A topic that the topology reads.

        Raises:
            TestDriverError: If the topology does not read the topic, or ``event_time`` is
                ``stream-time``.
        """
        self._check_watermark("mark_idle")
        if topic not in self._cluster.inputs:
            msg = f"the topology does not read topic {topic!r}"
            raise TestDriverError(msg, fields={"topic": topic})
        times, place = self._cluster.watermark.partitions, TopicPartition(topic, 0)
        if place in times:
            times[place] = PartitionTime(
                times[place].max_timestamp, times[place].seen_ms, idle=True
            )
        self._tick()
        self._follow("mark_idle", topic)

    def trigger_scheduled_source(self, name: str) -> None:
        """Make a scheduled source tick once now, whatever its schedule.

        The tick has the time of the driver's clock. The regular ticks of the schedule do not
        change.

        Args:
            name: The source's name.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> beats = builder.scheduled(
            ...     "beat", lambda tick: [("beat", tick.number)], cron="0 6 * * *"
            ... )
            >>> beats.to("beats", key=str, value=int)
            >>> with TopologyTestDriver(builder, initial_wall_clock=0) as driver:
            ...     driver.trigger_scheduled_source("beat")
            ...     driver.create_output_topic("beats").read_key_values_to_list()
            [('beat', 1)]

        Raises:
            TestDriverError: If the topology has no scheduled source of that name.
        """
        self._check_open()
        known = [node.name for node in self._topology if isinstance(node, ScheduledSourceNode)]
        if name not in known:
            msg = f"the topology has no scheduled source {name!r}"
            told = ", ".join(known) or "no scheduled sources"
            raise TestDriverError(msg, evidence={"it has": told}, fields={"source": name})
        self._triggered = (name,)
        try:
            self._run_all([], grouped=True)
        finally:
            self._triggered = ()
        self._follow("trigger_scheduled_source", name)

    @property
    def watermark(self) -> int | None:
        """The watermark in milliseconds, or None if there is none yet."""
        value = self._cluster.watermark.value
        return None if value < 0 else value

    def _check_watermark(self, method: str) -> None:
        self._check_open()
        if self._settings.event_time != "watermark":
            msg = f"{method} needs event_time = watermark"
            raise TestDriverError(
                msg,
                why="with stream time, an operator's time is that of the records it has seen",
                fix='pass settings={"event_time": "watermark"} to the driver',
            )

    def _tick(self, *, at_least_ms: int = -1) -> None:
        """Run an epoch without records if something is due."""
        cluster = self._cluster
        at_least_ms = max(at_least_ms, self._scheduled())
        look = Look(now_ms=self._clock.now_ms(), at_least_ms=at_least_ms)
        order = cluster.watermark.order(cluster.topics, look)
        if cluster.due.first.reached(watermark_after(order, ()), look.now_ms):
            self._at_least = at_least_ms
            try:
                self._run_all([], grouped=True)
            finally:
                self._at_least = -1
        else:
            cluster.watermark = cluster.watermark.after(cluster.topics, look, ())

    def crash(self, *, lose_state: bool = False) -> None:
        """Drop everything uncommitted, and continue from the committed state.

        Args:
            lose_state: Whether local state is lost too, and restored from the changelogs.
        """
        self._check_open()
        if self._group is not None:
            self._group.clear()
        self._cluster.restart(lose_state=lose_state)
        self._calls.crash(keep_outcomes=False)
        self._follow("crash", lose_state=lose_state)

    @property
    def produced_topic_names(self) -> set[str]:
        """The topics that have been written to so far."""
        return set(self._cluster.outputs)

    @property
    def metrics(self) -> dict[str, int]:
        """Counts of the committed epochs, named ``<what>:<step>``."""
        return dict(self._cluster.counters)

    @property
    def topology(self) -> TopologyGraph:
        """The topology under test."""
        return self._topology

    def close(self) -> None:
        """Close the driver; closing it twice is allowed."""
        self._closed = True
        self._queries.close()
        self._calls.close()
        if self._both is not None:
            self._both.driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            msg = "the test driver is closed"
            raise TestDriverError(msg)

    def _stores(self) -> DriverStores:
        self._check_open()
        return DriverStores(self._cluster, self._commit)

    def _made_queries(self) -> Queries:
        return Queries(DriverSource(self._cluster, self._check_open))

    def _reader(self) -> Queries:
        return self._queries

    def _pipe(self, rows: Sequence[BrokerRow]) -> None:
        self._check_open()
        if self._group is not None:
            self._group.extend(rows)
            return
        for row in rows:
            self._run_all([row], grouped=False)
            self._follow("_pipe", [row])

    def _run_all(self, rows: list[BrokerRow], *, grouped: bool) -> None:
        """Run an epoch, and further ones for rows that come back as input.

        Rows wait while a step has reached its limit of parked records.
        """
        waiting = self._waiting
        waiting.append(rows) if rows else waiting.appendleft(rows)
        for _ in range(EPOCHS_PER_CALL_MAX):
            if not waiting or (waiting[0] and self._cluster.due.is_full):
                return
            written = self._run_epoch(waiting.popleft())
            back = [row for row in written if self._cluster.add_topic(row.topic)]
            if back:
                waiting.extend([back] if grouped else [[row] for row in back])
        msg = f"rows came back to the topology {EPOCHS_PER_CALL_MAX} times"
        raise TestDriverError(msg, why="it endlessly writes to a topic that it reads")

    def _run_epoch(self, rows: list[BrokerRow]) -> list[BrokerRow]:
        cluster = self._cluster
        cluster.append_inputs(rows)
        try:
            result = self._run_job()
            if self._crashes:
                cluster.restart(lose_state=False)
                self._calls.crash(keep_outcomes=True)
                result = self._run_job()
        except BaseException:
            cluster.forget_inputs(rows)
            raise
        written = self._commit(result)
        if self._crashes:
            # Every other time the disk is lost too, to test both pendings and changelogs.
            cluster.restart(lose_state=cluster.epoch % 2 == 0)
            if self._calls.crash(keep_outcomes=False):
                written += self._commit(self._run_job())  # resumes what is parked
        return written

    def _run_job(self) -> JobResult:
        look = Look(
            now_ms=self._clock.now_ms(),
            short=() if self._until is None else self._with_more(),
            until_ms=self._until,
            at_least_ms=max(self._at_least, self._scheduled()),
        )
        return run_job(
            self._cluster,
            self._options,
            lanes=self._lanes,
            look=look,
            triggered=self._triggered,
        )

    def _scheduled(self) -> int:
        """Return how far scheduled sources advance the watermark."""
        cluster = self._cluster
        return scheduled_watermark(cluster.plan, cluster.due.scheduled_ms, self._clock.now_ms())

    def _with_more(self) -> set[TopicPartition]:
        """Return the topics that have more records after the time of a cut: all except idle ones.

        A topic whose first record is in this epoch is not known before.
        """
        cluster = self._cluster
        new = {
            TopicPartition(topic, 0)
            for topic, rows in cluster.inputs.items()
            if len(rows) > cluster.offsets[topic]
        }
        return new | {p for p, time in cluster.watermark.partitions.items() if not time.idle}

    def _serde(self, topic: str, said: Any, known: Serde[Any] | None, *, key: bool) -> Serde[Any]:
        return topic_serde(self._binder, topic, said, known, key=key)

    def _commit(self, result: JobResult) -> list[BrokerRow]:
        if self._spans is not None:
            self._spans.epoch(ended_epoch(result.token, result.now_ms), result.reports)
        return self._cluster.commit(result)


def _watermark_options(settings: Settings) -> WatermarkOptions:
    """Return the rules of event time.

    The driver's clock is under the test's control and need not fit the timestamps of its records,
    so they are compared only if the test says how far they may differ.
    """
    said = settings.source_of("max_future_skew") != Settings.DEFAULT
    return watermark_options(settings, any_future=not said)
