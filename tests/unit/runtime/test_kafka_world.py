"""The real world, before anything is connected, and its epochs topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.connectors.kafka.errors import OffsetOutOfRange
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.runtime import kafka_world
from mustela.runtime.kafka_world import KafkaEpochLog
from tests.unit.runtime.plans import settings_for

GONE = OffsetOutOfRange("topic 'app-epochs' partition 0 does not hold offset 7")


def test_epoch_records_have_no_time_of_the_drivers_clock() -> None:
    """Its record, and what is kept of it: only this machine would say their time."""
    settings = Settings.load({"application_id": "app"}, environ={})
    world = kafka_world.kafka_world(settings, ManualClock())
    try:
        sink = world.transactions
        assert isinstance(sink, TransactionalSink)
        assert sink._options.timeless == {"app-epochs", "app-history"}
    finally:
        world.cluster.close()


def log_of(
    monkeypatch: pytest.MonkeyPatch, home: Path, *answers: list[bytes | Exception]
) -> KafkaEpochLog:
    """Return an epochs topic that answers so, one after another."""
    left = iter(answers)

    def read(*_given: object, **_more: object) -> Iterator[Any]:
        for one in next(left):
            if isinstance(one, Exception):
                raise one
            yield SimpleNamespace(value=one)

    monkeypatch.setattr(kafka_world, "read_newest_first", read)
    cluster: Any = None
    return KafkaEpochLog(settings_for(home), cluster)


def test_a_topic_that_was_made_anew_meanwhile_is_read_once_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A broker told the end of the one before, and the new one is shorter."""
    log = log_of(monkeypatch, tmp_path, [GONE], [GONE], [b"two", b"one"])
    assert list(log.newest_first()) == [b"two", b"one"]


def test_rows_that_stay_away_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """After three looks; and at once where rows were yielded, which may be another topic's."""
    with pytest.raises(OffsetOutOfRange):
        list(log_of(monkeypatch, tmp_path, [GONE], [GONE], [GONE]).newest_first())
    with pytest.raises(OffsetOutOfRange):
        list(log_of(monkeypatch, tmp_path, [b"two", GONE], [b"one"]).newest_first())
