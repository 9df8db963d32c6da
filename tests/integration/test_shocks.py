"""Applications that get many faults while they run: nothing lost, nothing twice, nothing wrong.

A slice of the long run, drawn by the same machinery: ``./dev faults``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mustela_dev import DevelopmentBroker
from tests.faults.ledger import Ledger
from tests.faults.slices import Plan, draw, make_broker, play, shocks_here

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.slow,
]

SIZE = 8


@pytest.fixture
def shaken(tmp_path: Path) -> Iterator[DevelopmentBroker]:
    """A broker that shocks may kill."""
    broker = make_broker(tmp_path / "broker")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def test_an_application_bears_what_is_drawn_for_it(
    shaken: DevelopmentBroker, tmp_path: Path
) -> None:
    """Processes stand still or are killed at any phase, the broker too; each record counts once."""
    shocks, _ = shocks_here()
    plan = draw(20261122, Ledger(None), SIZE, ["sequence"], shocks)
    line = play(plan, shaken, tmp_path / "slice")

    assert not line.violations, "\n".join(line.violations)
    assert sum(line.faults.values()) >= SIZE - 2, line.missed
    assert line.epochs > SIZE


def test_a_source_that_lost_records_stops_by_name_and_goes_on_as_advised(
    shaken: DevelopmentBroker, tmp_path: Path
) -> None:
    """Made anew, cut off, expired: what was read stays counted, what is left is counted once."""
    names = ("recreate-topic", "truncate-topic", "expire-records")
    line = play(Plan(seed=3, slice=0, kind="word_count", shocks=names), shaken, tmp_path / "slice")

    assert not line.violations, "\n".join(line.violations)
    assert line.faults == dict.fromkeys(names, 1)
