"""One transaction, several writers, a real broker: what they write is seen together or never."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.errors import (
    RowsRefused,
    TransactionAborted,
    TransactionFailed,
    TransactionFenced,
)
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.connectors.kafka.writers import coordinator as coordinator_module
from mustela.connectors.kafka.writers.cluster import Cluster
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.features import lacking
from mustela.connectors.kafka.writers.placing import Placing
from mustela.connectors.kafka.writers.sealed import seal
from mustela.connectors.kafka.writers.transactions import SharedTransactions
from mustela.connectors.kafka.writers.writer import TransactionWriter, WriterOptions, Written
from mustela.errors import InvariantError
from mustela.model import Headers
from mustela.plan.partitions import partition_of
from mustela.plan.ticket import Ticket
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import MakeTopic, await_settled
from tests.patience import PATIENCE_S

pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]
pytestmark = pytest.mark.broker

Open = Callable[..., TransactionCoordinator]
_LAST_EPOCH = 32_766
"""Brokers keep the largest short for ending what an older producer has left."""
_WRITER = """
import json, pickle, sys
from mustela.connectors.kafka.writers.writer import TransactionWriter
properties, ticket, topic, partition, rows = pickle.loads(bytes.fromhex(sys.argv[1]))
writer = TransactionWriter(properties, ticket)
writer.write(topic, partition, [None] * len(rows), rows)
print(json.dumps([list(place) + list(written) for place, written in writer.finish().items()]))
"""


@pytest.fixture(params=["by the end", "by asking"])
def open_coordinator(
    properties: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Opens a coordinator, whose epochs go up as in version 2 of transactions, or as in version 1.

    The version is a matter of the requests: a broker that knows 2 serves both.
    """
    if request.param == "by asking":
        monkeypatch.setattr(coordinator_module, "bumps_at_end", lambda _broker: False)
    made: list[TransactionCoordinator] = []

    def make(**options: Any) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(properties, request.node.name, **options)
        made.append(coordinator)
        coordinator.open()
        return coordinator

    yield make
    for coordinator in made:
        coordinator.close()


def write(
    properties: dict[str, Any], ticket: Ticket, topic: str, partition: int, *values: bytes
) -> Written:
    """Write rows as a process of its own would."""
    writer = TransactionWriter(properties, ticket)
    try:
        return put(writer, topic, partition, *values)
    finally:
        writer.close()


def put(
    writer: TransactionWriter, topic: str, partition: int, *values: bytes, **more: Any
) -> Written:
    """Write rows, and wait until the broker has them."""
    keys = more.pop("keys", [None] * len(values))
    writer.write(topic, partition, keys, values, **more)
    return writer.finish()[topic, partition]


def seen(properties: dict[str, Any], topic: str, *, settled: bool = True) -> list[bytes]:
    """What a read_committed consumer of librdkafka's sees, sorted."""
    if settled:
        await_settled(properties, topic)
    return sorted(row.value or b"" for row in tail(properties, topic, TailOptions(until_end=True)))


