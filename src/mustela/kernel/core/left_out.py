"""Records that an epoch skips because they kill the worker that handles them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from mustela.kernel.core.output import StageOutput
from mustela.plan.epoch import EpochOrder
from mustela.plan.ranges import LeftOut, RawChunk, SourceRange

__all__ = ["give_up", "leave_out", "spans_of"]


def spans_of(order: EpochOrder, source_range: SourceRange) -> list[LeftOut]:
    """Return the parts of a range to skip."""
    place = source_range.topic_index, source_range.partition
    return [
        span
        for span in order.left_out
        if (span.topic_index, span.partition) == place
        and span.first < source_range.end
        and span.last >= source_range.start
    ]


def leave_out(raw: RawChunk, spans: Sequence[LeftOut]) -> RawChunk:
    """Remove records from a chunk before their bytes are decoded; return them."""
    gone = RawChunk()
    if not spans:
        return gone
    taken = [any(span.first <= offset <= span.last for span in spans) for offset in raw.offsets]
    kept = [not out for out in taken]
    gone.offsets = list(compress(raw.offsets, taken))
    gone.keys = list(compress(raw.keys, taken))
    gone.values = list(compress(raw.values, taken))
    gone.timestamps = list(compress(raw.timestamps, taken))
    if raw.headers is not None:
        gone.headers = list(compress(raw.headers, taken))
        raw.headers[:] = compress(raw.headers, kept)
    raw.offsets[:] = compress(raw.offsets, kept)
    raw.keys[:] = compress(raw.keys, kept)
    raw.values[:] = compress(raw.values, kept)
    raw.timestamps[:] = compress(raw.timestamps, kept)
    return gone


def give_up(gone: RawChunk, spans: Sequence[LeftOut], output: StageOutput) -> None:
    """Count records that were left out, and write their dead letters if wanted."""
    letters = output.dead_letters
    for row, offset in enumerate(gone.offsets):
        span = next(span for span in spans if span.first <= offset <= span.last)
        if span.counted:
            output.counters[span.counted] += 1
        if span.headers is not None:
            own = gone.headers[row] if gone.headers is not None else ()
            letters.keys.append(gone.keys[row])
            letters.values.append(gone.values[row])
            letters.timestamps.append(gone.timestamps[row])
            letters.headers.append((*own, *span.headers))
