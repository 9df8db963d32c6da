"""What an admin asks again, and what it tells at once."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mustela.connectors.kafka import admin as module
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.errors import KafkaRetryable


class Answers:
    """A consumer that gives one answer after the other for the one partition it is asked about."""

    def __init__(self, *errors: int | None) -> None:
        self._errors = list(errors)

    def offsets_for_times(self, asked: Sequence[Any], timeout: float) -> list[Any]:
        """Answer with an offset, or with an error."""
        error = self._errors.pop(0)
        return [
            SimpleNamespace(
                topic=place.topic,
                partition=place.partition,
                offset=7,
                error=None if error is None else KafkaError(error),
            )
            for place in asked
        ]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the admin, which takes none here."""
    made: list[float] = []
    monkeypatch.setattr(module, "sleep", made.append)
    return made


def admin(*errors: int | None) -> KafkaAdmin:
    made = KafkaAdmin({"bootstrap.servers": "nowhere:1"})
    made._consumer_client = Answers(*errors)  # pyright: ignore[reportAttributeAccessIssue]
    return made


def test_a_partition_whose_leader_is_not_ready_is_asked_again(pauses: list[float]) -> None:
    """A broker that has just started does not know its own leader epoch yet."""
    asked = admin(KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION, None)
    assert asked.end_offsets([("t", 0)]) == {("t", 0): 7}
    assert len(pauses) == 2


def test_a_partition_that_is_not_ready_for_long_is_told(pauses: list[float]) -> None:
    """The error says that it may be tried again."""
    asked = admin(*[KafkaError.UNKNOWN_LEADER_EPOCH] * 20)
    with pytest.raises(KafkaRetryable, match="offset of t-0"):
        asked.end_offsets([("t", 0)])
    assert len(pauses) == module.UNKNOWN_ATTEMPTS - 1
