"""A test of a whole application, with a real Kafka broker and with Spark.

    pip install mustela-dev pytest
    pytest examples/real_broker.py

The broker belongs to the tests: it is started once, listens on a free port of this machine, and is
gone with its data when the tests end, however they end. The first start downloads Kafka (44 MB).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mustela import App, StreamsBuilder
from mustela_dev import BrokerOptions, DevelopmentBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[DevelopmentBroker]:
    with DevelopmentBroker(options=BrokerOptions(fast_start=True)) as running:
        yield running


@pytest.fixture
def servers(broker: DevelopmentBroker) -> str:
    """The broker, with the topics that the application reads and writes."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic("orders", 3), NewTopic("totals", 1)]).values():
        made.result()
    return broker.bootstrap_servers


def shop(servers: str, state: Path) -> App:
    app = App("shop", {"bootstrap.servers": servers, "state.dir": str(state)})

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream("orders", key=str, value=str)
        totals = orders.group_by_key().count(store="totals").to_stream()
        totals.map_values(str, name="text").to("totals", key=str, value=str)

    return app


def test_orders_are_counted(servers: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for customer in ("ann", "eve", "ann"):
        producer.produce("orders", key=customer, value="book")
    producer.flush()
    with shop(servers, tmp_path) as app:
        assert app.wait_until_caught_up(timedelta(minutes=5)), app.error
    assert read(servers, "totals", until={"ann": "2", "eve": "1"})


def read(servers: str, topic: str, *, until: dict[str, str]) -> bool:
    """Read committed records until the last of each key is as expected, or none come for 10 s."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: dict[str, str] = {}
    while found != until and (record := consumer.poll(10)) is not None:
        found[(record.key() or b"").decode()] = (record.value() or b"").decode()
    consumer.close()
    return found == until
