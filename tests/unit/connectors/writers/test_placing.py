"""Rows sorted by partition, put together before their transaction is known, and joined."""

from __future__ import annotations

import subprocess
import sys

import numpy  # with it, sixteen keys are many
from hypothesis import given, strategies as st

from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.writers.batches import Rows, cut
from mustela.connectors.kafka.writers.hashing import partitions_of
from mustela.connectors.kafka.writers.placing import Joined, Origin, Placing, joined
from mustela.connectors.kafka.writers.sealed import SealedBatch, seal
from mustela.plan.partitions import partition_of
from mustela.plan.ticket import Ticket
from tests.unit.connectors.writers.decoding import Row, decode

TICKET = Ticket("id", 7_000, 12, by_writing=True)
KEYS = st.lists(st.none() | st.binary(max_size=80), min_size=1, max_size=40)
EXTRA = ("epoch", b"7")


@given(st.lists(st.binary(max_size=70), max_size=40), st.integers(1, 50))
def test_many_keys_at_once_go_where_one_at_a_time_goes(keys: list[bytes], count: int) -> None:
    """To the partition that Kafka's clients choose."""
    assert numpy.__name__ in sys.modules
    assert partitions_of(keys, count) == [partition_of(key, count) for key in keys]


_WITHOUT = """
import sys
from mustela.connectors.kafka.writers.hashing import partitions_of
from mustela.plan.partitions import partition_of
keys = [b"%d" % number for number in range(1000)]
assert partitions_of(keys[1:], 7) == [partition_of(key, 7) for key in keys[1:]]
assert "numpy" not in sys.modules
assert partitions_of(keys, 7) == [partition_of(key, 7) for key in keys]
assert "numpy" in sys.modules
"""


def test_who_never_has_a_thousand_keys_at_once_does_without_numpy() -> None:
    """It would take a tenth of a second and 12 MB in each process."""
    subprocess.run([sys.executable, "-c", _WITHOUT], check=True)


@given(KEYS, st.integers(1, 5), st.booleans(), st.booleans(), st.integers(0, 3))
def test_each_row_is_in_one_partition_in_order_and_knows_where_it_was(
    keys: list[bytes | None], count: int, chosen: bool, skips: bool, named: int
) -> None:
    """Its key's, or the one that it was given; a row without a time gets that of now."""
    values: list[bytes | None] = [b"%d" % number for number in range(len(keys))]
    partitions = [number % count if number % 2 else None for number in range(len(keys))]
    topics = [f"out-{number % named}" for number in range(len(keys))] if named else "out"
    columns = Columns(
        topics=topics,
        keys=keys,
        values=values,
        partitions=partitions if chosen else None,
        header=EXTRA,
    ).without({0} if skips else ())
    found: dict[bytes | None, int] = {}
    for (topic, partition), rows in Placing(lambda _: count).sorted(columns, "tag", now_ms=9):
        origin = rows.tag
        assert isinstance(origin, Origin)
        assert origin.tag == "tag"
        indices = [origin.row(at) for at in range(len(rows.values))]
        assert indices == sorted(indices)
        for at, row in enumerate(indices):
            assert (rows.keys[at], rows.values[at]) == (keys[row], values[row])
            assert topic == (topics if isinstance(topics, str) else topics[row])
            found[rows.values[at]] = partition
            key, own = keys[row], partitions[row] if chosen else None
            if own is not None or key is not None:
                assert partition == (partition_of(key or b"", count) if own is None else own)
        assert rows.timestamps == 9
        assert rows.headers == [(EXTRA,)] * len(rows.values)
    assert len(found) == len(keys) - skips


@given(KEYS, st.integers(1, 4), st.integers(1, 500), st.integers(0, 2**31 - 100))
def test_what_a_task_has_put_together_has_its_place_from_the_driver(
    keys: list[bytes | None], count: int, batch_bytes: int, sequence: int
) -> None:
    """Identity, number and sum; the rows are what they were."""
    stamps = [10**12 + number for number in range(len(keys))]
    columns = Columns(topics="out", keys=keys, values=keys, timestamps=stamps, header=EXTRA)
    found: list[Row] = []
    for sealed in seal(Placing(lambda _: count), columns, 1, batch_bytes, "gzip"):
        at = sequence
        for tail, records, rows in sealed.batches:
            head, mine = decode(*SealedBatch(tail, records, rows).encode(TICKET, at))
            assert (head["id"], head["epoch"], head["sequence"]) == (7_000, 12, at)
            assert head["count"] == len(mine) == rows
            found += mine
            at += rows
    expected = [(key, key, stamp, (EXTRA,)) for key, stamp in zip(keys, stamps, strict=True)]
    assert sorted(found, key=lambda row: row[2]) == expected


def test_parts_that_become_one_keep_times_headers_and_names() -> None:
    """A row that is refused is told by the part that it was in."""
    parts = [
        Rows([b"a", b"b"], [b"1", b"2"], 5, None, "first"),
        Rows([b"c"], [b"3"], [7], [(EXTRA,)], "second"),
    ]
    rows = joined(parts)
    (batch,) = cut(rows, 1_000)
    _, mine = decode(*batch.encode(TICKET, 0))
    assert mine == [(b"a", b"1", 5, ()), (b"b", b"2", 5, ()), (b"c", b"3", 7, (EXTRA,))]
    assert isinstance(rows.tag, Joined)
    assert [rows.tag.find(at) for at in range(3)] == [("first", 0), ("first", 1), ("second", 0)]
    assert joined(parts[:1]) is parts[0]
