"""What a lane writes by itself, and what it prepares for the driver."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.errors import TransactionAborted
from mustela.connectors.kafka.writers.sealed import SealedBatch
from mustela.connectors.kafka.writers.writer import Written
from mustela.kernel.core.output import SinkRows, StageOutput
from mustela.plan.partitions import partition_of
from mustela.plan.sealed import SealedPart, SealedRows
from mustela.plan.ticket import Ticket
from mustela.spark import process as process_module
from mustela.spark.frames import REPORT, ROWS, FrameColumns, load_object, unpack
from mustela.spark.lane_writer import LaneWriter, Sealer
from mustela.spark.outbox import Outbox
from mustela.spark.results import FrameStore
from tests.unit.connectors.writers.decoding import Row, decode
from tests.unit.spark.test_outbox import ORDER, PROGRAM, process_of

TICKET = Ticket("app", 7, 3, by_writing=True)
ROWS_OF_ONE = [(b"a", b"1"), (b"b", None)]


class FakeWriter:
    """Keeps what is written, and says that it stands from offset 10 on."""

    def __init__(self, error: Exception | None = None) -> None:
        self.written: dict[tuple[str, int], list[Any]] = {}
        self.error = error
        self.closed = False

    def write(self, topic: str, partition: int, keys: Any, values: Any) -> None:
        rows = self.written.setdefault((topic, partition), [])
        rows += zip(keys, values, strict=True)

    def finish(self) -> dict[tuple[str, int], Written]:
        if self.error is not None:
            raise self.error
        return {place: Written(10, 10 + len(rows)) for place, rows in self.written.items()}

    def close(self) -> None:
        self.closed = True


def lane_writer(writer: FakeWriter, least: int) -> LaneWriter:
    given: Any = writer
    return LaneWriter(given, lambda store: f"app-{store}-changelog", least=least)


def test_few_rows_are_left_to_the_driver_and_many_are_written_from_the_first_on() -> None:
    """Whichever it is, each row is in one place."""
    for least, written in ((5, False), (4, True)):
        fake = FakeWriter()
        lane = lane_writer(fake, least)
        lane.add("counts", 3, ROWS_OF_ONE)
        assert fake.written == {}
        lane.add("totals", 3, ROWS_OF_ONE)
        sent = lane.finish()
        if written:
            places = [("app-counts-changelog", 3), ("app-totals-changelog", 3)]
            assert fake.written == dict.fromkeys(places, ROWS_OF_ONE)
            assert sent == ({("counts", 3): 12, ("totals", 3): 12}, 6)
            assert list(lane.few()) == []
        else:
            assert fake.written == {}
            assert sent == ({}, 0)
            assert [few[:2] for few in lane.few()] == [("counts", 3), ("totals", 3)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_task_reports_where_its_rows_are_or_that_they_are_not(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A report that names an end comes after the rows are with the broker."""
    fake = FakeWriter(TransactionAborted("could not write") if fails else None)
    process = process_of(PROGRAM)
    monkeypatch.setattr(
        process_module.Process, "lane_writer", lambda *_: lane_writer(fake, least=1)
    )
    box = Outbox(process, replace(ORDER, ticket=TICKET), 1, 2)
    assert list(box.changelog("counts", 3, ROWS_OF_ONE)) == []
    frames = [unpack(data) for _, data in box.finish()]
    assert [frame.kind for frame in frames] == [REPORT]
    report = load_object(frames[-1].body)
    assert fake.closed
    if fails:
        assert isinstance(report.failure.error, TransactionAborted)
        assert report.written == {}
    else:
        assert report.failure is None
        assert (report.written, report.written_bytes) == ({("counts", 3): 12}, 3)


def cluster_of(partitions: int) -> Any:
    """A cluster whose topics have so many partitions; none if there are no topics."""

    def count(topic: str) -> int:
        if not partitions:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, topic))
        return partitions

    return SimpleNamespace(partitions=count, forget=lambda: None)


def rows_of(sealed: SealedRows) -> list[Row]:
    batches = (SealedBatch(*batch) for batch in sealed.batches)
    return [row for batch in batches for row in decode(*batch.encode(TICKET, 0))[1]]


