"""Topics, offsets and groups on a real broker."""

from __future__ import annotations

import gc
import shlex
import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, Uuid

from mustela.connectors.kafka.admin import (
    GroupInUseError,
    InternalTopicError,
    KafkaAdmin,
    MissingTopicError,
    TopicSpec,
)
from mustela.connectors.kafka.errors import BrokerUnavailable, SourceGone
from mustela.connectors.kafka.tools import send
from mustela.connectors.kafka.topic_checks import BROKER_TIME
from mustela.errors import Origin
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeSink, MakeTopic, add_partitions
from tests.patience import PATIENCE_S

pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]
pytestmark = pytest.mark.broker


def test_a_topic_that_was_created_again_is_another_topic(
    make_topic: MakeTopic, admin: KafkaAdmin, properties: dict[str, Any]
) -> None:
    """Same name, same offsets perhaps, but another id."""
    topic = make_topic(partitions=3)
    before = admin.describe([topic])[topic]
    send(properties, topic, [(None, b"x")] * 5, partition=0)
    admin.delete([topic])
    assert admin.describe([topic]) == {}
    admin.create([TopicSpec(name=topic, partitions=2)])
    after = admin.describe([topic])[topic]
    assert after.topic_id != before.topic_id
    assert (before.partitions, after.partitions) == (3, 2)
    assert admin.partitions(topic) == 2
    assert set(admin.end_offsets([(topic, 0), (topic, 1)]).values()) == {0}


def test_looks_at_topics_leave_nothing(make_topic: MakeTopic, admin: KafkaAdmin) -> None:
    """An application looks at its topics several times a second, for months."""

    def ids() -> int:
        gc.collect()
        return sum(type(one) is Uuid for one in gc.get_objects())

    topics = [make_topic(), make_topic()]
    first, before = admin.describe(topics), ids()
    for _ in range(20):
        assert admin.describe(topics) == first
    assert ids() == before


@pytest.mark.parametrize("created_with", [{}, BROKER_TIME], ids=["client", "broker"])
def test_a_clock_a_day_ahead_is_refused_unless_the_broker_sets_the_time(
    make_topic: MakeTopic,
    created_with: dict[str, str],
    admin: KafkaAdmin,
    properties: dict[str, Any],
) -> None:
    """Internal topics are made so: epochs and leases need no right clock."""
    topic = f"{make_topic()}-timed"
    admin.create([TopicSpec(name=topic, partitions=1, created_with=created_with)])
    told: list[KafkaError | None] = []
    producer = Producer(properties)
    ahead_ms = int(time.time() * 1000) + 86_400_000
    producer.produce(topic, b"x", timestamp=ahead_ms, on_delivery=lambda e, _: told.append(e))
    assert producer.flush(PATIENCE_S) == 0
    (error,) = told
    assert (error and error.name()) == (None if created_with else "INVALID_TIMESTAMP")


def test_a_missing_topic_is_named_with_what_was_meant(
    make_topic: MakeTopic, admin: KafkaAdmin
) -> None:
    """By every question about it; the error can carry the user's line."""
    topic = make_topic()
    wrong = topic[:-1] + "x"
    assert wrong not in admin.describe([topic, wrong])
    with pytest.raises(MissingTopicError) as missing:
        admin.partitions(wrong)
    assert topic in missing.value.fields["close"]
    with pytest.raises(MissingTopicError):
        admin.end_offsets([(topic, 0), (wrong, 0)])
    with pytest.raises(SourceGone):
        admin.end_offsets([(topic, 9)])
    error = admin.missing_topic(wrong, use="sink", at=Origin("app.py", 4, "x.to('t')"))
    assert "topics.create" in (error.fix or "")
    internal = admin.missing_topic(wrong, use="internal").fix or ""
    assert "topics create" not in internal
    assert "app.py:4" in str(error)


def test_offsets_of_partitions_that_were_added_are_told(
    make_topic: MakeTopic, admin: KafkaAdmin, properties: dict[str, Any]
) -> None:
    """The client that asks for offsets is not the one that was told of them."""
    topic = make_topic()
    assert set(admin.end_offsets([(topic, 0)]).values()) == {0}
    add_partitions(properties, topic, 4)
    assert admin.describe([topic])[topic].partitions == 4
    places = [(topic, partition) for partition in range(4)]
    assert admin.end_offsets(places) == dict.fromkeys(places, 0)


