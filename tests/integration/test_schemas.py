"""Records with schemas of a registry, on Spark and a real broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.aggregates import Count, Sum
from mustela.schemas import AvroSerde
from mustela_dev import DevelopmentBroker, RunningApp
from tests.registry_server import RegistryServer

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@dataclass
class Order:
    customer: str
    amount: int


@dataclass
class Total:
    orders: int
    amount: int


def test_workers_read_and_write_with_one_registry(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Each worker looks a schema up once; state and results have schemas of their own."""
    app = App("schemas-shop", session=spark_context)

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream("schemas-orders", key=str, value=AvroSerde(Order))
        by_customer = orders.group_by(lambda _key, order: order.customer, key=str, name="by")
        totals = by_customer.aggregate(
            value=Total, orders=Count(), amount=Sum("amount"), store="totals"
        )
        totals.to_stream().to("schemas-totals", value=AvroSerde(Total))

    with RegistryServer() as server:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "schema.registry.url": server.url,
            "state.dir": str(tmp_path),
        }
        with RunningApp(app, settings, partitions={"schemas-orders": 2}) as running:
            orders = running.create_input_topic("schemas-orders")
            totals = running.create_output_topic("schemas-totals")
            orders.pipe_table(
                """
                key | customer | amount
                1   | ann      | 3
                2   | eve      | 4
                """
            )
            totals.expect_table(
                "key | orders | amount \n ann | 1 | 3 \n eve | 1 | 4", in_any_order=True
            )
            orders.pipe_table("key | customer | amount \n 3 | ann | 5")
            totals.expect_table("key | orders | amount \n ann | 2 | 8")
        asked = " ".join(path for _, path in server.asked)
    assert "schemas-orders-value" in asked
    assert "schemas-totals-value" in asked
