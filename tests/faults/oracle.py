"""What must come out, epoch by epoch, from the input and the epoch records alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from mustela.runtime.epoch_record import EpochRecord
from tests.faults.kinds.kind import Inputs, Model, differences, every
from tests.faults.watch import Row, Seen, ends_of


def check_epochs(
    model: Model,
    inputs: Inputs,
    seen: Seen,
    topics: Mapping[str, str],
    *,
    prefix: str,
    repeated_max: int = 0,
) -> list[str]:
    """Compare each epoch's visible rows with those that its offsets call for.

    Args:
        model: What the application means.
        inputs: The committed input.
        seen: What the watcher read.
        topics: By short name, the output topics.
        prefix: Of the input topics.
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
        rows = _input_of(record, inputs, taken, prefix)
        actual = by_epoch.pop(record.epoch, defaultdict(list))
        expected = model.step(rows, actual, record)
        name = f"epoch {record.incarnation}.{record.epoch}.{record.attempt}"
        for short in topics:
            wanted = expected.get(short, Counter())
            got = Counter((row.key, row.value) for row in actual[short])
            if repeated_max and got - wanted:
                repeated.add(record.epoch)
                got &= wanted
            violations.extend(differences(f"{name}, {short}", wanted, got))
    if len(repeated) > repeated_max:
        violations.append(f"{len(repeated)} epochs were repeated, {repeated_max} may be")
    violations.extend(f"rows of epoch {epoch}, which has no record" for epoch in sorted(by_epoch))
    for place, rows in inputs.items():
        if taken[place] != len(rows):
            violations.append(f"input {place}: {taken[place]} of {len(rows)} records read")
    return violations


def committed_epochs(records: Iterable[EpochRecord]) -> Iterable[EpochRecord]:
    """Yield the record of each epoch once, without the claims that repeat one."""
    last = 0
    for record in records:
        if record.epoch > last:
            last = record.epoch
            yield record


def _input_of(
    record: EpochRecord, inputs: Inputs, taken: dict[tuple[str, int], int], prefix: str
) -> list[Row]:
    """Return the input up to a record's offsets that no epoch before has taken."""
    result: list[Row] = []
    for (topic, partition), end in sorted(ends_of(record).items()):
        place = topic.removeprefix(f"{prefix}."), partition
        rows = inputs.get(place, [])
        while rows and taken[place] < len(rows) and rows[taken[place]].offset < end:
            result.append(rows[taken[place]])
            taken[place] += 1
    return result


def check_order(
    inputs: Inputs, rows: Iterable[Row], row_of: Callable[[Row], str | None]
) -> list[str]:
    """Check that the rows of a key come out in the order in which its records went in."""
    wanted: dict[bytes | None, list[str]] = defaultdict(list)
    for row in every(inputs):
        value = row_of(row)
        if value is not None:
            wanted[row.key].append(value)
    got: dict[bytes | None, list[str]] = defaultdict(list)
    for row in rows:
        got[row.key].append("" if row.value is None else row.value.decode())
    return [f"key {key!r}: the order differs" for key in wanted if wanted[key] != got[key]]
