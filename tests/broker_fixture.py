"""Real brokers for tests: ``pytest_plugins = ["tests.broker_fixture"]`` in a test file brings them.

The brokers are tied to the thread that runs the tests: they are killed however the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from mustela_dev import BrokerOptions, DevelopmentBroker

# Small and soon up; two of them and Spark share the machine.
HEAP_MB = 192
# A killed broker is let in again when its old session is over.
PROPERTIES = {"broker.heartbeat.interval.ms": "300", "broker.session.timeout.ms": "2000"}

# All tests together make thousands of partitions, and 192 MB hold only just that: a broker that
# collects garbage all day is late with its heartbeats. As nobody kills it, its session may be long.
SHARED_HEAP_MB = 512
SHARED_PROPERTIES = {"broker.session.timeout.ms": "60000"}


def make_small_broker(data_dir: Path | None = None) -> DevelopmentBroker:
    """Make a broker that is soon up and takes little memory. It is not started."""
    return DevelopmentBroker(
        data_dir, heap_mb=HEAP_MB, properties=PROPERTIES, options=BrokerOptions(fast_start=True)
    )


@pytest.fixture(scope="session")
def small_broker() -> Callable[[Path], DevelopmentBroker]:
    """What makes a small broker on a data directory. The test starts and kills it."""
    return make_small_broker


@pytest.fixture(scope="session")
def broker() -> Generator[DevelopmentBroker]:
    """One running broker for the whole session. Tests choose topic names of their own."""
    with DevelopmentBroker(
        heap_mb=SHARED_HEAP_MB,
        properties=SHARED_PROPERTIES,
        options=BrokerOptions(fast_start=True),
    ) as running:
        yield running


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Generator[DevelopmentBroker]:
    """A running broker for one test, which may kill and restart it."""
    fresh = make_small_broker(tmp_path / "broker")
    try:
        fresh.start()
        yield fresh
    finally:
        fresh.kill()
