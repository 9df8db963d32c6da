"""Records that an epoch passes over."""

from __future__ import annotations

from mustela.kernel.core.left_out import give_up, leave_out, spans_of
from mustela.kernel.core.output import StageOutput
from mustela.plan.epoch import EpochOrder
from mustela.plan.ranges import LeftOut, RawChunk, SourceRange
from mustela.state.interfaces import Token


def chunk() -> RawChunk:
    offsets = [3, 4, 6]
    headers = [(("h", b"3"),), (), (("h", b"6"),)]
    return RawChunk(offsets, [b"a", b"b", None], [b"x", None, b"z"], [10, 20, 30], headers)


def test_only_these_records_are_taken_out() -> None:
    """Their letters carry their own bytes and headers, and then why."""
    raw = chunk()
    why = (("mustela.error.code", b"X"),)
    span = LeftOut(0, 0, 6, 6, why, "failed_records:step")
    spans = [span, LeftOut(0, 0, 0, 3)]
    output = StageOutput()
    give_up(leave_out(raw, spans), spans, output)
    assert (raw.offsets, raw.keys, raw.values, raw.timestamps) == ([4], [b"b"], [None], [20])
    assert raw.headers == [()]
    letters = output.dead_letters
    assert (letters.keys, letters.values, letters.timestamps) == ([None], [b"z"], [30])
    assert letters.headers == [(("h", b"6"), *why)]
    assert dict(output.counters) == {"failed_records:step": 1}


def test_a_range_has_only_its_own_spans() -> None:
    """Of its partition, and of its offsets."""
    here = LeftOut(0, 1, 5, 5)
    spans = (here, LeftOut(0, 0, 5, 5), LeftOut(1, 1, 5, 5), LeftOut(0, 1, 9, 9))
    order = EpochOrder(token=Token(1, 1, 0), ranges=(), marks={}, now_ms=0, left_out=spans)
    assert spans_of(order, SourceRange(0, 1, 0, 9)) == [here]
    raw = chunk()
    assert len(leave_out(raw, [])) == 0
    assert len(raw) == 3
