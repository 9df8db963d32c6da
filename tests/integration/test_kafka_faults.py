"""A broker that dies, a network that loses answers: the outcome is never guessed, never torn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import (
    BrokerUnavailable,
    CommitOutcome,
    TransactionFailed,
    TransactionUnknown,
)
from mustela.connectors.kafka.log import read_last_record
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.writer import TransactionWriter, Written
from mustela_dev import BrokerOptions, DevelopmentBroker
from tests.integration.kafka_proxy import END_TXN, PRODUCE, KafkaProxy
from tests.integration.kafka_rows import await_settled
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.slow]

HEAP_MB = 192
# A killed broker is let in again when its old session is over.
PROPERTIES = {"broker.heartbeat.interval.ms": "300", "broker.session.timeout.ms": "2000"}
TOPICS = [TopicSpec(name="out", partitions=1), TopicSpec(name="epochs", partitions=1)]


@pytest.fixture(scope="module")
def proxied(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KafkaProxy, DevelopmentBroker]]:
    """A broker that its clients reach through a proxy only."""
    proxy = KafkaProxy()
    broker = DevelopmentBroker(
        tmp_path_factory.mktemp("proxied"),
        heap_mb=HEAP_MB,
        properties={**PROPERTIES, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"},
        options=BrokerOptions(fast_start=True),
    )
    try:
        broker.start()
        proxy.target = broker.port
        # The first use makes Kafka's own topics, which takes longer than the tests' timeouts.
        admin = KafkaAdmin(properties_of(proxy), timeout=PATIENCE_S)
        admin.create(TOPICS)
        admin.close()
        first = opened(proxy, commit_timeout=60.0)
        fill(first, 1)
        first.commit()
        first.close()
        yield proxy, broker
    finally:
        proxy.close()
        broker.kill()


@pytest.fixture
def proxy(proxied: tuple[KafkaProxy, DevelopmentBroker]) -> Iterator[KafkaProxy]:
    """The proxy, passing everything, before new topics."""
    found, _ = proxied
    found.mend()
    admin = KafkaAdmin(properties_of(found), timeout=PATIENCE_S)
    admin.delete([spec.name for spec in TOPICS])
    admin.create(TOPICS)
    admin.close()
    yield found
    found.mend()


def properties_of(proxy: KafkaProxy) -> dict[str, Any]:
    return {"bootstrap.servers": f"127.0.0.1:{proxy.port}"}


def opened(proxy: KafkaProxy, *, commit_timeout: float = 8.0) -> TransactionalSink:
    options = TransactionOptions(commit_timeout=commit_timeout, open_timeout=PATIENCE_S)
    sink = TransactionalSink(properties_of(proxy), "app", options=options)
    sink.open()
    return sink


def fill(sink: TransactionalSink, epoch: int) -> None:
    """Do all of an epoch but its commit."""
    sink.begin()
    sink.produce_columns("out", [b"k"] * 3, [b"%d" % epoch] * 3)
    sink.send_offsets({("out", 0): epoch})
    sink.flush()
    sink.produce_tracked("epochs", 0, [b"epoch"], [b"%d" % epoch])


def last_epoch(proxy: KafkaProxy) -> int:
    record = read_last_record(properties_of(proxy), "epochs")
    return 0 if record is None or record.value is None else int(record.value)


def rows_seen(proxy: KafkaProxy) -> list[bytes | None]:
    options = TailOptions(until_end=True)
    return [record.value for record in tail(properties_of(proxy), "out", options)]


def go_on(proxy: KafkaProxy, epochs: int) -> list[bytes | None]:
    """Do as a restarted application does: open, read the record, go on behind it."""
    sink = opened(proxy, commit_timeout=60.0)
    for epoch in range(last_epoch(proxy) + 1, epochs + 1):
        fill(sink, epoch)
        sink.commit()
    sink.close()
    for spec in TOPICS:
        await_settled(properties_of(proxy), spec.name)
    return rows_seen(proxy)


def three_of_each(epochs: int) -> list[bytes | None]:
    return [b"%d" % epoch for epoch in range(1, epochs + 1) for _ in range(3)]


def test_a_commit_whose_answer_is_lost_happened(proxy: KafkaProxy) -> None:
    """Nobody knows until a new producer asks; then the record says that it is committed."""
    sink = opened(proxy)
    fill(sink, 1)
    proxy.drop_answers(END_TXN)
    with pytest.raises(TransactionUnknown) as unknown:
        sink.commit()
    assert unknown.value.outcome is CommitOutcome.UNKNOWN
    assert not sink.is_open
    proxy.mend()
    again = opened(proxy)
    assert last_epoch(proxy) == 1
    again.close()
    assert go_on(proxy, 3) == three_of_each(3)


def test_a_commit_that_never_arrives_did_not_happen(proxy: KafkaProxy) -> None:
    """The network is gone before the commit: unknown to the client, aborted in truth."""
    sink = opened(proxy)
    fill(sink, 1)
    sink.flush()
    proxy.cut()
    with pytest.raises(TransactionFailed) as failed:
        sink.commit()
    assert failed.value.outcome in (CommitOutcome.UNKNOWN, CommitOutcome.ABORTED)
    proxy.mend()
    assert last_epoch(proxy) == 0
    assert go_on(proxy, 3) == three_of_each(3)


def test_an_answer_that_comes_after_the_successor_started(proxy: KafkaProxy) -> None:
    """The commit is held up in the network; the successor has decided by then."""
    sink = opened(proxy, commit_timeout=60.0)
    fill(sink, 1)
    proxy.hold_answers(END_TXN)
    outcome: list[object] = []

    def commit() -> None:
        try:
            sink.commit()
        except TransactionFailed as error:
            outcome.append(error.outcome)
        else:
            outcome.append(CommitOutcome.COMMITTED)

    waiting = threading.Thread(target=commit)
    waiting.start()
    assert proxy.held.wait(PATIENCE_S)
    successor = opened(proxy, commit_timeout=60.0)
    decided = last_epoch(proxy)
    proxy.release()
    waiting.join(PATIENCE_S)
    assert outcome
    assert outcome[0] in (CommitOutcome.COMMITTED, CommitOutcome.FENCED, CommitOutcome.UNKNOWN)
    assert decided == 1  # the broker had it before it answered
    successor.close()
    assert go_on(proxy, 3) == three_of_each(3)


@pytest.mark.parametrize("moment", ["begun", "produced", "offsets", "flushed"])
def test_the_network_goes_at_every_moment_of_an_epoch(proxy: KafkaProxy, moment: str) -> None:
    """Before the commit is asked for, an epoch that fails is an epoch that did not happen."""
    sink = opened(proxy, commit_timeout=5.0)

    def epoch() -> None:
        sink.begin()
        _cut_at(proxy, moment, "begun")
        sink.produce_columns("out", [b"k"] * 3, [b"1"] * 3)
        _cut_at(proxy, moment, "produced")
        sink.send_offsets({("out", 0): 1})
        _cut_at(proxy, moment, "offsets")
        sink.flush()
        _cut_at(proxy, moment, "flushed")
        sink.commit()

    with pytest.raises(TransactionFailed) as failed:
        epoch()
    assert failed.value.retryable
    proxy.mend()
    assert last_epoch(proxy) == 0
    assert go_on(proxy, 2) == three_of_each(2)


def _cut_at(proxy: KafkaProxy, moment: str, here: str) -> None:
    if moment == here:
        proxy.cut()


def test_a_broker_killed_in_mid_transaction(tmp_path: Path) -> None:
    """Within the timeout the same transaction may go on; else the next run starts it again."""
    broker = DevelopmentBroker(
        tmp_path, heap_mb=HEAP_MB, properties=PROPERTIES, options=BrokerOptions(fast_start=True)
    )
    try:
        broker.start()
        properties = {"bootstrap.servers": broker.bootstrap_servers}
        admin = KafkaAdmin(properties, timeout=PATIENCE_S)
        admin.create(TOPICS)
        options = TransactionOptions(commit_timeout=PATIENCE_S, open_timeout=PATIENCE_S)
        sink = TransactionalSink(properties, "app", options=options)
        sink.open()
        committed = 0
        for epoch in range(1, 4):
            try:
                fill(sink, epoch)
                broker.kill()
                broker.start()
                sink.commit()
            except TransactionFailed:
                sink.reopen()
                record = read_last_record(properties, "epochs")
                done = 0 if record is None or record.value is None else int(record.value)
                if done < epoch:
                    fill(sink, epoch)
                    sink.commit()
            committed += 1
        assert committed == 3
        await_settled(properties, "out")
        seen = [record.value for record in tail(properties, "out", TailOptions(until_end=True))]
        assert seen == three_of_each(3)
        broker.kill()
        short = TransactionalSink(
            properties, "app", options=TransactionOptions(commit_timeout=2.0, open_timeout=2.0)
        )
        with pytest.raises(BrokerUnavailable):
            short.open()
        sink.close()
        admin.close()
    finally:
        broker.kill()


def test_a_row_whose_answer_is_lost_is_there_once(proxy: KafkaProxy) -> None:
    """A writer sends it again with its number, and the broker knows the number."""
    coordinator = TransactionCoordinator(properties_of(proxy), "many", open_timeout=PATIENCE_S)
    coordinator.open()
    writer = TransactionWriter(properties_of(proxy), coordinator.begin())
    writer.write("out", 0, [None], [b"first"])
    writer.finish()
    proxy.drop_answers(PRODUCE)
    written: list[Written] = []

    def write() -> None:
        writer.write("out", 0, [None] * 2, [b"second", b"third"])
        written.extend(writer.finish().values())

    thread = threading.Thread(target=write)
    thread.start()
    assert proxy.seen.wait(PATIENCE_S)
    proxy.cut()
    proxy.mend()
    thread.join(PATIENCE_S)
    assert written == [Written(0, 3)]
    writer.close()
    coordinator.commit()
    coordinator.close()
    await_settled(properties_of(proxy), "out")
    assert rows_seen(proxy) == [b"first", b"second", b"third"]


def test_an_end_whose_answer_is_lost_is_unknown_and_opening_settles_it(proxy: KafkaProxy) -> None:
    """It happened; what the old ticket still writes is refused."""
    coordinator = TransactionCoordinator(properties_of(proxy), "many", open_timeout=PATIENCE_S)
    coordinator.open()
    writer = TransactionWriter(properties_of(proxy), coordinator.begin())
    writer.write("out", 0, [None], [b"1"])
    writer.finish()
    proxy.drop_answers(END_TXN)
    failed: list[TransactionFailed] = []

    def commit() -> None:
        try:
            coordinator.commit()
        except TransactionFailed as error:
            failed.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    assert proxy.seen.wait(PATIENCE_S)
    proxy.cut()
    proxy.mend()
    thread.join(PATIENCE_S)
    assert [error.outcome for error in failed] == [CommitOutcome.UNKNOWN]
    coordinator.open()
    coordinator.begin()
    with pytest.raises(TransactionFailed):
        late(writer)
    writer.close()
    coordinator.close()
    await_settled(properties_of(proxy), "out")
    assert rows_seen(proxy) == [b"1"]


def late(writer: TransactionWriter) -> None:
    writer.write("out", 0, [None], [b"late"])
    writer.finish()
