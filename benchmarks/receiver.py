"""A read_committed consumer that notes when each stamped record became visible."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from benchmarks.kafka import QUIET, Topics
from benchmarks.load import copies, due_us, read_stamp, stamp_of

_FETCH_WAIT_MS = 5
_BATCH = 1_000
_NOT_YET_US = 1_000_000
"""The last records of a load need not have come to all partitions when it ends."""


@dataclass(slots=True)
class Receiver:
    """Reads output topics in a thread of its own, from their ends when it starts.

    Attributes:
        arrivals: (stamp in microseconds, time of receipt in seconds), as they came.
    """

    topics: Topics
    names: Sequence[str]
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read; what is in the topics already is not looked at."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.topics.bootstrap,
                "group.id": "bench-receiver",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "fetch.queue.backoff.ms": _FETCH_WAIT_MS,
                "fetch.error.backoff.ms": _FETCH_WAIT_MS,
                **QUIET,
            }
        )
        consumer.assign(
            [
                TopicPartition(name, partition, end)
                for name in self.names
                for partition, end in self.topics.end_offsets(name).items()
            ]
        )
        self._thread = threading.Thread(target=self._run, args=(consumer,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, consumer: Consumer) -> None:
        try:
            while not self._stopping.is_set():
                first = consumer.poll(0.1)
                if first is None:
                    continue
                now = time.time()
                for message in [first, *consumer.consume(_BATCH, timeout=0)]:
                    if message.error() is None:
                        stamp = read_stamp(message.key(), message.value())
                        if stamp is not None:
                            self.arrivals.append((stamp, now))
        finally:
            consumer.close()

    def first_after(self, moment: float) -> float | None:
        """When the first stamped record arrived later than a moment."""
        return next((seen for _, seen in list(self.arrivals) if seen > moment), None)

    def wait_for_count(self, count: int, timeout_s: float) -> bool:
        """Wait until so many stamped records have arrived."""
        deadline = time.monotonic() + timeout_s
        while len(self.arrivals) < count:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a load sent, and therefore what must arrive."""

    program: str
    rate: int
    begin_us: int
    count: int

    def expected(self) -> Counter[int]:
        """How often each stamp must arrive: all but those whose windows the load leaves open."""
        end = stamp_of(self.begin_us, self.count, self.rate)
        stamps = self._stamped()
        return Counter(
            {
                stamp: count
                for stamp, count in stamps.items()
                if due_us(self.program, stamp) + _NOT_YET_US < end or self.program != "windows"
            }
        )

    def _stamped(self) -> Counter[int]:
        """How often each stamp may arrive."""
        return Counter(
            {
                stamp_of(self.begin_us, number, self.rate): copies(self.program, number)
                for number in range(self.count)
                if copies(self.program, number)
            }
        )

    def faults(self, arrivals: Sequence[tuple[int, float]]) -> list[str]:
        """What did not arrive exactly as often as it must."""
        found = Counter(stamp for stamp, _ in arrivals)
        expected = self.expected()
        missing = sum((expected - found).values())
        extra = sum((found - self._stamped()).values())
        faults: list[str] = []
        if missing:
            faults.append(f"{missing} stamped records did not arrive")
        if extra:
            faults.append(f"{extra} stamped records arrived too often")
        return faults

    def latencies_ms(self, arrivals: Sequence[tuple[int, float]], warm_up_s: float) -> list[float]:
        """Latencies of the records that were due after the warm-up."""
        first = self.begin_us + int(warm_up_s * 1e6)
        due = ((due_us(self.program, stamp), seen) for stamp, seen in arrivals)
        return [seen * 1000 - at / 1000 for at, seen in due if at >= first]
