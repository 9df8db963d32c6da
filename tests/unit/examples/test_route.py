"""The example of orders that go where they belong."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

app = load("e02_route").app


def feed(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("incoming-orders").pipe_table(
        """
        key | country | total
        o-1 | de      | 30
        o-2 | fr      | 20000
        o-3 | xx      | 5
        o-4 | fr      | 0
        o-5 | fr      | 9999
        """
    )


def test_each_order_goes_to_one_topic() -> None:
    """To that of its country, or to be reviewed; nothing else is left out."""
    with TopologyTestDriver(app) as driver:
        feed(driver)
        driver.create_output_topic("orders-de").expect_table("key | total \n o-1 | 30")
        driver.create_output_topic("orders-fr").expect_table("key | total \n o-5 | 9999")
        review = driver.create_output_topic("to-review")
        review.expect_table("key | country | total \n o-2 | fr | 20000 \n o-3 | xx | 5")


def test_it_is_safe() -> None:
    """However it is run."""
    assert_topology_safe(app, feed)
