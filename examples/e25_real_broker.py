"""A test of a whole application, with a real Kafka broker and with Spark.

    pip install mustela-dev pytest
    pytest examples/e25_real_broker.py

The broker belongs to the tests: it is started once, listens on a free port of this machine, and is
removed with its data when the tests end, however they end. The first start downloads Kafka (44 MB).
"""

from __future__ import annotations

from collections.abc import Callable

from mustela import App, StreamsBuilder, TopologyTestDriver
from mustela_dev import RunningApp


def shop() -> App:
    app = App("shop")

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream("orders", key=str, value=str)
        totals = orders.group_by_key().count(store="totals").to_stream()
        totals.to("totals")

    return app


def sell(driver: TopologyTestDriver | RunningApp) -> None:
    """The test itself: the same with and without a broker."""
    driver.create_input_topic("orders").pipe_table(
        """
        time | key | value
        1000 | ann | book
        2000 | eve | pen
        """
    )
    totals = driver.create_output_topic("totals")
    totals.expect_table("key | value \n ann | 1 \n eve | 1", in_any_order=True)
    driver.create_input_topic("orders").pipe_input("ann", "lamp")
    totals.expect_table("key | value \n ann | 2")


def test_orders_are_counted() -> None:
    with TopologyTestDriver(shop()) as driver:
        sell(driver)


def test_orders_are_counted_on_a_broker(run_app: Callable[..., RunningApp]) -> None:
    sell(run_app(shop(), partitions={"orders": 3}))
