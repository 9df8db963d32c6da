"""Spans for OpenTelemetry: of epochs with their phases, and of records that carry a context.

Tasks only say which spans there are (`mustela.plan.traces`). They are made here, in the driver,
when their epoch is committed: so a record that is run again has one span, and one whose epoch is
given up has none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from mustela.config.settings import Settings
from mustela.errors import UsageError
from mustela.plan.epoch import TaskReport
from mustela.plan.traces import TraceContext, Traced
from mustela.runtime.events import EpochDone, Event, Listener
from mustela.runtime.status.board import COMMITTED, StatusBoard
from mustela.runtime.status.snapshot import EpochTrace
from mustela.state.interfaces import Token

if TYPE_CHECKING:
    from opentelemetry.trace import Link, SpanContext

__all__ = ["NotTracedError", "SpanWriter", "ended_epoch", "make_spans", "span_writer"]

_LOG: Final = logging.getLogger("mustela.traces")
_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_NOTHING: Final = "nothing to commit"
_PROVIDER_FIX: Final = (
    "set one before the start: opentelemetry.trace.set_tracer_provider(TracerProvider()) of "
    "opentelemetry.sdk.trace, with a span processor for your exporter; or set traces.enabled to "
    "false"
)


class NotTracedError(UsageError):
    """Traces are wanted, and nothing would take the spans."""

    code = "TRACES_NOT_TAKEN"


def make_spans(settings: Settings, board: StatusBoard, listeners: list[Listener]) -> None:
    """Add what makes spans of what an application does to its listeners, if the settings want it.

    What an earlier start added is replaced.

    Raises:
        NotTracedError: If the library is missing, or the program has set no tracer provider.
    """
    writer = span_writer(settings)
    listeners[:] = [one for one in listeners if not isinstance(one, _EpochSpans)]
    if writer is not None:
        listeners.append(_EpochSpans(writer, board))


def span_writer(settings: Settings) -> SpanWriter | None:
    """Return what makes spans; None unless the settings want it.

    Raises:
        NotTracedError: As `make_spans`.
    """
    if not settings.traces.enabled:
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError as error:
        msg = "traces need the library opentelemetry-sdk, which is not installed"
        raise NotTracedError(msg, fix="pip install 'mustela[otel]'") from error
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        msg = "traces.enabled is set, and the program has no tracer provider"
        raise NotTracedError(
            msg,
            evidence={"provider": type(provider).__name__},
            why="Mustela leaves to the program where spans go",
            fix=_PROVIDER_FIX,
        )
    return SpanWriter(provider, settings.application_id)


def ended_epoch(token: Token, now_ms: int) -> EpochTrace:
    """Return the trace of an epoch that took no time, as a test driver's do."""
    incarnation, epoch, attempt = token
    return EpochTrace(
        incarnation=incarnation,
        epoch=epoch,
        attempt=attempt,
        began_ms=now_ms,
        marks=(),
        ended=0.0,
        outcome=COMMITTED,
    )


