"""The example of trades at the prices of their time."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

app = load("e08_prices_in_time").app


def feed(driver: TopologyTestDriver) -> None:
    prices, trades = driver.create_input_topic("prices"), driver.create_input_topic("trades")
    prices.pipe_input("ACME", 10.0, timestamp=0)
    trades.pipe_input("ACME", 3, timestamp=20_000)
    prices.pipe_input("ACME", 11.0, timestamp=19_000)
    prices.pipe_input("ACME", 99.0, timestamp=21_000)
    trades.pipe_input("ACME", 1, timestamp=60_000)
    driver.advance_watermark(70_000)


def test_a_trade_has_the_price_of_its_own_time() -> None:
    """Also the one that came after the trade; not the one that was valid later."""
    with TopologyTestDriver(app) as driver:
        feed(driver)
        values = driver.create_output_topic("values").read_key_values_to_list()
    assert values == [("ACME", 33.0), ("ACME", 99.0)]


def test_it_is_safe() -> None:
    """Stream time is left out: there, a trade waits until another one comes."""
    assert_topology_safe(app, feed, but_not=["event_time"])
