"""One bad record: its error, with the user's line, and what the handler does about it."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from mustela.errors import DataError, EnvironmentFault, InvariantError, Origin, show_key
from mustela.kernel.core.options import Handler
from mustela.kernel.core.output import DeadLetters, StageOutput
from mustela.model import Headers, RecordContext
from mustela.plan.batch import Batch, RawRecord
from mustela.topology.node import Node

__all__ = [
    "DeserializationError",
    "Failures",
    "LateRecordError",
    "ProcessingError",
    "SerializationError",
]

_PACKAGE = str(Path(__file__).resolve().parent.parent)


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
        outside = not file.startswith(_PACKAGE)
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


def _ways_on(kind: type[DataError], context: RecordContext, own: str | None) -> str:
    """Return the possible fixes for a bad record: its error's own, a handler, skipping it."""
    ways = [] if own is None else [own]
    setting = _HANDLERS.get(kind)
    if setting is not None:
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
        self._output = output

    def one(
        self,
        batch: Batch,
        row: int,
        cause: BaseException,
        *,
        encode: Callable[[Any], bytes | None] | None = None,
    ) -> None:
        """Handle the failure of one row.

        Args:
            batch: The rows.
            row: Which of them.
            cause: What happened.
            encode: Encodes the row's value for a dead letter, if the record's original bytes are
                not known.

        Raises:
            DataError: If the handler is ``fail``.
            InvariantError: If the cause is one: handlers do not decide about our own bugs.
            EnvironmentFault: If the cause is one: a schema registry that does not answer is not the
                record's fault.
        """
        if isinstance(cause, InvariantError | EnvironmentFault):
            raise cause
        context = batch.context(row)
        key = batch.keys[row] if batch.keys else None
        error = self.error(context, key, cause)
        if self.handler == "fail":
            raise error from cause
        counters = self._output().counters
        counters[f"failed_records:{self.node.name}"] += 1
        if self.handler == "dead_letter":
            counters[f"dead_letters:{self.node.name}"] += 1
            self._bury(batch, row, (context, error), encode)

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
        return self.kind(
            f"step {self.node.name!r} failed on {place}: {type(cause).__name__}: {told}",
            evidence=evidence,
            at=at,
            fix=_ways_on(self.kind, context, getattr(cause, "fix", None)),
            fields={
                "step": self.node.name,
                "topic": context.topic,
                "partition": context.partition,
                "offset": context.offset,
                "timestamp": context.timestamp,
                "cause": type(cause).__name__,
                "line": line,
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
        letters.headers.append(headers + known if value is not None else headers)

    def _headers(self, context: RecordContext, error: DataError) -> Headers:
        facts: dict[str, object] = {
            "step": self.node.name,
            "code": error.code,
            "class": error.fields["cause"],
            "text": error.what,
        }
        if error.fields["line"] is not None:
            facts["line"] = error.fields["line"]
        if context.topic is not None:
            facts["topic"] = context.topic
            facts["partition"] = context.partition
            facts["offset"] = context.offset
        return tuple((f"mustela.error.{name}", str(fact).encode()) for name, fact in facts.items())


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
