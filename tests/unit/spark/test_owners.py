"""Sink rows on their way to the owners of partitions, and what owners do with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mustela.connectors.kafka.errors import RowsRefused, TransactionFailed
from mustela.connectors.kafka.writers.sealed import SealedBatch
from mustela.kernel.core.output import SinkRows, StageOutput
from mustela.plan.partitions import partition_of
from mustela.plan.sealed import SealedPart
from mustela.spark import process as process_module
from mustela.spark.frames import (
    CHANGELOG,
    OWNED,
    OWNER,
    REPORT,
    Frame,
    FrameColumns,
    load_object,
    pack,
    pack_sealed,
    unpack,
)
from mustela.spark.lane_writer import ForOwners, owner_of
from mustela.spark.outbox import Outbox
from mustela.spark.output import Came
from mustela.spark.owners import owner_parcels
from mustela.spark.spool import Spool
from mustela.state.interfaces import Token
from tests.unit.connectors.writers.decoding import decode
from tests.unit.spark.test_lane_writer import TICKET, cluster_of
from tests.unit.spark.test_outbox import ORDER, PROGRAM, process_of

OWNERS = 3
PARTITIONS = 5
OWNED_ORDER = replace(ORDER, seals=True, owners=OWNERS, ticket=TICKET)


def columns_of(keys: list[bytes], value: bytes = b"v", topic: str = "out") -> FrameColumns:
    values: list[bytes | None] = [value] * len(keys)
    return FrameColumns(topic, [*keys], values, [1_000] * len(keys), None, None)


def keys_in(part: SealedPart) -> Iterator[tuple[int, bytes | None]]:
    """Yield partitions and keys."""
    for rows in part.rows:
        for batch in rows.batches:
            for row in decode(*SealedBatch(*batch).encode(TICKET, 0))[1]:
                yield rows.partition, row[0]


@given(
    parts=st.lists(st.integers(1, 40), max_size=12),
    batch_bytes=st.integers(100, 3_000),
)
def test_each_row_comes_to_the_owner_of_its_partition_in_order(
    parts: list[int], batch_bytes: int
) -> None:
    """Whatever parts they come in, and however full batches are."""
    made = ForOwners(cluster_of(PARTITIONS), {}, None, OWNERS, batch_bytes=batch_bytes)
    numbers = iter(range(10_000))
    given_keys: list[bytes] = []
    got: dict[int, list[bytes | None]] = {}

    def take(pairs: Iterator[tuple[int, SealedPart]]) -> None:
        for owner, part in pairs:
            for partition, key in keys_in(part):
                assert owner == owner_of("out", partition, OWNERS)
                got.setdefault(partition, []).append(key)

    for count in parts:
        keys = [b"%05d" % next(numbers) for _ in range(count)]
        given_keys += keys
        take(made.add(columns_of(keys)))
    take(made.rest())
    take(made.rest())
    for partition in range(PARTITIONS):
        wanted = [key for key in given_keys if partition_of(key, PARTITIONS) == partition]
        assert got.get(partition, []) == wanted


def test_full_batches_leave_at_once_and_the_rest_at_the_end() -> None:
    made = ForOwners(cluster_of(1), {}, None, 1, batch_bytes=10_000)
    assert list(made.add(columns_of([b"k"] * 10, b"x" * 100))) == []
    (owner, part), *_ = made.add(columns_of([b"k"] * 100, b"x" * 100))
    assert (owner, sum(rows.row_count for rows in part.rows)) == (0, 110)
    assert list(made.rest()) == []


def test_rows_of_a_topic_that_is_not_known_are_not_for_owners() -> None:
    """The epoch runs again, and the driver says what is wrong."""
    made = ForOwners(cluster_of(0), {}, None, 1)
    with pytest.raises(TransactionFailed, match="how many partitions out has"):
        list(made.add(columns_of([b"k"])))


def test_a_task_sends_rows_to_their_owners_and_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its report is the driver's; what it keeps until the end is sent before that."""
    process = process_of(PROGRAM)
    for_owners = ForOwners(cluster_of(PARTITIONS), {}, None, OWNERS)
    monkeypatch.setattr(process_module.Process, "for_owners", lambda *_: for_owners)
    monkeypatch.setattr(process_module.Process, "lane_writer", lambda *_: None)
    box = Outbox(process, OWNED_ORDER, 1, 0)
    keys = [b"%d" % number for number in range(100)]
    columns = columns_of(keys)
    rows = SinkRows(
        step="to", topic="out", keys=columns.keys, values=columns.values, timestamps=[5] * 100
    )
    parcels = [*box.send(StageOutput(rows=[rows])), *box.finish()]
    frames = [(lane, unpack(data)) for lane, data in parcels]
    assert [frame.kind for _, frame in frames] == [OWNED] * OWNERS + [REPORT]
    assert [lane for lane, _ in frames[:-1]] == [int(frame.name) for _, frame in frames[:-1]]
    report = load_object(frames[-1][1].body)
    assert (report.sealed, len(report.sealed_outlines), report.outlines) == (100, 1, [])
    assert report.sink_bytes > 0
    came = Came(1 << 20)  # without owners after all, they are the driver's to write
    for _, data in parcels:
        came.add(data)
    parts = [part for part in came.frames.sink_rows() if isinstance(part, SealedPart)]
    assert sorted(key or b"" for part in parts for _, key in keys_in(part)) == sorted(keys)


