"""The pause between epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mustela.config.settings import Settings
from mustela.runtime.time.epoch_timer import EpochTimer


def settings(given: dict[str, Any]) -> Settings:
    return Settings.load(given, environ={}, directory=Path("/"))


def test_a_busy_application_keeps_the_commit_interval() -> None:
    """From start to start, whatever the epoch took."""
    timer = EpochTimer(0.1)
    assert timer.pause(busy=True, seconds=0.03, lag=0) == pytest.approx(0.07)
    assert timer.pause(busy=True, seconds=0.25, lag=0) == 0.0


@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.3, 0.45])
def test_with_a_target_epochs_are_as_rare_as_it_allows(seconds: float) -> None:
    """What just missed one epoch has its result behind the next one, which takes as long."""
    pause = EpochTimer(0.1, target=1.0).pause(busy=True, seconds=seconds, lag=0)
    from_start_to_start = seconds + pause
    assert from_start_to_start + seconds == pytest.approx(1.0)


def test_with_a_target_the_commit_interval_is_the_least() -> None:
    """Epochs that take more than the target leaves are not begun one behind the other."""
    timer = EpochTimer(0.1, target=0.12)
    assert timer.pause(busy=True, seconds=0.05, lag=0) == pytest.approx(0.05)
    assert timer.pause(busy=True, seconds=0.3, lag=0) == 0.0
    assert timer.pause(busy=True, seconds=0.01, lag=1) == 0.0


def test_the_settings_name_interval_and_target() -> None:
    given = {"application_id": "a", "commit_interval": "200ms", "latency_target": "2s"}
    without = {"application_id": "a", "commit_interval": "200ms"}
    assert EpochTimer.of(settings(given)).pause(busy=True, seconds=0.0, lag=0) == 2.0
    assert EpochTimer.of(settings(without)).pause(busy=True, seconds=0.0, lag=0) == 0.2


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
