"""When a reader believes that a partition is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mustela.connectors.kafka import ranges
from mustela.connectors.kafka.errors import SourceGone


class Metadata:
    """A client that knows so many partitions of the topic; None while no broker answers."""

    def __init__(self) -> None:
        self.known: int | None = None

    def partitions_of(self, _topic: str, _timeout: float) -> int:
        """Answer, or not."""
        if self.known is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # pyright: ignore[reportPrivateUsage]
        return self.known


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, as the reader sees it."""
    clock = SimpleNamespace(s=0.0)
    monkeypatch.setattr(ranges, "perf_counter", lambda: clock.s)
    return clock


def missing(metadata: Metadata) -> Any:
    return ranges._Missing(metadata, TopicPartition("t", 0))  # type: ignore[arg-type] # pyright: ignore


def test_a_broker_that_has_just_come_up_is_not_believed_at_once(now: SimpleNamespace) -> None:
    """The time that it was away does not count."""
    metadata = Metadata()
    doubt = missing(metadata)
    doubt.note()
    doubt.look()
    now.s += 3 * ranges.METADATA_LAG_S
    metadata.known = 0
    doubt.look()
    now.s += ranges.METADATA_LAG_S / 2
    metadata.known = 1
    doubt.look()
    metadata.known = 0
    now.s += ranges.METADATA_LAG_S
    doubt.look()
    now.s += ranges.METADATA_LAG_S + 1
    with pytest.raises(SourceGone):
        doubt.look()


def test_nobody_is_asked_for_a_partition_that_is_read(now: SimpleNamespace) -> None:
    """What came from it shows that it is there."""
    metadata = Metadata()
    metadata.known = 0
    doubt = missing(metadata)
    doubt.look()
    doubt.note()
    doubt.look()
    doubt.found()
    now.s += 2 * ranges.METADATA_LAG_S
    doubt.look()
    doubt.note()
    doubt.look()
