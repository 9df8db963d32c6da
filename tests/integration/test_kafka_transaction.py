"""The transactional producer on a real broker: all of an epoch or nothing, and what is known."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import (
    BrokerUnavailable,
    ClientSettingsError,
    RowsRefused,
    TransactionAborted,
    TransactionExpired,
    TransactionFenced,
    TransactionTimeoutRefused,
)
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.connectors.kafka.transaction import (
    PlainSink,
    TransactionalSink,
    TransactionOptions,
)
from mustela.connectors.kafka.writers.transactions import SharedTransactions
from mustela.errors import InvariantError
from tests.integration.kafka_rows import (
    MakeSink,
    MakeTopic,
    await_end,
    await_settled,
    commit_rows,
    values_of,
)

pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]

BOTH_SINKS = pytest.mark.parametrize(
    "make_sink", [TransactionalSink, SharedTransactions], indirect=True
)
"""Marks a test of what the driver expects of its transactions, whoever else may write."""
pytestmark = pytest.mark.broker

ATTEMPTS_MAX = 6


def committed(
    properties: dict[str, Any], topic: str, *, settled: bool = True
) -> list[tuple[bytes | None, bytes | None]]:
    """What a read_committed consumer sees, once nothing is open any more."""
    if settled:
        await_settled(properties, topic)
    options = TailOptions(until_end=True)
    return [(record.key, record.value) for record in tail(properties, topic, options)]


def produce_until_taken(
    sink: TransactionalSink, topic: str, columns: dict[str, Any], beside: str
) -> tuple[set[int], int]:
    """Try a transaction, leaving out what is refused, as an engine does."""
    skip: set[int] = set()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            sink.begin()
            sink.produce_columns(beside, [b"k"], [b"beside"], tag="fine")
            sink.produce_columns(topic, **columns, tag="bad", skip=skip)
            sink.send_offsets({(beside, 0): attempt})
            sink.flush()
            sink.produce_tracked(beside, 0, [b"epoch"], [b"record"])
            sink.commit()
        except RowsRefused as error:
            skip |= {row.row for row in error.rows if row.tag == "bad"}
            if len(skip) < len(error.rows):
                pytest.fail("a row that is fine was refused")
            sink.reopen()
        else:
            return skip, attempt
    pytest.fail("the transaction was never taken")


def finish(sink: TransactionalSink) -> None:
    sink.flush()
    sink.commit()


@BOTH_SINKS
def test_everything_of_a_transaction_appears_together(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """Rows, changelog, epoch record and offsets; none of them before the commit."""
    out, log = make_topic(2), make_topic(4)
    sink = make_sink(group := f"together-{out}")
    sink.begin()
    sink.produce_columns(out, [b"a", b"b"], [b"1", b"2"], [1, 0], header=("epoch", b"7"))
    sink.produce_columns([out, log], [b"c", b"d"], [b"3", b"4"], partitions=[None, 3])
    sink.produce_tracked(log, 1, [b"x", b"y"], [b"5", None])
    sink.send_offsets({(out, 0): 41})
    ends = sink.flush()
    assert committed(properties, out, settled=False) == []
    assert committed(properties, log, settled=False) == []
    sink.commit()
    assert ends == {(log, 1): 2}
    await_end(admin, log, 3, partition=1)
    await_settled(properties, out)
    found = sorted(tail(properties, out, TailOptions(until_end=True)), key=lambda r: r.key or b"")
    assert [(r.key, r.value) for r in found] == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert [r.timestamp for r in found[:2]] == [1, 1]
    assert [r.headers for r in found] == [(("epoch", b"7"),)] * 2 + [()]
    assert sorted(committed(properties, log)) == [(b"d", b"4"), (b"x", b"5"), (b"y", None)]
    assert admin.group_offsets(group) == {(out, 0): 41}


@BOTH_SINKS
def test_rows_of_a_timeless_topic_have_no_time_of_this_machine(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """A clock that is a day ahead stops no epoch: a broker refuses a time of tomorrow."""
    log = make_topic(1)
    sink = make_sink(timeless=frozenset({log}))
    sink.begin()
    sink.produce_tracked(log, 0, [b"record", b"delta"], [b"1", b"2"])
    sink.flush()
    sink.commit()
    await_settled(properties, log)
    found = tail(properties, log, TailOptions(until_end=True))
    assert [row.timestamp for row in found] == [1, 1]


@BOTH_SINKS
def test_tracked_ends_are_right_behind_other_rows(
    make_topic: MakeTopic, make_sink: MakeSink, admin: KafkaAdmin
) -> None:
    """Over several transactions, many rows, and calls for the same partition."""
    log, sink = make_topic(2), make_sink()
    expected = 0
    for size in (1, 25_000, 3):
        sink.begin()
        sink.produce_tracked(log, 0, [b"k"] * size, [b"v"] * size)
        sink.produce_tracked(log, 0, [b"k"] * 2, [b"v"] * 2)
        expected += size + 2
        assert sink.flush() == {(log, 0): expected}
        sink.commit()
        expected += 1  # the commit marker
        await_end(admin, log, expected)


@BOTH_SINKS
def test_keys_land_where_java_puts_them(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """The partitioner is murmur2: known keys of a topic with ten partitions."""
    topic, sink = make_topic(10), make_sink()
    sink.begin()
    keys: list[bytes | None] = [b"kafka", b"giberish123456789", b""]
    sink.produce_columns(topic, keys, [b"v"] * 3)
    sink.commit()
    await_settled(properties, topic)
    found = {r.key: r.partition for r in tail(properties, topic, TailOptions(until_end=True))}
    # abs(murmur2) of these keys, as librdkafka's and Java's own tests have it
    assert found == {
        b"kafka": (0xD067CF64 & 0x7FFFFFFF) % 10,
        b"giberish123456789": (0x8F552B0C & 0x7FFFFFFF) % 10,
        b"": (0x106E08D9 & 0x7FFFFFFF) % 10,
    }


def test_a_newer_producer_fences_the_older_one(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """What the older one left open is never seen, and it is told that it is not needed."""
    topic, older = make_topic(), make_sink("fenced")
    older.begin()
    older.produce_columns(topic, [b"k"], [b"older"])
    older.flush()
    newer = make_sink("fenced")
    commit_rows(newer, topic, [b"newer"])
    with pytest.raises(TransactionFenced) as fenced:
        older.commit()
    assert not fenced.value.retryable
    assert not older.is_open
    await_end(admin, topic, 4)
    assert committed(properties, topic) == [(None, b"newer")]
    commit_rows(newer, topic, [b"still"])


def test_a_warm_producer_fences_nothing_before_it_is_opened(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """What is connected ahead is what claims, and is used up or let go by that."""
    topic, older = make_topic(), make_sink("warm")
    newer = TransactionalSink(properties, "warm")
    newer.warm()
    newer.warm()
    commit_rows(older, topic, [b"old"])
    newer.open()
    commit_rows(newer, topic, [b"new"])
    older.begin()
    older.produce_columns(topic, [b"k"], [b"late"])
    with pytest.raises(TransactionFenced):
        finish(older)
    newer.close()
    assert committed(properties, topic) == [(None, b"old"), (None, b"new")]


@BOTH_SINKS
def test_an_older_producer_is_fenced_at_every_call(
    make_topic: MakeTopic, make_sink: MakeSink
) -> None:
    """Also when it sends its first row only now."""
    topic, older = make_topic(), make_sink("fenced-early")
    make_sink("fenced-early")

    def whole_transaction() -> None:
        older.begin()
        older.produce_columns(topic, [b"k"], [b"v"])
        older.send_offsets({(topic, 0): 1})
        older.flush()
        older.commit()

    with pytest.raises(TransactionFenced):
        whole_transaction()
    with pytest.raises(InvariantError):
        older.begin()


@pytest.mark.slow
@BOTH_SINKS
def test_a_transaction_that_is_open_for_too_long_expired(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """The client calls it fenced; the time that passed says that nobody else was there."""
    topic, sink = make_topic(), make_sink(commit_timeout=5.0)
    sink.begin()
    sink.produce_columns(topic, [b"k"], [b"late"])
    sink.flush()
    await_end(admin, topic, 2)  # the broker writes an abort marker by itself
    with pytest.raises(TransactionExpired) as expired:
        sink.commit()
    assert expired.value.retryable
    sink.reopen()
    commit_rows(sink, topic, [b"again"])
    await_end(admin, topic, 4)
    assert committed(properties, topic) == [(None, b"again")]


@BOTH_SINKS
def test_rows_too_large_for_the_topic_are_found(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """The broker refuses their batch; the others of the batch are not blamed."""
    topic, beside, sink = make_topic(max_message_bytes="2000"), make_topic(), make_sink()
    values = [b"1", b"2" * 5_000, b"3", b"4" * 5_000]
    columns = {"keys": [b"k"] * 4, "values": values}
    skip, _ = produce_until_taken(sink, topic, columns, beside)
    assert skip == {1, 3}
    assert committed(properties, topic) == [(b"k", b"1"), (b"k", b"3")]
    assert committed(properties, beside) == [(b"k", b"beside"), (b"epoch", b"record")]


def test_a_batch_too_large_for_the_topic_is_not_its_rows_fault(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """Rows that fit alone go out in smaller batches, none of them left out."""
    topic, beside, sink = make_topic(max_message_bytes="2000"), make_topic(), make_sink()
    noise = random.Random(1)
    columns = {"keys": [b"k"] * 20, "values": [noise.randbytes(500) for _ in range(20)]}
    skip, attempts = produce_until_taken(sink, topic, columns, beside)
    assert skip == set()
    assert attempts > 1
    assert len(committed(properties, topic)) == 20


@BOTH_SINKS
def test_rows_too_large_for_the_client_are_found(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """They never reach the broker."""
    topic, beside, sink = make_topic(), make_topic(), make_sink()
    noise = random.Random(1).randbytes(5_000_000)  # compressed it is as large
    columns = {"keys": [b"k"] * 3, "values": [b"1", noise, b"3"]}
    assert produce_until_taken(sink, topic, columns, beside) == ({1}, 2)
    assert committed(properties, topic) == [(b"k", b"1"), (b"k", b"3")]


@BOTH_SINKS
def test_rows_from_the_future_are_found(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """A topic may limit how far ahead a timestamp is."""
    topic, beside, sink = (
        make_topic(message_timestamp_after_max_ms="3600000"),
        make_topic(),
        make_sink(),
    )
    now = int(time.time() * 1000)
    columns = {
        "keys": [b"k"] * 4,
        "values": [b"1", b"2", b"3", b"4"],
        "timestamps": [now, now + 10**8, now, now + 10**9],
    }
    skip, _ = produce_until_taken(sink, topic, columns, beside)
    assert skip == {1, 3}
    assert committed(properties, topic) == [(b"k", b"1"), (b"k", b"3")]


@BOTH_SINKS
def test_rows_without_key_for_a_compacted_topic_are_found(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """A compacted topic takes no null key."""
    topic, beside, sink = make_topic(cleanup_policy="compact"), make_topic(), make_sink()
    columns = {"keys": [b"a", None, b"c"], "values": [b"1", b"2", b"3"]}
    skip, _ = produce_until_taken(sink, topic, columns, beside)
    assert skip == {1}
    assert committed(properties, topic) == [(b"a", b"1"), (b"c", b"3")]


def test_a_broken_limit_of_the_broker_is_named(properties: dict[str, Any]) -> None:
    """A transaction timeout beyond the broker's maximum, and a setting that does not exist."""
    long = TransactionOptions(commit_timeout=100_000.0)
    with pytest.raises(TransactionTimeoutRefused) as refused:
        TransactionalSink(properties, "long", options=long).open()
    assert (refused.value.fix or "").startswith("lower commit_timeout, or raise")
    lower = TransactionalSink(properties, "long", options=TransactionOptions(commit_timeout=60.0))
    lower.open()
    lower.close()
    with pytest.raises(ClientSettingsError) as unknown:
        TransactionalSink({**properties, "no.such.setting": 1}, "unknown").open()
    assert "no.such.setting" in str(unknown.value)
    assert unknown.value.fix == "correct the setting under kafka that the text names"
    corrected = TransactionalSink({**properties, "linger.ms": 1}, "unknown")
    corrected.open()
    corrected.close()


