"""The part of a processor's context that deals with time: clocks, timers and schedules."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mustela.api.context_port import OverPort
from mustela.api.timers import (
    Cancellable,
    PunctuationType,
    Punctuator,
    TimeDomain,
    TimerError,
    interval_ms,
    moment_ms,
)

__all__ = ["TimeContext"]

_EVENT = TimeDomain.EVENT_TIME
_CLOCK = TimeDomain.PROCESSING_TIME


class TimeContext(OverPort):
    """The methods of a context that have to do with time."""

    def current_stream_time(self) -> int:
        """Return event time in milliseconds, -1 if there is none yet.

        With ``event_time = stream-time`` it is the largest timestamp of the records that have
        reached this step in this key group, including the current one, as in Kafka Streams. With
        ``event_time = watermark`` it is the same as `current_watermark`.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Age(ContextualProcessor):
            ...     def process(self, record):
            ...         age = self.context.current_stream_time() - record.timestamp
            ...         self.context.forward(record.with_value(age))
        """
        return self._port.time(_EVENT)

    def current_watermark(self) -> int:
        """Return the watermark in milliseconds, -1 if there is none yet.

        In ``process`` it is the watermark at the current record, by which windows decide too
        whether the record is late; in ``on_timer`` and in punctuators it is the watermark after the
        epoch's records. With ``event_time = stream-time`` it is the same as `current_stream_time`.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Late(ContextualProcessor):
            ...     def process(self, record):
            ...         late = record.timestamp < self.context.current_watermark()
            ...         self.context.forward(record.with_value(late))
        """
        return self._port.time(_EVENT)

    def current_system_time(self) -> int:
        """Return the epoch's wall-clock time in milliseconds.

        It is the same during the whole epoch, so it cannot measure how long something took.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Delay(ContextualProcessor):
            ...     def process(self, record):
            ...         delay = self.context.current_system_time() - record.timestamp
            ...         self.context.forward(record.with_value(delay))
        """
        return self._port.time(_CLOCK)

    def current_processing_time(self) -> int:
        """Return the epoch's wall-clock time, by which processing-time timers fire.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Retry(ContextualProcessor):
            ...     def process(self, record):
            ...         now = self.context.current_processing_time()
            ...         self.context.register_processing_time_timer(now + 10_000)
            ...
            ...     def on_timer(self, timer, context):
            ...         context.forward(timer.with_value("again"))
        """
        return self._port.time(_CLOCK)

    def schedule(
        self,
        interval: timedelta,
        punctuation_type: PunctuationType,
        punctuator: Punctuator,
        *,
        start: int | datetime | None = None,
    ) -> Cancellable:
        """Call a function at regular intervals, separately in each key group; only in ``init``.

        With `PunctuationType.STREAM_TIME`, ticks are at multiples of the interval. The function is
        called with the stream time as soon as it reaches the next tick; ticks that it has skipped
        are left out. With ``event_time = stream-time`` the call follows a record, with ``event_time
        = watermark`` it follows the records of an epoch. With `PunctuationType.WALL_CLOCK_TIME`,
        the first tick is one interval after the schedule is first made, and the function is called
        with the epoch's wall-clock time, even while no records arrive.

        The next tick is stored and committed with the epoch, so a crash neither loses nor repeats a
        call; when the application restarts, the schedule continues where it was.

        Args:
            interval: The time between two ticks, at least one millisecond.
            punctuation_type: Which clock to use.
            punctuator: Called with the time in milliseconds; it may forward records and use stores.
            start: The first tick; all others are whole intervals away from it. If the clock has
                already passed it, the first tick is the next of these.

        Returns:
            A handle whose ``cancel()`` ends the schedule, also from inside the function. A
            cancelled schedule stays cancelled when the application restarts.

        Raises:
            TimerError: If ``init`` is over, or the interval is too short.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import Record
            >>> from mustela.processors import ContextualProcessor, PunctuationType
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> class Beat(ContextualProcessor):
            ...     def init(self, context):
            ...         super().init(context)
            ...         context.schedule(
            ...             timedelta(seconds=10), PunctuationType.WALL_CLOCK_TIME, self.beat
            ...         )
            ...
            ...     def beat(self, now):
            ...         self.context.forward(Record("beat", now, now))
            ...
            ...     def process(self, record):
            ...         pass
            >>> builder = StreamsBuilder()
            >>> builder.stream("in", key=str, value=str).process(Beat).to("out", key=str, value=int)
            >>> with TopologyTestDriver(builder, initial_wall_clock=0) as driver:
            ...     driver.advance_wall_clock_time(timedelta(seconds=25))
            ...     driver.advance_wall_clock_time(timedelta(seconds=5))
            ...     driver.create_output_topic("out").read_values_to_list()
            [25000, 30000]
        """
        if not callable(punctuator):
            msg = f"a punctuator is called with the time, and {punctuator!r} cannot be called"
            raise TimerError(msg, at=self._step.at)
        if not self._step.acts_on_time:
            raise self._step.no_timers(method="schedule", missing="punctuates = True")
        kind, start_ms = (
            PunctuationType(punctuation_type),
            None if start is None else moment_ms(start),
        )
        return self._port.schedule(kind, interval_ms(interval), punctuator, start_ms)

    def register_event_time_timer(
        self, at: int | datetime, key: Any = None, name: str | None = None
    ) -> None:
        """Have ``on_timer`` called when event time reaches a moment.

        It is called after the records of the epoch in which the watermark reaches the moment, even
        if no records arrive; with ``event_time = stream-time``, after the record that brings the
        time there. A moment that has already passed is due at once. A key has one event-time timer
        per name: registering it again moves it.

        Args:
            at: The moment, in milliseconds or as an aware datetime.
            key: The key that the timer belongs to; the current key if not given. Another key must
                be in the same key group.
            name: Distinguishes several timers of one key.

        Raises:
            TimerKeyError: If the key belongs to another key group, or there is no current key.
            TimerError: If the moment is not valid, or the class has no ``on_timer``.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Silence(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.register_event_time_timer(record.timestamp + 100)
            ...
            ...     def on_timer(self, timer, context):
            ...         context.forward(timer.with_value("silent"))
            >>> builder = StreamsBuilder()
            >>> visits = builder.stream("visits", key=str, value=str)
            >>> visits.process(Silence).to("silences", key=str, value=str)
            >>> settings = {"event_time": "watermark"}
            >>> with TopologyTestDriver(builder, settings=settings) as driver:
            ...     visits = driver.create_input_topic("visits")
            ...     visits.pipe_input("ann", "in", timestamp=0)
            ...     visits.pipe_input("ann", "out", timestamp=50)
            ...     driver.advance_watermark(500)
            ...     driver.create_output_topic("silences").read_records_to_list()
            [Record(key='ann', value='silent', timestamp=150, topic='silences', partition=0, offset=0)]
        """  # noqa: E501 - the doctest's answer
        self._set("register_event_time_timer", _EVENT, key, name, moment_ms(at))

    def register_processing_time_timer(
        self, at: int | datetime, key: Any = None, name: str | None = None
    ) -> None:
        """Have ``on_timer`` called when the wall clock reaches a moment.

        It is called at the end of the first epoch whose time is that moment or later; if no records
        arrive, an epoch is run for the timer alone. A key has one processing-time timer per name:
        registering it again moves it.

        Args:
            at: The moment, in milliseconds or as an aware datetime.
            key: As for `register_event_time_timer`.
            name: Distinguishes several timers of one key.

        Raises:
            TimerKeyError: If the key belongs to another key group, or there is no current key.
            TimerError: If the moment is not valid, or the class has no ``on_timer``.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Reminder(ContextualProcessor):
            ...     def process(self, record):
            ...         now = self.context.current_processing_time()
            ...         self.context.register_processing_time_timer(now + 60_000, name="pay")
            ...
            ...     def on_timer(self, timer, context):
            ...         context.forward(timer.with_value(timer.name))
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=int)
            >>> orders.process(Reminder).to("reminders", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("orders").pipe_input("o-1", 30)
            ...     driver.advance_wall_clock_time(60_000)
            ...     driver.create_output_topic("reminders").read_key_values_to_list()
            [('o-1', 'pay')]
        """
        self._set("register_processing_time_timer", _CLOCK, key, name, moment_ms(at))

    def delete_timer(
        self, key: Any = None, name: str | None = None, domain: TimeDomain | None = None
    ) -> None:
        """Cancel a timer; nothing happens if it is not set.

        Args:
            key: The key that the timer belongs to; the current key if not given.
            name: The timer's name.
            domain: Which clock the timer uses; timers of both are cancelled if not given.

        Raises:
            TimerKeyError: If the key belongs to another key group, or there is no current key.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.processors import ContextualProcessor
            >>> class Unpaid(ContextualProcessor):
            ...     def process(self, record):
            ...         if record.value == "paid":
            ...             self.context.delete_timer()
            ...         else:
            ...             self.context.register_event_time_timer(record.timestamp + 100)
            ...
            ...     def on_timer(self, timer, context):
            ...         context.forward(timer.with_value("unpaid"))
            >>> builder = StreamsBuilder()
            >>> orders = builder.stream("orders", key=str, value=str)
            >>> orders.process(Unpaid).to("unpaid", key=str, value=str)
            >>> with TopologyTestDriver(builder) as driver:
            ...     orders = driver.create_input_topic("orders")
            ...     orders.pipe_input("o-1", "new", timestamp=0)
            ...     orders.pipe_input("o-2", "new", timestamp=0)
            ...     orders.pipe_input("o-1", "paid", timestamp=50)
            ...     orders.pipe_input("o-3", "new", timestamp=100)
            ...     driver.create_output_topic("unpaid").read_key_values_to_list()
            [('o-2', 'unpaid')]
        """
        for each in TimeDomain if domain is None else (TimeDomain(domain),):
            self._set("delete_timer", each, key, name, None)

    def _set(
        self, method: str, domain: TimeDomain, key: Any, name: str | None, at_ms: int | None
    ) -> None:
        step = self._step
        if not step.acts_on_time:
            raise step.no_timers(method=method, missing="def on_timer(self, timer, context)")
        group = self._port.set_timer(domain, key, name or "", at_ms)
        if group is None:
            raise step.no_key(method)
        if group != self._group:
            raise step.key_elsewhere(method, key, group, self._group)
