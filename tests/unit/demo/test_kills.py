"""When the demonstration kills: near the shares that are wanted, once inside a transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.faultpoints import FAULT_POINTS
from mustela_dev.demo.feeder import SLICES, WINDOW
from mustela_dev.demo.kills import FAULT_POINT, Kill, KillPlan


@pytest.fixture
def plan(tmp_path: Path) -> KillPlan:
    return KillPlan(6_400, tmp_path)


def test_the_fault_point_exists() -> None:
    """The application knows the point it is told to stop at."""
    assert FAULT_POINT in FAULT_POINTS


def test_three_kills_come_in_order(plan: KillPlan, tmp_path: Path) -> None:
    """At 25 %, in a transaction before 50 %, at 75 %."""
    assert plan.environment(0) == {}
    assert plan.window == WINDOW
    assert not plan.is_due(1_599)
    assert plan.is_due(1_600)
    plan.note(on_their_way=300)

    assert plan.window == 1
    armed = plan.environment(1_600)
    name, _, count = armed["MUSTELA_FAULT_POINT"].partition(":")
    assert name == FAULT_POINT
    # One transaction claims the application; each slice makes at least one more.
    assert 1 + SLICES // 8 <= int(count) <= 1 + SLICES // 4
    assert armed["MUSTELA_FAULT_DIR"] == str(tmp_path)
    assert not plan.is_due(3_200)
    (tmp_path / FAULT_POINT).write_text("1")
    assert plan.is_due(2_800)
    plan.note(on_their_way=100)
    assert not (tmp_path / FAULT_POINT).exists()

    assert plan.window == WINDOW
    assert plan.environment(2_800) == {}
    assert not plan.is_due(4_799)
    assert plan.is_due(4_800)
    plan.note(on_their_way=0)

    assert not plan.is_due(6_400)
    assert (plan.done, plan.in_transaction, plan.replayed) == (3, 1, 2)
    assert plan.wrong() == []


def test_a_fault_point_that_is_never_reached_is_told(plan: KillPlan) -> None:
    """The application is killed as it is, and the run is no proof."""
    plan.kills = (Kill(0.5, in_transaction=True),)
    assert not plan.is_due(3_300)
    assert plan.is_due(6_400 * 6 // 10)
    plan.note(on_their_way=1)
    assert plan.wrong() == ["no kill hit an open transaction"]


def test_kills_that_never_came_are_told(plan: KillPlan) -> None:
    """An application that was too quick for the plan is no proof either."""
    assert "the kill at 25% never came" in plan.wrong()


def test_the_count_is_at_least_the_first_epoch(plan: KillPlan) -> None:
    """Armed late, the point is still reached after the claim."""
    plan.note(on_their_way=1)
    assert plan.environment(3_200)["MUSTELA_FAULT_POINT"] == f"{FAULT_POINT}:2"