@pytest.mark.timeout(50)  # less than the limit that holds where none is given
def test_no_broker_is_named_within_the_limit() -> None:
    """Opening waits as long as it may, then says that no broker answers."""
    options = TransactionOptions(open_timeout=1.0)
    sink = TransactionalSink({"bootstrap.servers": "127.0.0.1:1"}, "nobody", options=options)
    with pytest.raises(BrokerUnavailable) as gone:
        sink.open()
    assert gone.value.evidence["servers"] == "127.0.0.1:1"


def _flush_and_commit(sink: TransactionalSink) -> None:
    sink.flush()
    sink.commit()


def test_a_topic_that_does_not_exist_ends_the_transaction(
    make_sink: MakeSink, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """The rows wait for a topic that never comes, until the timeout, or until the client gives up.

    Who commits is told in any case.
    """
    topic, sink = make_topic(), make_sink(commit_timeout=5.0)
    sink.begin()
    sink.produce_columns(topic, [b"k"], [b"v"])
    sink.produce_columns("no-such-topic-at-all", [b"k"], [b"v"])
    with pytest.raises((TransactionAborted, TransactionExpired)):
        _flush_and_commit(sink)
    sink.reopen()
    assert committed(properties, topic) == []


def test_rows_of_a_deleted_topic_are_told_by_topic_and_reason(
    make_topic: MakeTopic, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """The client says "see individual delivery reports"; the error says which and why."""
    topic, log = make_topic(), make_topic()
    # The client gives a topic that it does not find half a minute to appear.
    quick = {**properties, "topic.metadata.propagation.max.ms": 1_000}
    sink = TransactionalSink(quick, topic, options=TransactionOptions(commit_timeout=60.0))
    told: list[str] = []
    admin.delete([topic])
    for _ in range(2):
        sink.reopen()
        sink.begin()
        sink.produce_columns(topic, [b"k"], [b"v"])
        sink.produce_tracked(log, 0, [b"k"], [b"v"])
        with pytest.raises(TransactionAborted) as aborted:
            finish(sink)
        told.append(str(aborted.value))
    assert not any("individual" in text for text in told), told
    assert all(f"{topic}: does not exist" in text for text in told), told
    assert f"1 row(s) to {topic}: UNKNOWN_TOPIC" in told[1]
    # The way on that the error names.
    assert f"mustela topics create {topic}" in told[1]
    admin.create([TopicSpec(name=topic, partitions=1)])
    sink.reopen()
    commit_rows(sink, topic, [b"again"])
    assert committed(properties, topic) == [(None, b"again")]
    sink.close()


@BOTH_SINKS
def test_a_tracked_row_that_is_refused_comes_back_with_its_tag(
    make_topic: MakeTopic, make_sink: MakeSink
) -> None:
    """So that the row of a changelog can be named with its store and key."""
    log, sink = make_topic(max_message_bytes="2000"), make_sink()
    values: list[bytes | None] = [b"1", b"2", b"v" * 5_000]
    for size in (5_000, 5_000_000):  # refused by the broker, and by the client
        values[2] = b"v" * size
        for attempt in range(2):
            sink.reopen()
            sink.begin()
            sink.produce_tracked(log, 0, [b"a", b"b", b"c"], values, tag="mine")
            with pytest.raises(RowsRefused) as refused:
                sink.flush()
            if refused.value.known:
                break
            assert attempt == 0
        assert [(row.tag, row.row) for row in refused.value.rows] == [("mine", 2)]


@pytest.mark.parametrize("kind", [TransactionalSink, SharedTransactions])
def test_the_crash_points_are_reached_in_order(
    properties: dict[str, Any], make_topic: MakeTopic, kind: Any
) -> None:
    """Where tests kill the process."""
    topic = make_topic()
    reached: list[str] = []
    sink = kind(properties, "points", crash_point=reached.append)
    sink.reopen()
    sink.begin()
    sink.produce_columns(topic, [b"k"] * 10, [b"v"] * 10)
    sink.send_offsets({(topic, 0): 1})
    sink.flush()
    sink.commit()
    sink.close()
    assert reached == [
        "transaction-begun",
        "half-produced",
        "offsets-added",
        "flushed",
        "commit-sent",
        "committed",
    ]


def test_rows_outside_a_transaction(
    make_topic: MakeTopic, properties: dict[str, Any], reader: RangeReader
) -> None:
    """A task's own producer: in order, with headers, and with the refused rows by their index."""
    topic = make_topic(message_timestamp_after_max_ms="3600000")
    now = int(time.time() * 1000)
    sink = PlainSink(properties)
    sink.produce_columns(topic, [b"k"] * 1_000, [b"%d" % n for n in range(1_000)], [now] * 1_000)
    sink.flush()
    assert values_of(reader, topic, 0, 1_000) == [b"%d" % n for n in range(1_000)]
    values = [b"fine", b"ahead", b"fine", b"skipped"]
    sink.produce_columns(
        topic, [b"k"] * 4, values, [now, now + 10**8, now, now + 10**8], tag="mine", skip={3}
    )
    with pytest.raises(RowsRefused) as refused:
        sink.flush()
    assert [(row.tag, row.row, row.reason) for row in refused.value.rows] == [
        ("mine", 1, "INVALID_TIMESTAMP")
    ]
    sink.produce_columns(topic, [b"k"], [b"after"], header=("epoch", b"3"))
    sink.flush()
    sink.close()
    nobody = PlainSink({"bootstrap.servers": "127.0.0.1:1"}, send_timeout=1.0)
    nobody.produce_columns(topic, [b"k"], [b"v"])
    with pytest.raises(BrokerUnavailable):
        nobody.flush()