class SpanWriter:
    """Makes spans of epochs and records.

    Args:
        provider: An SDK's tracer provider: its sampler, limits and exporters apply.
        application_id: The application.
    """

    def __init__(self, provider: Any, application_id: str) -> None:
        self._tracer: Any = provider.get_tracer("mustela", version("mustela"))
        self._ids = _ids_over(self._tracer.id_generator)
        self._tracer.id_generator = self._ids
        self._application_id = application_id

    def epoch(self, trace: EpochTrace, reports: Iterable[TaskReport] = ()) -> None:
        """Make the spans of an attempt of an epoch that ended.

        Args:
            trace: What it did when.
            reports: What its tasks said, if it was committed.
        """
        from opentelemetry.context import Context
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        started = trace.began_ms * _NS_PER_MS
        zero = trace.marks[0][1] if trace.marks else 0.0
        ended = started + round(((trace.ended or zero) - zero) * _NS_PER_S)
        span = self._tracer.start_span(
            "epoch",
            context=Context(),
            start_time=started,
            attributes={
                "mustela.application_id": self._application_id,
                "mustela.incarnation": trace.incarnation,
                "mustela.epoch": trace.epoch,
                "mustela.attempt": trace.attempt,
                "mustela.records": trace.records,
                "mustela.outcome": trace.outcome,
            },
        )
        inside = set_span_in_context(span, Context())
        at = started
        for name, seconds in trace.seconds(trace.ended or zero) if trace.marks else ():
            phase = self._tracer.start_span(name, context=inside, start_time=at)
            at += round(seconds * _NS_PER_S)
            phase.end(at)
        if trace.outcome != COMMITTED:
            span.set_status(Status(StatusCode.ERROR, trace.outcome))
        span.end(ended)
        for report in reports:
            for traced in report.traced:
                self._record(traced, trace.epoch, span.get_span_context(), (started, ended))

    def _record(
        self, traced: Traced, epoch: int, of_epoch: SpanContext, times: tuple[int, int]
    ) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context

        is_record = traced.offset >= 0
        attributes: dict[str, Any] = {
            "mustela.application_id": self._application_id,
            "mustela.epoch": epoch,
        }
        if is_record:
            attributes |= {
                "messaging.system": "kafka",
                "messaging.operation.type": "process",
                "messaging.destination.name": traced.name,
                "messaging.destination.partition.id": str(traced.partition),
                "messaging.kafka.offset": traced.offset,
                "messaging.consumer.group.name": self._application_id,
            }
        else:
            attributes["mustela.step"] = traced.name
        links = [_link(_known(context)) for context in traced.links]
        if of_epoch.is_valid:
            links.append(_link(of_epoch))
        self._ids.following = traced.context
        span = self._tracer.start_span(
            f"{traced.name} process" if is_record else traced.name,
            context=set_span_in_context(NonRecordingSpan(_known(traced.parent)), Context()),
            kind=SpanKind.CONSUMER if is_record else SpanKind.INTERNAL,
            attributes=attributes,
            links=links,
            start_time=times[0],
        )
        span.end(times[1])


class _EpochSpans(Listener):
    """Makes the spans of an application's epochs as they end."""

    def __init__(self, writer: SpanWriter, board: StatusBoard) -> None:
        self._writer = writer
        self._board = board
        self._last = (0, 0, 0)

    def on_event(self, event: Event) -> None:
        """Make the spans of what ended since the last epoch was committed."""
        if not isinstance(event, EpochDone):
            return
        for trace in self._board.recent:
            token = trace.incarnation, trace.epoch, trace.attempt
            if token > self._last:
                self._last = token
                if trace.outcome != _NOTHING:
                    done = trace.outcome == COMMITTED and trace.epoch == event.epoch
                    self._write(trace, event.reports if done else ())

    def _write(self, trace: EpochTrace, reports: Sequence[TaskReport]) -> None:
        try:
            self._writer.epoch(trace, reports)
        except Exception:  # noqa: BLE001 - the user's processors, which are no reason to end
            _LOG.warning("the spans of epoch %d are lost", trace.epoch, exc_info=True)


def _ids_over(usual: Any) -> Any:
    """Return a generator of ids that gives the one that is asked for, and else the usual ones."""
    from opentelemetry.sdk.trace.id_generator import IdGenerator

    class Ids(IdGenerator):
        following: TraceContext | None = None

        def generate_span_id(self) -> int:
            following, self.following = self.following, None
            return usual.generate_span_id() if following is None else int(following.span_id, 16)

        def generate_trace_id(self) -> int:
            return usual.generate_trace_id()

        def is_trace_id_random(self) -> bool:
            return usual.is_trace_id_random()

    return Ids()


def _known(context: TraceContext) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _link(context: SpanContext) -> Link:
    from opentelemetry.trace import Link

    return Link(context)
