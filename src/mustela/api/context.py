"""What a processor can ask and do: its context, over the port of an engine.

All checks of what users pass, and all error texts, are here and in the context's two other parts:
time (`context_time`) and other lanes (`context_lanes`). An engine implements `ContextPort`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from mustela.api.context_lanes import LanesContext
from mustela.api.context_port import ContextPort, RecordMetadata, StepFacts
from mustela.api.context_time import TimeContext
from mustela.api.metrics import ProcessorMetrics
from mustela.model import FixedKeyRecord, Headers, Record
from mustela.serdes.base import Serde

__all__ = ["FixedKeyProcessorContext", "ProcessingContext", "ProcessorContext", "RecordMetadata"]

K = TypeVar("K")
V = TypeVar("V")

_RECORDS: Any = (Record, FixedKeyRecord)


class ProcessingContext(TimeContext, LanesContext):
    """What the contexts of both kinds of processors have in common."""

    def __init__(self, port: ContextPort, step: StepFacts, group: int) -> None:
        super().__init__(port, step, group)
        self._metrics = ProcessorMetrics(port.count)

    @property
    def application_id(self) -> str:
        """The application's id.

        Example:
            >>> from mustela import Processor
            >>> class Tagged(Processor):
            ...     def init(self, context):
            ...         self.tag = context.application_id
        """
        return self._step.application_id

    @property
    def task_id(self) -> int:
        """The key group that is being processed; -1 for a processor without stores.

        Kafka Streams calls it a task: a processor sees only the state of its key group.

        Example:
            >>> from mustela import Processor
            >>> class Where(Processor):
            ...     def init(self, context):
            ...         self.key_group = context.task_id
        """
        return self._group

    @property
    def step_name(self) -> str:
        """The name of the processor's step.

        Example:
            >>> from mustela import Processor
            >>> class Named(Processor):
            ...     def init(self, context):
            ...         self.name = context.step_name
        """
        return self._step.name

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of incoming keys, if the topology knows it.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Sized(ContextualProcessor):
            ...     def process(self, record):
            ...         size = len(self.context.key_serde.serialize(record.key))
            ...         self.context.forward(record.with_value(size))
        """
        return self._step.key

    @property
    def value_serde(self) -> Serde[Any]:
        """The serde of incoming values, if the topology knows it.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Sized(ContextualProcessor):
            ...     def process(self, record):
            ...         size = len(self.context.value_serde.serialize(record.value))
            ...         self.context.forward(record.with_value(size))
        """
        return self._step.value

    @property
    def headers(self) -> Headers:
        """The headers of the current record; empty outside of ``process``.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class OnlyWeb(ContextualProcessor):
            ...     def process(self, record):
            ...         if ("from", b"web") in self.context.headers:
            ...             self.context.forward(record)
        """
        return self._port.headers()

    def app_configs(self) -> Mapping[str, Any]:
        """Return the application's settings by name.

        Example:
            >>> from mustela import Processor
            >>> class Configured(Processor):
            ...     def init(self, context):
            ...         self.emit = context.app_configs().get("emit")
        """
        return dict(self._step.app_configs)

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Return the application's settings with names under a prefix, which is removed from them.

        Args:
            prefix: The beginning of the dotted names.

        Example:
            >>> from mustela import Processor
            >>> class Configured(Processor):
            ...     def init(self, context):
            ...         self.most = context.app_configs_with_prefix("epoch.").get("max_records")
        """
        return {
            name.removeprefix(prefix): value
            for name, value in _dotted(self.app_configs())
            if name.startswith(prefix)
        }

    def metrics(self) -> ProcessorMetrics:
        """Return the processor's own metrics; see `ProcessorMetrics`.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Counted(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.metrics().counter("seen").increment()
        """
        return self._metrics

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the current record was read; None if it was not read from a topic.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Stamp(ContextualProcessor):
            ...     def process(self, record):
            ...         place = self.context.record_metadata()
            ...         self.context.forward(record.with_value(place and place.offset))
        """
        return self._port.metadata()

    def state_store(self, name: str) -> Any:
        """Return a store that is connected to this processor, or a read-only global store.

        Reads and writes are those of the current record's key group; writes are committed with the
        epoch's results.

        Args:
            name: The store's name.

        Raises:
            StoreAccessError: If the step has no such store.

        Example:
            >>> from mustela import Processor
            >>> class Counted(Processor):
            ...     def init(self, context):
            ...         self.counts = context.state_store("counts")
        """
        found = self._port.store(name)
        if found is None:
            raise self._step.no_store(name)
        return found

    def get_state_store(self, name: str) -> Any:
        """Return a store; this is Kafka's name for `state_store`.

        Example:
            >>> from mustela import Processor
            >>> class Counted(Processor):
            ...     def init(self, context):
            ...         self.counts = context.get_state_store("counts")
        """
        return self.state_store(name)

    def commit(self) -> None:
        """Ask for a commit soon.

        Every epoch ends with a commit, so this is rarely needed: the request is counted, and met at
        the end of the epoch.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Careful(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record)
            ...         self.context.commit()
        """
        self._port.commit()

    def _check_child(self, name: str) -> None:
        children, outputs = self._step.children, self._step.outputs
        if children is None or name in children or (outputs is not None and name in outputs):
            return
        raise self._step.no_child(name, "child")

    def _output(self, name: str, record: Any) -> None:
        outputs = self._step.outputs
        if outputs is not None and name not in outputs:
            raise self._step.no_child(name, "output")
        if not (isinstance(record, _RECORDS) and self._port.send(record, name)):
            raise self._unsent(record, _RECORDS)

    def _unsent(self, record: object, kind: Any) -> Exception:
        """Return why a record cannot be sent: it is not a record, or there is no current one."""
        if isinstance(record, kind):
            return self._step.cannot_forward()
        wanted = getattr(kind, "__name__", "Record")
        return TypeError(f"forward takes a {wanted}, not {type(record).__name__} {record!r:.60}")


