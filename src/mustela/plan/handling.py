"""Calling a handler that is a function, and interpreting its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from mustela.api.calls import Retry
from mustela.api.handlers import ErrorAnswer, ErrorContext, Handling
from mustela.config.handlers import handler_word
from mustela.errors import DataError, Origin
from mustela.model import Record

__all__ = ["Asked", "ErrorHandlerAnswerError", "ErrorHandlerFailedError"]

_WORDS = "CONTINUE, FAIL, RETRY, DEAD_LETTER, a Retry, or a record that replaces it"
_GROWS: Final = 2


class ErrorHandlerFailedError(DataError):
    """A handler raised an error for a record.

    ``fields`` holds ``step``, ``handler``, ``cause`` (the class of its error) and ``error``
    (the class of the record's error).
    """

    code = "ERROR_HANDLER_FAILED"


class ErrorHandlerAnswerError(DataError):
    """A handler gave an answer that is not valid.

    ``fields`` holds ``step``, ``handler`` and ``answer``.
    """

    code = "ERROR_HANDLER_ANSWER"


class Asked:
    """A handler that is a function, and how often it was called for the current record.

    Args:
        handling: The handler.
        step: The step that calls it.
        at: The line that made it.

    Attributes:
        attempts: How often the current record was tried.
        records: The records that replace it, if the handler returned some.
    """

    __slots__ = ("_at", "_handling", "_in_hand", "_step", "attempts", "records")

    def __init__(self, handling: Handling, step: str, at: Origin | None) -> None:
        self._handling = handling
        self._step = step
        self._at = at
        self._in_hand: tuple[Any, int] | None = None
        self.attempts = 1
        self.records: Sequence[Record[Any, Any]] = ()

    def begin(self) -> None:
        """Forget which row failed."""
        self._in_hand = None

    def take(self, batch: object, row: int) -> None:
        """Note which row failed: the same one again is another attempt."""
        before = self._in_hand
        again = before is not None and before[0] is batch and before[1] == row
        self.attempts = self.attempts + 1 if again else 1
        self._in_hand = batch, row

    def answer(
        self,
        error: Exception,
        record: Record[Any, Any],
        context: ErrorContext,
        *,
        repeats: bool,
        pause: Callable[[float], None] | None,
    ) -> str:
        """Call the handler; wait if it wants the record tried again.

        Args:
            error: What was raised.
            record: The record.
            context: The handler's further argument.
            repeats: Whether the step can try the record again.
            pause: Waits so many seconds; None not at all.

        Returns:
            ``fail``, ``continue``, ``dead_letter``, ``retry`` or ``instead``.

        Raises:
            ErrorHandlerFailedError: If the handler raises.
            ErrorHandlerAnswerError: If its answer is not valid.
        """
        handling = self._handling
        try:
            given = handling.ask(error, record, context)
        except Exception as failure:
            raise self._failed(failure, error) from failure
        if given is ErrorAnswer.RETRY or given == ErrorAnswer.RETRY.value:
            given = handling.retry
        if isinstance(given, Retry):
            return self._again(given, error, repeats=repeats, pause=pause)
        word = handler_word(given) if isinstance(given, str) else None
        if word is not None:
            return word
        records: Any = [given] if isinstance(given, Record) else given
        if not isinstance(records, list | tuple):
            raise self.refused(cast("object", given), f"an answer is {_WORDS}")
        found = cast("Sequence[object]", records)
        if not all(isinstance(one, Record) for one in found):
            raise self.refused(cast("object", given), "a list may only contain records")
        self.records = cast("Sequence[Record[Any, Any]]", found)
        return "instead" if found else "continue"

    def _again(
        self,
        retry: Retry,
        error: Exception,
        *,
        repeats: bool,
        pause: Callable[[float], None] | None,
    ) -> str:
        if not repeats or self.attempts >= retry.attempts or not isinstance(error, retry.on):
            return str(ErrorAnswer(retry.then).value)
        wait = min(
            retry.initial.total_seconds() * _GROWS ** min(self.attempts - 1, 60),
            retry.maximum.total_seconds(),
        )
        if pause is not None and wait > 0:
            pause(wait)
        return "retry"

    def _failed(self, failure: Exception, error: Exception) -> ErrorHandlerFailedError:
        told = f"{type(failure).__name__}: {failure}"
        return ErrorHandlerFailedError(
            f"the handler {self._handling.told} of step {self._step!r} failed: {told}",
            evidence={"called for": f"{type(error).__name__}: {error}"},
            at=self._at,
            why="a handler that fails cannot decide what happens to the record",
            fix="correct the handler; until then use a word instead, such as dead_letter",
            fields={
                "step": self._step,
                "handler": self._handling.told,
                "cause": type(failure).__name__,
                "error": type(error).__name__,
            },
        )

    def refused(self, answer: object, why: str) -> ErrorHandlerAnswerError:
        """Return the error for an answer that is not valid."""
        return ErrorHandlerAnswerError(
            f"the handler {self._handling.told} of step {self._step!r} answered {answer!r:.80}",
            at=self._at,
            why=why,
            fix=f"return {_WORDS.split(', a Retry')[0]}, from mustela.handlers",
            fields={"step": self._step, "handler": self._handling.told, "answer": answer},
        )
