"""The pytest plugin: a broker for all tests of a session, and applications that run on it.

It is loaded by each run of pytest, so it imports what it needs only when a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mustela import App
    from mustela_dev.broker.process import DevelopmentBroker
    from mustela_dev.testing.running import RunningApp

__all__ = ["mustela_broker", "run_app"]


@pytest.fixture(scope="session")
def mustela_broker() -> Iterator[DevelopmentBroker]:
    """A real Kafka broker on this machine, for all tests of the session."""
    from mustela_dev.broker.process import BrokerOptions, DevelopmentBroker

    with DevelopmentBroker(options=BrokerOptions(fast_start=True)) as broker:
        yield broker


@pytest.fixture
def run_app(
    mustela_broker: DevelopmentBroker, tmp_path: Path
) -> Iterator[Callable[..., RunningApp]]:
    r"""Run applications on the broker until the test ends, which deletes its topics.

    It takes an application, and what `mustela_dev.RunningApp` takes::

        def test_totals(run_app):
            running = run_app(shop.make_app())
            running.create_input_topic("orders").pipe_input("ann", {"amount": 3})
            running.create_output_topic("totals").expect_table("key | value\n ann | 3")
    """
    from mustela.connectors.kafka.admin import KafkaAdmin
    from mustela_dev.testing.running import RunningApp

    servers = {"bootstrap.servers": mustela_broker.bootstrap_servers}
    admin = KafkaAdmin(servers)
    before = set(admin.topics())
    try:
        with ExitStack() as stack:

            def run(app: App, settings: dict[str, Any] | None = None, **named: Any) -> RunningApp:
                own = {**servers, "state.dir": str(tmp_path / "state"), **(settings or {})}
                return stack.enter_context(RunningApp(app, own, **named))

            yield run
    finally:
        admin.delete(sorted(set(admin.topics()) - before))
        admin.close()
