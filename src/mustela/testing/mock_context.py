"""Contexts that note what a processor does with them: for tests of a processor alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from mustela.api.context import (
    FixedKeyProcessorContext,
    ProcessingContext,
    ProcessorContext,
    RecordMetadata,
)
from mustela.api.errors import StoreAccessError, UnknownChildError
from mustela.api.metrics import ProcessorMetrics
from mustela.api.stores import StoreBuilder
from mustela.api.timers import (
    FixedKeyTimer,
    PunctuationType,
    Punctuator,
    TimeDomain,
    Timer,
    TimerKeyError,
    interval_ms,
    moment_ms,
)
from mustela.kernel.core.isolate import isolated
from mustela.kernel.processors.processor_stores import open_group_store
from mustela.model import FixedKeyRecord, Headers, Record, fixed_key_record
from mustela.serdes.base import Serde
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import Committed, EnvironmentSpec
from mustela.state.kinds.by_record import by_record_key
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
_KEY: Any = object()


@dataclass(frozen=True, slots=True)
class CapturedForward:
    """A record that a processor has forwarded.

    Attributes:
        record: The record, as it was then.
        child: The name of the one step that gets it; None if all do.
        output: The side output that it went to, if it went to one.
    """

    record: Any
    child: str | None = None
    output: str | None = None


@dataclass(slots=True)
class CapturedPunctuator:
    """A punctuator that a processor has scheduled.

    Attributes:
        interval: From a tick to the next.
        type: By which time it is called.
        punctuator: What is called.
        start: The first tick in milliseconds, where it was said.
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
            time: What it is called with, in milliseconds.
        """
        if not self.cancelled:
            self.punctuator(moment_ms(time))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """What a processor asked other lanes for, with ``update`` or ``transact``.

    Attributes:
        fn: The function that is to run there.
        args: What it gets behind the old value, or behind the transaction.
        store: The store whose key is to be changed; None of a transaction.
        keys: The key, or the declared keys of the transaction.
        reply_to: Where the answer was asked for.
        reply_key: The key of the answer, or of the record that a transaction gives.
        at: Which window, session or version of the key.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    store: str | None = None
    keys: Any = None
    reply_to: str | None = None
    reply_key: Any = None
    at: Any = None


@dataclass(slots=True)
class _Hand:
    key: Any = None
    headers: Headers = ()
    metadata: RecordMetadata | None = None


@dataclass(slots=True)
class _Captured:
    forwards: list[CapturedForward] = field(default_factory=list[CapturedForward])
    punctuators: list[CapturedPunctuator] = field(default_factory=list[CapturedPunctuator])
    requests: list[CapturedRequest] = field(default_factory=list[CapturedRequest])
    timers: dict[tuple[TimeDomain, bytes | None, str], Timer[Any]] = field(
        default_factory=dict[tuple[TimeDomain, bytes | None, str], Timer[Any]]
    )
    counts: Counter[str] = field(default_factory=Counter[str])
    committed: bool = False


