"""Contexts that record what a processor does with them, for tests of a processor alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from mustela.api.context import (
    FixedKeyProcessorContext,
    ProcessingContext,
    ProcessorContext,
    RecordMetadata,
)
from mustela.api.context_port import StepFacts
from mustela.api.errors import StoreAccessError, UnknownChildError
from mustela.api.stores import StoreBuilder
from mustela.api.timers import (
    FixedKeyTimer,
    PunctuationType,
    Punctuator,
    TimeDomain,
    Timer,
    TimerKeyError,
    moment_ms,
)
from mustela.api.transact import Request
from mustela.api.update import Operation, reply_output
from mustela.kernel.core.isolate import isolated
from mustela.kernel.processors.processor_stores import open_group_store
from mustela.model import FixedKeyRecord, Headers, Record, fixed_key_record
from mustela.serdes.base import Serde
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import Committed, EnvironmentSpec
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay

__all__ = [
    "CapturedForward",
    "CapturedPunctuator",
    "CapturedRequest",
    "MockFixedKeyProcessorContext",
    "MockProcessorContext",
]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class CapturedForward:
    """A record that a processor forwarded.

    Attributes:
        record: A copy of the record as it was then.
        child: The name of the only step that gets it; None if all do.
        output: The side output that it went to, or None.
    """

    record: Any
    child: str | None = None
    output: str | None = None


@dataclass(slots=True)
class CapturedPunctuator:
    """A punctuator that a processor scheduled.

    Attributes:
        interval: The time from one tick to the next.
        type: The kind of time that it follows.
        punctuator: The function to call.
        start: The first tick in milliseconds, if it was given.
        cancelled: Whether the schedule has ended.
    """

    interval: timedelta
    type: PunctuationType
    punctuator: Punctuator
    start: int | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """End the schedule."""
        self.cancelled = True

    def punctuate(self, time: int | datetime) -> None:
        """Call the punctuator, unless it is cancelled.

        Args:
            time: Its argument: milliseconds or an aware datetime.
        """
        if not self.cancelled:
            self.punctuator(moment_ms(time))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """A request of a processor to other lanes, made with ``update`` or ``transact``.

    Attributes:
        fn: The function to run there.
        args: Its arguments after the old value, or after the transaction.
        store: The store whose key is changed; None for a transaction.
        keys: The key, or the declared keys of the transaction.
        reply_to: Where the answer should be sent.
        reply_key: The key of the answer, or of the record that a transaction sends.
        at: The window, session or version of the key.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    store: str | None = None
    keys: Any = None
    reply_to: str | None = None
    reply_key: Any = None
    at: Any = None


class _Notes:
    """The port of a mock, which only records requests.

    Args:
        step_name: The step's name.
        task_id: The key group.
        key: Serde of the keys.
        timer: Creates a timer.
    """

    def __init__(
        self, step_name: str, task_id: int, key: Serde[Any], timer: Callable[..., Timer[Any]]
    ) -> None:
        self._step_name = step_name
        self._task_id = task_id
        self._key = key
        self._timer = timer
        self.hand: Record[Any, Any] | FixedKeyRecord[Any, Any] | None = None
        self.place: RecordMetadata | None = None
        self.times = dict.fromkeys(TimeDomain, -1)
        self.stores: dict[str, Any] = {}
        self.forwards: list[CapturedForward] = []
        self.punctuators: list[CapturedPunctuator] = []
        self.requests: list[CapturedRequest] = []
        self.timers: dict[tuple[TimeDomain, bytes | None, str], Timer[Any]] = {}
        self.counts: Counter[str] = Counter()
        self.committed = False

    def time(self, domain: TimeDomain) -> int:
        return self.times[domain]

    def headers(self) -> Headers:
        return () if self.hand is None else self.hand.headers

    def metadata(self) -> RecordMetadata | None:
        return self.place

    def store(self, name: str) -> Any:
        return self.stores.get(name)

    def any_key_store(self, name: str) -> Any:
        return self.stores.get(name)  # the mock has one lane

    def send(self, record: Any, target: str | None) -> bool:
        copied: Any = record.with_value(isolated(record.value))
        self.forwards.append(CapturedForward(copied, target))
        return True

    def ask(self, asked: Operation | Request, key: Any, store: str | None) -> bool:
        if isinstance(asked, Request):
            reply_to, at, keys = None, None, asked.keys
            reply_key = self.hand.key if key is None and self.hand is not None else key
        else:
            reply_to = asked.reply and asked.reply.removeprefix(reply_output(self._step_name, ""))
            at, keys, reply_key = asked.at, key, asked.reply_key
        self.requests.append(
            CapturedRequest(
                fn=asked.fn,
                args=isolated(asked.args),
                store=store,
                keys=isolated(keys),
                reply_to=reply_to,
                reply_key=isolated(reply_key),
                at=at,
            )
        )
        return True

    def schedule(
        self, kind: PunctuationType, interval_ms: int, punctuator: Punctuator, start_ms: int | None
    ) -> CapturedPunctuator:
        interval = timedelta(milliseconds=interval_ms)
        self.punctuators.append(CapturedPunctuator(interval, kind, punctuator, start_ms))
        return self.punctuators[-1]

    def set_timer(self, domain: TimeDomain, key: Any, name: str, at_ms: int | None) -> int | None:
        if key is None and self.hand is not None:
            key = self.hand.key
        if key is None:
            return None
        place = (domain, self._key.serialize(key), name)
        self.timers.pop(place, None)
        if at_ms is not None:
            made = self._timer(key=key, timestamp=at_ms, name=name, domain=domain)
            self.timers[place] = made
        return self._task_id

    def count(self, name: str, number: int) -> None:
        self.counts[name] += number

    def commit(self) -> None:
        self.committed = True


