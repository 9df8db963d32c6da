"""Where Mustela differs from Kafka Streams on purpose; docs/compat/divergences.md gives reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from tests.differential.draw import Example
from tests.differential.functions import map_key
from tests.differential.sides import Row, of_mustela
from tests.differential.steps import Step

__all__ = [
    "DIVERGENCES",
    "Extent",
    "contents_divergence_of",
    "divergence_of",
    "headers_divergence_of",
]

Written = Sequence[Sequence[Sequence[Row]]]
Extent = Literal["input", "rest"]
"""How far an explanation reaches: the rows of one input, or all that comes after it too."""

Shows = Callable[[Example, Written, Written, int], Extent | None]
"""Whether an example shows a divergence at an input: the example, their rows, ours, the input."""

_TABLE_STEPS = {
    "table_filter",
    "table_filter_not",
    "table_map_values",
    "table_map_values_with_key",
    "transform_values",
    "suppress_time",
    "suppress_window",
    "to_table",
}
_ASK_OLD_VALUES = {"table_aggregate", "fk_join", "table_join"}
# Steps that make deletions of rows that they refuse, or do not find.
_DELETING = {
    "fk_join",
    "table_filter",
    "table_filter_not",
    "table_join",
    "table_map_values",
    "table_map_values_with_key",
    "transform_values",
}
# Steps that may give several updates of a key for one record.
_SEVERAL = {
    "flat_map",
    "flat_map_values",
    "merge",
    "process",
    "process_values",
    "table_join",
    "fk_join",
    "stream_join",
}


def _deletions_only_of_rows(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams deletes rows that were never there, where it does not know the old value."""
    if not any(step["op"] in _TABLE_STEPS | _ASK_OLD_VALUES for step in example.steps):
        return None
    for sink in range(len(theirs[number])):
        wanted, got = (_last_useful(side, sink, number) for side in (theirs, ours))
        if wanted != got:
            return None
    return "input"


def _last_useful(written: Written, sink: int, number: int) -> dict[Any, list[Any]]:
    """Return an input's rows of each key without the deletions of keys that have no row."""
    present: set[Any] = set()
    found: dict[Any, list[Any]] = {}
    for index, rows in enumerate(written[: number + 1]):
        for row in rows[sink]:
            if row.value is None and row.key not in present:
                continue
            (present.discard if row.value is None else present.add)(row.key)
            if index == number:
                found.setdefault(row.key, []).append(row)
    return found


