"""Tables that are joined: by key, and by foreign key."""

from __future__ import annotations

import random

from mustela import StreamsBuilder
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.joins import DELETED, KEYS, SIDES, pair
from tests.faults.kinds.kind import Expected, Kind, Merged, Rows, Sent, Table, changes
from tests.faults.kinds.moments import moment
from tests.faults.watch import Row


def table_joins(builder: StreamsBuilder, prefix: str) -> None:
    """Join two tables in all three ways."""
    left, right = (
        builder.table(f"{prefix}.{side}", key=str, value=str, name=side) for side in SIDES
    )
    inner = left.join(right, pair, store="inner")
    inner.to_stream().to(f"{prefix}.out", key=str, value=str, name="inner-out")
    half = left.left_join(right, pair, name="half")
    half.to_stream().to(f"{prefix}.half", key=str, value=str, name="half-out")
    outer = left.outer_join(right, pair, store="outer")
    outer.to_stream().to(f"{prefix}.outer", key=str, value=str, name="outer-out")


def either_row(rng: random.Random, number: int) -> Sent:
    """Make a row of one of two tables, or delete one."""
    side = rng.choice(SIDES)
    value = None if rng.random() < DELETED else f"{side[0]}{number}"
    return Sent(f"k{rng.randrange(4 * KEYS)}", value, side, moment(rng, number))


def joined(one: bytes | None, other: bytes | None) -> bytes:
    """Return what the joiner makes of two rows."""
    return pair(*(None if row is None else row.decode() for row in (one, other))).encode()


class TableJoinsModel:
    """The three joins as tables, behind each epoch."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._sides: dict[str, Table] = {side: {} for side in SIDES}
        self._results: dict[str, Table] = {"out": {}, "half": {}, "outer": {}}

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        for row in self._merged.order(rows):
            self._sides[row.topic][row.key] = row.value
        touched = {row.key for row in rows}
        expected: Expected = {}
        for short, table in self._results.items():
            before = dict(table)
            table.update((key, self._row(short, key)) for key in touched)
            expected[short] = changes(before, table, touched)
        return expected

    def _row(self, short: str, key: bytes | None) -> bytes | None:
        left, right = (self._sides[side].get(key) for side in SIDES)
        needed = {"out": left and right, "half": left, "outer": left or right}[short]
        return joined(left, right) if needed else None


FOREIGN = 12


def foreign_key(builder: StreamsBuilder, prefix: str) -> None:
    """Join a table with the rows that its own rows name."""
    left = builder.table(f"{prefix}.left", key=str, value=str, name="left")
    right = builder.table(f"{prefix}.right", key=str, value=str, name="right")
    found = left.join(right, pair, foreign_key=named, store="found")
    found.to_stream().to(f"{prefix}.out", key=str, value=str, name="found-out")
    half = left.left_join(right, pair, foreign_key=named, store="half")
    half.to_stream().to(f"{prefix}.half", key=str, value=str, name="half-out")


def named(value: str) -> str:
    """Return the key of the row that a row names."""
    return value.partition(":")[0]


def naming_row(rng: random.Random, number: int) -> Sent:
    """Make or delete a row that names another, or one that is named."""
    time, deleted = moment(rng, number), rng.random() < DELETED
    if rng.random() < 0.2:
        return Sent(f"f{rng.randrange(FOREIGN)}", None if deleted else f"r{number}", "right", time)
    value = None if deleted else f"f{rng.randrange(FOREIGN)}:{number}"
    return Sent(f"k{rng.randrange(4 * KEYS)}", value, "left", time)


class ForeignKeyModel:
    """Each row beside the one that it names, behind each epoch."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._left: Table = {}
        self._right: Table = {}
        self._results: dict[str, Table] = {"out": {}, "half": {}}

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        for row in self._merged.order(rows):
            (self._left if row.topic == "left" else self._right)[row.key] = row.value
        changed = {row.key for row in rows if row.topic == "right"}
        touched = {row.key for row in rows if row.topic == "left"}
        touched |= {key for key, row in self._left.items() if row and self._named(row) in changed}
        expected: Expected = {}
        for short, table in self._results.items():
            before = dict(table)
            table.update((key, self._row(short, key)) for key in touched)
            expected[short] = changes(before, table, touched)
        return expected

    @staticmethod
    def _named(row: bytes) -> bytes:
        return named(row.decode()).encode()

    def _row(self, short: str, key: bytes | None) -> bytes | None:
        left = self._left.get(key)
        if left is None:
            return None
        right = self._right.get(self._named(left))
        return joined(left, right) if right is not None or short == "half" else None


KINDS = {
    "table_joins": Kind(
        build=table_joins,
        make=either_row,
        model=TableJoinsModel,
        inputs=SIDES,
        outputs=("out", "half", "outer"),
    ),
    "foreign_key": Kind(
        build=foreign_key,
        make=naming_row,
        model=ForeignKeyModel,
        inputs=SIDES,
        outputs=("out", "half"),
    ),
}