def columns_of(count: int, topic: Any = "out") -> FrameColumns:
    keys: list[bytes | None] = [b"%d" % number for number in range(count)]
    return FrameColumns(topic, keys, keys, [1_000] * count, None, None)


def test_rows_are_put_together_where_each_partition_gets_enough_of_them() -> None:
    """Otherwise the driver does it, which joins parts; so it does where topics are not known."""
    header = ("epoch", b"2")
    sealer = Sealer(cluster_of(3), {"compression.type": "gzip"}, header, least=200)
    part = sealer.seal(columns_of(300))
    assert part is not None
    found = [row for rows in part.rows for row in rows_of(rows)]
    keys = {b"%d" % number for number in range(300)}
    assert {(row[0], row[2], row[3]) for row in found} == {(key, 1_000, (header,)) for key in keys}
    assert sealer.seal(columns_of(199)) is None
    assert Sealer(cluster_of(7), {}, header, least=200).seal(columns_of(300)) is None
    assert Sealer(cluster_of(0), {}, header, least=200).seal(columns_of(300)) is None


def test_rows_whose_topics_a_function_names_are_put_together_by_topic() -> None:
    """Each row goes to its topic, those of a partition in order; few rows are the driver's."""
    sealer = Sealer(cluster_of(2), {}, None, least=100)
    topics = [f"out-{number % 3}" for number in range(300)]
    columns = columns_of(300, topics)
    part = sealer.seal(columns)
    assert part is not None
    found: dict[str, list[bytes | None]] = {}
    for rows in part.rows:
        keys = [row[0] for row in rows_of(rows)]
        assert keys == sorted(keys, key=columns.keys.index)
        assert {partition_of(key or b"", 2) for key in keys} == {rows.partition}
        found.setdefault(rows.topic, []).extend(keys)
    for name, keys in found.items():
        wanted = {key for key, topic in zip(columns.keys, topics, strict=True) if topic == name}
        assert len(keys) == len(wanted)
        assert set(keys) == wanted
    assert sorted(found) == sorted(set(topics))
    assert sealer.seal(columns_of(299, topics[:299])) is None


@pytest.mark.parametrize("known", [(), ("here",)])
def test_rows_of_a_topic_that_is_not_known_are_left_to_the_driver(known: tuple[str, ...]) -> None:
    """It makes the topic, or says which rows have none."""
    asked: list[str] = []

    def count(topic: str) -> int:
        asked.append(topic)
        return cluster_of(int(topic in known)).partitions(topic)

    cluster: Any = SimpleNamespace(partitions=count, forget=lambda: None)
    sealer = Sealer(cluster, {}, None, least=100)
    assert sealer.seal(columns_of(200, ["here", "gone"] * 100)) is None
    assert sorted(asked) == ["gone", "here"]
    asked.clear()
    assert sealer.seal(columns_of(200, [f"out-{number}" for number in range(200)])) is None
    assert asked == []


def test_parts_reach_the_driver_in_the_order_in_which_they_were_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Put together or not: the rows of a key stay in order."""
    process = process_of(PROGRAM)
    sealer = Sealer(cluster_of(1), {}, None, least=100)
    monkeypatch.setattr(process_module.Process, "sealer", lambda *_: sealer)
    box, store = Outbox(process, replace(ORDER, seals=True), 1, 2), FrameStore(1 << 20)
    counts = (3, 100, 4, 120)
    for count in counts:
        columns = columns_of(count)
        rows = SinkRows(
            step="to", topic="out", keys=columns.keys, values=columns.values, timestamps=[5] * count
        )
        for _, data in box.send(StageOutput(rows=[rows])):
            store.add(unpack(data), data)
    parts = list(store.view(ROWS))
    assert [isinstance(part, SealedPart) for part in parts] == [False, True, False, True]
    sizes = [
        sum(count for rows in part.rows for _, _, count in rows.batches)
        if isinstance(part, SealedPart)
        else len(part.keys)
        for part in parts
    ]
    assert tuple(sizes) == counts
    assert box.report.sealed == 220
    assert (len(box.report.outlines), len(box.report.sealed_outlines)) == (2, 2)
