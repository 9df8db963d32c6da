"""One bad record: its error, with the user's line, and what the handler does about it."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mustela.api.handlers import ErrorContext, Handling
from mustela.errors import DataError, EnvironmentFault, InvariantError, Origin, show_key
from mustela.kernel.core.isolate import isolated
from mustela.kernel.core.options import Handler
from mustela.kernel.core.output import DeadLetters, StageOutput
from mustela.model import Headers, Record, RecordContext
from mustela.plan.batch import Batch, Origins, RawRecord
from mustela.plan.handling import Asked
from mustela.plan.letters import letter_headers
from mustela.topology.node import Node

__all__ = [
    "DeserializationError",
    "Failures",
    "LateRecordError",
    "ProcessingError",
    "SerializationError",
    "instead_of",
]

_OWN = (str(Path(__file__).resolve().parents[1]), os.path.join("mustela", "kernel", ""))
"""How the names of the kernel's own files begin; those of compiled modules are relative."""


class ProcessingError(DataError):
    """A user's function raised on a record, or returned something its step cannot use.

    ``fields`` holds ``step``, ``topic``, ``partition``, ``offset``, ``timestamp``, ``cause`` (the
    class name of the exception) and ``line`` (the `Origin` of the failing line, or None).
    """

    code = "PROCESSING"


class DeserializationError(DataError):
    """A record of a source topic cannot be decoded; ``fields`` as in `ProcessingError`."""

    code = "DESERIALIZATION"


class LateRecordError(DataError):
    """A record came too late for its window, and its source writes late records as dead letters."""

    code = "LATE_RECORD"


class SerializationError(DataError):
    """A key or value cannot be encoded; ``fields`` as in `ProcessingError`."""

    code = "SERIALIZATION"


def failing_line(error: BaseException, function: Callable[..., Any] | None) -> Origin | None:
    """Return the line of the user's code that raised, or None if none did.

    This is the deepest line in the function's own file: the fault is seldom in a library that the
    function called.
    """
    code = getattr(function, "__code__", None)
    own_file: str | None = getattr(code, "co_filename", None)
    found: tuple[str, int] | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        outside = not file.startswith(_OWN)
        if file == own_file or (outside and (found is None or own_file is None)):
            found = (file, trace.tb_lineno)
        trace = trace.tb_next
    if found is None:
        return None
    return Origin(file=found[0], line=found[1], code=linecache.getline(*found).strip())


_HANDLERS: dict[type[DataError], str] = {
    ProcessingError: "processing_handler",
    DeserializationError: "deserialization_handler",
    SerializationError: "production_handler",
}
"""The setting that decides what happens to such a record."""

_KINDS: dict[type[DataError], Any] = {
    ProcessingError: "processing",
    DeserializationError: "deserialization",
    SerializationError: "production",
}
"""What a handler gets to know about a failure."""

Instead = Callable[[Batch, int, Sequence[Record[Any, Any]]], None]
"""Called with a batch, the row that failed, and the records that replace it."""


def _ways_on(kind: type[DataError], context: RecordContext, own: str | None, step: Node) -> str:
    """Return the possible fixes for a bad record: its error's own, a handler, skipping it."""
    ways = [] if own is None else [own]
    setting = _HANDLERS.get(kind)
    if step.on_error is not None:
        ways.append(f"let on_error of step {step.name!r} say continue or dead_letter")
    elif setting is not None:
        ways.append(f"set {setting} to continue or dead_letter")
    if context.topic is not None:
        place = f"{context.topic} {context.partition} {context.offset}"
        ways.append(f"go past this record alone: mustela offsets skip MODULE:APP {place}")
    return "; or ".join(ways) or "correct the function"


