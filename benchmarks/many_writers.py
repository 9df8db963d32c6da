"""Rows in transactions by librdkafka, by one of several writers, by Java: rows/s, CPU for a MB.

``python -m benchmarks.many_writers``: each way writes the same rows, 100,000 a transaction, to the
same four partitions, in a process of its own, and takes turns with the others. CPU is that of the
process, with all of its threads, without its start. Of the first two the rows are read back, their
number and a sum over them compared, before any number is believed; Java's are those of Kafka's
own ``kafka-producer-perf-test``, whose rows are random and only counted; its CPU holds its start.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.tools import TailOptions, tail
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.writer import TransactionWriter
from mustela_dev import DevelopmentBroker
from mustela_dev.broker.tools import tool_command

PARTITIONS = 4
CHUNK = 1_000
IN_TRANSACTION = 100_000
KEY = b"%012d"
Columns = tuple[int, list[bytes], list[bytes]]


def chunks(rows: int, size: int) -> Iterator[list[Columns]]:
    """Partition, keys and values, a list for each transaction."""
    filler = bytes(range(33, 126)) * (size // 90 + 1)
    for first in range(0, rows, IN_TRANSACTION):
        last = min(rows, first + IN_TRANSACTION)
        found: list[Columns] = []
        for start in range(first, last, CHUNK):
            keys = [KEY % number for number in range(start, min(last, start + CHUNK))]
            found.append(
                (start // CHUNK % PARTITIONS, keys, [(key + filler)[:size] for key in keys])
            )
        yield found


def by_librdkafka(properties: dict[str, Any], topic: str, made: list[list[Columns]]) -> None:
    """As the driver writes changelogs today."""
    sink = TransactionalSink(properties, topic, options=TransactionOptions())
    sink.open()
    for transaction in made:
        sink.begin()
        for partition, keys, values in transaction:
            sink.produce_tracked(topic, partition, keys, values)
        sink.flush()
        sink.commit()
    sink.close()


def by_writer(properties: dict[str, Any], topic: str, made: list[list[Columns]]) -> None:
    """As a lane may write them: a new writer, with new connections, for each transaction."""
    coordinator = TransactionCoordinator(properties, topic)
    coordinator.open()
    for transaction in made:
        writer = TransactionWriter(properties, coordinator.begin())
        for partition, keys, values in transaction:
            writer.write(topic, partition, keys, values)
        writer.finish()
        writer.close()
        coordinator.commit()
    coordinator.close()


WAYS: dict[str, Callable[[dict[str, Any], str, list[list[Columns]]], None]] = {
    "librdkafka": by_librdkafka,
    "writer": by_writer,
}


def child(way: str, properties: dict[str, Any], topic: str, rows: int, size: int) -> None:
    """Write, and print seconds of the clock and of the processor."""
    made = list(chunks(rows, size))
    WAYS[way](properties, f"{topic}-warm", made[:1])
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    WAYS[way](properties, topic, made)
    after, end = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([end - start, cpu]))


def fault_of(properties: dict[str, Any], topic: str, rows: int, size: int) -> str | None:
    """Say what is wrong with the rows of a topic."""
    count = total = 0
    for row in tail(properties, topic, TailOptions(until_end=True)):
        count += 1
        total += zlib.crc32((row.key or b"") + (row.value or b""))
    expected = sum(
        zlib.crc32(key + value)
        for transaction in chunks(rows, size)
        for _, keys, values in transaction
        for key, value in zip(keys, values, strict=True)
    )
    return None if (count, total) == (rows, expected) else f"{count} rows, sum {total}"


def numbers(rows: int, size: int, seconds: float, cpu: float) -> dict[str, float]:
    """Return rates."""
    megabytes = rows * (size + len(KEY % 0)) / 1e6
    return {"rows_per_s": round(rows / seconds), "cpu_ms_per_mb": round(cpu * 1e3 / megabytes, 2)}


def run(way: str, broker: DevelopmentBroker, topic: str, given: argparse.Namespace) -> Any:
    """Run one way once, in a process of its own."""
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    admin = KafkaAdmin(properties)
    names = (topic, f"{topic}-warm")
    admin.create([TopicSpec(name=name, partitions=PARTITIONS) for name in names])
    if way == "java":
        result = run_java(broker, topic, given)
    else:
        command = [sys.executable, "-m", "benchmarks.many_writers", "--child", way]
        more = ["--servers", broker.bootstrap_servers, "--topic", topic]
        sizes = ["--rows", str(given.rows), "--size", str(given.size)]
        done = subprocess.run([*command, *more, *sizes], capture_output=True, text=True, check=True)
        result = numbers(given.rows, given.size, *json.loads(done.stdout))
        fault = fault_of(properties, topic, given.rows, given.size)
        if fault:
            result = {"fault": fault}
    admin.delete(list(names))
    admin.close()
    return result


def run_java(broker: DevelopmentBroker, topic: str, given: argparse.Namespace) -> dict[str, float]:
    """Run Kafka's own measurement, with transactions."""
    arguments = [
        *("--topic", topic, "--num-records", str(given.rows), "--record-size", str(given.size)),
        *("--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "300"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", "linger.ms=5"),
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = tool_command("kafka-producer-perf-test", arguments)
    subprocess.run(command, capture_output=True, check=True)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return numbers(given.rows, given.size, end - start, cpu)


def main() -> int:
    """Run all ways in turns, print a JSON document; 1 when some rows were wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_writers", description=__doc__)
    parser.add_argument("--child", choices=[*WAYS], help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if given.child:
        properties = {"bootstrap.servers": given.servers}
        child(given.child, properties, given.topic, given.rows, given.size)
        return 0
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in (*WAYS, "java")}
    with DevelopmentBroker(heap_mb=512) as broker:
        for number in range(given.runs):
            for way in found if number % 2 == 0 else reversed(found):
                found[way].append(run(way, broker, f"{way}-{number}", given))
                print(way, json.dumps(found[way][-1]), file=sys.stderr, flush=True)
    medians = {
        way: {name: median(run.get(name, 0) for run in runs) for name in runs[0]}
        for way, runs in found.items()
    }
    print(json.dumps({"rows": given.rows, "size": given.size, "median": medians, "runs": found}))
    return int(any("fault" in run for runs in found.values() for run in runs))


if __name__ == "__main__":
    sys.exit(main())