class _MockContext(ProcessingContext):
    """What both mocks can do."""

    _takes: type[Any] = Record

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
        self._children = None if children is None else frozenset(children)
        self._side_outputs = None if side_outputs is None else frozenset(side_outputs)
        self._application_id = application_id
        self._step_name = step_name
        self._task_id = task_id
        self._configs = dict(app_configs or {})
        self._serdes: tuple[Serde[Any], Serde[Any]] = (
            ValueSerde(sort_keys=True) if key is None else resolve_serde(key, key=True),
            ValueSerde() if value is None else resolve_serde(value),
        )
        self._stream_time = self._system_time = -1
        self._stores: dict[str, Any] = {}
        self._hand = _Hand()
        self._captured = _Captured()
        self._metrics = ProcessorMetrics(self._count)

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._application_id

    @property
    def task_id(self) -> int:
        """The key group."""
        return self._task_id

    @property
    def step_name(self) -> str:
        """The step's name."""
        return self._step_name

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of the keys."""
        return self._serdes[0]

    @property
    def value_serde(self) -> Serde[Any]:
        """The serde of the values."""
        return self._serdes[1]

    @property
    def headers(self) -> Headers:
        """The headers of the record in hand."""
        return self._hand.headers

    def app_configs(self) -> Mapping[str, Any]:
        """Return the settings that the mock was given."""
        return dict(self._configs)

    def metrics(self) -> ProcessorMetrics:
        """Return what the processor counts with; `counts` has what it counted."""
        return self._metrics

    @property
    def counts(self) -> dict[str, int]:
        """What the processor has counted with ``metrics()``, by name."""
        return dict(self._captured.counts)

    def _count(self, name: str, more: int) -> None:
        self._captured.counts[name] += more

    # The record in hand.

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Say where the record in hand was read."""
        self._hand.metadata = RecordMetadata(topic=topic, partition=partition, offset=offset)

    def set_record_in_hand(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> None:
        """Say which record is processed: its headers are the context's, and timers have its key.

        Args:
            record: The record that `Processor.process` is about to be given.
        """
        self._hand.key, self._hand.headers = record.key, record.headers

    def record_metadata(self) -> RecordMetadata | None:
        """Return what `set_record_metadata` was given."""
        return self._hand.metadata

    # Times.

    def set_current_stream_time(self, time: int | datetime) -> None:
        """Set event time: stream time and watermark."""
        self._stream_time = moment_ms(time)

    def set_current_system_time(self, time: int | datetime) -> None:
        """Set the clock."""
        self._system_time = moment_ms(time)

    def current_stream_time(self) -> int:
        """Return what `set_current_stream_time` was given, else -1."""
        return self._stream_time

    def current_watermark(self) -> int:
        """Return what `set_current_stream_time` was given, else -1."""
        return self._stream_time

    def current_system_time(self) -> int:
        """Return what `set_current_system_time` was given, else -1."""
        return self._system_time

    def current_processing_time(self) -> int:
        """Return what `set_current_system_time` was given, else -1."""
        return self._system_time

    # Punctuators and timers.

    def schedule(
        self,
        interval: timedelta,
        punctuation_type: PunctuationType,
        punctuator: Punctuator,
        *,
        start: int | datetime | None = None,
    ) -> CapturedPunctuator:
        """Note a punctuator; see `scheduled_punctuators`."""
        interval_ms(interval)
        begins = None if start is None else moment_ms(start)
        kind = PunctuationType(punctuation_type)
        captured = CapturedPunctuator(interval, kind, punctuator, begins)
        self._captured.punctuators.append(captured)
        return captured

    @property
    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """The punctuators in the order in which they were scheduled, cancelled ones too."""
        return list(self._captured.punctuators)

    def register_event_time_timer(
        self, at: int | datetime, key: Any = None, name: str | None = None
    ) -> None:
        """Note a timer; see `timers`."""
        self._register(TimeDomain.EVENT_TIME, at, key, name)

    def register_processing_time_timer(
        self, at: int | datetime, key: Any = None, name: str | None = None
    ) -> None:
        """Note a timer; see `timers`."""
        self._register(TimeDomain.PROCESSING_TIME, at, key, name)

    def delete_timer(
        self, key: Any = None, name: str | None = None, domain: TimeDomain | None = None
    ) -> None:
        """Forget a timer."""
        key = self._timer_key("delete_timer", key)
        for each in TimeDomain if domain is None else (TimeDomain(domain),):
            self._captured.timers.pop((each, self.key_serde.serialize(key), name or ""), None)

    def _register(self, domain: TimeDomain, at: int | datetime, key: Any, name: str | None) -> None:
        key = self._timer_key(f"register_{domain.name.lower()}_timer", key)
        place = (domain, self.key_serde.serialize(key), name or "")
        make: Any = Timer if self._takes is Record else FixedKeyTimer
        at_ms = moment_ms(at)
        self._captured.timers[place] = make(
            key=key, timestamp=at_ms, name=name or "", domain=domain
        )

    def _timer_key(self, method: str, key: Any) -> Any:
        found = self._hand.key if key is None else key
        if found is None:
            msg = f"{method} was called without a key, and there is no current record"
            raise TimerKeyError(
                msg,
                why="a timer belongs to a key",
                fix=f"pass one: {method}(…, key=…), or call set_record_in_hand(record) first",
            )
        return found

    @property
    def timers(self) -> list[Timer[Any]]:
        """The timers that are set, in order of time: hand one to ``on_timer`` to let it fire."""
        return sorted(self._captured.timers.values(), key=lambda timer: timer.timestamp)

    # Stores.

    def add_state_store(self, builder: StoreBuilder) -> Any:
        """Make a store in memory, and return it as the processor will see it.

        Args:
            builder: What `Stores` builds.
        """
        spec = builder.spec()
        place = EnvironmentSpec(
            application_id=self._application_id, stage="mock", group=0, groups=1, stores=(spec,)
        )
        view: Any = Overlay(MemoryEnvironment(place).snapshot(Committed())).store(spec.name)
        view = by_record_key(view, spec)
        self._stores[spec.name] = open_group_store(view, spec, plain=builder.plain)
        return self._stores[spec.name]

    def state_store(self, name: str) -> Any:
        """Return a store that was added."""
        if name not in self._stores:
            msg = f"the mock has no store {name!r}"
            raise StoreAccessError(
                msg,
                evidence={"its stores": ", ".join(self._stores) or "none"},
                fix="add it: context.add_state_store(Stores.key_value_store_builder(...))",
                fields={"step": self._step_name, "store": name},
            )
        return self._stores[name]

    def any_key_store(self, name: str) -> Any:
        """Return a store that was added: the mock has one lane."""
        return self.state_store(name)

    # What is asked of other lanes.

    def update(
        self,
        store: str,
        key: Any,
        fn: Callable[..., Any],
        *args: Any,
        reply_to: str | None = None,
        reply_key: Any = _KEY,
        at: Any = None,
    ) -> None:
        """Note what is to be changed; see `requests`."""
        answered = key if reply_key is _KEY else reply_key
        self._captured.requests.append(
            CapturedRequest(
                fn=fn,
                args=isolated(args),
                store=store,
                keys=isolated(key),
                reply_to=reply_to,
                reply_key=isolated(answered),
                at=at,
            )
        )

    def transact(self, keys: Any, fn: Callable[..., Any], *args: Any, key: Any = None) -> None:
        """Note the transaction that is asked for; see `requests`."""
        answered = self._hand.key if key is None else key
        self._captured.requests.append(
            CapturedRequest(fn=fn, args=isolated(args), keys=isolated(keys), reply_key=answered)
        )

    @property
    def requests(self) -> list[CapturedRequest]:
        """What ``update`` and ``transact`` were asked for, in order; nothing of it is done."""
        return list(self._captured.requests)

    # What comes out.

    def commit(self) -> None:
        """Note that a commit was asked for."""
        self._captured.committed = True

    @property
    def committed(self) -> bool:
        """Whether a commit was asked for."""
        return self._captured.committed

    def reset_commit(self) -> None:
        """Forget that a commit was asked for."""
        self._captured.committed = False

    def forwarded(self, child: str | None = None) -> list[CapturedForward]:
        """Return what was forwarded, in order.

        Args:
            child: Only what the step of this name gets: records to it, and records to all.
        """
        if child is None:
            return list(self._captured.forwards)
        return [
            one
            for one in self._captured.forwards
            if one.output is None and one.child in {None, child}
        ]

    def outputs(self, name: str) -> list[Any]:
        """Return the records that went to a side output."""
        return [one.record for one in self._captured.forwards if one.output == name]

    def reset_forwards(self) -> None:
        """Forget what was forwarded."""
        self._captured.forwards.clear()

    def forward(self, record: Any, child: str | None = None) -> None:
        """Note a record; see `forwarded`."""
        _check(child, self._children, "child")
        self._capture(record, child, None, self._takes)

    def output(self, name: str, record: Any) -> None:
        """Note a record for a side output; see `outputs`."""
        _check(name, self._side_outputs, "output")
        self._capture(record, None, name, (Record, FixedKeyRecord))

    def _capture(self, record: Any, child: str | None, output: str | None, kind: Any) -> None:
        if not isinstance(record, kind):
            wanted = getattr(kind, "__name__", "Record")
            msg = f"forward takes a {wanted}, not {type(record).__name__} {record!r:.60}"
            raise TypeError(msg)
        copied: Any = record.with_value(isolated(record.value))  # pyright: ignore[reportUnknownMemberType]
        self._captured.forwards.append(CapturedForward(copied, child, output))


class MockProcessorContext(_MockContext, ProcessorContext[K, V], Generic[K, V]):
    """A context for tests of a `Processor` alone: it notes what the processor does.

    Nothing runs but the processor: no engine, no other step. Give it to ``init``, call ``process``
    with records, and look at what was forwarded, scheduled, stored and asked for. What happens over
    epochs and crashes is tested with `TopologyTestDriver`.

    Args:
        application_id: What the processor is told.
        step_name: Likewise.
        task_id: Likewise.
        app_configs: Likewise.
        key: Type or serde of the keys that come in; Python's own types if not given.
        value: Type or serde of the values that come in, likewise.
        children: Names of the steps that read the processor; any name will do if not given.
        side_outputs: Names of its side outputs; likewise.

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
        application_id: As there.
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

    _takes = FixedKeyRecord

    @staticmethod
    def record(
        key: Any, value: Any, timestamp: int = 0, headers: Headers = ()
    ) -> FixedKeyRecord[Any, Any]:
        """Return a record, which users cannot make themselves."""
        return fixed_key_record(key, value, timestamp, headers)


def _check(name: str | None, known: frozenset[str] | None, what: str) -> None:
    if name is None or known is None or name in known:
        return
    msg = f"the mock has no {what} {name!r}"
    raise UnknownChildError(
        msg,
        evidence={"it has": ", ".join(sorted(known)) or "none"},
        fix="name it when the mock is created, or let it accept any name",
        fields={"child": name},
    )
