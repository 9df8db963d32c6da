"""Several streams into one table, several sinks into one topic, and one re-keying after another."""

from __future__ import annotations

import random
from collections import Counter

from mustela import StreamsBuilder
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.counting import add_link, line_of_words
from tests.faults.kinds.joins import KEYS, SIDES
from tests.faults.kinds.kind import (
    Expected,
    Kind,
    Merged,
    Rows,
    Sent,
    Table,
    changes,
    number,
    text,
)
from tests.faults.kinds.moments import moment
from tests.faults.watch import Row


def add_left(_key: str, value: str, chain: str) -> str:
    """Add a value of the left stream."""
    return add_link(chain or None, f"left {value}")


def add_right(_key: str, value: str, chain: str) -> str:
    """Add a value of the right stream."""
    return add_link(chain or None, f"right {value}")


def cogroup(builder: StreamsBuilder, prefix: str) -> None:
    """Fold two streams into one chain for each key, each in its own way."""
    left, right = (
        builder.stream(f"{prefix}.{side}", key=str, value=str).group_by_key() for side in SIDES
    )
    both = left.cogroup(add_left).cogroup(right, add_right)
    chains = both.aggregate(str, value=str, store="chains")
    chains.to_stream().to(f"{prefix}.out", key=str, value=str)


def numbered(rng: random.Random, number: int) -> Sent:
    """Make a numbered record of one of two streams."""
    return Sent(f"k{rng.randrange(KEYS)}", f"n{number}", rng.choice(SIDES), moment(rng, number))


class CogroupModel:
    """Chains of the values of both streams, in their merged order."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._chains: dict[bytes | None, str] = {}

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        for row in self._merged.order(rows):
            chain = self._chains.get(row.key)
            self._chains[row.key] = add_link(chain, f"{row.topic} {text(row.value)}")
        keys = {row.key for row in rows}
        return {"out": Counter((key, self._chains[key].encode()) for key in keys)}


def is_even(_key: str, value: str) -> bool:
    """Tell whether a value's number is even."""
    return int(value[1:]) % 2 == 0


def is_odd(_key: str, value: str) -> bool:
    """Tell whether a value's number is odd."""
    return int(value[1:]) % 2 == 1


def loud(value: str, _row: str | None) -> str:
    """Return a value in capitals, whatever row it meets."""
    return value.upper()


def branches(builder: StreamsBuilder, prefix: str) -> None:
    """Split a stream and write all of it to one topic: as it is read, and behind a store."""
    rows = builder.table(f"{prefix}.rows", key=str, value=str, name="rows")
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.filter(is_odd, name="odd").to(f"{prefix}.out", key=str, value=str, name="odd-out")
    even = stream.filter(is_even, name="even").left_join(rows, loud, name="loud")
    even.to(f"{prefix}.out", key=str, value=str, name="even-out")


def branched(row: Row) -> str | None:
    """Return what a record becomes."""
    if row.topic != "in":
        return None
    value = text(row.value)
    return value.upper() if is_even("", value) else value


def sometimes_row(rng: random.Random, number: int) -> Sent:
    """Make a numbered record; some are rows of the table that the stream is joined with."""
    topic = "rows" if rng.random() < 0.1 else "in"
    return Sent(f"k{rng.randrange(KEYS)}", f"n{number}", topic, moment(rng, number))


class BranchesModel:
    """Each record once, in the order of its key, whichever sink writes it."""

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        placed = sorted(rows, key=lambda row: (row.partition, row.offset))
        told = [(row.key, branched(row)) for row in placed]
        return {"out": [(key, value.encode()) for key, value in told if value is not None]}


BUCKETS = 7


def bucket(word: str, count: int) -> tuple[str, int]:
    """Return a word's bucket, which changes with its count."""
    return f"b{(count + len(word)) % BUCKETS}", count


def all_of(_bucket: str, total: int) -> tuple[str, int]:
    """Return the one key of all buckets."""
    return "all", total


def add(_key: str, value: int, total: int) -> int:
    """Add a row to its group."""
    return total + value


def take_away(_key: str, value: int, total: int) -> int:
    """Take a row out of its group."""
    return total - value


def rekeyed(builder: StreamsBuilder, prefix: str) -> None:
    """Count words, sum the counts of each bucket, and sum those: three re-keyings."""
    lines = builder.stream(f"{prefix}.in", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, name="by-word")
    counts = words.count(store="counts")
    by_bucket = counts.group_by(bucket, key=str, value=int, name="by-bucket")
    sums = by_bucket.aggregate(int, add, take_away, value=int, store="sums")
    sums.to_stream().to(f"{prefix}.out", key=str, value=int, name="sums-out")
    totals = sums.group_by(all_of, key=str, value=int, name="by-all")
    total = totals.aggregate(int, add, take_away, value=int, store="total")
    total.to_stream().to(f"{prefix}.total", key=str, value=int, name="total-out")


class RekeyedModel:
    """The sums behind each epoch."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        before, old = dict(self._counts), dict(self._sums)
        for row in rows:
            self._counts.update(text(row.value).split())
        for word, count in self._counts.items():
            known = before.get(word, 0)
            if known != count:
                if known:
                    self._sums[bucket(word, known)[0]] -= known
                self._sums[bucket(word, count)[0]] += count
        words = {word for row in rows for word in text(row.value).split()}
        names = {bucket(word, count)[0] for word in words for count in self._both(before, word)}
        was, total = ({"all": sum(sums.values())} if sums else {} for sums in (old, self._sums))
        return {
            "out": changes(_table(old), _table(self._sums), map(str.encode, names)),
            "total": changes(_table(was), _table(total), [b"all"] if names else []),
        }

    def _both(self, before: dict[str, int], word: str) -> list[int]:
        known = before.get(word)
        return [self._counts[word]] if known is None else [known, self._counts[word]]


def _table(rows: dict[str, int]) -> Table:
    return {key.encode(): number(value) for key, value in rows.items()}


KINDS = {
    "cogroup": Kind(build=cogroup, make=numbered, model=CogroupModel, inputs=SIDES),
    "branches": Kind(
        build=branches,
        make=sometimes_row,
        model=BranchesModel,
        inputs=("in", "rows"),
        row_of=branched,
    ),
    "rekeyed": Kind(
        build=rekeyed, make=line_of_words, model=RekeyedModel, outputs=("out", "total")
    ),
}
