"""The clocks."""

from __future__ import annotations

import pytest

from mustela.clock import ManualClock, SystemClock


def test_a_manual_clock_moves_when_told_and_never_back() -> None:
    """Wall-clock and monotonic time move together."""
    clock = ManualClock(1_000)
    clock.advance(250)
    clock.advance(0)
    assert (clock.now_ms(), clock.monotonic()) == (1_250, 1.25)
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)


def test_the_machines_clock_tells_milliseconds_and_seconds() -> None:
    """Of this century; monotonic time does not go back."""
    clock = SystemClock()
    assert 1_577_836_800_000 < clock.now_ms() < 4_102_444_800_000
    first = clock.monotonic()
    assert clock.monotonic() >= first
