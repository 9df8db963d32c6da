"""Records that an epoch passes over: those that kill the worker that handles them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from mustela.kernel.output import StageOutput
from mustela.plan.epoch import EpochOrder
from mustela.plan.ranges import LeftOut, RawChunk, SourceRange

__all__ = ["leave_out", "spans_of"]


def spans_of(order: EpochOrder, source_range: SourceRange) -> list[LeftOut]:
    """Return what of a range is to be passed over."""
    place = source_range.topic_index, source_range.partition
    return [
        span
        for span in order.left_out
        if (span.topic_index, span.partition) == place
        and span.first < source_range.end
        and span.last >= source_range.start
    ]


def leave_out(raw: RawChunk, spans: Sequence[LeftOut]) -> StageOutput:
    """Take records out of a chunk, before anything is made of their bytes.

    Returns:
        Their dead letters and counts, where those are wanted.
    """
    output = StageOutput()
    kept = bytearray(b"\x01") * len(raw)
    letters = output.dead_letters
    for row, offset in enumerate(raw.offsets):
        span = next((span for span in spans if span.first <= offset <= span.last), None)
        if span is None:
            continue
        kept[row] = 0
        if span.counted:
            output.counters[span.counted] += 1
        if span.headers is not None:
            own = raw.headers[row] if raw.headers is not None else ()
            letters.keys.append(raw.keys[row])
            letters.values.append(raw.values[row])
            letters.timestamps.append(raw.timestamps[row])
            letters.headers.append((*own, *span.headers))
    for column in (raw.offsets, raw.keys, raw.values, raw.timestamps, raw.headers):
        if column is not None and not all(kept):
            column[:] = list(compress(column, kept))  # type: ignore[index]
    return output