class Failures:
    """What happens to the bad records of one step.

    Args:
        node: The step's node.
        handler: What to do.
        kind: The error's class.
        output: Where dead letters and counts go.
        function: The user's function, to tell its lines from those of libraries.
        subject: What fails, if it is not a record of a topic.

    Attributes:
        pause: Waits some seconds before a record is retried; None not to wait.
        instead: Called with the records by which a handler replaces a row; None if the step cannot
            take any.
        application_id: The application id for handlers.
    """

    def __init__(
        self,
        node: Node,
        handler: Handler,
        kind: type[DataError],
        output: Callable[[], StageOutput],
        function: Callable[..., Any] | None = None,
        subject: str = "a record",
    ) -> None:
        self.node = node
        self.subject = subject
        self.handler: Handler = handler
        self.kind = kind
        self.function = function
        self.pause: Callable[[float], None] | None = None
        self.instead: Instead | None = None
        self.application_id = ""
        self._output = output
        asks = isinstance(handler, Handling)
        self._asked = Asked(handler, node.name, node.origin) if asks else None

    def one(
        self,
        batch: Batch,
        row: int,
        cause: BaseException,
        *,
        encode: Callable[[Any], bytes | None] | None = None,
        repeats: bool = False,
    ) -> bool:
        """Handle the failure of one row.

        Args:
            batch: The rows.
            row: Which of them.
            cause: What happened.
            encode: Encodes the row's value for a dead letter, if the record's original bytes are
                not known.
            repeats: Whether the step can try the row again.

        Returns:
            Whether the step should try the row again.

        Raises:
            DataError: If the handler is ``fail``.
            ErrorHandlerFailedError: If the handler is a function, and raises.
            InvariantError: If the cause is one: handlers do not decide about our own bugs.
            EnvironmentFault: If the cause is one: a schema registry that does not answer is not the
                record's fault.
        """
        if isinstance(cause, InvariantError | EnvironmentFault):
            raise cause
        context = batch.context(row)
        key = batch.keys[row] if batch.keys else None
        answer = self._answer(batch, row, cause, repeats=repeats)
        counters = self._output().counters
        if answer == "retry":
            counters[f"record_retries:{self.node.name}"] += 1
            return True
        error = self.error(context, key, cause)
        if answer == "fail":
            raise error from cause
        counters[f"failed_records:{self.node.name}"] += 1
        if answer == "dead_letter":
            counters[f"dead_letters:{self.node.name}"] += 1
            self._bury(batch, row, (context, error), encode)
        elif answer == "instead":
            counters[f"replaced_records:{self.node.name}"] += 1
        return False

    def retried(self, batch: Batch, row: int, error: Exception, attempt: Callable[[], Any]) -> Any:
        """Try a row that failed as often as the handler wants.

        Args:
            batch: The rows.
            row: Which of them.
            error: What happened.
            attempt: Tries it.

        Returns:
            What an attempt returns; None if no further one is wanted.
        """
        while self.one(batch, row, error, repeats=True):
            try:
                return attempt()
            except Exception as another:  # noqa: BLE001 - the function is the user's
                error = another
        return None

    def begin(self) -> None:
        """Count the attempts of a row anew: what fails now is another call for it."""
        if self._asked is not None:
            self._asked.begin()

    def _answer(self, batch: Batch, row: int, cause: BaseException, *, repeats: bool) -> str:
        """Return what happens to a row: a word of `Asked.answer`."""
        asked = self._asked
        if asked is None:
            return str(self.handler)
        if not isinstance(cause, Exception):
            return "fail"
        asked.take(batch, row)
        context, raw = batch.context(row), raw_record(batch, row)
        record = Record(
            isolated(batch.keys[row]) if batch.keys else None,
            isolated(batch.values[row]),
            max(context.timestamp, 0),
            context.headers,
        )
        told = ErrorContext(
            kind=_KINDS.get(self.kind, "processing"),
            step=self.node.name,
            application_id=self.application_id,
            topic=context.topic,
            partition=context.partition,
            offset=context.offset,
            timestamp=context.timestamp,
            headers=context.headers,
            source_raw_key=None if raw is None else raw[0],
            source_raw_value=None if raw is None else raw[1],
            attempt=asked.attempts,
        )
        answer = asked.answer(cause, record, told, repeats=repeats, pause=self.pause)
        if answer == "instead":
            if self.instead is None:
                why = "nothing can take the place of what failed in this step"
                raise asked.refused(asked.records, why)
            self.instead(batch, row, asked.records)
        return answer

    @property
    def attempts(self) -> int:
        """How often the current row was tried."""
        return 1 if self._asked is None else self._asked.attempts

    def error(self, context: RecordContext, key: object, cause: BaseException) -> DataError:
        """Return the error of one record, with all that helps to find the record."""
        line = failing_line(cause, self.function)
        place = self.subject if context.topic is None else f"a record of topic {context.topic!r}"
        told = getattr(cause, "what", None) or str(cause)
        evidence: dict[str, object] = {}
        if context.topic is not None:
            evidence["topic"] = context.topic
            evidence["partition"] = context.partition
            evidence["offset"] = context.offset
        evidence["key"] = show_key(key)
        evidence["timestamp"] = context.timestamp
        at = self.node.origin
        if line is not None and (at is None or (line.file, line.line) != (at.file, at.line)):
            evidence["line"] = line
        if self.attempts > 1:
            evidence["attempts"] = self.attempts
        return self.kind(
            f"step {self.node.name!r} failed on {place}: {type(cause).__name__}: {told}",
            evidence=evidence,
            at=at,
            fix=_ways_on(self.kind, context, getattr(cause, "fix", None), self.node),
            fields={
                "step": self.node.name,
                "topic": context.topic,
                "partition": context.partition,
                "offset": context.offset,
                "timestamp": context.timestamp,
                "cause": type(cause).__name__,
                "line": line,
                "attempts": self.attempts,
            },
        )

    def _bury(
        self,
        batch: Batch,
        row: int,
        told: tuple[RecordContext, DataError],
        encode: Callable[[Any], bytes | None] | None,
    ) -> None:
        context, error = told
        letters: DeadLetters = self._output().dead_letters
        raw = raw_record(batch, row)
        known = () if raw is not None else (("mustela.error.value", b"as it reached the step"),)
        key, value = _record_here(batch, row, encode) if raw is None else raw
        letters.keys.append(key)
        letters.values.append(value)
        letters.timestamps.append(context.timestamp)
        headers = context.headers + self._headers(context, error)
        letters.headers.append(headers + known)

    def _headers(self, context: RecordContext, error: DataError) -> Headers:
        facts: dict[str, object] = {
            "step": self.node.name,
            "code": error.code,
            "class": error.fields["cause"],
            "text": error.what,
            "attempts": error.fields["attempts"],
        }
        if error.fields["line"] is not None:
            facts["line"] = error.fields["line"]
        if context.topic is not None:
            facts["topic"] = context.topic
            facts["partition"] = context.partition
            facts["offset"] = context.offset
        return letter_headers(facts)