def test_an_internal_topic_is_as_it_must_be_or_named(
    make_topic: MakeTopic, admin: KafkaAdmin, broker: DevelopmentBroker
) -> None:
    """Partitions, policy and kind of timestamp; the rest is the operator's."""
    topic = make_topic(partitions=4, cleanup_policy="compact,delete", segment_bytes="52428800")
    right = TopicSpec(name=topic, partitions=4, config={"cleanup.policy": "delete,compact"})
    admin.check_internal([right])
    admin.create([right])  # already there: no error, nothing changes
    for wrong, says in (
        (TopicSpec(name=topic, partitions=8), "partitions"),
        (TopicSpec(name=topic, partitions=4, config={"cleanup.policy": "compact"}), "compact"),
        (
            TopicSpec(name=topic, partitions=4, config={"message.timestamp.type": "LogAppendTime"}),
            "LogAppendTime",
        ),
    ):
        with pytest.raises(InternalTopicError, match=says) as differs:
            admin.check_internal([wrong])
        assert differs.value.fix
    server = ["--bootstrap-server", broker.bootstrap_servers]
    words = shlex.split((differs.value.fix or "").removeprefix("mustela "))
    command = [sys.executable, "-m", "mustela.cli.main", *words, *server]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    admin.check_internal([wrong])


def test_a_topic_that_can_lose_what_was_committed_is_told(
    make_topic: MakeTopic, admin: KafkaAdmin
) -> None:
    """By its own setting; the one replica of a single broker is no news."""
    topic = make_topic(partitions=1, unclean_leader_election_enable="true")
    (told,) = admin.weak_topics([make_topic(partitions=1), topic])
    assert f"when a broker fails: {topic}; set it to false" in told


def test_offsets_by_time(
    make_topic: MakeTopic, admin: KafkaAdmin, properties: dict[str, Any]
) -> None:
    """The first record at or after a time, or none; ends and beginnings of many partitions."""
    topic = make_topic(partitions=30, retention_ms="-1")
    send(
        properties,
        topic,
        [(None, b"x")] * 3,
        partition=0,
        timestamps=[1_000_000, 2_000_000, 3_000_000],
    )
    times = {(topic, 0): 1_500_000, (topic, 1): 0}
    assert admin.offsets_for_times(times) == {(topic, 0): 1, (topic, 1): None}
    assert admin.offsets_for_times({(topic, 0): 9_000_000}) == {(topic, 0): None}
    places = [(topic, partition) for partition in range(30)]
    assert sum(admin.end_offsets(places).values()) == 3
    assert sum(admin.earliest_offsets(places).values()) == 0


def test_group_offsets_are_listed_and_set(
    make_topic: MakeTopic, admin: KafkaAdmin, properties: dict[str, Any]
) -> None:
    """A group without members; one with members is left alone."""
    topic = make_topic(partitions=2)
    group = f"{topic}-group"
    assert admin.group_offsets(group) == {}
    admin.set_group_offsets(group, {(topic, 0): 7, (topic, 1): 0})
    assert admin.group_offsets(group) == {(topic, 0): 7, (topic, 1): 0}
    admin.delete_group(group)
    admin.delete_group(group)
    assert admin.group_offsets(group) == {}
    member = Consumer({**properties, "group.id": group})
    member.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    while not member.assignment() and time.monotonic() < deadline:
        member.poll(0.1)
    with pytest.raises(GroupInUseError):
        admin.set_group_offsets(group, {(topic, 0): 1})
    with pytest.raises(GroupInUseError) as used:
        admin.delete_group(group)
    fix = f"stop the consumers of group '{group}', or give the application another id"
    assert used.value.fix == fix
    admin.set_group_offsets(f"{group}-2", {(topic, 0): 1})
    member.close()
    admin.set_group_offsets(group, {(topic, 0): 1})


def test_offsets_of_a_group_are_told_while_a_transaction_of_it_hangs(
    make_topic: MakeTopic, make_sink: MakeSink, admin: KafkaAdmin
) -> None:
    """Whoever left it open may be dead: what was committed before it is what there is."""
    topic = make_topic()
    sink = make_sink(topic, commit_timeout=600.0)
    for offset in (3, 7):
        sink.begin()
        sink.produce_columns(topic, [b"k"], [b"v"])
        sink.send_offsets({(topic, 0): offset})
        sink.flush()
        if offset == 3:
            sink.commit()
            assert admin.group_offsets(topic) == {(topic, 0): 3}
    assert admin.group_offsets(topic) == {(topic, 0): 3}
    sink.commit()
    assert admin.group_offsets(topic) == {(topic, 0): 7}


def test_no_broker_is_named() -> None:
    """Each kind of question says so, within its timeout."""
    nobody = KafkaAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout=1.0)
    for ask in (
        nobody.cluster_id,
        nobody.topics,
        lambda: nobody.describe(["t"]),
        lambda: nobody.end_offsets([("t", 0)]),
    ):
        with pytest.raises(BrokerUnavailable):
            ask()
    nobody.close()
