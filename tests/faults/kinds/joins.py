"""Streams that are joined: with a stream within a window, with a table, with a global table."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter

from mustela import Joined, JoinWindows, Materialized, Stores, StreamsBuilder
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.kind import Expected, KeyValue, Kind, Merged, Rows, Sent, text
from tests.faults.kinds.moments import PATIENT, moment
from tests.faults.watch import Row

KEYS = 30
BEFORE_MS, AFTER_MS, GRACE_MS = 500, 800, 600
SIDES = ("left", "right")
NONE = "none"


def pair(one: str | None, other: str | None) -> str:
    """Show two values beside each other."""
    return f"{one or NONE}+{other or NONE}"


def stream_joins(builder: StreamsBuilder, prefix: str) -> None:
    """Join two streams in all three ways."""
    left, right = (builder.stream(f"{prefix}.{side}", key=str, value=str) for side in SIDES)
    near = JoinWindows(
        before=timedelta(milliseconds=BEFORE_MS),
        after=timedelta(milliseconds=AFTER_MS),
        grace=timedelta(milliseconds=GRACE_MS),
    )
    inner = left.join(right, pair, windows=near, name="inner")
    inner.to(f"{prefix}.out", key=str, value=str, name="inner-out")
    half = left.left_join(right, pair, windows=near, name="half")
    half.to(f"{prefix}.half", key=str, value=str, name="half-out")
    outer = left.outer_join(right, pair, windows=near, name="outer")
    outer.to(f"{prefix}.outer", key=str, value=str, name="outer-out")


def either_side(rng: random.Random, number: int) -> Sent:
    """Make a numbered record of one of the two streams."""
    side = rng.choice(SIDES)
    return Sent(f"k{rng.randrange(KEYS)}", f"{side[0]}{number}", side, moment(rng, number))


@dataclass(slots=True)
class _Known:
    """What a join knows of one key.

    Attributes:
        kept: For each side, time and value of its records.
        waiting: The records that have met nobody: when they close, their side, time and value.
    """

    kept: tuple[list[tuple[int, str]], list[tuple[int, str]]] = field(
        default_factory=lambda: ([], [])
    )
    waiting: list[tuple[int, int, int, str]] = field(
        default_factory=list[tuple[int, int, int, str]]
    )


class StreamJoin:
    """One join of two streams, record by record.

    Args:
        outer: The sides whose records come out without a partner, too.
    """

    def __init__(self, *outer: int) -> None:
        self._outer = outer
        self._keys: dict[bytes | None, _Known] = defaultdict(_Known)

    def take(self, row: Row, now: int) -> Iterator[KeyValue]:
        """Take a record that is judged at ``now``."""
        known, side = self._keys[row.key], SIDES.index(row.topic)
        yield from self._closed(row.key, known, now)
        time, value = row.timestamp, text(row.value)
        older, younger = (BEFORE_MS, AFTER_MS) if side == 0 else (AFTER_MS, BEFORE_MS)
        low = max(time - older, now - BEFORE_MS - AFTER_MS - GRACE_MS)
        near = [(at, other) for at, other in known.kept[1 - side] if low <= at <= time + younger]
        met = sorted(near, key=itemgetter(0))
        for at, other in met:
            pair_ = (value, other) if side == 0 else (other, value)
            yield row.key, pair(*pair_).encode()
            known.waiting = [waiting for waiting in known.waiting if waiting[1:3] != (1 - side, at)]
        if not met and side in self._outer:
            if time + younger < now:
                yield self._alone(row.key, side, value)
            else:
                known.waiting.append((time + younger + GRACE_MS, side, time, value))
        known.kept[side].append((time, value))

    def end(self, watermark: int) -> Iterator[KeyValue]:
        """Close what is over at the end of an epoch."""
        for key, known in self._keys.items():
            yield from self._closed(key, known, watermark)

    def _closed(self, key: bytes | None, known: _Known, now: int) -> Iterator[KeyValue]:
        over = sorted(waiting for waiting in known.waiting if waiting[0] < now)
        if over:
            known.waiting = [waiting for waiting in known.waiting if waiting[0] >= now]
        for _, side, _, value in over:
            yield self._alone(key, side, value)

    @staticmethod
    def _alone(key: bytes | None, side: int, value: str) -> KeyValue:
        return key, (pair(value, None) if side == 0 else pair(None, value)).encode()


class StreamJoinsModel:
    """All three joins, one record after the other."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._joins = {"out": StreamJoin(), "half": StreamJoin(0), "outer": StreamJoin(0, 1)}

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        judged = self._merged.judged(rows, record.watermark)
        expected: Expected = {}
        for short, join in self._joins.items():
            found = [result for row, now in judged for result in join.take(row, now)]
            expected[short] = [*found, *join.end(record.watermark)]
        return expected


