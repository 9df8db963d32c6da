"""The pause between epochs."""

from __future__ import annotations

import pytest

from mustela.runtime.time.epoch_timer import EpochTimer


def test_a_busy_application_keeps_the_commit_interval() -> None:
    """From start to start, whatever the epoch took."""
    timer = EpochTimer(0.1)
    assert timer.pause(busy=True, seconds=0.03, lag=0) == pytest.approx(0.07)
    assert timer.pause(busy=True, seconds=0.25, lag=0) == 0.0


def test_with_a_backlog_there_is_no_pause() -> None:
    """Records are waiting already."""
    assert EpochTimer(10.0).pause(busy=True, seconds=0.01, lag=1) == 0.0


def test_an_idle_application_looks_more_and_more_rarely_up_to_a_bound() -> None:
    """Twenty times a second at least, so that the first record does not wait long."""
    timer = EpochTimer(0.1)
    pauses = [timer.pause(busy=False, seconds=0.0, lag=0) for _ in range(20)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0.005
    assert pauses[-1] == 0.05


def test_work_makes_it_look_often_again() -> None:
    """Records seldom come alone."""
    timer = EpochTimer(0.1)
    for _ in range(10):
        timer.pause(busy=False, seconds=0.0, lag=0)
    timer.pause(busy=True, seconds=0.2, lag=0)
    assert timer.pause(busy=False, seconds=0.0, lag=0) == 0.005
