"""What the gate looks for while an application runs."""

from __future__ import annotations

import pytest

from mustela.clock import ManualClock
from mustela.errors import MustelaError
from mustela.model import TopicPartition
from mustela.runtime.gate.watch import TruncationWatch

PLACE = TopicPartition("lines", 0)


def test_while_it_runs_a_short_source_is_believed_after_a_while() -> None:
    """A leader that was just elected may not know yet how far its log goes."""
    clock = ManualClock()
    watch = TruncationWatch("app", clock)
    assert watch.see({PLACE: 10}, {PLACE: 10})
    assert not watch.see({PLACE: 10}, {PLACE: 9})
    clock.advance(4_000)
    assert watch.see({PLACE: 10}, {PLACE: 11})
    assert not watch.see({PLACE: 10}, {PLACE: 9})
    clock.advance(6_000)
    with pytest.raises(MustelaError) as raised:
        watch.see({PLACE: 10}, {PLACE: 9})
    assert raised.value.code == "SOURCE_TRUNCATED"
