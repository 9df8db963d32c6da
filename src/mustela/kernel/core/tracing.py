"""The trace contexts of records on their way through a stage.

A source record that carries a context gets a span of its own, and its context names that span from
there on. Whatever keeps the headers of a record so continues its trace: steps without state,
exchanges, stores with headers, sinks. Where records meet, in joins and aggregations, a result
continues the trace of one of them, and a span of the step names the others as links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from mustela.model import Headers, Windowed
from mustela.plan.batch import Batch, Origins
from mustela.plan.step import Step
from mustela.plan.traces import TraceContext, Traced, context_of, span_id_of, with_context
from mustela.topology.aggregate import AggregateNode
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.table_join import TableJoinNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["LINKS_MAX", "SPANS_MAX", "StageTraces"]

SPANS_MAX: Final = 10_000
"""A task makes at most so many spans in one epoch; further records keep the context they had."""
LINKS_MAX: Final = 32
"""A span names at most so many others, the last ones."""

_MEETING: Final = (
    AggregateNode,
    StreamJoinNode,
    StreamTableJoinNode,
    TableJoinNode,
    WindowAggregateNode,
)

_Met = dict[Any, dict[TraceContext, None]]


class StageTraces:
    """Follows the contexts of the records of one task.

    Args:
        application_id: The application: part of what names a span.

    Attributes:
        spans: What was made so far.
    """

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._met: dict[tuple[str, str], _Met] = {}
        self._begun: Origins | None = None
        self.spans: list[Traced] = []

    def begin(self, batch: Batch) -> None:
        """Give each source record that carries a context a span, which its headers name then."""
        origins = batch.origins
        column = origins.headers
        if column is None or origins is self._begun:
            return
        self._begun = origins  # several sources may read the same records
        headers = list(column)
        for row in range(len(headers)) if batch.rows is None else batch.rows:
            parent = context_of(headers[row]) if headers[row] else None
            if parent is None or len(self.spans) >= SPANS_MAX:
                continue
            place = origins.context(row)
            made = span_id_of(
                self._application_id, *parent, place.topic, place.partition, place.offset
            )
            context = TraceContext(parent.trace_id, made)
            headers[row] = with_context(headers[row], context)
            self.spans.append(
                Traced(
                    place.topic or "",
                    context,
                    parent,
                    offset=place.offset,
                    partition=place.partition,
                )
            )
        origins.headers = headers

    def meet(self, step: Step, batches: Sequence[Batch]) -> None:
        """Note which contexts come to a step in which records meet, by key."""
        if not isinstance(step.node, _MEETING):
            return
        for batch in batches:
            headers = batch.headers
            if headers is None:
                continue
            met = self._met.setdefault((step.name, step.role), {})
            for key, own in zip(batch.keys, headers, strict=True):
                context = context_of(own) if own else None
                if context is not None:
                    contexts = met.setdefault(_plain(key), {})
                    contexts.pop(context, None)
                    contexts[context] = None
                    if len(contexts) > LINKS_MAX:
                        del contexts[next(iter(contexts))]

    def part(self, step: Step, batch: Batch | None) -> Batch | None:
        """Let results of a step in which records met carry a context on."""
        met = self._met.get((step.name, step.role))
        if not met or batch is None or not len(batch):
            return batch
        before = batch.headers or [()] * len(batch)
        after = [
            self._carried(step, own, met.get(_plain(key)))
            for key, own in zip(batch.keys, before, strict=True)
        ]
        if after == before:
            return batch
        given = batch.with_origins(batch.order)
        given.origins.headers = after
        return given

    def _carried(
        self, step: Step, headers: Headers, contexts: dict[TraceContext, None] | None
    ) -> Headers:
        if contexts is None:
            return headers
        own = context_of(headers)
        parent = next(reversed(contexts)) if own is None else own
        links = tuple(context for context in contexts if context != parent)
        if not links or len(self.spans) >= SPANS_MAX:
            return headers if own is not None else with_context(headers, parent)
        made = span_id_of(self._application_id, step.name, step.role, parent, links)
        context = TraceContext(parent.trace_id, made)
        span = Traced(step.name, context, parent, links)
        if span not in self.spans[-2:]:  # a left and a right result of the same records
            self.spans.append(span)
        return with_context(headers, context)


def _plain(key: Any) -> Any:
    """Return what tells the key of a record from others; a window's key is its records'."""
    plain: Any = cast("Windowed[Any]", key).key if isinstance(key, Windowed) else key
    try:
        hash(plain)
    except TypeError:
        return repr(plain)
    return plain
