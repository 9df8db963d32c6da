"""What must come out, epoch by epoch, from the input and the epoch records alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from mustela.runtime.epoch_record import EpochRecord
from tests.faults.apps import FIRST_BALANCE, add_link
from tests.faults.watch import Row, Seen, ends_of

Inputs = Mapping[int, list[Row]]
Expected = dict[str, Counter[tuple[bytes | None, bytes | None]]]
SHOWN_MAX = 4


class Model(Protocol):
    """A fold over the input that says what each epoch writes."""

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
        """Take an epoch's input; return what its rows must be, by topic without prefix."""
        ...


class WordCountModel:
    """Counts of words; one change for each word and epoch."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
        words = {word for row in rows for word in text(row.value).split()}
        for row in rows:
            self.counts.update(text(row.value).split())
        return {"out": Counter((word.encode(), number(self.counts[word])) for word in words)}


class SequenceModel:
    """Chains of values in order; one change for each key and epoch."""

    def __init__(self) -> None:
        self.chains: dict[bytes | None, str] = {}

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
        for row in rows:
            value, chain = text(row.value), self.chains.get(row.key)
            self.chains[row.key] = add_link(chain, value)
        keys = {row.key for row in rows}
        return {"out": Counter((key, self.chains[key].encode()) for key in keys)}


class StatelessModel:
    """Each record once, in capitals; poison as it was, to the dead letters."""

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
        expected: Expected = {"out": Counter(), "dead-letters": Counter()}
        for row in rows:
            if poisoned(row):
                expected["dead-letters"][row.key, row.value] += 1
            else:
                expected["out"][row.key, text(row.value).upper().encode()] += 1
        return expected


class RandomSumsModel:
    """As many draws as records, and sums that are the sums of the draws that can be seen."""

    def __init__(self) -> None:
        self.sums: Counter[bytes | None] = Counter()

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
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


class TransfersModel:
    """Transfers one after the other, in the merged order of their partitions."""

    def __init__(self) -> None:
        self.accounts: dict[str, int] = defaultdict(lambda: FIRST_BALANCE)
        self._merged = Merged()

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
        expected: Expected = {"out": Counter(), "refused": Counter()}
        for row in self._merged.order(rows):
            source, target, told = text(row.value).split()
            balance, amount = self.accounts[source], int(told)
            if balance < amount:
                expected["refused"][row.key, f"{source} has {balance}".encode()] += 1
                continue
            self.accounts[source] = balance - amount
            self.accounts[target] += amount
            now = f"{source} {self.accounts[source]} {target} {self.accounts[target]}"
            expected["out"][row.key, now.encode()] += 1
        assert min(self.accounts.values(), default=0) >= 0
        assert sum(self.accounts.values()) == FIRST_BALANCE * len(self.accounts)
        return expected


class SharedModel:
    """Chains that are changed one after the other, and read as they were before the epoch."""

    def __init__(self) -> None:
        self.chains: dict[str, str] = {}
        self._merged = Merged()

    def step(self, rows: list[Row], actual: Mapping[str, list[Row]]) -> Expected:
        expected: Expected = {"out": Counter(), "linked": Counter()}
        before = dict(self.chains)
        for row in self._merged.order(rows):
            names = text(row.value).split()
            expected["out"][row.key, " ".join(before.get(n, "none") for n in names).encode()] += 1
            for name in names:
                old = self.chains.get(name)
                new = self.chains[name] = add_link(old, text(row.key))
                expected["linked"][row.key, f"{name} {old} {new}".encode()] += 1
        return expected


class Merged:
    """The merged order of partitions: the newest time of a record's partition comes first."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = defaultdict(lambda: -1)

    def order(self, rows: list[Row]) -> list[Row]:
        """Return an epoch's rows in order."""
        return [row for *_, row in sorted(self._placed(rows))]

    def _placed(self, rows: list[Row]) -> Iterable[tuple[int, int, int, Row]]:
        for row in rows:
            self._newest[row.partition] = max(self._newest[row.partition], row.timestamp)
            yield self._newest[row.partition], row.partition, row.offset, row


