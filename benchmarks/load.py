"""An open-loop load: records at fixed intended times, each carrying the time it was meant to be
sent.

Run as a process of its own (`python -m benchmarks.load`), so that the receiver's work does not
delay it. A late send keeps its intended time: waiting is part of the latency that is measured.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from confluent_kafka import Producer

from benchmarks import records
from benchmarks.kafka import QUIET
from benchmarks.records import Record

MARKER = b"@"
MARKED_SHARE = 10
"""In counting workloads one record in ten carries a stamp, as a word or key of its own."""
WINDOW_US: Final = 10_000_000
CLOSED_US: Final = 15_000_000
"""Windows of the workload w5, and when one is over, from its beginning on."""
TABLE_SHARE = 10
"""Of the records of a stream joined with a table one in ten is a row of the table."""
_CUSTOMERS = 1_000
_SENSORS = 1_000
_STAMPED = re.compile(rb"(?:^|\+)@(\d+)")
_FLUSH_TIMEOUT_S = 30.0
_FULL_S = 0.01
_LINGER_MS = 5
"""As Kafka's own producer has it; with 1 the broker had more to do for the load than for peers."""
_TICK_S = 0.001
"""What is due within it is sent at its end, late by its stamp: sleeping for each costs more."""


class Sent(NamedTuple):
    """A record of a load.

    Attributes:
        key: Its key.
        value: Its value.
        ending: Where its topic is not the input itself: what follows the input's name, a hyphen
            between.
        time_ms: Its own time; None for the time of sending.
    """

    key: bytes | None
    value: bytes
    ending: str = ""
    time_ms: int | None = None


def stamp_of(begin_us: int, number: int, rate: int) -> int:
    """The intended send time of a record, in microseconds."""
    return begin_us + number * 1_000_000 // rate


def copies(program: str, number: int) -> int:
    """How many output records carry the stamp of an input record."""
    if program in ("word_count", "count", "rekeyed", "windows"):
        return 1 if number % MARKED_SHARE == 0 else 0
    if program == "table_join":
        return 0 if number % TABLE_SHARE == 0 else 1
    if program == "stream_join":
        return number % 2
    if program == "advanced":
        return sum(1 for leg in (0, 1) if (number + leg) % 5)
    return 1


def due_us(program: str, stamp: int) -> int:
    """When the result of a record with that stamp is due: at once, or when its window is over."""
    return stamp // WINDOW_US * WINDOW_US + CLOSED_US if program == "windows" else stamp


class LoadRecords:
    """Makes the records of a load, alike in size and shape to the workload's own."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._source = random.Random(f"load-{program}")
        self._words = records.dictionary(0, (2, 10))
        self._weights = records.zipf_weights(len(self._words))

    def sent(self, number: int, stamp: int) -> Sent:
        """The record with a number, and where it goes."""
        if self._program == "table_join":
            customer = f"customer-{self._source.randrange(_CUSTOMERS):08d}".encode()
            if number % TABLE_SHARE == 0:
                return Sent(customer, f"{self._source.getrandbits(400):0100x}".encode(), "table")
            return Sent(customer, MARKER + b"%d" % stamp + b" ".ljust(1_000, b"x"))
        if self._program == "stream_join":
            key = f"order-{number // 2:09d}".encode()
            if number % 2:
                return Sent(key, MARKER + b"%d" % stamp + b" ".ljust(80, b"p"), "payments")
            return Sent(key, f"order-{number:094d}".encode())
        if self._program == "windows":
            marked = number % MARKED_SHARE == 0
            sensor = f"sensor-{self._source.randrange(_SENSORS):06d}".encode()
            key = MARKER + b"%d" % stamp if marked else sensor
            return Sent(key, b"%d" % self._source.randrange(1_000_000), "", stamp // 1000)
        return Sent(*self.record(number, stamp))

    def record(self, number: int, stamp: int) -> Record:
        """The record with a number, stamped when it is one of those that are.

        Programs that read more than one topic, or the records' own time, have theirs from `sent`.
        """
        if self._program == "word_count":
            line = self._source.choices(self._words, cum_weights=self._weights, k=9)
            marked = number % MARKED_SHARE == 0
            line.append(f"{MARKER.decode()}{stamp}" if marked else self._words[0])
            return None, " ".join(line).encode()
        if self._program in ("count", "rekeyed"):
            marked = number % MARKED_SHARE == 0
            key = f"key-{self._source.randrange(records.COUNT_KEYS):05d}".encode()
            return (MARKER + str(stamp).encode() if marked else key), f"{number:064d}".encode()
        if self._program == "latest":
            return MARKER + str(stamp).encode(), f"{number:0100d}".encode()
        payment: dict[str, object] = {
            "id": number,
            "ts": stamp,
            "amount": self._source.randrange(10_000, 100_000) / 100,
            "currency": self._source.choice(("EUR", "USD", "GBP")),
            "account": f"acc-{self._source.randrange(100_000):08d}",
            "merchant": f"mer-{self._source.randrange(5_000):06d}",
            "country": "DE",
            "channel": "web",
            "status": "settled",
            "category": f"c{self._source.randrange(40):02d}",
            "device": f"dev-{self._source.randrange(50_000):06d}",
        }
        return f"payment-{number:08d}".encode(), records.padded(payment)


def read_stamp(key: bytes | None, value: bytes | None) -> int | None:
    """The stamp that an output record carries, if it does."""
    if key is not None and key.startswith(MARKER):
        return int(key[1:].partition(MARKER)[0])
    if value is not None and (found := _STAMPED.search(value)):
        return int(found[1])
    if value is not None and value.startswith(b"{"):
        return int(json.loads(value)["ts"])
    return None


def send(bootstrap: str, topic: str, program: str, rate: int, begin_us: int, count: int) -> None:
    """Send `count` records, each as soon as its intended time has come."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": _LINGER_MS,
            "acks": "all",
            "sticky.partitioning.linger.ms": 0,
            **QUIET,
        }
    )
    source = LoadRecords(program)
    for number in range(count):
        stamp = stamp_of(begin_us, number, rate)
        sent = source.sent(number, stamp)
        wait = stamp / 1e6 - time.time()
        if wait > 0:
            time.sleep(max(wait, _TICK_S))
        _produce(producer, f"{topic}-{sent.ending}" if sent.ending else topic, sent)
    if producer.flush(_FLUSH_TIMEOUT_S):
        raise SystemExit("the broker did not take the whole load")


def _produce(producer: Producer, topic: str, sent: Sent) -> None:
    """Send a record; when the client's queue is full it is late, as its stamp will tell."""
    while True:
        try:
            producer.produce(topic, key=sent.key, value=sent.value, timestamp=sent.time_ms or 0)
        except BufferError:
            producer.poll(_FULL_S)
        else:
            producer.poll(0)
            return


def main(words: Sequence[str] | None = None) -> None:
    """Read the command line and send."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--begin-us", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    given = parser.parse_args(words)
    send(given.bootstrap, given.topic, given.program, given.rate, given.begin_us, given.count)


if __name__ == "__main__":
    main()
