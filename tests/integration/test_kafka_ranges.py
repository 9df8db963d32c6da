"""Ranges of offsets from a real broker: everything committed, nothing else, and it ends."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from mustela.connectors.kafka import ranges
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.errors import (
    BrokerUnavailable,
    OffsetOutOfRange,
    ReadTimedOut,
    SourceGone,
)
from mustela.connectors.kafka.log import read_between, read_last_record
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.small_fetch import OffsetRange
from mustela.connectors.kafka.splitting import split_ranges
from mustela.connectors.kafka.tools import TailOptions, send, tail
from mustela.plan.ranges import SourceRange
from mustela_dev import DevelopmentBroker
from tests.integration.kafka_rows import (
    MakeSink,
    MakeTopic,
    abort_rows,
    add_partitions,
    await_end,
    commit_rows,
    plain_producer,
    values_of,
)
from tests.patience import PATIENCE_S

pytest_plugins = ["tests.broker_fixture", "tests.integration.kafka_fixture"]
pytestmark = pytest.mark.broker


def numbered(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


def test_a_range_that_ends_in_control_records_ends(
    make_topic: MakeTopic, make_sink: MakeSink, reader: RangeReader, admin: KafkaAdmin
) -> None:
    """Commit markers take offsets that no reader ever sees."""
    topic, sink = make_topic(), make_sink()
    for number in range(5):
        commit_rows(sink, topic, [b"%d" % number])
    end = 10
    await_end(admin, topic, end)
    assert values_of(reader, topic, 0, end) == numbered("", 5)
    assert values_of(reader, topic, 1, 2) == []
    assert values_of(reader, topic, 3, 4) == []
    assert values_of(reader, topic, 3, 5) == [b"2"]


def test_a_range_that_ends_in_aborted_data_ends(
    make_topic: MakeTopic, make_sink: MakeSink, reader: RangeReader, admin: KafkaAdmin
) -> None:
    """Aborted rows are passed over, inside a range, at its end, and as all of it."""
    topic, sink = make_topic(), make_sink()
    commit_rows(sink, topic, numbered("a", 10))
    abort_rows(sink, topic, numbered("x", 500))
    commit_rows(sink, topic, numbered("b", 10))
    abort_rows(sink, topic, numbered("y", 500))
    end = 2 * (10 + 1 + 500 + 1)
    await_end(admin, topic, end)
    everything = numbered("a", 10) + numbered("b", 10)
    assert values_of(reader, topic, 0, end) == everything
    assert values_of(reader, topic, 0, end, batch=3) == everything
    assert values_of(reader, topic, 0, 300) == numbered("a", 10)
    assert values_of(reader, topic, 20, 400) == []
    assert values_of(reader, topic, end - 100, end) == []


def test_every_split_of_a_log_gives_the_same_records(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any], admin: KafkaAdmin
) -> None:
    """Whatever the cuts, several readers together see what one reader sees."""
    topic, sink = make_topic(), make_sink()
    written: list[bytes] = []
    end = 0
    for number in range(20):
        rows = numbered(f"r{number}-", 37 * (number % 4))
        rows = rows or [b"one"]
        end += len(rows) + 1
        if number % 3 == 2:
            abort_rows(sink, topic, rows)
        else:
            commit_rows(sink, topic, rows)
            written += rows
    await_end(admin, topic, end)
    readers = [RangeReader(properties), RangeReader(properties)]
    for tasks in (1, 2, 3, 8):
        split = split_ranges([SourceRange(0, 0, 0, end)], tasks, records_min=1, range_cost=0)
        found: list[bytes | None] = []
        for number, task in enumerate(split):
            for piece in task:
                found += values_of(readers[number % 2], topic, piece.start, piece.end)
        assert found == written
    for one in readers:
        one.close()


def test_columns_carry_everything(
    make_topic: MakeTopic, properties: dict[str, Any], reader: RangeReader
) -> None:
    """Keys, nulls, timestamps, headers; headers are left out where no record has any."""
    topic = make_topic(retention_ms="-1")
    rows: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v"), (None, b""), (b"", None)]
    send(properties, topic, rows, timestamps=[0, 1_000, 2_000])
    (chunk,) = reader.read(topic, 0, 0, 3)
    assert (chunk.offsets, chunk.keys, chunk.values) == (
        [0, 1, 2],
        [b"k", None, b""],
        [b"v", b"", None],
    )
    assert chunk.timestamps == [1, 1_000, 2_000]
    assert chunk.headers is None
    headers = [(), (("a", b"1"), ("a", None)), ()]
    send(properties, topic, rows, headers=headers)
    (chunk,) = reader.read(topic, 0, 2, 6)
    assert chunk.headers == [(), *headers]


def test_reads_go_on_go_back_and_interleave(
    make_topic: MakeTopic, properties: dict[str, Any], reader: RangeReader
) -> None:
    """A reader is not bound to one partition or one direction; given-up reads do no harm."""
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        rows = [(None, f"{partition}-{number}".encode()) for number in range(1_000)]
        send(properties, topic, rows, partition=partition)
    for start in (0, 500, 990, 10, 10):
        want = [f"0-{number}".encode() for number in range(start, start + 10)]
        assert values_of(reader, topic, start, start + 10) == want
    next(iter(reader.read(topic, 0, 0, 1_000, max_batch=10)))
    left = reader.read(topic, 0, 0, 1_000, max_batch=100)
    right = reader.read(topic, 1, 0, 1_000, max_batch=100)
    for number, (one, other) in enumerate(zip(left, right, strict=True)):
        assert one.values[0] == f"0-{number * 100}".encode()
        assert other.values[0] == f"1-{number * 100}".encode()


def test_chunks_are_bounded(
    make_topic: MakeTopic, properties: dict[str, Any], reader: RangeReader
) -> None:
    """By records, and by bytes where records are large."""
    topic = make_topic()
    send(properties, topic, [(None, b"x" * 500_000)] * 60)
    chunks = list(reader.read(topic, 0, 0, 60))
    assert sum(map(len, chunks)) == 60
    assert max(map(len, chunks)) < 50
    assert [len(chunk) for chunk in reader.read(topic, 0, 0, 60, max_batch=7)] == [7] * 8 + [4]


def test_an_open_transaction_holds_the_end_back(
    make_topic: MakeTopic, make_sink: MakeSink, reader: RangeReader, admin: KafkaAdmin
) -> None:
    """The end of a partition is its last stable offset, whatever others write behind it."""
    topic, sink, other = make_topic(), make_sink(), make_sink()
    commit_rows(sink, topic, [b"a"])
    other.begin()
    other.produce_columns(topic, [None], [b"open"], partitions=0)
    other.flush()
    commit_rows(sink, topic, [b"b"])
    await_end(admin, topic, 2)
    assert values_of(reader, topic, 0, 2) == [b"a"]
    other.commit()
    await_end(admin, topic, 6)
    assert values_of(reader, topic, 0, 6) == [b"a", b"open", b"b"]


def test_a_range_that_is_not_there_is_named(
    make_topic: MakeTopic,
    properties: dict[str, Any],
    reader: RangeReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too early, too late, no partition, no topic: each is an error that says which."""
    topic = make_topic()
    send(properties, topic, [(None, b"x")] * 10)
    assert len(values_of(reader, topic, 0, 10)) == 10
    hasty = RangeReader(properties, read_timeout=2.0)  # what may come yet is waited for
    with pytest.raises(OffsetOutOfRange) as late:
        values_of(hasty, topic, 20, 30)
    assert late.value.fields["end"] == 10
    with pytest.raises(OffsetOutOfRange):
        values_of(hasty, topic, 5, 12)
    monkeypatch.setattr(ranges, "METADATA_LAG_S", 0.3)
    with pytest.raises(SourceGone):
        values_of(hasty, topic, 0, 5, partition=7)
    with pytest.raises(SourceGone):
        values_of(hasty, topic + "-not", 0, 5)
    hasty.close()


