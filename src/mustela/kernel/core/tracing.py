"""The trace contexts of records on their way through a stage.

A source record that carries a context gets its own span, and its context names that span from there
on. So every step that keeps a record's headers continues its trace: steps without state, exchanges,
stores with headers, sinks. Where records meet, in joins and aggregations, a result continues the
trace of one of them, and a span of the step names the others as links.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
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
"""Maximum number of spans of a task in one epoch; further records keep their context."""
LINKS_MAX: Final = 32
"""Maximum number of links of a span; the last ones are kept."""

_MEETING: Final = (
    AggregateNode,
    StreamJoinNode,
    StreamTableJoinNode,
    TableJoinNode,
    WindowAggregateNode,
)

_PLAIN_TYPES: Final = {bytes, float, int, str, type(None)}

_Met = dict[Any, dict[TraceContext, None]]


class StageTraces:
    """Follows the contexts of the records of one task.

    Args:
        application_id: The application: part of what names a span.

    Attributes:
        spans: The spans made so far.
    """

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._met: dict[tuple[str, str], _Met] = {}
        self._known: tuple[Origins | None, dict[int, TraceContext]] = (None, {})
        self.spans: list[Traced] = []

    def begin(self, batch: Batch) -> None:
        """Give each source record that carries a context a span, and name it in the headers."""
        origins = batch.origins
        column = origins.headers
        if column is None or origins is self._known[0]:
            return  # several sources may read the same records
        contexts = self._contexts(origins)
        if not contexts:
            return
        headers = list(column)
        rows = contexts.keys() if batch.rows is None else contexts.keys() & set(batch.rows)
        for row in sorted(rows)[: SPANS_MAX - len(self.spans)]:
            parent, place = contexts[row], origins.context(row)
            name = place.topic or ""
            made = span_id_of(self._application_id, *parent, name, place.partition, place.offset)
            own = contexts[row] = TraceContext(parent.trace_id, made)
            headers[row] = with_context(headers[row], own)
            span = Traced(name, own, parent, offset=place.offset, partition=place.partition)
            self.spans.append(span)
        origins.headers = headers

    def _contexts(self, origins: Origins) -> dict[int, TraceContext]:
        """Return the context of each record that carries one; they are read once for a chunk."""
        if origins is not self._known[0]:
            found = {
                row: context
                for row, own in enumerate(origins.headers or ())
                if own and (context := context_of(own)) is not None
            }
            self._known = origins, found
        return self._known[1]

    def meet(self, step: Step, batches: Sequence[Batch]) -> None:
        """Note, by key, which contexts reach a step in which records meet."""
        if not isinstance(step.node, _MEETING):
            return
        for batch in batches:
            contexts = self._contexts(batch.origins)
            if not contexts:
                continue
            rows = range(len(batch)) if batch.rows is None else batch.rows
            met = self._met.setdefault((step.name, step.role), {})
            for number in compress(range(len(batch)), map(contexts.__contains__, rows)):
                context = contexts[rows[number]]
                here = met.setdefault(_plain(batch.keys[number]), {})
                here.pop(context, None)
                here[context] = None
                if len(here) > LINKS_MAX:
                    del here[next(iter(here))]

    def part(self, step: Step, batch: Batch | None) -> Batch | None:
        """Make the results of a step in which records met carry a context."""
        met = self._met.get((step.name, step.role))
        if not met or batch is None or not len(batch):
            return batch
        keys = _plain_keys(batch.keys)
        rows = [row for row, key in enumerate(keys) if key in met]
        if not rows:
            return batch
        given = batch.with_origins(batch.order)
        headers = given.origins.headers = list(batch.headers or [()] * len(batch))
        for row in rows:
            headers[row] = self._carried(step, headers[row], met[keys[row]])
        return given

    def _carried(self, step: Step, headers: Headers, contexts: dict[TraceContext, None]) -> Headers:
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


def _plain_keys(keys: list[Any]) -> list[Any]:
    """Return keys as `_plain` does; those of plain types are so already."""
    return keys if set(map(type, keys)) <= _PLAIN_TYPES else list(map(_plain, keys))


def _plain(key: Any) -> Any:
    """Return the identity of a record's key; that of a windowed key is its inner key."""
    plain: Any = cast("Windowed[Any]", key).key if isinstance(key, Windowed) else key
    try:
        hash(plain)
    except TypeError:
        return repr(plain)
    return plain
