"""The example of orders that wait for their customer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mustela import TopologyTestDriver
from tests.unit.examples.programs import load

program = load("e13_delayed_enrich")
Order, Customer, EnrichedOrder = program.Order, program.Customer, program.EnrichedOrder


class World:
    """A driver over the example."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self.orders = driver.create_input_topic("orders")
        self.customers = driver.create_input_topic("customers")
        self.output = driver.create_output_topic("enriched-orders")

    def enriched(self) -> list[tuple[Any, Any]]:
        return self.output.read_key_values_to_list()


@pytest.fixture(
    params=[
        {},
        {"key_groups": 8, "lanes": 3},
        {"crash_after_every_record": True},
        {"key_groups": 8, "crash_after_every_record": True},
    ],
    ids=["plain", "lanes", "crashes", "lanes-and-crashes"],
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with TopologyTestDriver(program.app, initial_wall_clock=0, **request.param) as driver:
        yield World(driver)


def test_an_order_whose_customer_is_known_goes_on_at_once(world: World):
    """Whichever lane has the customer."""
    world.customers.pipe_key_value_list([("c-1", Customer("Ann")), ("c-2", Customer("Bob"))])
    world.orders.pipe_key_value_list([("o-1", Order("c-2", 30)), ("o-2", Order("c-1", 40))])
    assert world.enriched() == [
        ("o-1", EnrichedOrder("c-2", 30, "Bob")),
        ("o-2", EnrichedOrder("c-1", 40, "Ann")),
    ]


def test_an_order_waits_ten_seconds_for_its_customer(world: World):
    """And goes on with it, once, though nothing comes at that moment."""
    world.orders.pipe_input("o-1", Order("c-1", 30))
    world.customers.pipe_input("c-1", Customer("Ann"))
    world.driver.advance_wall_clock_time(9_999)
    assert world.enriched() == []
    assert world.driver.get_key_value_store("pending")["o-1"] == Order("c-1", 30)
    world.driver.advance_wall_clock_time(1)
    assert world.enriched() == [("o-1", EnrichedOrder("c-1", 30, "Ann"))]
    assert "o-1" not in world.driver.get_key_value_store("pending")
    world.driver.advance_wall_clock_time(20_000)
    assert world.enriched() == []


def test_an_order_whose_customer_never_comes_goes_on_without(world: World):
    """The timer has the order, whatever has happened in between."""
    world.orders.pipe_key_value_list([("o-1", Order("c-1", 30)), ("o-2", Order("c-2", 40))])
    world.driver.crash(lose_state=True)
    world.driver.advance_wall_clock_time(10_000)
    expected = [("o-1", EnrichedOrder("c-1", 30, None)), ("o-2", EnrichedOrder("c-2", 40, None))]
    assert sorted(world.enriched(), key=lambda row: row[0]) == expected


def test_an_order_of_the_timers_own_time_has_that_time(world: World):
    """What a timer forwards carries the timer's time by default."""
    world.orders.pipe_input("o-1", Order("c-1", 30), timestamp=5)
    world.driver.advance_wall_clock_time(12_000)
    (record,) = world.output.read_records_to_list()
    assert record.timestamp == 10_000