def test_a_partition_that_was_added_is_read_by_a_reader_that_knew_fewer(
    make_topic: MakeTopic, properties: dict[str, Any], reader: RangeReader
) -> None:
    """The driver's client has seen it; that of a worker asks again, and does not say it is gone."""
    topic = make_topic()
    send(properties, topic, [(None, b"old")])
    assert values_of(reader, topic, 0, 1) == [b"old"]
    add_partitions(properties, topic, 3)
    send(properties, topic, [(None, b"new")], partition=2)
    assert values_of(reader, topic, 0, 1, partition=2) == [b"new"]
    assert values_of(reader, topic, 0, 1) == [b"old"]


def test_a_partition_that_appears_while_it_is_waited_for_is_read(
    make_topic: MakeTopic,
    properties: dict[str, Any],
    reader: RangeReader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that lags answers at first that there is none."""
    monkeypatch.setattr(ranges, "METADATA_LAG_S", PATIENCE_S)
    topic = make_topic()
    send(properties, topic, [(None, b"old")])
    found: list[list[bytes | None]] = []
    reading = threading.Thread(
        target=lambda: found.append(values_of(reader, topic, 0, 1, partition=1))
    )
    reading.start()
    reading.join(0.5)
    assert reading.is_alive()
    add_partitions(properties, topic, 2)
    send(properties, topic, [(None, b"new")], partition=1)
    reading.join(PATIENCE_S)
    assert found == [[b"new"]]


def test_deleted_records_are_named(make_topic: MakeTopic, properties: dict[str, Any]) -> None:
    """The error says where the log begins now."""
    topic = make_topic()
    send(properties, topic, [(None, b"x")] * 10)
    _delete_records(properties, topic, 6)
    reader = RangeReader(properties, read_timeout=60.0)
    with pytest.raises(OffsetOutOfRange) as early:
        values_of(reader, topic, 2, 10)
    assert early.value.fields["earliest"] == 6
    assert early.value.code == "SOURCE_OFFSET_OUT_OF_RANGE"
    reader.close()


def _delete_records(properties: dict[str, Any], topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    client = AdminClient(properties)
    for future in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(PATIENCE_S)


def test_a_restore_reads_what_compaction_left(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """A changelog whose beginning is gone is read from where it begins, exactly to its end."""
    topic, sink = make_topic(cleanup_policy="compact,delete"), make_sink()
    sink.begin()
    sink.produce_tracked(topic, 0, [b"a", b"b"], [b"1", None])
    ends = sink.flush()
    sink.commit()
    sink.begin()
    sink.produce_tracked(topic, 0, [b"c"], [b"late"])
    later = sink.flush()
    sink.commit()
    assert list(read_between(properties, topic, 0, 0, ends[topic, 0])) == [
        (b"a", b"1"),
        (b"b", None),
    ]
    _delete_records(properties, topic, 1)
    assert list(read_between(properties, topic, 0, 0, later[topic, 0])) == [
        (b"b", None),
        (b"c", b"late"),
    ]


def test_the_last_record_is_found_behind_control_records(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """However much was aborted since, and None where nothing was ever committed."""
    topic, sink = make_topic(), make_sink()
    assert read_last_record(properties, topic) is None
    abort_rows(sink, topic, [b"x"] * 100)
    assert read_last_record(properties, topic) is None
    commit_rows(sink, topic, [b"a", b"b"])
    abort_rows(sink, topic, [b"x"] * 1_000)
    last = read_last_record(properties, topic)
    assert last is not None
    assert (last.value, last.offset) == (b"b", 102)


def test_a_reader_is_shared_within_a_process_only(properties: dict[str, Any]) -> None:
    """A forked child makes its own: a client does not survive a fork."""
    mine = RangeReader.shared(properties)
    assert RangeReader.shared(dict(properties)) is mine
    assert RangeReader.shared(properties, read_timeout=1.0) is not mine
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writable, b"other" if RangeReader.shared(properties) is not mine else b"same!")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(readable, 5) == b"other"
    os.close(readable)
    os.close(writable)


def test_a_tail_stops_when_it_is_told_to(
    make_topic: MakeTopic, make_sink: MakeSink, properties: dict[str, Any]
) -> None:
    """At the end as it was, after so many, after silence; open transactions only if asked for."""
    topic, sink = make_topic(partitions=3), make_sink()
    for partition in range(2):
        send(properties, topic, [(b"k", b"%d" % partition)] * 5, partition=partition)
    abort_rows(sink, topic, [b"aborted"])
    until_end = TailOptions(until_end=True)
    assert len(list(tail(properties, topic, until_end))) == 10
    assert len(list(tail(properties, topic, TailOptions(limit=7)))) == 7
    silent = TailOptions(from_beginning=False, idle=0.3)
    assert list(tail(properties, topic, silent)) == []
    raw = TailOptions(until_end=True, committed=False)
    assert len(list(tail(properties, topic, raw))) == 11


@pytest.mark.slow
def test_a_broker_that_goes_away_is_waited_for_and_then_named(
    fresh_broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """A read goes on when the broker is back in time; otherwise it says that none answers."""
    properties = {"bootstrap.servers": fresh_broker.bootstrap_servers}
    admin = KafkaAdmin(properties, timeout=PATIENCE_S)
    admin.create([TopicSpec(name="t", partitions=1)])
    admin.close()
    producer = plain_producer(properties)
    for number in range(100):
        producer.produce("t", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0
    reader = RangeReader(properties, read_timeout=PATIENCE_S)
    chunks = reader.read("t", 0, 0, 100, max_batch=10)
    next(chunks)
    fresh_broker.kill()
    fresh_broker.start()
    assert sum(len(chunk) for chunk in chunks) == 90
    assert len(values_of(reader, "t", 0, 100)) == 100
    fresh_broker.kill()
    short = RangeReader(properties, read_timeout=2.0)
    with pytest.raises((BrokerUnavailable, ReadTimedOut)) as gone:
        values_of(short, "t", 0, 100)
    assert isinstance(gone.value, BrokerUnavailable)
    assert "bootstrap_servers" in (gone.value.fix or "")
    fresh_broker.start()
    assert len(values_of(reader, "t", 0, 100)) == 100
    reader.close()
    short.close()


def test_a_read_goes_on_where_the_one_before_it_ended(
    make_topic: MakeTopic, make_sink: MakeSink, reader: RangeReader, admin: KafkaAdmin
) -> None:
    """Wherever that is: inside a transaction, at its marker, behind it, or at the end."""
    topic, sink = make_topic(), make_sink()
    for rows in (numbered("one", 6), numbered("two", 6)):
        commit_rows(sink, topic, rows)
    await_end(admin, topic, 14)
    whole = values_of(reader, topic, 0, 14)
    assert whole == numbered("one", 6) + numbered("two", 6)
    for middle in range(1, 14):
        first = list(reader.read(topic, 0, 0, middle, max_batch=4, goes_on=True))
        second = list(reader.read(topic, 0, middle, 14, max_batch=1))
        assert [value for chunk in (*first, *second) for value in chunk.values] == whole
        list(reader.read(topic, 0, 0, middle, goes_on=True))  # nobody reads on
        reader.drop_ahead()
    chunks = reader.read(topic, 0, 0, 5, max_batch=1, goes_on=True)
    assert next(chunks).values == whole[:1]
    chunks.close()
    assert values_of(reader, topic, 5, 14) == whole[5:]


def test_a_range_that_was_fetched_ahead_is_read_as_any_other(
    make_topic: MakeTopic, make_sink: MakeSink, reader: RangeReader, admin: KafkaAdmin
) -> None:
    """Fetching ahead changes no record, and a range that nobody reads then does no harm."""
    topics, sink = [make_topic(), make_topic()], make_sink()
    for topic in topics:
        commit_rows(sink, topic, numbered(topic, 100))
        await_end(admin, topic, 101)
    first, second = topics
    reader.ahead(first, 0, 40)
    reader.ahead(second, 0, 40)
    assert values_of(reader, first, 40, 101) == numbered(first, 100)[40:]
    assert values_of(reader, second, 0, 101) == numbered(second, 100)
    assert values_of(reader, second, 40, 60) == numbered(second, 100)[40:60]
    for start in range(20):  # each takes the place of one that nobody reads
        reader.ahead(first, 0, start)
    assert values_of(reader, first, 18, 101) == numbered(first, 100)[18:]
    (chunk,) = reader.read(second, 0, 40, 101, bare=True)
    assert (chunk.values, chunk.timestamps) == (numbered(second, 100)[40:], [])
    reader.ahead("there-is-no-such-topic", 0, 0)
    assert values_of(reader, first, 0, 5) == numbered(first, 100)[:5]


def test_small_ranges_of_many_partitions_come_together(
    make_topic: MakeTopic,
    make_sink: MakeSink,
    properties: dict[str, Any],
    admin: KafkaAdmin,
) -> None:
    """They are what reads of their own give, whatever is between and behind the records."""
    topics, sink = [make_topic() for _ in range(3)], make_sink()
    for number, topic in enumerate(topics):
        commit_rows(sink, topic, numbered(f"a{number}-", 5 + number))
        abort_rows(sink, topic, numbered("x", 20))
        commit_rows(sink, topic, numbered(f"b{number}-", 4))
        await_end(admin, topic, 5 + number + 1 + 21 + 5)
    ends = [3, 20, 7 + 1 + 21 + 5]
    wanted = [OffsetRange(topic, 0, 1, end) for topic, end in zip(topics, ends, strict=True)]
    alone, together = RangeReader(properties), RangeReader(properties)
    for _ in range(3):
        together.gather([*wanted, OffsetRange("nowhere", 0, 5, 5)])
        assert all(fetched.position == one.end for one, fetched in together._together.items())
        for one in wanted:
            read = values_of(together, one.topic, one.start, one.end)
            assert read == values_of(alone, one.topic, one.start, one.end)
        assert not together._together
    assert together._made == 1
    together.gather([*wanted, OffsetRange("nowhere", 0, 0, 5)])
    for one in wanted:  # a topic that is not there takes nothing from the others
        read = values_of(together, one.topic, one.start, one.end)
        assert read == values_of(alone, one.topic, one.start, one.end)
    with pytest.raises(SourceGone):
        values_of(RangeReader(properties, read_timeout=1), "nowhere", 0, 5)
    alone.close()
    together.close()
