"""The real world, before anything is connected."""

from __future__ import annotations

from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.runtime.kafka_world import kafka_world


def test_epoch_records_have_no_time_of_the_drivers_clock() -> None:
    """Its record, and what is kept of it: only this machine would say their time."""
    settings = Settings.load({"application_id": "app"}, environ={})
    world = kafka_world(settings, ManualClock())
    try:
        sink = world.transactions
        assert isinstance(sink, TransactionalSink)
        assert sink._options.timeless == {"app-epochs", "app-history"}
    finally:
        world.cluster.close()
