"""An application on a real broker, tested with the words of the test driver."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela import App, StreamsBuilder, TopologyTestDriver
from mustela.errors import DataError
from mustela.runtime.app import AppStateError
from mustela.testing.faults import TestDriverError
from mustela_dev import DevelopmentBroker, RunningApp
from mustela_dev.testing.running import NotCaughtUpError

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def shop(prefix: str, session: Any) -> App:
    app = App(f"{prefix}-shop", session=session)

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        orders = builder.stream(f"{prefix}-orders", key=str, value=int)
        totals = orders.group_by_key().reduce(lambda one, other: one + other, store="totals")
        totals.to_stream().to(f"{prefix}-totals")

    return app


def sell(driver: TopologyTestDriver | RunningApp, prefix: str) -> None:
    """What a test does is the same for the driver and for a broker."""
    orders = driver.create_input_topic(f"{prefix}-orders")
    totals = driver.create_output_topic(f"{prefix}-totals")
    orders.pipe_table(
        """
        key | value
        ann | 3
        eve | 4
        """
    )
    totals.expect_table("key | value\n ann | 3\n eve | 4", in_any_order=True)
    orders.pipe_input("ann", 10, timestamp=7)
    totals.expect_table("key | value\n ann | 13")
    assert totals.is_empty


@pytest.fixture
def settings(broker: DevelopmentBroker, tmp_path: Path) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "state.dir": str(tmp_path)}


def test_a_test_runs_on_a_broker_as_in_the_driver(
    settings: dict[str, Any], spark_context: Any
) -> None:
    """Same topics, same tables; what is read is committed."""
    with TopologyTestDriver(shop("running", spark_context)) as driver:
        sell(driver, "running")
    partitions = {"running-orders": 3}
    app = shop("running", spark_context)
    with RunningApp(app, settings, partitions=partitions) as running:
        sell(running, "running")
        with pytest.raises(TestDriverError, match="does not read topic 'ordres'"):
            running.create_input_topic("ordres")
        with pytest.raises(TestDriverError, match="does not write topic"):
            running.create_output_topic("running-totales")
    with pytest.raises(AppStateError):
        RunningApp(app, settings)


def test_what_ends_an_application_is_raised_where_a_test_waits(
    settings: dict[str, Any], spark_context: Any
) -> None:
    """Its own error, not that time is up; and an application that is slow is told as slow."""
    app = App("running-fails", session=spark_context)

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        words = builder.stream("running-words", key=str, value=str)
        words.map_values(lambda word: 1 // len(word), name="picky", value=int).to("running-lengths")

    def use() -> None:
        with RunningApp(app, settings) as running:
            running.create_input_topic("running-words").pipe_input("k", "")
            running.create_output_topic("running-lengths").read_value()

    with pytest.raises(DataError, match="picky"):
        use()


def test_an_application_that_is_slow_is_told_so_and_has_longer(
    settings: dict[str, Any], spark_context: Any
) -> None:
    """With its state; a longer patience helps."""
    hasty, patient = (shop(name, spark_context) for name in ("running-hasty", "running-patient"))
    with RunningApp(hasty, settings, patience=timedelta(0)) as late:
        with pytest.raises(NotCaughtUpError, match="patience=") as caught:
            late.wait_until_caught_up()
        assert "state" in caught.value.evidence
    with RunningApp(patient, settings, patience=timedelta(minutes=5)) as running:
        running.wait_until_caught_up()