class FakeWriter:
    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.written: list[tuple[str, int, int]] = []
        self.closed = False

    def write_batches(self, topic: str, partition: int, batches: Iterator[SealedBatch]) -> None:
        self.written += [(topic, partition, len(batch)) for batch in batches]

    def finish(self) -> dict[tuple[str, int], Any]:
        if self.error is not None:
            raise self.error
        return {(topic, partition): None for topic, partition, _ in self.written}

    def close(self) -> None:
        self.closed = True


def owned_frame(task: int, sequence: int, keys: list[bytes]) -> bytes:
    made = ForOwners(cluster_of(1), {}, None, 1)
    assert not list(made.add(columns_of(keys)))
    ((_, part),) = made.rest()
    body = Spool("", Token(1, 1, 1), 1, task).keep_bytes(pack_sealed(part))
    return pack(Frame(OWNED, -1, 1, task, sequence, "0", body))


@pytest.mark.parametrize("error", [None, RowsRefused.later("MSG_SIZE_TOO_LARGE", "x")])
def test_an_owner_writes_in_the_order_of_senders_and_passes_on_what_is_the_drivers(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Where it has written, or why it could not, it reports."""
    writer = FakeWriter(error)
    monkeypatch.setattr(process_module.Process, "transaction_writer", lambda *_: writer)
    other = pack(Frame(CHANGELOG, -1, 1, 0, 0, "counts", b""))
    frames = [owned_frame(1, 0, [b"b"] * 2), other, owned_frame(0, 3, [b"a"])]
    sent = [data for _, data in owner_parcels(process_of(PROGRAM), OWNED_ORDER, 0, frames)]
    assert sent[0] == other
    told = unpack(sent[1])
    assert (len(sent), told.kind) == (2, OWNER)
    came = Came(1 << 20)
    came.add(sent[1])
    (report,) = came.owned
    assert [count for *_, count in writer.written] == [1, 2]
    assert writer.closed
    if error is None:
        assert (report.failure, report.places) == (None, (("out", 0),))
        assert report.size > 0
        came.raise_failure()
    else:
        with pytest.raises(RowsRefused):
            came.raise_failure()


def test_an_owner_without_rows_asks_nobody() -> None:
    """It would connect to brokers for nothing."""
    (sent,) = owner_parcels(process_of(PROGRAM), OWNED_ORDER, 2, [])
    report = load_object(unpack(sent[1]).body)
    assert (report.owner, report.places, report.size, report.failure) == (2, (), 0, None)
