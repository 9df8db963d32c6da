"""What must come out, epoch by epoch, from the input and the epoch records alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.kinds.kind import Changes, Inputs, KeyValue, Model, Wanted, differences, every
from tests.faults.watch import Row, Seen, ends_of


def check_epochs(
    model: Model,
    inputs: Inputs,
    seen: Seen,
    topics: Mapping[str, str],
    *,
    prefix: str,
    repeated_max: int = 0,
    unfinished: Collection[str] = (),
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
        unfinished: Topics that need not have been read to the end.

    Returns:
        What is wrong, in words.
    """
    by_epoch: dict[int, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for short, topic in topics.items():
        for row in seen.rows.get(topic, ()):
            by_epoch[row.epoch or 0][short].append(row)
    violations: list[str] = []
    repeated: set[int] = set()
    taken, newest = dict.fromkeys(inputs, 0), dict[tuple[str, int], int]()
    for record in committed_epochs(seen.records):
        rows = _input_of(record, inputs, taken, prefix)
        violations.extend(_check_times(record, newest, rows, prefix))
        actual = by_epoch.pop(record.epoch, defaultdict(list))
        expected = model.step(rows, actual, record)
        name = f"epoch {record.incarnation}.{record.epoch}.{record.attempt}"
        for short in topics:
            wanted, got = expected.get(short, Counter()), actual[short]
            if repeated_max and is_repeated(wanted, got):
                repeated.add(record.epoch)
                violations.extend(compare_repeated(f"{name}, {short}", wanted, got))
            else:
                violations.extend(compare(f"{name}, {short}", wanted, got))
    if len(repeated) > repeated_max:
        violations.append(f"{len(repeated)} epochs were repeated, {repeated_max} may be")
    violations.extend(f"rows of epoch {epoch}, which has no record" for epoch in sorted(by_epoch))
    for place, rows in inputs.items():
        if place[0] not in unfinished and taken[place] != len(rows):
            violations.append(f"input {place}: {taken[place]} of {len(rows)} records read")
    return violations


def _check_times(
    record: EpochRecord, newest: dict[tuple[str, int], int], rows: Iterable[Row], prefix: str
) -> list[str]:
    """Check what a record says of the newest time of each partition that was read."""
    for row in rows:
        place = row.topic, row.partition
        newest[place] = max(newest.get(place, -1), row.timestamp)
    places = (
        (part, (part.topic.removeprefix(f"{prefix}."), part.partition))
        for part in record.partitions
    )
    return [
        f"epoch {record.epoch}: {place} has come to {newest[place]}, not to {part.max_timestamp}"
        for part, place in places
        if place in newest and newest[place] != part.max_timestamp
    ]


def _all_of(wanted: Wanted) -> Counter[KeyValue]:
    if isinstance(wanted, Changes):
        return Counter([*wanted.required.items(), *wanted.allowed.items()])
    return Counter(wanted)


def _pairs(rows: Iterable[Row]) -> list[KeyValue]:
    return [(row.key, row.value) for row in rows]


def _by_key(pairs: Iterable[KeyValue]) -> dict[bytes | None, list[bytes | None]]:
    found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def is_repeated(wanted: Wanted, rows: Sequence[Row]) -> bool:
    """Tell whether an epoch has more rows than it should."""
    return bool(Counter(_pairs(rows)) - _all_of(wanted))


def compare(name: str, wanted: Wanted, rows: Sequence[Row]) -> list[str]:
    """Return in words how an epoch's rows differ from what they should be."""
    pairs = _pairs(rows)
    got, everything = Counter(pairs), _all_of(wanted)
    if isinstance(wanted, Changes):
        least = Counter(wanted.required.items())
        return differences(name, least | (got & everything), got)
    found = differences(name, everything, got)
    if isinstance(wanted, list) and not found:
        mine, theirs = _by_key(pairs), _by_key(wanted)
        found += [
            f"{name}: key {key!r}: the order differs: {mine[key][:4]} is not {theirs[key][:4]}"
            for key in theirs
            if mine[key] != theirs[key]
        ]
    return found


def compare_repeated(name: str, wanted: Wanted, rows: Sequence[Row]) -> list[str]:
    """Compare where an epoch was begun, lost and begun again: its last rows are all there."""
    pairs = _pairs(rows)
    least = Counter(wanted.required.items()) if isinstance(wanted, Changes) else Counter(wanted)
    found = differences(name, least, Counter(pairs) & least)
    if isinstance(wanted, list):
        mine = _by_key(pairs)
        found += [
            f"{name}: key {key!r}: its last rows are not {values[:4]}"
            for key, values in _by_key(wanted).items()
            if mine[key][-len(values) :] != values
        ]
    return found


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
    ends = ends_of(record)
    for topic, (_, read) in record.global_ends.items():
        ends.update({(topic, partition): end for partition, end in enumerate(read)})
    for (topic, partition), end in sorted(ends.items()):
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
