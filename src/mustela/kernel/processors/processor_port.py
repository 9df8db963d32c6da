"""The port behind a processor's context in a running lane.

The context itself, with all that users call and its checks, is in `mustela.api.context`.
"""

from __future__ import annotations

from typing import Any

from mustela.api.context import (
    FixedKeyProcessorContext,
    ProcessingContext,
    ProcessorContext,
    RecordMetadata,
)
from mustela.api.context_port import StepFacts
from mustela.api.timers import Cancellable, PunctuationType, Punctuator, TimeDomain
from mustela.api.transact import REQUESTS, Request
from mustela.api.update import Operation, update_output
from mustela.errors import InvariantError
from mustela.kernel.core.isolate import isolated
from mustela.kernel.processors.processor_step import AnyRecord, ProcessorStep, Task
from mustela.kernel.processors.processor_stores import ReadOnlyRows, open_group_store
from mustela.kernel.processors.processor_time import event_time_at
from mustela.model import Headers, Record
from mustela.plan.keygroups import row_groups
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.timer import StoredTimer

__all__ = ["TaskPort", "make_context"]

_CLOCK = TimeDomain.PROCESSING_TIME
_ELSEWHERE = -1
"""Not a key group of a step with timers: for a key that cannot be encoded."""


class TaskPort:
    """The port of one instance; see `mustela.api.context_port.ContextPort`.

    Args:
        operator: The processor's step.
        task: The instance.
    """

    __slots__ = ("_operator", "_sent", "_stores", "_task", "_time")

    def __init__(self, operator: ProcessorStep, task: Task) -> None:
        self._operator = operator
        self._task = task
        self._sent = 0
        self._time = operator.context.time
        self._stores: dict[str, Any] = {}

    def time(self, domain: TimeDomain) -> int:
        """Return the epoch's wall-clock time, or event time at the current record."""
        if domain is _CLOCK:
            return self._time.now_ms
        return event_time_at(self._operator, self._operator.clock, self._task.group)

    def headers(self) -> Headers:
        """Return the headers of the current record."""
        hand = self._operator.hand
        return () if hand is None else hand.headers

    def metadata(self) -> RecordMetadata | None:
        """Return where the current record was read."""
        hand = self._operator.hand
        if hand is None or hand.batch is None:
            return None
        place = hand.batch.context(hand.row)
        if place.topic is None:
            return None
        return RecordMetadata(topic=place.topic, partition=place.partition, offset=place.offset)

    def store(self, name: str) -> Any:
        """Return the key group's part of a store, or a global one; the same object each time."""
        found = self._stores.get(name)
        if found is None:
            found = self._stores[name] = self._open(name)
        return found

    def _open(self, name: str) -> Any:
        operator, node = self._operator, self._operator.node
        for spec in node.connected:
            if spec.name == name:
                rows: Any = operator.lane_store(spec).group(self._task.group)
                if name in node.read_only:
                    rows = ReadOnlyRows(rows, name, node.origin)
                elif operator.undo is not None:
                    rows = operator.undo.over(rows)
                return open_group_store(rows, spec, plain=name in node.plain)
        for store in node.global_stores:
            if store.spec.name == name:
                rows = ReadOnlyRows(operator.context.global_tables[name], name, node.origin)
                return open_group_store(rows, store.spec, plain=store.plain)
        return None

    def any_key_store(self, name: str) -> Any:
        """Return a store of any lane, as of the end of the previous epoch."""
        reader = self._operator.context.any_key
        if reader is None:
            step = self._operator.step.name
            msg = f"step {step!r} reads any key of {name!r}, and its task cannot"
            raise InvariantError(msg)
        return reader.open(name)

    def send(self, record: AnyRecord, target: str | None) -> bool:
        """Forward a record, with the order of the current record."""
        operator = self._operator
        if operator.hand is None:
            return False
        operator.group_in_hand = self._task.group
        operator.sender.send(record, target)
        return True

    def ask(self, asked: Operation | Request, key: Any, store: str | None) -> bool:
        """Send an operation or request to the lane that executes it."""
        operator, hand = self._operator, self._operator.hand
        if hand is None:
            return False
        args = tuple(map(isolated, asked.args))
        # What one key group sends keeps its order, whatever came before it in the epoch.
        parts: tuple[int, ...] = (self._task.group,)
        if isinstance(asked, Request):
            self._sent += 1
            parts = (*parts, self._sent)
            target = REQUESTS
            if key is None and hand.batch is not None:
                key = hand.batch.keys[hand.row]
            copied: Any = Request(isolated(asked.keys), asked.fn, args)
        else:
            assert store is not None, operator.step.name
            target = update_output(store)
            copied = asked._replace(args=args, reply_key=isolated(asked.reply_key))
        with operator.sending(hand, *parts):
            operator.sender.send(Record(key, copied, hand.timestamp, hand.headers), target)
        return True

    def schedule(
        self, kind: PunctuationType, interval_ms: int, punctuator: Punctuator, start_ms: int | None
    ) -> Cancellable:
        """Schedule a punctuator of the key group."""
        timing = self._operator.timing
        return timing.schedule(self._task, interval_ms, kind, punctuator, start_ms=start_ms)

    def set_timer(self, domain: TimeDomain, key: Any, name: str, at_ms: int | None) -> int | None:
        """Set or remove a timer of a key of the key group."""
        operator, task = self._operator, self._task
        found = operator.timing.key_in_hand()
        if key is None:
            if found is None:
                return None
        else:
            given = operator.own_key_serde.serialize(key)
            if given is None:
                return _ELSEWHERE
            if given != found:
                suffix = operator.own_key_serde.group_suffix
                group = row_groups([given], operator.options.key_groups, suffix=suffix)[0]
                if group != task.group:
                    return group
            found = given
        if at_ms is None:
            operator.timing.delete(task, domain, found, name.encode())
        else:
            operator.timing.register(task, domain, StoredTimer(at_ms, found, name.encode()))
        return task.group

    def count(self, name: str, number: int) -> None:
        """Add to a user's counter of the step."""
        self._operator.count(f"user.{name}", number)

    def commit(self) -> None:
        """Count the request: the end of the epoch fulfils it."""
        self._operator.count("commit_requests")


def make_context(operator: ProcessorStep, task: Task) -> ProcessingContext:
    """Return the context of a new task."""
    if operator.facts is None:
        operator.facts = _facts(operator, task)
    made: Any = FixedKeyProcessorContext if operator.node.fixed_key else ProcessorContext
    return made(TaskPort(operator, task), operator.facts, task.group)


def _facts(operator: ProcessorStep, task: Task) -> StepFacts:
    node, options = operator.node, operator.options
    return StepFacts(
        name=operator.step.name,
        application_id=options.application_id,
        app_configs=options.app_configs,
        key=node.key or ValueSerde(sort_keys=True),
        value=node.value or ValueSerde(),
        processor=type(task.processor).__name__,
        acts_on_time=operator.timing is not None,
        stores=[spec.name for spec in node.stores],
        children=node.children,
        outputs=node.outputs,
        reads=node.reads_any,
        updates=node.updates,
        replies=node.replies,
        transacts=bool(node.transacts),
        at=node.origin,
    )