MODELS: dict[str, type[Model]] = {
    "word_count": WordCountModel,
    "sequence": SequenceModel,
    "stateless": StatelessModel,
    "random_sums": RandomSumsModel,
    "transfers": TransfersModel,
    "shared": SharedModel,
}


def text(value: bytes | None) -> str:
    """Decode a value that is there."""
    assert value is not None
    return value.decode()


def number(value: int) -> bytes:
    """Encode as Kafka's long."""
    return value.to_bytes(8, "big")


def poisoned(row: Row) -> bool:
    """Tell whether a record is one that the application cannot process."""
    return text(row.value).startswith("poison")


def check_epochs(
    model: Model,
    inputs: Inputs,
    seen: Seen,
    topics: Mapping[str, str],
    *,
    repeated_max: int = 0,
) -> list[str]:
    """Compare each epoch's visible rows with those that its offsets call for.

    Args:
        model: What the application means.
        inputs: The committed input, by partition.
        seen: What the watcher read.
        topics: By short name, the output topics.
        repeated_max: How many epochs may hold more rows than they should: with at_least_once one
            for each kill.

    Returns:
        What is wrong, in words.
    """
    by_epoch: dict[int, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for short, topic in topics.items():
        for row in seen.rows.get(topic, ()):
            by_epoch[row.epoch or 0][short].append(row)
    violations: list[str] = []
    repeated: set[int] = set()
    taken = dict.fromkeys(inputs, 0)
    for record in committed_epochs(seen.records):
        rows = _input_of(record, inputs, taken)
        actual = by_epoch.pop(record.epoch, defaultdict(list))
        expected = model.step(rows, actual)
        for short in topics:
            wanted = expected.get(short, Counter())
            got = Counter((row.key, row.value) for row in actual[short])
            if repeated_max and got - wanted:
                repeated.add(record.epoch)
                got &= wanted
            violations.extend(_differences(record, short, wanted, got))
    if len(repeated) > repeated_max:
        violations.append(f"{len(repeated)} epochs were repeated, {repeated_max} may be")
    violations.extend(f"rows of epoch {epoch}, which has no record" for epoch in sorted(by_epoch))
    for partition, rows in inputs.items():
        if taken[partition] != len(rows):
            violations.append(f"input {partition}: {taken[partition]} of {len(rows)} records read")
    return violations


def committed_epochs(records: Iterable[EpochRecord]) -> Iterable[EpochRecord]:
    """Yield the record of each epoch once, without the claims that repeat one."""
    last = 0
    for record in records:
        if record.epoch > last:
            last = record.epoch
            yield record


def _input_of(record: EpochRecord, inputs: Inputs, taken: dict[int, int]) -> list[Row]:
    """Return the input up to a record's offsets that no epoch before has taken."""
    result: list[Row] = []
    for (_, partition), end in sorted(ends_of(record).items()):
        rows = inputs[partition]
        while taken[partition] < len(rows) and rows[taken[partition]].offset < end:
            result.append(rows[taken[partition]])
            taken[partition] += 1
    return result


def _differences(
    record: EpochRecord,
    topic: str,
    wanted: Counter[tuple[bytes | None, bytes | None]],
    got: Counter[tuple[bytes | None, bytes | None]],
) -> list[str]:
    missing, extra = wanted - got, got - wanted
    if not missing and not extra:
        return []
    name = f"epoch {record.incarnation}.{record.epoch}.{record.attempt}, {topic}"
    return [
        f"{name}: {missing.total()} rows missing, {extra.total()} too many; "
        f"missing {list(missing)[:SHOWN_MAX]}, too many {list(extra)[:SHOWN_MAX]}"
    ]


def check_order(inputs: Inputs, rows: Iterable[Row]) -> list[str]:
    """Check that the ids of a key come out in the order in which they went in."""
    wanted: dict[bytes | None, list[str]] = defaultdict(list)
    for part in inputs.values():
        for row in part:
            if not poisoned(row):
                wanted[row.key].append(text(row.value).upper())
    got: dict[bytes | None, list[str]] = defaultdict(list)
    for row in rows:
        got[row.key].append(text(row.value))
    return [f"key {key!r}: the order differs" for key in wanted if wanted[key] != got[key]]
