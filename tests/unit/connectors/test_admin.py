"""What an admin asks again, and what it tells at once."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mustela.connectors.kafka import metadata
from mustela.connectors.kafka.admin import ASKED_MAX, KafkaAdmin, TopicDescription
from mustela.connectors.kafka.errors import KafkaRetryable, SourceGone


class Answers:
    """A consumer that gives one answer after the other for the one partition it is asked about."""

    def __init__(self, *errors: int | None) -> None:
        self._errors = list(errors)
        self.learned: list[str] = []

    def list_topics(self, topic: str, timeout: float) -> None:
        """Learn anew of a topic."""
        self.learned.append(topic)

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
    """The pauses of the admin, which takes none here: only its clock goes on."""
    made: list[float] = []
    monkeypatch.setattr(metadata, "sleep", made.append)
    monkeypatch.setattr(metadata, "perf_counter", lambda: sum(made))
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
    asked = admin(*[KafkaError.UNKNOWN_LEADER_EPOCH] * 50)
    with pytest.raises(KafkaRetryable, match="offsets of t-0"):
        asked.end_offsets([("t", 0)])
    assert metadata.METADATA_LAG_S <= sum(pauses) < metadata.METADATA_LAG_S + 1


def test_many_partitions_are_asked_for_in_several_questions(pauses: list[float]) -> None:
    """The client's time grows with the square of what one question is about; an error is borne."""
    asked = admin(None, KafkaError.NOT_LEADER_FOR_PARTITION, None, None)
    sizes: list[int] = []
    client = asked._consumer_client
    answer = client.offsets_for_times  # type: ignore[union-attr]

    def answer_counted(places: Sequence[Any], timeout: float) -> list[Any]:
        sizes.append(len(places))
        return answer(places, timeout)  # type: ignore[return-value]

    client.offsets_for_times = answer_counted  # type: ignore
    places = [("t", number) for number in range(2 * ASKED_MAX + 1)]
    assert list(asked.end_offsets(places).items()) == [(place, 7) for place in places]
    assert sizes == [ASKED_MAX, ASKED_MAX, ASKED_MAX, 1]  # the second one twice
    assert len(pauses) == 1


def knowing(asked: KafkaAdmin, monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
    """Let the brokers know so many partitions of the topic."""
    there = TopicDescription(name="t", topic_id="i", partitions=partitions, replication_factor=1)
    monkeypatch.setattr(asked, "describe", lambda _topics: {"t": there})


UNKNOWN = KafkaError._UNKNOWN_PARTITION  # pyright: ignore[reportPrivateUsage]


def test_a_partition_that_one_client_does_not_know_is_asked_for_again(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was added a moment ago; the client is made to learn anew which there are."""
    asked = admin(UNKNOWN, UNKNOWN, UNKNOWN, None)
    knowing(asked, monkeypatch, 2)
    assert asked.end_offsets([("t", 1)]) == {("t", 1): 7}
    assert len(pauses) == 3
    assert asked._consumer_client.learned == ["t"] * 3  # type: ignore[union-attr] # pyright: ignore


def test_a_partition_that_nobody_knows_is_gone(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clients agree: they are believed sooner, for they may ask one broker that lags."""
    asked = admin(*[UNKNOWN] * 50)
    knowing(asked, monkeypatch, 1)
    with pytest.raises(SourceGone, match="no partition 1"):
        asked.end_offsets([("t", 1)])
    assert metadata.AGREED_LAG_S <= sum(pauses) < metadata.AGREED_LAG_S + 1


def test_the_time_that_a_broker_was_away_is_no_time_of_doubt(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answers of a broker that has just come up may lack the partition."""
    asked = admin(UNKNOWN, UNKNOWN, None)
    knowing(asked, monkeypatch, 1)
    client = asked._consumer_client
    answer = client.offsets_for_times  # type: ignore[union-attr]

    def answer_late(places: Sequence[Any], timeout: float) -> list[Any]:
        if not pauses:
            pauses.append(2 * metadata.METADATA_LAG_S)
        return answer(places, timeout)  # type: ignore[return-value]

    monkeypatch.setattr(client, "offsets_for_times", answer_late)
    assert asked.end_offsets([("t", 1)]) == {("t", 1): 7}


def test_a_partition_that_the_brokers_have_is_never_gone(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not find it for long is an error that may pass."""
    asked = admin(*[UNKNOWN] * 50)
    knowing(asked, monkeypatch, 2)
    with pytest.raises(KafkaRetryable, match="partition that the brokers have"):
        asked.end_offsets([("t", 1)])
    assert metadata.METADATA_LAG_S <= sum(pauses) < metadata.METADATA_LAG_S + 1
