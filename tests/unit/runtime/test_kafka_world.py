"""The real world, before anything is connected."""

from __future__ import annotations

from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.runtime.kafka_world import kafka_world


def test_epoch_records_have_no_time_of_the_drivers_clock() -> None:
    """Its record is the one row of an epoch whose time nobody but this machine would say."""
    settings = Settings.load({"application_id": "app"}, environ={})
    world = kafka_world(settings, ManualClock())
    try:
        sink = world.transactions
        assert isinstance(sink, TransactionalSink)
        assert sink._options.timeless == {"app-epochs"}
    finally:
        world.cluster.close()
