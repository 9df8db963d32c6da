"""The demonstration's checks find every fault that is planted in a sound run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest

from mustela_dev.demo.checks import (
    CountRow,
    Epoch,
    Findings,
    SideRow,
    check_run,
    fold_epochs,
)
from mustela_dev.demo.corpus import Corpus, Line

TEXTS = ["to be or not", "to be", "", "that is the question", "to sleep", "no more", "and by a"]
EPOCH_ENDS = [{0: 1, 1: 0}, {0: 2, 1: 2}, {0: 4, 1: 3}]


@dataclass(slots=True)
class Run:
    corpus: Corpus
    epochs: list[Epoch]
    counts: list[CountRow]
    side: list[SideRow]

    def check(self) -> Findings:
        return check_run(self.corpus, self.epochs, self.counts, self.side)


@pytest.fixture
def run() -> Run:
    """A run in which everything is right."""
    lines = [Line(n, f"file{n % 2}.py", text, n % 2) for n, text in enumerate(TEXTS)]
    corpus = Corpus(lines, 2)
    records = [(1, n + 1, 0, ends) for n, ends in enumerate(EPOCH_ENDS)]
    epochs, wrong = fold_epochs(records)
    assert wrong == []
    counts: list[CountRow] = []
    side: list[SideRow] = []
    total: Counter[str] = Counter()
    for epoch in epochs:
        read = list(corpus.between(epoch.start, epoch.end))
        fresh = Counter(word for line in read for word in line.text.split())
        total += fresh
        counts += [CountRow(word, total[word], epoch.number) for word in fresh]
        side += [SideRow(line.number, line.key, line.text, epoch.number) for line in read]
    return Run(corpus, epochs, counts, side)


def test_a_sound_run_has_no_fault(run: Run) -> None:
    """All counts, ids and epochs agree, and the input is not empty."""
    found = run.check()
    assert found == Findings()
    assert found.faults == 0
    assert len(run.epochs) == 3
    assert run.corpus.words == 17


def test_a_wrong_count_is_found(run: Run) -> None:
    """One word that is counted once too often is one mismatch, in a torn epoch."""
    run.counts[-1] = replace(run.counts[-1], count=(run.counts[-1].count or 0) + 1)
    found = run.check()
    assert (found.mismatches, found.torn_epochs) == (1, 1)
    assert (found.missing, found.duplicates) == (0, 0)


def test_a_lost_word_is_found(run: Run) -> None:
    """A word without any row is a mismatch."""
    run.counts = [row for row in run.counts if row.word != "question"]
    assert run.check().mismatches == 1


def test_a_word_that_nobody_wrote_is_found(run: Run) -> None:
    """A word that is not in the input is a mismatch."""
    run.counts.append(CountRow("ghost", 1, 3))
    assert run.check().mismatches == 1


def test_a_deleted_count_is_found(run: Run) -> None:
    """A null value is no count."""
    run.counts.append(CountRow("question", None, 3))
    assert run.check().mismatches == 1


def test_a_missing_id_is_found(run: Run) -> None:
    """A line that the side stream lacks is missing, and its epoch is torn."""
    lost = run.side.pop(2)
    found = run.check()
    assert (found.missing, found.duplicates, found.torn_epochs) == (1, 0, 1)
    assert f"line {lost.number} is not in the side stream" in found.examples


def test_a_missing_id_hides_behind_no_duplicate(run: Run) -> None:
    """The number of rows is right, the ids are not."""
    run.side[2] = run.side[1]
    found = run.check()
    assert (found.missing, found.duplicates) == (1, 1)


def test_a_duplicate_id_is_found(run: Run) -> None:
    """A line that comes twice is a duplicate."""
    run.side.append(run.side[0])
    found = run.check()
    assert (found.missing, found.duplicates, found.torn_epochs) == (0, 1, 1)


@pytest.mark.parametrize("number", [None, -1, 7, 10_000])
def test_a_row_with_a_strange_id_is_found(run: Run, number: int | None) -> None:
    """A row whose id no line has is one too many."""
    run.side.append(SideRow(number, "k", "v", 3))
    found = run.check()
    assert (found.missing, found.duplicates) == (0, 1)


def test_a_changed_line_is_found(run: Run) -> None:
    """A row with the right id and another text is a mismatch."""
    run.side[3] = replace(run.side[3], text="something else")
    assert run.check().mismatches == 1


def test_a_row_in_the_wrong_epoch_tears_two(run: Run) -> None:
    """A copied line that says another epoch is wrong in both."""
    run.side[0] = replace(run.side[0], epoch=2)
    found = run.check()
    assert (found.torn_epochs, found.missing, found.duplicates, found.mismatches) == (2, 0, 0, 0)


def test_a_count_split_over_two_epochs_is_torn(run: Run) -> None:
    """Counts that are right in the end can still have come in the wrong epochs."""
    at = next(n for n, row in enumerate(run.counts) if row.word == "not")
    run.counts[at] = replace(run.counts[at], epoch=2)
    found = run.check()
    assert (found.mismatches, found.torn_epochs) == (0, 2)


def test_rows_without_an_epoch_are_torn(run: Run) -> None:
    """A row without the header belongs to no epoch that was committed."""
    run.counts[0] = replace(run.counts[0], epoch=None)
    found = run.check()
    assert found.mismatches == 0
    assert found.torn_epochs == 2


def test_rows_of_an_epoch_without_a_record_are_torn(run: Run) -> None:
    """Output of an epoch that has no record was never committed."""
    run.epochs.pop()
    found = run.check()
    assert found.torn_epochs == 1
    assert (found.mismatches, found.missing, found.duplicates) == (0, 0, 0)


def test_an_epoch_that_read_other_offsets_is_torn(run: Run) -> None:
    """The changes are those of other lines than the record says."""
    run.epochs[1] = replace(run.epochs[1], end={0: 2, 1: 1})
    assert run.check().torn_epochs == 1


def test_records_of_a_restart_make_no_epoch() -> None:
    """A new incarnation repeats the last epoch; the one after it follows in number."""
    epochs, wrong = fold_epochs(
        [
            (1, 0, 0, {0: 0}),
            (1, 1, 0, {0: 5}),
            (2, 1, 0, {0: 5}),
            (2, 2, 1, {0: 9}),
        ]
    )
    assert wrong == []
    assert [(e.number, e.incarnation, e.attempt) for e in epochs] == [(1, 1, 0), (2, 2, 1)]
    assert [(dict(e.start), dict(e.end)) for e in epochs] == [({}, {0: 5}), ({0: 5}, {0: 9})]


def test_a_gap_in_the_records_is_told() -> None:
    """Numbers of epochs leave nothing out."""
    _, wrong = fold_epochs([(1, 1, 0, {0: 5}), (1, 3, 0, {0: 9})])
    assert wrong == ["epoch 3 follows epoch 1"]


def test_a_restart_that_moves_offsets_is_told() -> None:
    """A claim record says what the last epoch said."""
    _, wrong = fold_epochs([(1, 1, 0, {0: 5}), (2, 1, 0, {0: 4})])
    assert wrong == ["the record that repeats epoch 1 has other offsets"]