def stream_table(builder: StreamsBuilder, prefix: str) -> None:
    """Join a stream with a table and with a global table."""
    rows = builder.table(f"{prefix}.rows", key=str, value=str, name="rows")
    shops = builder.global_table(f"{prefix}.shops", key=str, value=str, name="shops")
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    found = stream.join(rows, pair, name="found")
    found.to(f"{prefix}.out", key=str, value=str, name="found-out")
    half = stream.left_join(rows, pair, name="half")
    half.to(f"{prefix}.half", key=str, value=str, name="half-out")
    placed = stream.join(shops, pair, foreign_key_with_key=shop_of, name="placed")
    placed.to(f"{prefix}.placed", key=str, value=str, name="placed-out")


SHOPS = 20
DELETED = 0.2


def shop_of(_key: str, value: str) -> str:
    """Return the shop that a record names."""
    return f"s{int(value[1:]) % SHOPS}"


def stream_or_row(rng: random.Random, number: int) -> Sent:
    """Make a record of the stream, of the table, or of the global table."""
    time = moment(rng, number)
    topic = rng.choices(("in", "rows", "shops"), (6, 3, 1))[0]
    if topic == "in":
        return Sent(f"k{rng.randrange(KEYS)}", f"v{number}", timestamp=time)
    key = f"k{rng.randrange(KEYS)}" if topic == "rows" else f"s{rng.randrange(SHOPS)}"
    value = None if rng.random() < DELETED else f"{topic[0]}{number}"
    return Sent(key, value, topic, time)


class StreamTableModel:
    """Each record meets the row of its moment; those of a global table come before its epoch."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._rows: dict[bytes | None, bytes | None] = {}
        self._shops: dict[bytes | None, bytes | None] = {}

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        self._shops.update((row.key, row.value) for row in rows if row.topic == "shops")
        expected: Expected = {"out": [], "half": [], "placed": []}
        for row in self._merged.order([row for row in rows if row.topic != "shops"]):
            if row.topic == "rows":
                self._rows[row.key] = row.value
                continue
            key, value = row.key, text(row.value)
            found = self._rows.get(key)
            other = None if found is None else found.decode()
            expected["half"].append((key, pair(value, other).encode()))
            if other is not None:
                expected["out"].append((key, pair(value, other).encode()))
            shop = self._shops.get(shop_of("", value).encode())
            if shop is not None:
                expected["placed"].append((key, pair(value, shop.decode()).encode()))
        return expected


WAIT_MS = 1_000


def versioned(builder: StreamsBuilder, prefix: str) -> None:
    """Join a stream with the rows of its own time, at once and after a wait."""
    hour = Stores.persistent_versioned_key_value_store("rows", timedelta(hours=1))
    rows = builder.table(
        f"{prefix}.rows", key=str, value=str, materialized=Materialized(supplier=hour)
    )
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    found = stream.left_join(rows, pair, name="found")
    found.to(f"{prefix}.out", key=str, value=str, name="found-out")
    waiting: Joined[str, str, str] = Joined(grace=timedelta(milliseconds=WAIT_MS))
    waited = stream.left_join(rows, pair, joined=waiting, name="waited")
    waited.to(f"{prefix}.waited", key=str, value=str, name="waited-out")


def stream_or_version(rng: random.Random, number: int) -> Sent:
    """Make a record of the stream or of the table."""
    time = moment(rng, number)
    if rng.random() < 0.5:
        return Sent(f"k{rng.randrange(KEYS)}", f"v{number}", timestamp=time)
    value = None if rng.random() < DELETED else f"r{number}"
    return Sent(f"k{rng.randrange(KEYS)}", value, "rows", time)


class VersionedModel:
    """The row that held at a record's time: of those that were there, or after a wait of all."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._versions: dict[bytes | None, dict[int, bytes | None]] = defaultdict(dict)
        self._waiting: list[Row] = []

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        expected: Expected = {"out": [], "waited": []}
        for row in self._merged.order(rows):
            if row.topic == "rows":
                self._versions[row.key][row.timestamp] = row.value
                continue
            expected["out"].append(self._joined(row))
            self._waiting.append(row)
        due = [row for row in self._waiting if row.timestamp <= record.watermark - WAIT_MS]
        self._waiting = [row for row in self._waiting if row not in due]
        due.sort(key=lambda row: row.timestamp)
        expected["waited"] = [self._joined(row) for row in due]
        return expected

    def _joined(self, row: Row) -> KeyValue:
        versions = self._versions[row.key]
        times = [time for time in versions if time <= row.timestamp]
        found = versions[max(times)] if times else None
        other = None if found is None else found.decode()
        return row.key, pair(text(row.value), other).encode()


KINDS = {
    "stream_joins": Kind(
        build=stream_joins,
        make=either_side,
        model=StreamJoinsModel,
        inputs=SIDES,
        outputs=("out", "half", "outer"),
        environment=PATIENT,
    ),
    "stream_table": Kind(
        build=stream_table,
        make=stream_or_row,
        model=StreamTableModel,
        inputs=("in", "rows"),
        global_inputs=("shops",),
        outputs=("out", "half", "placed"),
        environment=PATIENT,
    ),
    "versioned": Kind(
        build=versioned,
        make=stream_or_version,
        model=VersionedModel,
        inputs=("in", "rows"),
        outputs=("out", "waited"),
        environment=PATIENT,
    ),
}
