"""The contexts of processors at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mustela.api import context as declared
from mustela.api.context import ProcessingContext, RecordMetadata
from mustela.api.errors import ProcessorError, StoreAccessError, UnknownChildError
from mustela.api.metrics import ProcessorMetrics
from mustela.kernel.processors.processor_shared import SharedStores
from mustela.kernel.processors.processor_step import ProcessorStep, Task
from mustela.kernel.processors.processor_time import TimeMethods
from mustela.kernel.processors.processor_transact import TransactMethods
from mustela.model import FixedKeyRecord, Headers, Record
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde

__all__ = ["KernelContext", "KernelFixedKeyContext", "KernelProcessorContext", "make_context"]


class KernelContext(TimeMethods, SharedStores, TransactMethods, ProcessingContext):
    """What the contexts of both kinds of processors can do.

    Attributes:
        operator: The processor's step.
        task: The instance whose context this is.
    """

    def __init__(self, operator: ProcessorStep, task: Task) -> None:
        self.operator = operator
        self.task = task
        self._metrics = ProcessorMetrics(lambda name, more: operator.count(f"user.{name}", more))

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self.operator.options.application_id

    @property
    def task_id(self) -> int:
        """The key group, -1 for a processor without stores."""
        return self.task.group

    @property
    def step_name(self) -> str:
        """The step's name."""
        return self.operator.step.name

    @property
    def key_serde(self) -> Serde[Any]:
        """The serde of the keys that come in."""
        return self.operator.node.key or ValueSerde(sort_keys=True)

    @property
    def value_serde(self) -> Serde[Any]:
        """The serde of the values that come in."""
        return self.operator.node.value or ValueSerde()

    @property
    def headers(self) -> Headers:
        """The headers of the record in hand."""
        hand = self.operator.hand
        return () if hand is None else hand.headers

    def app_configs(self) -> Mapping[str, Any]:
        """Return the application's settings by name."""
        return dict(self.operator.options.app_configs)

    def metrics(self) -> ProcessorMetrics:
        """Return what counts for this step."""
        return self._metrics

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the record in hand was read."""
        hand = self.operator.hand
        if hand is None or hand.batch is None:
            return None
        context = hand.batch.context(hand.row)
        if context.topic is None:
            return None
        return RecordMetadata(
            topic=context.topic, partition=context.partition, offset=context.offset
        )

    def state_store(self, name: str) -> Any:
        """Return a connected store's part of the key group, or a global store to be read."""
        operator = self.operator
        spec = operator.store_spec(name)
        if spec is not None:
            return self.task.store(spec)
        for store in operator.node.global_stores:
            if store.spec.name == name:
                return self.task.global_store(store)
        raise self._no_store(name)

    def commit(self) -> None:
        """Count the request: the end of the epoch fulfils it."""
        self.operator.count("commit_requests")

    def output(self, name: str, record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> None:
        """Send a record to a side output."""
        node = self.operator.node
        if name not in node.outputs:
            raise self._no_child(name, "output")
        self._send(record, name, (Record, FixedKeyRecord))

    def _forward(self, record: object, child: str | None, kind: type[Any]) -> None:
        node = self.operator.node
        if child is not None and child not in node.children and child not in node.outputs:
            raise self._no_child(child, "child")
        self._send(record, child, kind)

    def _send(self, record: Any, target: str | None, kind: Any) -> None:
        if not isinstance(record, kind):
            wanted = getattr(kind, "__name__", "Record")
            msg = f"forward takes a {wanted}, not {type(record).__name__} {record!r:.60}"
            raise TypeError(msg)
        if self.operator.hand is None:
            step = self.operator.step.name
            msg = f"step {step!r} cannot forward while its processor is opened or closed"
            raise ProcessorError(
                msg,
                at=self.operator.node.origin,
                why="what is forwarded takes the place of the record or timer in hand",
                fix="forward from process, from a timer or from a punctuator",
                fields={"step": step},
            )
        self.operator.group_in_hand = self.task.group
        self.operator.sender.send(record, target)

    def _no_store(self, name: str) -> StoreAccessError:
        node = self.operator.node
        has = ", ".join(spec.name for spec in node.stores) or "none"
        return StoreAccessError(
            f"step {node.name!r} has no store {name!r}",
            evidence={"its stores": has},
            at=node.origin,
            why="a step's stores decide in which lane its records are, so they are said before",
            fix=f'connect it: process(..., stores=["{name}"]), or name it in stores() of the class',
            fields={"step": node.name, "store": name},
        )

    def _no_child(self, name: str, what: str) -> UnknownChildError:
        node = self.operator.node
        return UnknownChildError(
            f"step {node.name!r} has no {what} {name!r}",
            evidence={
                "children": ", ".join(node.children) or "none",
                "outputs": ", ".join(node.outputs) or "none",
            },
            at=node.origin,
            why="a record is forwarded to a step that reads this one, or to a declared output",
            fix=f'name the step name="{name}", or declare outputs={{"{name}": ...}}',
            fields={"step": node.name, "child": name},
        )


class KernelProcessorContext(KernelContext, declared.ProcessorContext[Any, Any]):
    """The context of a `Processor`."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Send a record on."""
        self._forward(record, child, Record)


class KernelFixedKeyContext(KernelContext, declared.FixedKeyProcessorContext[Any, Any]):
    """The context of a `FixedKeyProcessor`."""

    def forward(self, record: FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Send a record on."""
        self._forward(record, child, FixedKeyRecord)


def make_context(operator: ProcessorStep, task: Task) -> KernelContext:
    """Return the context of a new task."""
    made = KernelFixedKeyContext if operator.node.fixed_key else KernelProcessorContext
    return made(operator, task)