def instead_of(
    batch: Batch, row: int, records: Sequence[Record[Any, Any]], *, keeps_key: bool, step: Node
) -> Batch:
    """Return the records by which a handler replaces a row, each at the row's place.

    Args:
        batch: The rows.
        row: Which of them.
        records: The records that replace it.
        keeps_key: Whether they must have the row's key.
        step: The step that it failed in.

    Raises:
        ErrorHandlerAnswerError: If one has another key where keys must stay.
    """
    place, key = batch.take([row]), batch.keys[row] if batch.keys else None
    if keeps_key and any(record.key != key for record in records):
        told = Asked(Handling(told="on_error"), step.name, step.origin)
        raise told.refused(records[0], "this step keeps keys, so its handler must keep them too")
    times = [record.timestamp for record in records]
    headers = [record.headers for record in records]
    orders = None if place.order is None else place.order * len(records)
    origins = Origins(times, headers if any(headers) else None, orders, batch.origins.topics)
    raw = raw_record(batch, row)
    if batch.origins.raws is not None:
        origins.raws = [raw] * len(records)
    keys = None
    if place.key_bytes is not None and keeps_key:
        keys = place.key_bytes * len(records)
    values = [record.value for record in records]
    return Batch([record.key for record in records], values, origins, key_bytes=keys)


def raw_record(batch: Batch, row: int) -> RawRecord | None:
    """Return the bytes of a row's record as it was read, or None if they are not known."""
    raws = batch.origins.raws
    return None if raws is None else raws[row if batch.rows is None else batch.rows[row]]


def _record_here(batch: Batch, row: int, encode: Callable[[Any], bytes | None] | None) -> RawRecord:
    """Return the bytes of a row's key, and those of its value if it can be encoded."""
    value: bytes | None = None
    if encode is not None:
        try:
            value = encode(batch.values[row])
        except Exception:  # noqa: BLE001 - a value of a class of the user's; its place is known
            value = None
    return (None if batch.key_bytes is None else batch.key_bytes[row]), value
