"""The example of orders with their customers and shops."""

from __future__ import annotations

from mustela import TopologyTestDriver
from mustela.testing import assert_topology_safe
from tests.unit.examples.programs import load

program = load("e06_orders_with_names")


def feed(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("customer-names").pipe_input("c-1", "Ann")
    driver.create_input_topic("shops").pipe_input("s-7", "Ulm")
    driver.create_input_topic("placed-orders").pipe_table(
        """
        key | shop | total
        c-1 | s-7  | 30
        c-2 | s-7  | 40
        c-1 | s-8  | 50
        """
    )


def test_an_order_gets_its_customer_and_its_shop() -> None:
    """Without a shop it is left out, without a customer it is not."""
    with TopologyTestDriver(program.app) as driver:
        feed(driver)
        complete = driver.create_output_topic("complete-orders").read_key_values_to_list()
    assert complete == [
        ("c-1", program.CompleteOrder(30, "Ulm", "Ann")),
        ("c-2", program.CompleteOrder(40, "Ulm", None)),
    ]


def test_it_is_safe() -> None:
    """One epoch for all is left out: an order finds what its tables hold when it comes."""
    assert_topology_safe(program.app, feed, but_not=["epochs"])