def _deletions_seen_further_on(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """The same, where a later step counts, windows, joins or keeps what the deletions made."""
    deleting = {step["id"] for step in example.steps if step["op"] in _DELETING}
    functions = [(step["id"], step.get(name, "")) for step in example.steps for name in "fg"]
    nulls = {name for name, function in functions if function.startswith("drop")}
    gone = {record.topic for record in example.inputs[: number + 1] if record.value is None}
    nulls |= {step["id"] for step in example.steps if step.get("topic") in gone}
    for step in example.steps:
        above = set(_above(example, step))
        bounded = bool({"max_records", "max_bytes"} & step.keys())
        if bounded and (deleting | nulls) & above:
            return "rest"  # a deletion takes room
        if deleting & above and _goes_by_deletions(example, step):
            return "rest"
    return None


def _goes_by_deletions(example: Example, step: Step) -> bool:
    """Tell whether a deletion of a row that was never there changes what a step makes of others."""
    if step["op"].startswith("to_stream"):
        readers = [other for other in example.steps if step["id"] in other.get("in", ())]
        return any(reader["op"] != "to" for reader in readers)
    # It tells the time, becomes a row, or tells the row of a join's other side anew.
    outer = step["op"] in {"table_join", "fk_join"} and step["how"] != "inner"
    return outer or step["op"] in {"suppress_time", "transform_values"}


def _absent_rows_are_not_transformed(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams joins what a transformer without a store makes of a row that is not there."""
    for step in example.steps:
        if step["op"] in {"stream_table_join", "table_join", "fk_join"}:
            above = [_step(example, name) for name in _above(example, step, through=_TABLE_STEPS)]
            if any(s["op"] == "transform_values" and not s["store"] for s in above):
                return "rest"
    return None


def _no_initial_old_values(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams gives the initializer's value as the old value of a row's first change."""
    for step in example.steps:
        if step["op"] in _ASK_OLD_VALUES:
            for above in _above(example, step, through=_TABLE_STEPS):
                other = _step(example, above)
                window = other.get("window") or {}
                if other["op"] == "cogroup" or other.get("kind") in {"count", "aggregate"}:
                    return "rest"
                if window.get("type") == "sliding":
                    return "rest"
    return None


def _foreign_results_are_kept(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams drops answers of a foreign-key join that a second change has overtaken."""
    for step in example.steps:
        if step["op"] == "fk_join":
            left = example_step = _step(example, step["in"][0])
            above = [_step(example, name) for name in _above(example, example_step)]
            if any(_gives_several(other) for other in [left, *above]):
                return "rest"
    return None


def _gives_several(step: Step) -> bool:
    """Say whether one record may change a row of a table behind more than once."""
    waits = step["op"] == "stream_table_join" and step.get("grace") is not None
    return step["op"] in _SEVERAL or "window" in step or waits


def _cogroups_share_time(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Each input of a windowed cogroup has a stream time of its own in Kafka Streams."""
    for step in example.steps:
        if step["op"] == "cogroup" and step.get("window"):
            own, shared = defaultdict[int, int](int), 0
            for rows in _grouped(example, step, number):
                # The order of a record's rows by different ways is not known here.
                shared = max([shared, *(time for _, time in rows)])
                for place, time in rows:
                    own[place] = max(own[place], time)
                    if _late_by_another(step["window"], time, own[place], shared):
                        return "rest"
    return None


def _reaching(example: Example, step: Step, number: int) -> Iterator[list[tuple[int, Row]]]:
    """Yield what reaches a step up to an input: for each record above, the rows and their ways."""
    sinks = [
        {"op": "to", "topic": f"reaching{place}", "id": f"r{place}", "in": [name]}
        for place, name in enumerate(step["in"])
    ]
    above = set(_above(example, step))
    steps = (*(other for other in example.steps if other["id"] in above), *sinks)
    topics = {other.get("topic") for other in steps}
    inputs = tuple(each for each in example.inputs[: number + 1] if each.topic in topics)
    for written in of_mustela(replace(example, steps=steps, inputs=inputs)):
        yield [(place, row) for place, rows in enumerate(written) for row in rows]


def _grouped(example: Example, step: Step, number: int) -> Iterator[list[tuple[int, int]]]:
    """Yield ways and times of what a windowed grouping takes, for each record."""
    sliding = step["window"]["type"] == "sliding"
    for rows in _reaching(example, step, number):
        yield [
            (place, row.time)
            for place, row in rows
            if not (sliding and row.value is None)
            and _grouped_key(step, row.key, row.value) is not None
        ]


def _grouped_key(step: Step, key: Any, value: Any) -> Any:
    return key if step.get("by") is None else map_key(step["by"], key, value)


def _late_by_another(window: Step, time: int, own: int, shared: int) -> bool:
    """Tell whether a window of a record is over by the shared stream time, and not by its own."""
    match window["type"]:
        case "session":  # the session a record extends may end later than the record
            return own < shared and time + window["gap"] + window["grace"] < shared
        case "sliding":  # from the window that ends with the record to the one that it ends
            ends = range(time, time + window["diff"] + 1)
        case _:
            starts = range(
                time - time % window["advance"], time - window["size"], -window["advance"]
            )
            ends = [start + window["size"] for start in starts if start >= 0]
    return any(own < end + window["grace"] <= shared for end in ends)


def _sessions_stay_closed(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams loses sight of a session a moment before it takes no more records."""
    for step, times in _windows(example, "session", number):
        lasting = step["window"]["gap"] + step["window"]["grace"]
        kept = step.get("retention") or lasting
        if kept == lasting and lasting in _gaps(times):
            return "rest"
    return None


def _sliding_windows_are_kept(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams loses sight of windows that a record makes others from.

    That is a late record; or, without a grace, one that is just as far from another of its key as a
    window is long, when other keys have windows that begin later.
    """
    for step, times in _windows(example, "sliding", number):
        window, gaps = step["window"], set(_gaps(times))
        far = any(gap >= window["diff"] + window["grace"] for gap in gaps)
        least = 2 * window["diff"] + window["grace"]
        kept = step.get("retention") or least
        edge = not window["grace"] and kept == least and window["diff"] in gaps
        if edge or (far and times != sorted(times)):
            return "rest"
    return None


def _windows(example: Example, kind: str, number: int) -> Iterator[tuple[Step, list[int]]]:
    """Yield the steps with windows of a kind, and the times of the records that come to them."""
    for step in example.steps:
        window = step.get("window") or {}
        if window.get("type") == kind:
            taken = _grouped(example, step, number)
            yield step, [time for rows in taken for _, time in rows]


def _gaps(times: Sequence[int]) -> Iterator[int]:
    """Yield how far each record lies behind the largest time that there was so far."""
    return (now - time for now in _largest(times) for time in times)


def _largest(times: Sequence[int]) -> set[int]:
    """Return every largest time that there was so far."""
    return {max(times[: place + 1]) for place in range(len(times))}


def _joined_rows_keep_their_time(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams computes the time of a joined row anew when it is looked up."""
    for wanted, got in zip(theirs[number], ours[number], strict=True):
        if [row[:2] for row in wanted] != [row[:2] for row in got]:
            return None
    for step in example.steps:
        if step["op"] in {"fk_join", "table_join"}:
            above = (_step(example, name) for name in _above(example, step, through=_TABLE_STEPS))
            if any(other["op"] == "table_join" and not other["store"] for other in above):
                return "rest"
    return None


def _suppressed_windows_are_final(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams tells windows whose end belongs to them before they are final."""
    for step in example.steps:
        if step["op"] == "suppress_window":
            for above in _above(example, step, through=_TABLE_STEPS):
                window = _step(example, above).get("window") or {}
                if window.get("type") in {"sliding", "session"}:
                    kept = window["grace"] + window.get("gap", 0)
                    if _told_at_the_end(example, step, kept, number):
                        return "rest"
    return None


def _told_at_the_end(example: Example, step: Step, kept: int, number: int) -> bool:
    """Tell whether the time stood still just where a window may not be told yet."""
    key = {"op": "to_stream_key", "f": "same", "id": "told", "in": step["in"]}
    tapped = replace(example, steps=(*example.steps, key))
    rows = [row for reached in _reaching(tapped, {"in": ["told"]}, number) for _, row in reached]
    ends = {int(row.key.rpartition("/")[2].strip("]")) for row in rows}
    return any(end + kept in _largest([row.time for row in rows]) for end in ends)


def _suppressed_old_values(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams subtracts, behind a suppressed table, values that never went on."""
    for step in example.steps:
        if step["op"] in _ASK_OLD_VALUES:
            above = [_step(example, name) for name in _above(example, step, through=_TABLE_STEPS)]
            if any(other["op"].startswith("suppress") for other in above):
                return "rest"
    return None


def _ways_come_one_by_one(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams sends each of a record's rows by every way before the next row comes."""
    for step in example.steps:
        if step["op"] == "stream_join" and len(set(step["in"])) == 1 and step["how"] != "inner":
            above = [_step(example, name)["op"] for name in _above(example, step)]
            if _SEVERAL.intersection(above):
                return "rest"
    return None


def _headers_count_as_bytes(
    example: Example, theirs: Written, ours: Written, number: int
) -> Extent | None:
    """Kafka Streams has other headers behind closing windows, and so other sizes of rows."""
    if any(record.headers for record in example.inputs[: number + 1]):
        for step in example.steps:
            if step.get("max_bytes") is not None and headers_divergence_of(example, step):
                return "rest"
    return None


def _step(example: Example, name: str) -> Step:
    return next(step for step in example.steps if step["id"] == name)


def _above(example: Example, step: Step, through: set[str] | None = None) -> Iterator[str]:
    """Yield the steps above one; if ``through`` is given, no further than others than those."""
    for name in step.get("in", ()):
        yield name
        other = _step(example, name)
        if through is None or other["op"] in through:
            yield from _above(example, other, through)


DIVERGENCES: Mapping[str, Shows] = MappingProxyType(
    {
        "deletions-only-of-rows": _deletions_only_of_rows,
        "no-initial-old-values": _no_initial_old_values,
        "absent-rows-are-not-transformed": _absent_rows_are_not_transformed,
        "foreign-results-are-kept": _foreign_results_are_kept,
        "suppress-inclusive-ends": _suppressed_windows_are_final,
        "suppress-old-value": _suppressed_old_values,
        "cogroup-shares-stream-time": _cogroups_share_time,
        "joined-rows-keep-their-time": _joined_rows_keep_their_time,
        "closed-sessions-stay-closed": _sessions_stay_closed,
        "sliding-windows-are-kept-long-enough": _sliding_windows_are_kept,
        "ways-come-one-by-one": _ways_come_one_by_one,
        "closed-windows-have-no-headers": _headers_count_as_bytes,
    }
)
"""The known divergences by id."""


def divergence_of(
    example: Example, theirs: Written, ours: Written, number: int, reach: Extent | None = None
) -> tuple[str, Extent] | None:
    """Return the divergence that explains a difference at an input, if one does, and how far.

    Args:
        example: The example.
        theirs: What Kafka Streams writes.
        ours: What Mustela writes.
        number: The input.
        reach: How far the explanation has to reach, None if that does not matter.
    """
    for name, shows in DIVERGENCES.items():
        extent = shows(example, theirs, ours, number)
        if extent is not None and reach in {None, extent}:
            return name, extent
    if _deletions_seen_further_on(example, theirs, ours, number):
        return "deletions-only-of-rows", "rest"
    return None


def headers_divergence_of(example: Example, step: Step) -> str | None:
    """Return the divergence by which what comes to a step may have other headers, if one does."""
    for name in _above(example, step):
        other = _step(example, name)
        window = other.get("window") or {}
        if window.get("type") == "session" or other.get("emit") == "close":
            return "closed-windows-have-no-headers"
    return None


def contents_divergence_of(
    example: Example, store: str, theirs: Sequence[Any], ours: Sequence[Any]
) -> str | None:
    """Return the divergence that explains a difference in what a store answers, if one does."""
    step, end = _step(example, store.removeprefix("store-")), len(example.inputs) - 1
    if (step.get("window") or {}).get("type") == "sliding":
        found = _windows_are_kept_by_record_time(example, step, {*theirs} ^ {*ours})
        if found is not None:
            return found
    above = {step["id"], *_above(example, step)}
    steps = tuple(other for other in example.steps if other["id"] in above)
    nothing: Written = [[] for _ in example.inputs]
    found = divergence_of(replace(example, steps=steps), nothing, nothing, end, reach="rest")
    return None if found is None else found[0]


def _windows_are_kept_by_record_time(
    example: Example, step: Step, differing: Collection[Any]
) -> str | None:
    """By the latest start in Kafka Streams, which is a difference before a record or 1 behind."""
    window, end = step["window"], len(example.inputs) - 1
    now = max(time for rows in _grouped(example, step, end) for _, time in rows)
    kept = step.get("retention") or 2 * window["diff"] + window["grace"]
    starts = [_start(key) for key, *_ in differing]
    if all(now - window["diff"] - kept < start <= now + 1 - kept for start in starts):
        return "windows-are-kept-by-record-time"
    return None


def _start(key: str | int) -> int:
    """Return the start of a window, which is itself the key where all are of one key."""
    return key if isinstance(key, int) else int(key.rpartition("@")[2].partition("/")[0])
