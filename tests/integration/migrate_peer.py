"""A Kafka Streams application in Java that Mustela takes over, and its translation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.kafka_streams_peer import compiled
from mustela import (
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from mustela.clock import SystemClock
from mustela.java import find_java
from mustela.windows import BufferConfig
from mustela_dev.broker.jars import resolve_jars
from tests.patience import PATIENCE_S

__all__ = [
    "OUTPUTS",
    "SOURCES",
    "USERS",
    "JavaApplication",
    "Sent",
    "first_half",
    "program",
    "second_half",
]

SOURCES = ("visits", "prices", "payments")
OUTPUTS = ("counts", "final", "sessions", "priced", "paid", "alone", "sliding")
_SECOND = 1_000
_HOUR = 3_600 * _SECOND
_BEGIN = (SystemClock().now_ms() // _HOUR - 4) * _HOUR
"""A while ago: the broker deletes windows of last year from a changelog."""
_END = 3 * _HOUR
USERS = 7


class Sent(NamedTuple):
    """An input record, with its time since the beginning."""

    topic: str
    key: str
    value: str
    timestamp: int


def first_half() -> list[Sent]:
    """Return what the Java application reads: it ends in the middle of windows and sessions."""
    rows = [Sent("prices", f"u{user}", f"p{user}", 0) for user in range(USERS)]
    rows += [Sent("prices", f"u{user}", f"q{user}", 100 * _SECOND) for user in range(0, USERS, 2)]
    rows += _visits(1, 130)
    return rows


def second_half() -> list[Sent]:
    """Return what waits when the Java application stops; the last records close every window."""
    rows = [Sent("prices", f"u{user}", f"r{user}", 150 * _SECOND) for user in range(0, USERS, 3)]
    rows += _visits(130, 260)
    rows += [Sent("visits", f"last{n}", "x", _END) for n in range(60)]
    return rows


def _visits(first: int, end: int) -> list[Sent]:
    rows: list[Sent] = []
    for second in range(first, end):
        user = f"u{second * 5 % USERS}"
        if second % 40 < 33:  # a pause ends sessions
            rows.append(Sent("visits", user, f"v{second}", second * _SECOND))
        if second % 4 == 0:
            rows.append(Sent("payments", user, f"m{second}", second * _SECOND + 500))
    return rows


def program(prefix: str) -> Callable[[StreamsBuilder], None]:
    """Return the translation of ``Takeover.java``, over topics of a prefix."""

    def build(builder: StreamsBuilder) -> None:
        visits = builder.stream(f"{prefix}visits", key=str, value=str)
        grouped = visits.group_by_key()
        grouped.count(store="counts").to_stream().to(f"{prefix}counts", key=str, value=int)
        minute = TimeWindows(size=timedelta(minutes=1), grace=timedelta(seconds=30))
        minutes = grouped.windowed_by(minute).count(store="minutes")
        closed = Suppressed.until_window_closes(BufferConfig.unbounded())
        minutes.suppress(closed, name="final").to_stream(
            lambda window, _: f"{window.key}@{window.start}"
        ).to(f"{prefix}final", key=str, value=int)
        gap = SessionWindows(inactivity_gap=timedelta(seconds=20), grace=timedelta(seconds=30))
        grouped.windowed_by(gap).count(store="sessions").to_stream(
            lambda window, _: f"{window.key}@{window.start}-{window.end}"
        ).to(f"{prefix}sessions", key=str, value=int)
        kept = Stores.persistent_versioned_key_value_store("prices", timedelta(hours=1))
        prices = builder.table(
            f"{prefix}prices", key=str, value=str, materialized=Materialized(supplier=kept)
        )
        visits.left_join(
            prices, lambda visit, price: f"{visit}:{price or 'null'}", value=str, name="priced"
        ).to(f"{prefix}priced", key=str, value=str)
        payments = builder.stream(f"{prefix}payments", key=str, value=str)
        near = JoinWindows.of_time_difference(timedelta(seconds=10), grace=timedelta(hours=1))
        visits.join(
            payments, lambda visit, paid: f"{visit}+{paid}", windows=near, value=str, name="paid"
        ).to(f"{prefix}paid", key=str, value=str)
        close = JoinWindows.of_time_difference(
            timedelta(milliseconds=600), grace=timedelta(hours=1)
        )
        visits.outer_join(
            payments,
            lambda visit, paid: f"{visit or 'null'}|{paid or 'null'}",
            windows=close,
            value=str,
            name="alone",
        ).to(f"{prefix}alone", key=str, value=str)
        around = SlidingWindows(time_difference=timedelta(seconds=15), grace=timedelta(seconds=30))
        grouped.windowed_by(around).count(store="sliding").to_stream(
            lambda window, _: f"{window.key}@{window.start}"
        ).to(f"{prefix}sliding", key=str, value=int)

    return build


class JavaApplication:
    """``Takeover.java`` in a process of its own.

    Args:
        servers: The brokers.
        application_id: Its id.
        prefix: Of its topics.
        directory: For its state.
        guarantee: ``at_least_once`` or ``exactly_once_v2``.
    """

    def __init__(
        self,
        servers: str,
        application_id: str,
        *,
        prefix: str,
        directory: Path,
        guarantee: str = "exactly_once_v2",
    ) -> None:
        java, jars = find_java(), resolve_jars("kafka-streams")
        path = os.pathsep.join(map(str, [compiled(jars), *jars]))
        words = [servers, application_id, str(directory), guarantee, prefix]
        self.process = subprocess.Popen(
            [
                str(java.executable),
                *("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                *("-cp", path, "benchmarks.Takeover", *words),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env=java.environment(os.environ),
        )

    def stop(self) -> None:
        """Close it cleanly."""
        self.process.communicate("stop\n", timeout=PATIENCE_S)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


def by_topic(rows: Iterable[Sent]) -> dict[str, list[Any]]:
    """Return rows as a world sends them, by topic."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.topic, []).append((row.key, row.value, _BEGIN + row.timestamp))
    return found
