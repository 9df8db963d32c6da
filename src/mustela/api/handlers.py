"""What happens to a record that fails: handlers, their arguments and their answers.

The names are Kafka Streams' (KIP-161, KIP-1033, KIP-1034), if they mean the same here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from mustela.api.calls import Retry
from mustela.api.errors import HandlerError
from mustela.api.functions import check_function
from mustela.config.handlers import HANDLER_SETTINGS, handler_word
from mustela.errors import Origin
from mustela.model import Headers, Record

if TYPE_CHECKING:
    from mustela.config.settings import Settings

__all__ = [
    "CONTINUE",
    "DEAD_LETTER",
    "FAIL",
    "RETRY",
    "DefaultProductionExceptionHandler",
    "DeserializationExceptionHandler",
    "ErrorAnswer",
    "ErrorContext",
    "ErrorHandler",
    "Handler",
    "Handling",
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "OnError",
    "ProcessingExceptionHandler",
    "ProductionExceptionHandler",
    "app_handlers",
    "may_bury",
    "read_handler",
    "read_on_error",
    "wants_raws",
]

HandlerWord = Literal["fail", "continue", "dead_letter"]

_OWN = ("error", "record", "context")
_KAFKA = ("context", "record", "exception")
_ERROR_NAMES = frozenset({"e", "err", "error", "exc", "exception", "cause"})
_CONTEXT_NAMES = frozenset({"context", "ctx"})


class ErrorAnswer(StrEnum):
    """The answer of a handler.

    Attributes:
        CONTINUE: Drop the record, and count it.
        FAIL: Stop the application; nothing of the epoch becomes visible.
        RETRY: Try again after a wait; see `mustela.calls.Retry`.
        DEAD_LETTER: Drop the record, count it, and write it to the dead-letter topic.

    Example:
        >>> ErrorAnswer("continue") is ErrorAnswer.RESUME is CONTINUE
        True
    """

    CONTINUE = "continue"
    RESUME = "continue"
    FAIL = "fail"
    RETRY = "retry"
    DEAD_LETTER = "dead_letter"


CONTINUE = ErrorAnswer.CONTINUE
FAIL = ErrorAnswer.FAIL
RETRY = ErrorAnswer.RETRY
DEAD_LETTER = ErrorAnswer.DEAD_LETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorContext:
    """What a handler gets in addition to the error and the record.

    Attributes:
        kind: What failed: ``deserialization``, ``processing`` or ``production``.
        step: The step's name.
        application_id: The application.
        topic: The topic from which the record was read; None if that is not known, as for a timer.
        partition: Its partition; -1 if it is not known.
        offset: Its offset; -1 if it is not known.
        timestamp: Its timestamp in milliseconds.
        headers: Its headers.
        source_raw_key: The key's bytes as they were read; None if they are not known.
        source_raw_value: The value's bytes, likewise.
        attempt: How often the step has tried this record, 1 at the first failure.

    Example:
        >>> context = ErrorContext(kind="processing", step="parse", topic="orders", offset=7)
        >>> context.step, context.attempt
        ('parse', 1)
    """

    kind: Literal["deserialization", "processing", "production"]
    step: str
    application_id: str = ""
    topic: str | None = None
    partition: int = -1
    offset: int = -1
    timestamp: int = 0
    headers: Headers = ()
    source_raw_key: bytes | None = None
    source_raw_value: bytes | None = None
    attempt: int = 1

    @property
    def processor_node_id(self) -> str:
        """The step's name, as Kafka Streams calls it."""
        return self.step


class LogAndContinueExceptionHandler:
    """Drops the record; the word ``continue`` is the same.

    If the dead-letter topic is named as in Kafka Streams, with
    ``errors.dead.letter.queue.topic.name``, the record is written to it.

    Example:
        >>> LogAndContinueExceptionHandler().handle(None, None, ValueError()).value
        'continue'
    """

    word: ClassVar[HandlerWord] = "continue"

    def handle(self, context: Any, record: Any, exception: Exception) -> ErrorAnswer:
        """Answer ``CONTINUE``."""
        del context, record, exception
        return CONTINUE


class LogAndFailExceptionHandler:
    """Stops the application; the word ``fail`` is the same, and the default.

    Example:
        >>> LogAndFailExceptionHandler().handle(None, None, ValueError()).value
        'fail'
    """

    word: ClassVar[HandlerWord] = "fail"

    def handle(self, context: Any, record: Any, exception: Exception) -> ErrorAnswer:
        """Answer ``FAIL``."""
        del context, record, exception
        return FAIL


LogAndContinueProcessingExceptionHandler = LogAndContinueExceptionHandler
LogAndFailProcessingExceptionHandler = LogAndFailExceptionHandler
DefaultProductionExceptionHandler = LogAndFailExceptionHandler

HandlerFunction = Callable[[Exception, Record[Any, Any], ErrorContext], Any]
"""Called with the error, the record as it reached the step, and the context. It returns an
`ErrorAnswer` or its word, a `Retry`, a record that replaces the failed one, or several."""


