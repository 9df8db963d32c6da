"""The demonstration's checks: the actual output against that expected from the input alone.

Everything here is pure. It gets the epoch records and the rows of the output topics as a
read_committed consumer sees them, and finds what is wrong with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mustela_dev.demo.corpus import Corpus

__all__ = ["CountRow", "Epoch", "Findings", "SideRow", "check_run", "fold_epochs"]

SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class CountRow:
    """One change of a count in its topic.

    Attributes:
        word: The word.
        count: Its new count; None deletes it.
        epoch: The number in the epoch header; None without one.
    """

    word: str
    count: int | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class SideRow:
    """One line of the side stream.

    Attributes:
        number: The line's unique id; None where the row has none.
        key: The row's key.
        text: The row's value.
        epoch: The number in the epoch header; None without one.
    """

    number: int | None
    key: str | None
    text: str | None
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One committed epoch, from its record.

    Attributes:
        number: Its number.
        incarnation: The run of the application that committed it.
        attempt: The number of the committed attempt.
        start: By partition, the first offset it read.
        end: By partition, the offset after the last one.
    """

    number: int
    incarnation: int
    attempt: int
    start: Mapping[int, int]
    end: Mapping[int, int]


@dataclass(slots=True)
class Findings:
    """The results of the checks; all zero if all is well.

    Attributes:
        mismatches: Words whose count differs, and lines of the side stream that were changed.
        missing: Lines missing from the side stream.
        duplicates: Duplicate rows of the side stream.
        torn_epochs: Epochs whose changes do not match the lines they read.
        examples: A few of the faults, for people.
    """

    mismatches: int = 0
    missing: int = 0
    duplicates: int = 0
    torn_epochs: int = 0
    examples: list[str] = field(default_factory=list[str])

    @property
    def faults(self) -> int:
        """How many faults there are."""
        return self.mismatches + self.missing + self.duplicates + self.torn_epochs

    def say(self, example: str) -> None:
        """Keep an example, up to a limit."""
        if len(self.examples) < SHOWN_MAX:
            self.examples.append(example)


def fold_epochs(
    records: Iterable[tuple[int, int, int, Mapping[int, int]]],
) -> tuple[list[Epoch], list[str]]:
    """Turn epoch records into epochs.

    A run of the application first claims its incarnation with a record that repeats the previous
    epoch; such a record is not an epoch.

    Args:
        records: Incarnation, epoch, attempt and end offsets of each record, in their order.

    Returns:
        The epochs, and the faults in their sequence.
    """
    epochs: list[Epoch] = []
    wrong: list[str] = []
    number, ends = 0, dict[int, int]()
    for incarnation, epoch, attempt, new_ends in records:
        if epoch == number:
            if epochs and any(new_ends.get(part) != end for part, end in ends.items()):
                wrong.append(f"the record that repeats epoch {epoch} has other offsets")
            if not epochs:
                ends = {}
            continue
        if epoch != number + 1:
            wrong.append(f"epoch {epoch} follows epoch {number}")
        epochs.append(
            Epoch(
                number=epoch,
                incarnation=incarnation,
                attempt=attempt,
                start=ends,
                end=dict(new_ends),
            )
        )
        number, ends = epoch, dict(new_ends)
    return epochs, wrong


def check_run(
    corpus: Corpus,
    epochs: Sequence[Epoch],
    counts: Sequence[CountRow],
    side: Sequence[SideRow],
) -> Findings:
    """Check the whole output of a run.

    Args:
        corpus: The input.
        epochs: The committed epochs, in order.
        counts: Every change of a count, in order per word.
        side: Every row of the side stream.
    """
    found = Findings()
    _check_counts(corpus, counts, found)
    _check_ids(corpus, side, found)
    _check_epochs(corpus, epochs, counts, side, found)
    return found


def final_counts(rows: Iterable[CountRow]) -> dict[str, int]:
    """Return the last count of each word."""
    last = {row.word: row.count for row in rows}
    return {word: count for word, count in last.items() if count is not None}


def _check_counts(corpus: Corpus, rows: Sequence[CountRow], found: Findings) -> None:
    expected, have = corpus.counts(), final_counts(rows)
    for word in expected.keys() | have.keys():
        if expected.get(word) != have.get(word):
            found.mismatches += 1
            found.say(f"{word!r} is counted {have.get(word)}, not {expected.get(word)}")


def _check_ids(corpus: Corpus, rows: Sequence[SideRow], found: Findings) -> None:
    seen: set[int] = set()
    for row in rows:
        number = row.number
        if number is None or not 0 <= number < len(corpus.lines):
            found.duplicates += 1
            found.say(f"the side stream has a row with the id {number}, which no line has")
        elif number in seen:
            found.duplicates += 1
            found.say(f"line {number} is twice in the side stream")
        else:
            seen.add(number)
            line = corpus.lines[number]
            if (line.key, line.text) != (row.key, row.text):
                found.mismatches += 1
                found.say(f"line {number} was changed on its way through the side stream")
    found.missing += len(corpus.lines) - len(seen)
    if len(seen) < len(corpus.lines):
        lost = next(line.number for line in corpus.lines if line.number not in seen)
        found.say(f"line {lost} is not in the side stream")


def _check_epochs(
    corpus: Corpus,
    epochs: Sequence[Epoch],
    counts: Sequence[CountRow],
    side: Sequence[SideRow],
    found: Findings,
) -> None:
    changes = _changes_by_epoch(counts)
    ids: dict[int | None, list[int | None]] = {}
    for row in side:
        ids.setdefault(row.epoch, []).append(row.number)
    torn: set[int | None] = (changes.keys() | ids.keys()) - {epoch.number for epoch in epochs}
    for stranger in sorted(torn, key=str):
        found.say(f"rows say that they are of epoch {stranger}, which was never committed")
    for epoch in epochs:
        words: Counter[str] = Counter()
        numbers: list[int | None] = []
        for line in corpus.between(epoch.start, epoch.end):
            words.update(line.text.split())
            numbers.append(line.number)
        if changes.get(epoch.number, Counter()) != words:
            torn.add(epoch.number)
            found.say(f"the counts of epoch {epoch.number} changed by other words than it read")
        if sorted(ids.get(epoch.number, []), key=_none_first) != sorted(numbers, key=_none_first):
            torn.add(epoch.number)
            found.say(f"epoch {epoch.number} copied other lines than it read")
    found.torn_epochs += len(torn)


def _none_first(number: int | None) -> int:
    return -1 if number is None else number


def _changes_by_epoch(rows: Iterable[CountRow]) -> dict[int | None, Counter[str]]:
    """Return, for each epoch, by how much the count of each word changed."""
    before: dict[str, int] = {}
    changes: dict[int | None, Counter[str]] = {}
    for row in rows:
        count = row.count or 0
        changes.setdefault(row.epoch, Counter())[row.word] += count - before.get(row.word, 0)
        before[row.word] = count
    return changes