def _dotted(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _dotted(cast("Mapping[str, Any]", value), f"{path}{name}.")
        else:
            yield path + name, value


class ProcessorContext(ProcessingContext, Generic[K, V]):
    """The context of a `Processor`."""

    _takes: ClassVar[Any] = Record

    def forward(self, record: Record[K, V], child: str | None = None) -> None:
        """Send a record on.

        Changing the record's value afterwards does not change what was sent.

        Args:
            record: The record.
            child: The name of one step that reads this one, or of a side output, which alone
                receives the record. If not given, all steps that read this one receive it, but no
                side outputs.

        Raises:
            UnknownChildError: If neither a step nor an output has that name.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Route(ContextualProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record, "large" if record.value > 99 else None)
        """
        if child is not None:
            self._check_child(child)
        if not (isinstance(record, self._takes) and self._port.send(record, child)):
            raise self._unsent(record, self._takes)

    def output(self, name: str, record: Record[Any, Any]) -> None:
        """Send a record to a side output only.

        Args:
            name: The output's name, as declared by ``KStream.process(..., outputs=...)``.
            record: The record.

        Raises:
            UnknownChildError: If the step has no output of that name.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Sort(ContextualProcessor):
            ...     def process(self, record):
            ...         if record.value is None:
            ...             self.context.output("empty", record)
            ...         else:
            ...             self.context.forward(record)
        """
        self._output(name, record)


class FixedKeyProcessorContext(ProcessingContext, Generic[K, V]):
    """The context of a `FixedKeyProcessor`."""

    _takes: ClassVar[Any] = FixedKeyRecord

    def forward(self, record: FixedKeyRecord[K, V], child: str | None = None) -> None:
        """Send on a record that was derived from the current one.

        Args:
            record: The record.
            child: As in `ProcessorContext.forward`.

        Raises:
            UnknownChildError: If neither a step nor an output has that name.

        Example:
            >>> from mustela.processors import ContextualFixedKeyProcessor
            >>> class Twice(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(record.value * 2))
        """
        if child is not None:
            self._check_child(child)
        if not (isinstance(record, self._takes) and self._port.send(record, child)):
            raise self._unsent(record, self._takes)

    def output(self, name: str, record: FixedKeyRecord[K, Any] | Record[Any, Any]) -> None:
        """Send a record with any key to a side output only.

        Args:
            name: The output.
            record: The record.

        Raises:
            UnknownChildError: If the step has no output of that name.

        Example:
            >>> from mustela.processors import ContextualFixedKeyProcessor
            >>> class Sort(ContextualFixedKeyProcessor):
            ...     def process(self, record):
            ...         if record.value is None:
            ...             self.context.output("empty", record)
        """
        self._output(name, record)
