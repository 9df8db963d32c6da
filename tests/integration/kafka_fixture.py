"""Topics and clients for the tests of `mustela.connectors.kafka`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeSink, MakeTopic

_NUMBERS = itertools.count()


@pytest.fixture
def properties(broker: DevelopmentBroker) -> dict[str, Any]:
    """Client properties for the session's broker."""
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def admin(properties: dict[str, Any]) -> Iterator[KafkaAdmin]:
    """An admin for the session's broker."""
    made = KafkaAdmin(properties)
    yield made
    made.close()


@pytest.fixture
def make_topic(admin: KafkaAdmin, request: pytest.FixtureRequest) -> MakeTopic:
    """Make a topic with a name that no other test has."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"{request.node.originalname[:60]}-{next(_NUMBERS)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create([TopicSpec(name=name, partitions=partitions, config=settings)])
        return name

    return make


@pytest.fixture
def make_sink(properties: dict[str, Any], request: pytest.FixtureRequest) -> Iterator[MakeSink]:
    """Make an open transactional sink with an id of the test's own.

    A parameter of the test's is the class; by default the client's own transactions.
    """
    kind: Any = getattr(request, "param", TransactionalSink)
    made: list[Any] = []

    def make(identity: str = "", **options: Any) -> Any:
        name = identity or f"{request.node.originalname}-{next(_NUMBERS)}"
        limits = {"commit_timeout": 60.0, "open_timeout": 60.0, **options}
        sink = kind(properties, name, options=TransactionOptions(**limits))
        made.append(sink)
        sink.reopen()
        return sink

    yield make
    for sink in made:
        sink.close()


@pytest.fixture
def reader(properties: dict[str, Any]) -> Iterator[RangeReader]:
    """A reader of committed records, of committed records."""
    made = RangeReader(properties, read_timeout=60.0)
    yield made
    made.close()
