"""The example of who is online."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

app = load("e11_presence").app


def feed(driver: TopologyTestDriver) -> None:
    beats = driver.create_input_topic("heartbeats")
    for user, beat, second in [("ann", "1", 0), ("ann", "1", 2), ("bob", "1", 5), ("ann", "2", 50)]:
        beats.pipe_input(user, beat, timestamp=1_000 * second)
    driver.advance_watermark(65_000)


def test_a_row_ends_when_nothing_was_heard_for_a_minute() -> None:
    """A beat that was repeated counts once, and keeps nobody online for longer."""
    with TopologyTestDriver(app) as driver:
        online = driver.create_output_topic("online")
        feed(driver)
        rows = online.read_key_values_to_list()
        assert [row for row in rows if row[0] == "ann"] == [("ann", 1), ("ann", 2)]
        assert [row for row in rows if row[0] == "bob"] == [("bob", 1), ("bob", None)]
        driver.advance_watermark(110_000)
        assert online.read_key_values_to_list() == [("ann", None)]


def test_it_is_safe() -> None:
    """Stream time is left out: there, nothing ends while nobody is heard."""
    assert_topology_safe(app, feed, but_not=["event_time"])
