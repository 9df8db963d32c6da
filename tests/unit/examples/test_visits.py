"""The example of visits."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e04_visits")

MINUTE = 60_000


def feed(driver: TopologyTestDriver) -> None:
    pages = driver.create_input_topic("pages")
    for visitor, page, minute in [
        ("ann", "home", 0),
        ("bob", "home", 1),
        ("ann", "cart", 31),
        ("ann", "home", 29),
    ]:
        pages.pipe_input(visitor, page, timestamp=minute * MINUTE)
    driver.advance_watermark(120 * MINUTE)


def test_a_late_page_joins_two_visits() -> None:
    """And each visit is told once, when it is over."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        told = driver.create_output_topic("visits").read_key_values_to_map()
    assert told == {
        "ann": program.Visit({"home": 2, "cart": 1}, 31 * 60),
        "bob": program.Visit({"home": 1}, 0),
    }


def test_it_is_safe() -> None:
    """Stream time is left out: there, no visit ends while nobody looks at anything."""
    assert_topology_safe(program.app, feed, but_not=["event_time"])