class _MockFacts(StepFacts):
    """The facts of a mock step, with errors that say how to configure the mock."""

    def no_store(self, name: str) -> StoreAccessError:
        """Return the error for a store that was not added."""
        error = super().no_store(name)
        error.fix = "add it: context.add_state_store(Stores.key_value_store_builder(...))"
        return error

    def no_child(self, name: str, what: str) -> UnknownChildError:
        """Return the error for a name that the mock was not given."""
        error = super().no_child(name, what)
        error.fix = "name it when the mock is created, or let it accept any name"
        return error

    def no_key(self, method: str) -> TimerKeyError:
        """Return the error for a timer without a key."""
        error = super().no_key(method)
        error.fix = f"pass one: {method}(…, key=…), or call set_record_in_hand(record) first"
        return error


class _MockContext(ProcessingContext):
    """What both mocks share."""

    _timer: Callable[..., Timer[Any]] = Timer

    def __init__(  # noqa: PLR0913 - all that a processor may ask
        self,
        *,
        application_id: str = "mock",
        step_name: str = "mock",
        task_id: int = 0,
        app_configs: Mapping[str, Any] | None = None,
        key: Any = None,
        value: Any = None,
        children: Iterable[str] | None = None,
        side_outputs: Iterable[str] | None = None,
    ) -> None:
        key_serde = ValueSerde(sort_keys=True) if key is None else resolve_serde(key, key=True)
        self._notes = _Notes(step_name, task_id, key_serde, self._timer)
        facts = _MockFacts(
            name=step_name,
            application_id=application_id,
            app_configs=dict(app_configs or {}),
            key=key_serde,
            value=ValueSerde() if value is None else resolve_serde(value),
            processor="mock",
            acts_on_time=True,
            stores=self._notes.stores.keys(),
            children=None if children is None else frozenset(children),
            outputs=None if side_outputs is None else frozenset(side_outputs),
            reads=None,
            updates=None,
            replies=None,
            transacts=True,
        )
        super().__init__(self._notes, facts, task_id)

    @property
    def counts(self) -> dict[str, int]:
        """The processor's counters made with ``metrics()``, by name."""
        return dict(self._notes.counts)

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Set where the current record was read."""
        self._notes.place = RecordMetadata(topic=topic, partition=partition, offset=offset)

    def set_record_in_hand(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> None:
        """Set the current record: the context has its headers, and timers get its key.

        Args:
            record: The record that you will pass to `Processor.process`.
        """
        self._notes.hand = record

    def set_current_stream_time(self, time: int | datetime) -> None:
        """Set event time, both stream time and watermark: milliseconds or an aware datetime."""
        self._notes.times[TimeDomain.EVENT_TIME] = moment_ms(time)

    def set_current_system_time(self, time: int | datetime) -> None:
        """Set the wall clock: milliseconds or an aware datetime."""
        self._notes.times[TimeDomain.PROCESSING_TIME] = moment_ms(time)

    def schedule(
        self,
        interval: timedelta,
        punctuation_type: PunctuationType,
        punctuator: Punctuator,
        *,
        start: int | datetime | None = None,
    ) -> CapturedPunctuator:
        """Record a punctuator; see `scheduled_punctuators`."""
        super().schedule(interval, punctuation_type, punctuator, start=start)
        return self._notes.punctuators[-1]

    @property
    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """The punctuators in the order in which they were scheduled, including cancelled ones."""
        return list(self._notes.punctuators)

    @property
    def timers(self) -> list[Timer[Any]]:
        """The timers that are set, in time order; pass one to ``on_timer`` to fire it."""
        return sorted(self._notes.timers.values(), key=lambda timer: timer.timestamp)

    def add_state_store(self, builder: StoreBuilder) -> Any:
        """Create a store in memory, and return it as the processor will see it.

        Args:
            builder: A store builder from `Stores`.
        """
        spec = builder.spec()
        place = EnvironmentSpec(
            application_id=self.application_id, stage="mock", group=0, groups=1, stores=(spec,)
        )
        view: Any = Overlay(MemoryEnvironment(place).snapshot(Committed())).store(spec.name)
        view = spec.traits.rows(view, spec)
        found = self._notes.stores[spec.name] = open_group_store(view, spec, plain=builder.plain)
        return found

    @property
    def requests(self) -> list[CapturedRequest]:
        """The requests made with ``update`` and ``transact``, in order; none is executed."""
        return list(self._notes.requests)

    @property
    def committed(self) -> bool:
        """Whether a commit was requested."""
        return self._notes.committed

    def reset_commit(self) -> None:
        """Forget that a commit was requested."""
        self._notes.committed = False

    def forwarded(self, child: str | None = None) -> list[CapturedForward]:
        """Return what was forwarded, in order.

        Args:
            child: Return only what the step of this name gets: records to it, and records to all.
        """
        if child is None:
            return list(self._notes.forwards)
        return [
            one for one in self._notes.forwards if one.output is None and one.child in {None, child}
        ]

    def outputs(self, name: str) -> list[Any]:
        """Return the records that went to a side output."""
        return [one.record for one in self._notes.forwards if one.output == name]

    def _output(self, name: str, record: Any) -> None:
        super()._output(name, record)
        self._notes.forwards.append(CapturedForward(self._notes.forwards.pop().record, output=name))

    def reset_forwards(self) -> None:
        """Forget what was forwarded."""
        self._notes.forwards.clear()


class MockProcessorContext(_MockContext, ProcessorContext[K, V], Generic[K, V]):
    """A context for tests of a `Processor` alone: it records what the processor does.

    Only the processor runs: no engine, no other step. Pass the context to ``init``, call
    ``process`` with records, and check what was forwarded, scheduled, stored and requested. To test
    behaviour across epochs and crashes, use `TopologyTestDriver`.

    Args:
        application_id: The application id that the processor sees.
        step_name: The step's name that it sees.
        task_id: The task id, a key group, that it sees.
        app_configs: The settings that it sees, by name.
        key: Type or serde of the incoming keys; default: Python's built-in types.
        value: Type or serde of the incoming values; the same default.
        children: Names of the steps that read the processor; default: any name is accepted.
        side_outputs: Names of its side outputs; default: any name is accepted.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import Record, Stores
        >>> from mustela.processors import ContextualProcessor, PunctuationType
        >>> class Tally(ContextualProcessor):
        ...     def init(self, context):
        ...         super().init(context)
        ...         context.schedule(timedelta(1), PunctuationType.STREAM_TIME, self.tell)
        ...
        ...     def process(self, record):
        ...         self.context.state_store("tally").merge(record.key, 1, int.__add__)
        ...
        ...     def tell(self, time):
        ...         for key, number in self.context.state_store("tally").all():
        ...             self.context.forward(Record(key, number, time))
        >>> context = MockProcessorContext()
        >>> tally = Stores.persistent_key_value_store("tally")
        >>> tally = context.add_state_store(Stores.key_value_store_builder(tally, key=str))
        >>> processor = Tally()
        >>> processor.init(context)
        >>> processor.process(Record("a", "x", 0))
        >>> tally.get("a")
        1
        >>> context.scheduled_punctuators[0].punctuate(86_400_000)
        >>> context.forwarded()[0].record
        Record(key='a', value=1, timestamp=86400000)
    """


class MockFixedKeyProcessorContext(_MockContext, FixedKeyProcessorContext[K, V], Generic[K, V]):
    """A context for tests of a `FixedKeyProcessor` alone; see `MockProcessorContext`.

    Args:
        application_id: As in `MockProcessorContext`.
        step_name: As there.
        task_id: As there.
        app_configs: As there.
        key: As there.
        value: As there.
        children: As there.
        side_outputs: As there.

    Example:
        >>> from mustela.processors import ContextualFixedKeyProcessor
        >>> class Length(ContextualFixedKeyProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(len(record.value)))
        >>> context = MockFixedKeyProcessorContext()
        >>> processor = Length()
        >>> processor.init(context)
        >>> processor.process(context.record("a", "sun"))
        >>> [(one.record.key, one.record.value) for one in context.forwarded()]
        [('a', 3)]
    """

    _timer = FixedKeyTimer

    @staticmethod
    def record(
        key: Any, value: Any, timestamp: int = 0, headers: Headers = ()
    ) -> FixedKeyRecord[Any, Any]:
        """Return a record; a `FixedKeyRecord` cannot be created directly."""
        return fixed_key_record(key, value, timestamp, headers)
