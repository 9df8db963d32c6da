"""Counts, chains, single values and sums of draws: what each epoch says follows from its input."""

from __future__ import annotations

import hashlib
import random
from collections import Counter

from mustela import StreamsBuilder
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.kind import Expected, Kind, Rows, Sent, number, text
from tests.faults.watch import Row


def word_count(builder: StreamsBuilder, prefix: str) -> None:
    """Count words: combined before the shuffle."""
    lines = builder.stream(f"{prefix}.in", key=str, value=str)
    words = lines.flat_map_values(str.split).group_by(lambda _key, word: word, name="by-word")
    words.count(store="counts").to_stream().to(f"{prefix}.out", key=str, value=int)


def line_of_words(rng: random.Random, number: int) -> Sent:
    """Make a line of text."""
    words = [f"w{min(int(rng.expovariate(0.08)), 200)}" for _ in range(rng.randrange(1, 6))]
    return Sent(f"file{number % 7}", " ".join(words))


class WordCountModel:
    """Counts of words; one change for each word and epoch."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        words = {word for row in rows for word in text(row.value).split()}
        for row in rows:
            self.counts.update(text(row.value).split())
        return {"out": Counter((word.encode(), number(self.counts[word])) for word in words)}


def link(chain: str, value: str) -> str:
    """Add a value to a chain; any other order, a gap or a repeat gives another chain."""
    length, _, _ = chain.partition(":") if ":" in chain else ("1", "", "")
    digest = hashlib.md5(f"{chain}|{value}".encode()).hexdigest()[:12]
    return f"{int(length) + 1}:{digest}"


def sequence(builder: StreamsBuilder, prefix: str) -> None:
    """Reduce by a function that is not associative: each record in its turn."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    reduced = stream.group_by_key().reduce(link, store="chains")
    reduced.to_stream().to(f"{prefix}.out", key=str, value=str)


def add_link(chain: str | None, value: str) -> str:
    """Begin a chain, or make it longer."""
    return value if chain is None else link(chain, value)


def keyed_number(rng: random.Random, number: int) -> Sent:
    """Make a numbered value of one of some keys."""
    return Sent(f"k{rng.randrange(40)}", f"n{number}")


class SequenceModel:
    """Chains of values in order; one change for each key and epoch."""

    def __init__(self) -> None:
        self.chains: dict[bytes | None, str] = {}

    def take(self, rows: list[Row]) -> None:
        """Make chains longer."""
        for row in rows:
            value, chain = text(row.value), self.chains.get(row.key)
            self.chains[row.key] = add_link(chain, value)

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        self.take(rows)
        keys = {row.key for row in rows}
        return {"out": Counter((key, self.chains[key].encode()) for key in keys)}


def shout(value: str) -> str:
    """Map a value; a poisoned one raises."""
    if value.startswith("poison"):
        raise ValueError(value)
    return value.upper()


def stateless(builder: StreamsBuilder, prefix: str) -> None:
    """Map values one by one, poisoned ones to the dead letters."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.map_values(shout, name="shout").to(f"{prefix}.out", key=str, value=str)


def sometimes_poison(rng: random.Random, number: int) -> Sent:
    """Make an id; one in fifty is poison."""
    kind = "poison" if rng.random() < 0.02 else "id"
    return Sent(f"k{rng.randrange(40)}", f"{kind}-{number}")


def poisoned(row: Row) -> bool:
    """Tell whether a record is one that the application cannot process."""
    return text(row.value).startswith("poison")


def shouted(row: Row) -> str | None:
    """Return what a record becomes."""
    return None if poisoned(row) else text(row.value).upper()


class StatelessModel:
    """Each record once, in capitals; poison as it was, to the dead letters."""

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        expected: Expected = {"out": Counter(), "dead-letters": Counter()}
        for row in rows:
            if poisoned(row):
                expected["dead-letters"][row.key, row.value] += 1
            else:
                expected["out"][row.key, text(row.value).upper().encode()] += 1
        return expected


def draw(_value: str) -> int:
    """Draw a number that no second run would draw again."""
    return random.SystemRandom().randrange(1, 1 << 40)


def random_sums(builder: StreamsBuilder, prefix: str) -> None:
    """Draw a number for each record, show it, and sum the numbers of a key."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    draws = stream.map_values(draw, name="draw")
    draws.to(f"{prefix}.draws", key=str, value=int, name="draws")
    sums = draws.group_by_key(key=str, value=int).reduce(int.__add__, store="sums")
    sums.to_stream().to(f"{prefix}.out", key=str, value=int)


class RandomSumsModel:
    """As many draws as records, and sums that are the sums of the draws that can be seen."""

    def __init__(self) -> None:
        self.sums: Counter[bytes | None] = Counter()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        drawn = actual["draws"]
        for row in drawn:
            self.sums[row.key] += int.from_bytes(row.value or b"", "big")
        keys = {row.key for row in drawn}
        # The numbers are nobody's to foresee, the keys are.
        expected: Expected = {"draws": Counter(), "out": Counter()}
        as_many = Counter(row.key for row in drawn) == Counter(row.key for row in rows)
        for row in drawn if as_many else rows:
            expected["draws"][row.key, row.value if as_many else b"a draw"] += 1
        expected["out"].update((key, number(self.sums[key])) for key in keys)
        return expected


KINDS = {
    "word_count": Kind(build=word_count, make=line_of_words, model=WordCountModel),
    "sequence": Kind(build=sequence, make=keyed_number, model=SequenceModel),
    "stateless": Kind(
        build=stateless,
        make=sometimes_poison,
        model=StatelessModel,
        outputs=("out", "dead-letters"),
        has_state=False,
        row_of=shouted,
        environment={"MUSTELA__PROCESSING_HANDLER": "dead_letter"},
    ),
    "random_sums": Kind(
        build=random_sums, make=keyed_number, model=RandomSumsModel, outputs=("out", "draws")
    ),
}
