"""The workloads: which records, which program, what must come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks import oracles, records
from benchmarks.oracles import CountOracle, Oracle, StatelessOracle, TableOracle
from benchmarks.oracles_joins import (
    ForeignKeyOracle,
    MatchOracle,
    RowJoinOracle,
    SessionOracle,
    WindowOracle,
)
from benchmarks.records import Record, TimedRecord

SEED = 20_260


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Another topic that a workload reads.

    Attributes:
        ending: The topic is called as the input, a hyphen, and this.
        make: Gives so many records, from a seed.
        share: How many records for each record of the input.
        followed: Whether peers commit how far they have read it; a global table's topic is not.
    """

    ending: str
    make: Callable[[int, int], Iterator[TimedRecord]]
    share: float = 1.0
    followed: bool = True

    def count(self, records: int) -> int:
        """How many records it has beside so many of the input."""
        return int(records * self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One row of the benchmarks.

    Attributes:
        name: Names its results file.
        title: One line for people.
        program: What the peers run: each knows the programs by these names.
        make: Gives so many input records, from a seed.
        oracle: Makes a fresh oracle.
        records: Of a full run.
        quick_records: Of a quick run.
        partitions: Of the input and of each output topic.
        branches: Endings of the output topics; one topic without an ending by default.
        latency: Whether one latency can be stamped into the records.
        sides: Other topics that are read.
        closed: Whether the input and the sides get records that close the last windows when a peer
            has worked them off, before its output is looked at.
    """

    name: str
    title: str
    program: str
    make: Callable[[int, int], Iterator[Record | TimedRecord]]
    oracle: Callable[[], Oracle]
    records: int
    quick_records: int
    partitions: int = 6
    branches: tuple[str, ...] = ("",)
    latency: bool = True
    sides: tuple[Side, ...] = ()
    closed: bool = False

    def input_topic(self, count: int) -> str:
        """The name of the input topic: says what is in it, seed included."""
        return f"bench-{self.name}-{count}-seed{SEED}"

    def followed(self, count: int) -> int:
        """How many records peers commit, beside so many of the input and with them."""
        return count + sum(side.count(count) for side in self.sides if side.followed)

    def output_topics(self, stem: str) -> list[str]:
        """All output topics whose names begin with `stem`."""
        return [f"{stem}-{branch}" if branch else stem for branch in self.branches]

    def on(self, partitions: int) -> Workload:
        """The same on topics of another number of partitions, under a name that says so."""
        if partitions == self.partitions:
            return self
        return replace(self, name=f"{self.name}_p{partitions}", partitions=partitions)


def _zipf_lines(count: int, seed: int) -> Iterator[Record]:
    return records.kilobyte_lines(count, seed, zipf=True)


def _uniform_lines(count: int, seed: int) -> Iterator[Record]:
    return records.kilobyte_lines(count, seed, zipf=False)


def _purchases(count: int, seed: int) -> Iterator[TimedRecord]:
    return records.purchases(count, seed, customers=int(count * _ROWS))


def _order_versions(count: int, seed: int) -> Iterator[TimedRecord]:
    customers = records.customers_of(_CUSTOMERS.count(count))
    return records.order_versions(count, seed, customers=customers)


_ROWS = 0.5
"""Rows of the joined table for each record of the stream."""

_CUSTOMERS = Side(ending="customers", make=records.customer_versions, share=0.2)
_PAYMENTS = Side(ending="payments", make=records.order_payments, share=0.9)

_ALL = (
    Workload(
        name="word_count",
        title="word count, lines of 10 words (about 70 bytes), Zipf",
        program="word_count",
        make=records.short_lines,
        oracle=lambda: CountOracle(oracles.words_of),
        records=4_000_000,
        quick_records=100_000,
    ),
    Workload(
        name="count",
        title="count by key, 10,000 keys, values of 64 bytes",
        program="count",
        make=records.keyed_values,
        oracle=lambda: CountOracle(oracles.key_of),
        records=5_000_000,
        quick_records=100_000,
    ),
    Workload(
        name="w1a",
        title="stateless, 1 KB: bytes passed through",
        program="passthrough",
        make=records.payments,
        oracle=lambda: StatelessOracle(oracles.unchanged, oracles.same_bytes),
        records=2_000_000,
        quick_records=40_000,
    ),
    Workload(
        name="w1b",
        title="stateless, 1 KB JSON: parse, filter, add a field, rename two, write",
        program="json",
        make=records.payments,
        oracle=lambda: StatelessOracle(oracles.converted, oracles.canonical_json),
        records=2_000_000,
        quick_records=40_000,
    ),
    Workload(
        name="w1c",
        title="stateless, 1 KB JSON: map, flat map, filter, new key, three topics",
        program="advanced",
        make=records.payments,
        oracle=lambda: StatelessOracle(oracles.advanced, oracles.canonical_json),
        records=1_000_000,
        quick_records=20_000,
        branches=("eur", "usd", "other"),
    ),
    Workload(
        name="w2z",
        title="word count, lines of 128 words (1 KB), Zipf",
        program="word_count",
        make=_zipf_lines,
        oracle=lambda: CountOracle(oracles.words_of),
        records=500_000,
        quick_records=10_000,
        latency=False,
    ),
    Workload(
        name="w2u",
        title="word count, lines of 128 words (1 KB), uniform",
        program="word_count",
        make=_uniform_lines,
        oracle=lambda: CountOracle(oracles.words_of),
        records=500_000,
        quick_records=10_000,
        latency=False,
    ),
    Workload(
        name="restore",
        title="restore a store from its changelog, keys of 16 bytes, values of 100",
        program="latest",
        make=records.distinct_values,
        oracle=lambda: TableOracle(oracles.keep_newest),
        records=1_000_000,
        quick_records=50_000,
        latency=False,
    ),
    Workload(
        name="large",
        title="newest row of a million keys in no order, JSON of 120 bytes, one in six an update",
        program="latest",
        make=records.documents,
        oracle=lambda: TableOracle(oracles.keep_newest),
        records=1_200_000,
        quick_records=50_000,
        latency=False,
    ),
    Workload(
        name="w3",
        title="stream of 1 KB left-joined with a table of 100-byte rows, half as many",
        program="table_join",
        make=_purchases,
        oracle=RowJoinOracle,
        records=1_000_000,
        quick_records=20_000,
        latency=False,
        sides=(Side(ending="table", make=records.customers, share=_ROWS),),
    ),
    Workload(
        name="w3g",
        title="stream of 1 KB left-joined with a global table of 100-byte rows, half as many",
        program="global_join",
        make=_purchases,
        oracle=RowJoinOracle,
        records=1_000_000,
        quick_records=20_000,
        latency=False,
        sides=(Side(ending="table", make=records.customers, share=_ROWS, followed=False),),
    ),
    Workload(
        name="w3f",
        title="table of orders joined by foreign key with a table of customers, a sixth as many; "
        "rows of 100 bytes, updates on both sides",
        program="foreign_key_join",
        make=_order_versions,
        oracle=ForeignKeyOracle,
        records=1_000_000,
        quick_records=20_000,
        latency=False,
        sides=(_CUSTOMERS,),
    ),
    Workload(
        name="w4",
        title="orders joined with payments, windows of 5 s on each side, grace 10 s, 100 bytes",
        program="stream_join",
        make=records.orders,
        oracle=MatchOracle,
        records=1_000_000,
        quick_records=20_000,
        latency=False,
        sides=(_PAYMENTS,),
    ),
    Workload(
        name="w4l",
        title="orders left-joined with payments, else as w4; one in ten and more has none",
        program="stream_left_join",
        make=records.orders,
        oracle=lambda: MatchOracle(orders_alone=True),
        records=1_000_000,
        quick_records=20_000,
        latency=False,
        sides=(_PAYMENTS,),
        closed=True,
    ),
    Workload(
        name="w4o",
        title="orders outer-joined with payments, else as w4",
        program="stream_outer_join",
        make=records.orders,
        oracle=lambda: MatchOracle(orders_alone=True, payments_alone=True),
        records=1_000_000,
        quick_records=20_000,
        latency=False,
        sides=(_PAYMENTS,),
        closed=True,
    ),
    Workload(
        name="w5",
        title="windows of 10 s, one in twenty late, one row for each key and window at its end",
        program="windows",
        make=records.measurements,
        oracle=WindowOracle,
        records=3_000_000,
        quick_records=50_000,
        latency=False,
    ),
    Workload(
        name="w5h",
        title="windows of 10 s that begin every 2 s, else as w5",
        program="hopping",
        make=records.measurements,
        oracle=lambda: WindowOracle(advance_ms=2_000),
        records=1_000_000,
        quick_records=20_000,
        latency=False,
    ),
    Workload(
        name="w5s",
        title="sessions with pauses of 5 s at most, one in twenty late, one row each",
        program="sessions",
        make=records.measurements,
        oracle=SessionOracle,
        records=1_000_000,
        quick_records=20_000,
        latency=False,
    ),
    Workload(
        name="rekeyed",
        title="count by key, then again by another key: two re-keyings",
        program="rekeyed",
        make=records.keyed_values,
        oracle=lambda: CountOracle(oracles.key_of),
        records=3_000_000,
        quick_records=50_000,
    ),
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
