"""The example that tells when somebody has gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

program = load("e12_session_timeout")

START = datetime(2026, 1, 1, tzinfo=UTC)


def minutes(count: float) -> datetime:
    return START + timedelta(minutes=count)


@pytest.mark.parametrize("crashes", [False, True], ids=["plain", "crashes"])
@pytest.mark.parametrize(("key_groups", "lanes"), [(1, 1), (8, 3)])
def test_a_session_is_over_half_an_hour_behind_its_last_click(
    crashes: bool, key_groups: int, lanes: int
):
    """Once, also when nobody clicks any more; a later click begins another."""
    options: dict[str, Any] = {"key_groups": key_groups, "lanes": lanes}
    with TopologyTestDriver(program.app, crash_after_every_record=crashes, **options) as driver:
        clicks = driver.create_input_topic("clicks")
        sessions = driver.create_output_topic("sessions")
        clicks.pipe_input("ann", "home", timestamp=minutes(0))
        clicks.pipe_input("bob", "home", timestamp=minutes(1))
        clicks.pipe_input("ann", "cart", timestamp=minutes(29))
        clicks.pipe_input("bob", "home", timestamp=minutes(30.5))
        assert sessions.read_key_values_to_list() == []
        driver.advance_watermark(minutes(60))
        alerts = sessions.read_records_to_list()
        assert [(alert.key, alert.value, alert.time) for alert in alerts] == [
            ("ann", program.Alert(clicks=2, seconds=59 * 60), minutes(59))
        ]
        clicks.pipe_input("ann", "home", timestamp=minutes(70))
        driver.advance_watermark(minutes(200))
        assert sessions.read_key_values_to_list() == [
            ("bob", program.Alert(clicks=2, seconds=int(59.5 * 60))),
            ("ann", program.Alert(clicks=1, seconds=30 * 60)),
        ]