def test_what_several_processes_write_appears_together(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """Nothing before the driver's commit, all of it after; offsets too."""
    topic, coordinator = make_topic(3), open_coordinator()
    ticket = coordinator.begin()
    commands = [
        pickle.dumps((properties, ticket, topic, part, [b"%d-%d" % (part, n) for n in range(3)]))
        for part in range(3)
    ]
    children = [
        subprocess.Popen([sys.executable, "-c", _WRITER, command.hex()], stdout=subprocess.PIPE)
        for command in commands
    ]
    said = [json.loads(child.communicate(timeout=PATIENCE_S)[0]) for child in children]
    assert said == [[[topic, part, 0, 3]] for part in range(3)]
    coordinator.send_offsets({(topic, 0): 17, (topic, 2): 4})
    assert seen(properties, topic, settled=False) == []
    coordinator.commit()
    assert seen(properties, topic) == [b"%d-%d" % (p, n) for p in range(3) for n in range(3)]
    group = coordinator.ticket.transactional_id
    assert admin.group_offsets(group) == {(topic, 0): 17, (topic, 2): 4}


def test_an_abort_hides_what_all_have_written(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """And the next transaction goes on with another epoch, its rows numbered from 0."""
    topic, coordinator = make_topic(2), open_coordinator()
    first = coordinator.begin()
    for part in range(2):
        write(properties, first, topic, part, b"hidden")
    coordinator.abort()
    second = coordinator.begin()
    assert (second.producer_id, second.producer_epoch) != (first.producer_id, first.producer_epoch)
    for part in range(2):
        assert write(properties, second, topic, part, b"seen %d" % part) == Written(2, 3)
    coordinator.commit()
    assert seen(properties, topic) == [b"seen 0", b"seen 1"]


def test_an_abort_of_nothing_goes_well(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """The driver does not know whether a writer that died has written."""
    topic, coordinator = make_topic(), open_coordinator()
    coordinator.begin()
    coordinator.abort()
    write(properties, coordinator.begin(), topic, 0, b"after")
    coordinator.commit()
    assert seen(properties, topic) == [b"after"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_late_row_of_an_ended_transaction_is_refused(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any], end: str
) -> None:
    """Once the next has begun: where its writer has written before, and where it has not."""
    topic, coordinator = make_topic(2), open_coordinator()
    ticket = coordinator.begin()
    zombie = TransactionWriter(properties, ticket)
    put(zombie, topic, 0, b"in time")
    getattr(coordinator, end)()
    await_settled(properties, topic)
    write(properties, coordinator.begin(), topic, 0, b"next")
    for partition in range(2):
        with pytest.raises(TransactionFenced):
            write(properties, ticket, topic, partition, b"late")
        with pytest.raises(TransactionFenced):
            put(zombie, topic, partition, b"late")
    zombie.close()
    coordinator.commit()
    assert seen(properties, topic) == [b"in time"] * (end == "commit") + [b"next"]


def test_a_row_that_comes_between_two_transactions_is_not_seen(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """In version 2 it is refused; in version 1 it may begin a transaction, which `begin` aborts."""
    topic, coordinator = make_topic(2), open_coordinator()
    ticket = coordinator.begin()
    write(properties, ticket, topic, 0, b"in time")
    coordinator.commit()
    await_settled(properties, topic)
    refused = 0
    for partition in range(2):
        try:
            write(properties, ticket, topic, partition, b"late")
        except TransactionFailed:
            refused += 1
    assert refused == 2 or not ticket.by_writing
    write(properties, coordinator.begin(), topic, 0, b"next")
    coordinator.commit()
    assert seen(properties, topic) == [b"in time", b"next"]


def test_a_second_writer_of_a_partition_is_refused(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """Where its rows are numbered from elsewhere: there would be a gap."""
    topic, coordinator = make_topic(), open_coordinator()
    ticket = coordinator.begin()
    write(properties, ticket, topic, 0, b"a", b"b")
    second = TransactionWriter(properties, ticket)
    second._lanes[topic, 0].sequence = 3
    with pytest.raises(TransactionAborted) as caught:
        put(second, topic, 0, b"d")
    assert caught.value.fields["kafka"] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    second.close()
    coordinator.abort()


def test_a_driver_that_was_replaced_can_neither_write_nor_commit(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """What it left open is aborted, and it does not fence its successor by going on."""
    topic, old = make_topic(), open_coordinator()
    ticket = old.begin()
    write(properties, ticket, topic, 0, b"old")
    new = open_coordinator()
    write(properties, new.begin(), topic, 0, b"new")
    with pytest.raises(TransactionFenced):
        write(properties, ticket, topic, 0, b"late")
    with pytest.raises(TransactionFenced):
        old.send_offsets({(topic, 0): 1})
    idle = open_coordinator()
    with pytest.raises(TransactionFenced):
        new.commit()
    write(properties, idle.begin(), topic, 0, b"newest")
    idle.commit()
    assert seen(properties, topic) == [b"newest"]


def test_a_driver_that_was_replaced_between_two_transactions_gets_no_ticket_that_works(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """Whether it learns of it when it begins or when it writes."""
    topic, old = make_topic(), open_coordinator()
    write(properties, old.begin(), topic, 0, b"1")
    old.commit()
    new = open_coordinator()
    with pytest.raises(TransactionFenced):
        write(properties, old.begin(), topic, 0, b"late")
    write(properties, new.begin(), topic, 0, b"2")
    new.commit()
    assert seen(properties, topic) == [b"1", b"2"]


def test_many_batches_stand_in_order(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """More than one request takes, to several partitions; each tells where its rows are."""
    topic, coordinator = make_topic(2), open_coordinator()
    options = WriterOptions(batch_bytes=2_000, request_bytes=10_000)
    writer = TransactionWriter(properties, coordinator.begin(), options=options)
    expected: dict[int, list[bytes]] = {0: [], 1: []}
    for turn in range(20):
        for partition, rows in expected.items():
            some = [b"%d-%d-" % (turn, n) + bytes(80) for n in range(40 * (partition + 1))]
            writer.write(topic, partition, some, some)
            rows += some
    written = writer.finish()
    writer.close()
    coordinator.commit()
    assert written == {(topic, 0): Written(0, 800), (topic, 1): Written(0, 1_600)}
    await_settled(properties, topic)
    found: dict[int, list[bytes | None]] = {0: [], 1: []}
    for row in tail(properties, topic, TailOptions(until_end=True)):
        found[row.partition].append(row.value)
    assert found == expected


def test_a_row_that_is_too_large_is_named_and_others_go_in_smaller_batches(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """The limit is the topic's; the writer learns of it by the refusal."""
    topic, coordinator = make_topic(max_message_bytes="2000"), open_coordinator()
    noise = random.Random(1)  # compressed it is as large
    rows = [noise.randbytes(300) for _ in range(50)]
    written = write(properties, coordinator.begin(), topic, 0, *rows)
    assert written == Written(0, 50)
    coordinator.commit()
    before, rows[23] = rows[23], noise.randbytes(3_000)
    writer = TransactionWriter(properties, coordinator.begin())
    with pytest.raises(RowsRefused) as caught:
        put(writer, topic, 0, *rows, tag="mine")
    writer.close()
    assert [(row.tag, row.row) for row in caught.value.rows] == [("mine", 23)]
    coordinator.abort()
    rows[23] = before
    assert seen(properties, topic) == sorted(rows)


def test_rows_without_keys_of_a_compacted_topic_are_named(
    open_coordinator: Open, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """The broker says which of a batch they are."""
    topic, coordinator = make_topic(cleanup_policy="compact"), open_coordinator()
    writer = TransactionWriter(properties, coordinator.begin())
    with pytest.raises(RowsRefused) as caught:
        put(writer, topic, 0, b"1", b"2", b"3", b"4", keys=[b"a", None, b"c", None])
    writer.close()
    assert [row.row for row in caught.value.rows] == [1, 3]
    assert {row.reason for row in caught.value.rows} == {"INVALID_RECORD"}


@pytest.mark.slow
def test_when_the_epochs_have_run_out_the_producer_goes_on_with_another_id(
    make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """An epoch is a short. What has the last ticket of the old id is refused like any other."""
    topic = make_topic()
    coordinator = TransactionCoordinator(properties, "epochs-run-out")
    coordinator.open()
    last = coordinator.begin()
    while last.producer_epoch < _LAST_EPOCH:
        last = coordinator.begin()
    zombie = TransactionWriter(properties, last)
    put(zombie, topic, 0, b"last")
    coordinator.commit()
    first = coordinator.begin()
    assert (first.producer_id != last.producer_id, first.producer_epoch) == (True, 0)
    assert write(properties, first, topic, 0, b"first").start == 2
    with pytest.raises(TransactionFenced):
        put(zombie, topic, 0, b"late")
    zombie.close()
    coordinator.commit()
    coordinator.close()
    assert seen(properties, topic) == [b"first", b"last"]


Row = tuple[bytes | None, bytes | None, int, Headers]
_DATA = st.none() | st.binary(max_size=300)
_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
"""Of headers. librdkafka, which reads here, ends a name at its first NUL."""
_ROW = st.tuples(
    _DATA,
    _DATA,
    st.integers(0, 2_000_000_000_000),
    st.lists(st.tuples(_NAMES, _DATA), max_size=3).map(tuple),
)


@pytest.fixture(scope="module")
def plain_topic(broker: DevelopmentBroker) -> str:
    """A topic of this module."""
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    config = {"message.timestamp.after.max.ms": str(2**60)}
    admin.create([TopicSpec(name="many-writers-rows", partitions=1, config=config)])
    admin.close()
    return "many-writers-rows"


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_librdkafka_reads_what_was_written(
    plain_topic: str, properties: dict[str, Any], codec: str
) -> None:
    """Any keys, values, times and headers, in batches of any size; it checks the sums, too."""
    coordinator = TransactionCoordinator(properties, f"rows-{codec}")
    coordinator.open()
    expected: list[Row] = []
    begin: list[int] = []

    @settings(
        max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
    )
    @given(rows=st.lists(_ROW, min_size=1, max_size=40), batch_bytes=st.integers(100, 5_000))
    def write_some(rows: list[Row], batch_bytes: int) -> None:
        options = WriterOptions(batch_bytes=batch_bytes, request_bytes=batch_bytes * 3)
        more = {**properties, "compression.type": codec}
        writer = TransactionWriter(more, coordinator.begin(), options=options)
        keys, values, stamps, headers = (list(column) for column in zip(*rows, strict=True))
        writer.write(plain_topic, 0, keys, values, stamps, headers)
        written = writer.finish()[plain_topic, 0]
        writer.close()
        coordinator.commit()
        assert written.end - written.start == len(rows)
        begin.append(written.start)
        expected.extend(rows)

    write_some()
    coordinator.close()
    await_settled(properties, plain_topic)
    found = [
        (row.key, row.value, row.timestamp, row.headers)
        for row in tail(properties, plain_topic, TailOptions(until_end=True))
        if row.offset >= begin[0]
    ]
    assert found == expected


def test_nothing_is_lacking_on_this_broker(properties: dict[str, Any]) -> None:
    """What the writers need is looked for at the start; what they do not know is named."""
    cluster = Cluster(properties)
    assert lacking(cluster.any(), properties) == []
    more = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    found = lacking(cluster.any(), {**more, "compression.type": "snappy"})
    assert [text.split(",")[0] for text in found] == [
        "kafka.sasl.mechanism",
        "kafka.compression.type=snappy in the writers",
    ]
    cluster.forget()


@pytest.fixture(params=["by the end", "by asking"])
def shared(
    properties: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedTransactions]:
    """An application's transactions, in both versions."""
    if request.param == "by asking":
        monkeypatch.setattr(coordinator_module, "bumps_at_end", lambda _broker: False)
    made = SharedTransactions(properties, request.node.name)
    made.reopen()
    yield made
    made.close()


def test_what_is_lent_is_committed_with_its_own_attempt_or_never(
    shared: SharedTransactions, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """An attempt that failed leaves rows and a writer behind: neither gets into another one."""
    topic = make_topic(2)
    failed = shared.lend()
    assert failed is not None
    zombie = TransactionWriter(properties, failed)
    put(zombie, topic, 0, b"of an attempt that failed")
    shared.begin()  # what is written in between, such as why it failed
    shared.produce_tracked(topic, 1, [None], [b"why"])
    shared.commit()
    ticket = shared.lend()
    assert ticket is not None
    with pytest.raises(TransactionFailed):
        put(zombie, topic, 0, b"late")
    zombie.close()
    written = write(properties, ticket, topic, 0, b"one", b"two")
    shared.begin(ticket)
    shared.produce_tracked(topic, 1, [None], [b"record"])
    assert written.end - written.start == 2
    shared.commit()
    assert seen(properties, topic) == [b"one", b"record", b"two", b"why"]


def test_only_the_transaction_that_was_lent_last_goes_on(
    shared: SharedTransactions, make_topic: MakeTopic
) -> None:
    """Nothing of an older one is there any more; one that nobody used ends without a word."""
    first, second = shared.lend(), shared.lend()
    assert first != second
    with pytest.raises(InvariantError):
        shared.begin(first)
    shared.begin(second)
    shared.produce_tracked(make_topic(1), 0, [None], [b"record"])
    shared.commit()


def test_what_tasks_put_together_stands_between_what_the_driver_writes(
    shared: SharedTransactions, make_topic: MakeTopic, properties: dict[str, Any]
) -> None:
    """In the order in which it came, each row with its own time, in the partition of its key."""
    topic = make_topic(3)
    keys: list[bytes | None] = [b"%d" % (number % 7) for number in range(300)]
    placing, codec = Placing(lambda _: 3), "zstd"
    shared.begin()
    for part in range(3):
        values: list[bytes | None] = [b"%d-%03d" % (part, number) for number in range(300)]
        stamps = [1_000 + number for number in range(300)]
        if part == 1:
            columns = Columns(topics=topic, keys=keys, values=values, timestamps=stamps)
            shared.produce_sealed(list(seal(placing, columns, 1, 2_000, codec)))
        else:
            shared.produce_columns(topic, keys, values, stamps)
    shared.commit()
    await_settled(properties, topic)
    found = list(tail(properties, topic, TailOptions(until_end=True)))
    assert len(found) == 900
    for key in set(keys):
        mine = [row for row in found if row.key == key]
        assert {row.partition for row in mine} == {partition_of(key or b"", 3)}
        told = [row.value for row in sorted(mine, key=lambda row: row.offset)]
        assert told == sorted(row.value or b"" for row in mine)
        assert all(row.timestamp == 1_000 + int((row.value or b"")[2:]) for row in mine)
