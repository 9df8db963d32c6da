"""Being told of records by a real broker, and an application at rest that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.bell import RecordBell
from mustela.model import TopicPartition
from tests.faults.inside import Inside, await_condition
from tests.integration.kafka_rows import (
    MakeSink,
    MakeTopic,
    await_end,
    commit_rows,
    plain_producer,
)
from tests.patience import PATIENCE_S, SOON

pytest_plugins = ["tests.integration.kafka_fixture", "tests.integration.app_fixture"]
pytestmark = pytest.mark.broker

TRIES = 5


@pytest.fixture
def bell(properties: dict[str, Any]) -> Iterator[RecordBell]:
    made = RecordBell(properties)
    yield made
    made.close()


def test_it_rings_for_what_is_new_in_any_log(
    bell: RecordBell, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """For nothing that was there; and again from another end, after it was hushed."""
    producer = plain_producer(properties)
    topic = make_topic(3)
    places = [TopicPartition(topic, number) for number in range(3)]
    producer.produce(topic, b"old", partition=1)
    producer.flush()
    ends = {places[0]: 0, places[1]: 1, places[2]: 0}
    assert not bell.wait(ends, 0.7)
    producer.produce(topic, b"new", partition=1)
    assert bell.wait(ends, PATIENCE_S)
    bell.hush()
    ends[places[1]] = 2
    assert not bell.wait(ends, 0.7)
    producer.produce(topic, b"x" * 100_000, partition=2)
    assert bell.wait(ends, PATIENCE_S), "a batch is larger than what is asked for"
    bell.hush()
    assert bell.wait(ends, PATIENCE_S), "it was not read"


def test_it_rings_when_a_transaction_is_committed(
    bell: RecordBell, make_topic: MakeTopic, make_sink: MakeSink, admin: KafkaAdmin
) -> None:
    """Not while it is open: an epoch would find nothing."""
    topic, sink = make_topic(), make_sink()
    ends = {TopicPartition(topic, 0): 0}
    sink.begin()
    sink.produce_columns(topic, [None], [b"v"], partitions=0)
    sink.flush()
    assert not bell.wait(ends, 0.7)
    sink.commit()
    assert bell.wait(ends, PATIENCE_S)
    await_end(admin, topic, 2)
    ends[TopicPartition(topic, 0)] = 2
    commit_rows(sink, topic, [b"w"])
    assert bell.wait(ends, PATIENCE_S)


def test_a_log_that_no_longer_holds_the_end_is_worth_a_look(
    bell: RecordBell, make_topic: MakeTopic
) -> None:
    """The look finds out what happened; a bell that kept silent would hide it."""
    assert bell.wait({TopicPartition(make_topic(), 0): 5}, PATIENCE_S)


@pytest.mark.spark
def test_an_application_at_rest_is_told_of_a_record(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And if a look finds one before the bell does, then of the next; a stop ends the rest."""
    waits: list[bool] = []
    wait = RecordBell.wait

    def noted_wait(bell: RecordBell, ends: Mapping[TopicPartition, int], seconds: float) -> bool:
        waits.append(wait(bell, ends, seconds))
        return waits[-1]

    def build(builder: StreamsBuilder, prefix: str) -> None:
        builder.stream(f"{prefix}.in", key=str, value=str).to(f"{prefix}.out")

    monkeypatch.setattr(RecordBell, "wait", noted_wait)
    inside.build(build)
    app, heard = inside.app()
    with app:
        for sent in range(1, TRIES + 1):
            waits.clear()
            await_condition(lambda: len(waits) > 5, app)
            assert not any(waits)
            inside.send([("a", "v")])
            inside.await_caught_up(app)
            assert len(inside.rows()) == sent
            if any(waits):
                break
        assert any(waits), "each record was found by a look around, of which there is one a second"
    assert app.wait(SOON)
    assert not heard.errors
