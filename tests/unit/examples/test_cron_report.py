"""The example of a report by schedule does what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

app = load("e14_cron_report").app

NIGHT = datetime(2026, 3, 28, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    "way", [{}, {"key_groups": 8, "lanes": 3}, {"key_groups": 8, "crash_after_every_record": True}]
)
def test_a_report_comes_at_six_by_the_clock_of_the_place(way: dict[str, Any]) -> None:
    """Five in the morning UTC in winter, four in summer: that very night clocks are put forward."""
    with TopologyTestDriver(app, initial_wall_clock=NIGHT, **way) as driver:
        sales = driver.create_input_topic("sales")
        out = driver.create_output_topic("report")
        for product, pieces in [("tea", 2), ("milk", 5), ("jam", 1), ("salt", 1), ("tea", 9)]:
            sales.pipe_input(product, pieces)
        driver.advance_wall_clock_time(timedelta(hours=4) - timedelta(seconds=1))
        assert out.is_empty
        driver.advance_wall_clock_time(timedelta(seconds=1))
        day = "2026-03-28"
        assert out.read_key_values_to_list() == [
            (day, "1. tea: 11"),
            (day, "2. milk: 5"),
            (day, "3. jam: 1"),
            (day, "in all: 18"),
        ]
        sales.pipe_input("jam", 100)
        driver.advance_wall_clock_time(timedelta(hours=23) - timedelta(seconds=1))
        assert out.is_empty
        driver.advance_wall_clock_time(timedelta(seconds=1))
        assert out.read_key_values_to_list()[0] == ("2026-03-29", "1. jam: 101")


def test_after_days_without_it_the_last_morning_is_made_up_for() -> None:
    """The others would tell the same."""
    with TopologyTestDriver(app, initial_wall_clock=NIGHT) as driver:
        driver.create_input_topic("sales").pipe_input("tea", 2)
        driver.crash()
        driver.advance_wall_clock_time(3 * DAY)
        told = driver.create_output_topic("report").read_key_values_to_list()
    assert told == [("2026-03-30", "1. tea: 2"), ("2026-03-30", "in all: 2")]
