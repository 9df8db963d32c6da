"""What becomes of a record that fails: answers of handlers, and what handlers are told.

A handler is a word (``"fail"``, ``"continue"``, ``"dead_letter"``), a `Retry`, a function of
``(error, record, context)``, or an object with Kafka Streams' ``handle(context, record,
exception)``. It is given for an application (settings ``deserialization_handler``,
``processing_handler``, ``production_handler``), a source (``Consumed(on_error=…)``) or a step
(``on_error=``).
"""

from __future__ import annotations

from mustela.api.calls import Retry as Retry
from mustela.api.handlers import (
    CONTINUE as CONTINUE,
    DEAD_LETTER as DEAD_LETTER,
    FAIL as FAIL,
    RETRY as RETRY,
    DefaultProductionExceptionHandler as DefaultProductionExceptionHandler,
    DeserializationExceptionHandler as DeserializationExceptionHandler,
    ErrorAnswer as ErrorAnswer,
    ErrorContext as ErrorContext,
    ErrorHandler as ErrorHandler,
    LogAndContinueExceptionHandler as LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler as LogAndContinueProcessingExceptionHandler,
    LogAndFailExceptionHandler as LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler as LogAndFailProcessingExceptionHandler,
    OnError as OnError,
    ProcessingExceptionHandler as ProcessingExceptionHandler,
    ProductionExceptionHandler as ProductionExceptionHandler,
)