class ErrorHandler(Protocol):
    """A handler as in Kafka Streams: an object with a method."""

    def handle(self, context: Any, record: Any, exception: Any, /) -> Any:
        """Return the answer; see `HandlerFunction`."""
        ...


DeserializationExceptionHandler = ErrorHandler
ProcessingExceptionHandler = ErrorHandler
ProductionExceptionHandler = ErrorHandler

OnError = (
    Literal["fail", "continue", "dead_letter", "log_and_continue", "log_and_fail"]
    | ErrorAnswer
    | Retry
    | HandlerFunction
    | ErrorHandler
    | type[ErrorHandler]
)
"""The types that ``on_error=`` accepts."""


@dataclass(frozen=True, kw_only=True)
class Handling:
    """A handler in the form that steps use.

    Attributes:
        function: Gives the answer; None if only ``retry`` is given.
        retry: How often a step tries a record if the answer is ``RETRY``.
        kafka_order: Whether the function takes context, record and exception, in that order.
        told: The handler's name, for errors.
    """

    function: Callable[..., Any] | None = None
    retry: Retry = field(default_factory=Retry)
    kafka_order: bool = False
    told: str = ""

    def __hash__(self) -> int:
        """Hash by name: an object of the user's may have no hash."""
        return hash(self.told)

    def ask(self, error: Exception, record: Record[Any, Any], context: ErrorContext) -> Any:
        """Return the function's answer unchanged."""
        if self.function is None:
            return self.retry
        if self.kafka_order:
            return self.function(context, record, error)
        return self.function(error, record, context)


Handler = HandlerWord | Handling
"""A handler that has been checked."""


def may_bury(handler: object) -> bool:
    """Say whether a handler may send a record to the dead-letter topic."""
    if isinstance(handler, Handling):
        return handler.function is not None or handler.retry.then == "dead_letter"
    return handler == "dead_letter"


def wants_raws(handlers: Iterable[object]) -> bool:
    """Say whether one of these handlers needs the bytes of records as they were read."""
    return any(isinstance(one, Handling) or one == "dead_letter" for one in handlers)


def app_handlers(settings: Settings) -> dict[str, Handler]:
    """Return an application's handlers by their settings.

    Raises:
        HandlerError: If a setting is not a handler.
    """
    return {
        name: read_handler(getattr(settings, name), verb=f"setting {name}", role="handler")
        for name in HANDLER_SETTINGS
    }


def read_on_error(given: object, *, verb: str, at: Origin) -> Handler | None:
    """Return the handler of a step's ``on_error``; None if not given."""
    return None if given is None else read_handler(given, verb=verb, role="on_error", at=at)


def read_handler(given: object, *, verb: str, role: str, at: Origin | None = None) -> Handler:
    """Return a handler in the form that steps use.

    Args:
        given: What the user gave.
        verb: The method or the setting.
        role: The name of the option.
        at: The user's line.

    Raises:
        HandlerError: If it is not a handler.
        FunctionError: If it cannot be called like a handler.
    """
    word = handler_word(given)
    if word is not None:
        return cast("HandlerWord", word)
    if isinstance(given, Retry):
        return Handling(retry=given, told="Retry")
    if given is RETRY or given == RETRY.value:
        return Handling(told="RETRY")
    made: Any = given
    if inspect.isclass(given):
        made = _instance(given, verb=verb, at=at)
    method = getattr(made, "handle", None) or getattr(made, "handle_error", None)
    function = made if method is None else method
    if isinstance(given, str) or not callable(function):
        msg = f"{verb} cannot have {role}={given!r:.80}"
        raise HandlerError(
            msg,
            at=at,
            why="a handler is a word, a function, or an object with a method handle",
            fix='use "fail", "continue", "dead_letter", Retry(...), or a function of '
            "(error, record, context)",
            fields={"verb": verb, "given": given},
        )
    kafka_order = _takes_kafkas(function, by_default=method is not None)
    arguments = _KAFKA if kafka_order else _OWN
    where = at or Origin(file=verb, line=0)
    check_function(function, arguments, role=role, verb=verb, at=where)
    name = getattr(made, "__qualname__", type(made).__qualname__)
    return Handling(function=function, kafka_order=kafka_order, told=str(name))


def _instance(kind: Any, *, verb: str, at: Origin | None) -> Any:
    try:
        return kind()
    except Exception as error:
        msg = f"{verb} cannot make its handler {kind.__qualname__}: {type(error).__name__}: {error}"
        raise HandlerError(
            msg,
            at=at,
            why="a class that is given as a handler is created without arguments",
            fix=f"pass an object: {kind.__qualname__}(...)",
            fields={"verb": verb, "given": kind},
        ) from error


def _takes_kafkas(function: Callable[..., Any], *, by_default: bool) -> bool:
    """Say whether a handler takes context, record and exception, in Kafka Streams' order."""
    try:
        names: Sequence[str] = [name.lower() for name in inspect.signature(function).parameters]
    except (ValueError, TypeError):
        return by_default
    first = names[0].lstrip("_") if names else ""
    if first in _ERROR_NAMES:
        return False
    return True if first in _CONTEXT_NAMES or first.endswith("context") else by_default
