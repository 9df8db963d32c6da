"""What the commit of a small epoch costs: ``python -m benchmarks.commits``.

Transactions as small epochs have them: some hundred rows for a sink of six partitions and for every
partition of a changelog, the group's offsets, the epoch record. librdkafka's producer, and the one
that lanes can write beside, in both versions of Kafka's transactions, take turns on one broker.
Rows are read back and counted before any number is believed. CPU is that of this process, with all
threads, and of the broker's, by transaction, the pauses between them included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.process_tree import ProcessTree
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.connectors.kafka.writers import coordinator
from mustela.connectors.kafka.writers.transactions import SharedTransactions
from mustela.runtime.ports import Transactions
from mustela_dev import DevelopmentBroker

_SINK_PARTITIONS = 6
_WARM = 30
_MARKERS_S = 1.0
"""A commit is answered before its markers are written."""
Numbers = dict[str, float]


def by_librdkafka(properties: Mapping[str, Any], name: str) -> Transactions:
    """As the driver writes alone."""
    return TransactionalSink(properties, name, options=TransactionOptions())


def by_writers(properties: Mapping[str, Any], name: str) -> Transactions:
    """As it writes where lanes write, too."""
    return SharedTransactions(properties, name, options=TransactionOptions())


Way = Callable[[Mapping[str, Any], str], Transactions]
OF_VERSION_1 = "writers, version 1"
WAYS: dict[str, Way] = {
    "librdkafka": by_librdkafka,
    "writers": by_writers,
    OF_VERSION_1: by_writers,
}


def commit(sink: Transactions, name: str, number: int, given: argparse.Namespace) -> None:
    """Commit as `Committer` does."""
    keys = [b"%d-%d" % (number, row) for row in range(given.rows)]
    sink.begin()
    sink.produce_columns(f"{name}.out", keys, keys)
    for partition in range(given.partitions):
        own = keys[partition :: given.partitions]
        sink.produce_tracked(f"{name}.log", partition, own, own)
    sink.send_offsets({(f"{name}.out", part): number for part in range(_SINK_PARTITIONS)})
    sink.flush()
    sink.produce_tracked(f"{name}.epochs", 0, [b"record"], [b"%d" % number])
    sink.flush()
    sink.commit()


def run(way: str, broker: DevelopmentBroker, name: str, given: argparse.Namespace) -> Numbers:
    """Commit as often as it was asked for; return milliseconds by transaction."""
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    admin = KafkaAdmin(properties)
    counts = {"out": _SINK_PARTITIONS, "log": given.partitions, "epochs": 1}
    admin.create(
        [TopicSpec(name=f"{name}.{what}", partitions=count) for what, count in counts.items()]
    )
    with ExitStack() as stack:
        if way == OF_VERSION_1:  # a matter of the requests: the broker serves both
            stack.enter_context(patch.object(coordinator, "bumps_at_end", lambda _broker: False))
        sink = WAYS[way](properties, name)
        sink.reopen()
        for number in range(_WARM):
            commit(sink, name, number, given)
        took: list[float] = []
        server = ProcessTree(broker.pid)
        server.update()
        cpu, broker_cpu = time.process_time(), server.cpu_seconds()
        for number in range(_WARM, _WARM + given.transactions):
            start = time.perf_counter()
            commit(sink, name, number, given)
            took.append(time.perf_counter() - start)
            time.sleep(given.pause_ms / 1e3)
        server.update()
        cpu, broker_cpu = time.process_time() - cpu, server.cpu_seconds() - broker_cpu
        sink.close()
    time.sleep(_MARKERS_S)
    for what, rows in {"out": given.rows, "log": given.rows, "epochs": 1}.items():
        seen = sum(1 for _ in tail(properties, f"{name}.{what}", TailOptions(until_end=True)))
        if seen != rows * (_WARM + given.transactions):
            raise AssertionError(f"{way}: {seen} rows in {what}")
    admin.delete([f"{name}.{what}" for what in counts])
    admin.close()
    each = given.transactions / 1e3
    found = {"commit": median(took) * 1e3, "cpu": cpu / each, "broker_cpu": broker_cpu / each}
    return {what: round(number, 2) for what, number in found.items()}


def main() -> None:
    """Run all ways in turns, print a JSON document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commits", description=__doc__)
    parser.add_argument("--partitions", type=int, default=32, help="of the changelog")
    parser.add_argument("--rows", type=int, default=300, help="of a transaction, for each topic")
    parser.add_argument("--transactions", type=int, default=150)
    parser.add_argument("--pause-ms", type=int, default=50, help="between two")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[Numbers]] = {way: [] for way in WAYS}
    with DevelopmentBroker(heap_mb=512) as broker:
        for turn in range(given.turns):
            for number, way in enumerate(WAYS if turn % 2 == 0 else reversed(WAYS)):
                found[way].append(run(way, broker, f"commits-{turn}-{number}", given))
                print(turn, way, json.dumps(found[way][-1]), file=sys.stderr, flush=True)
    medians = {
        way: {what: median(one[what] for one in runs) for what in runs[0]}
        for way, runs in found.items()
    }
    print(json.dumps({"partitions": given.partitions, "rows": given.rows, "median": medians}))


if __name__ == "__main__":
    main()
