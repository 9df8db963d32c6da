"""Runs an example on both sides and compares what they write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from tests.differential.contents import Contents
from tests.differential.divergences import (
    contents_divergence_of,
    divergence_of,
    headers_divergence_of,
)
from tests.differential.draw import WITHOUT_ORDER, Example
from tests.differential.kafka_streams import KafkaStreams
from tests.differential.sides import (
    Row,
    Written,
    both_of_mustela,
    of_kafka_streams,
    of_mustela,
    on_disk,
)

__all__ = ["Compared", "Difference", "compare"]


class Compared(NamedTuple):
    """What a comparison says.

    Attributes:
        known: The ids of the known divergences that the example shows.
        whole: Whether all was compared: behind some divergences nothing can be.
        met: The pairs of operators both of which gave rows before the end of the comparison, the
            second no sooner than the first, where the last step of the topology wrote too.
    """

    known: set[str]
    whole: bool
    met: set[tuple[str, str]]


class Difference(AssertionError):
    """The two sides do not write the same."""


def compare(example: Example, kafka_streams: KafkaStreams) -> Compared:
    """Run an example on both sides and compare.

    After each input the rows of each topic must be the same, in the same order.

    Raises:
        Difference: If the sides differ in a way that is not known.
        Refused: If Kafka Streams refuses the topology.
    """
    theirs, kept = of_kafka_streams(example, kafka_streams)
    ours, keeps = both_of_mustela(example, kept)
    known = _leave_out_headers(example, theirs, ours)
    told, whole, end = False, True, min(len(theirs), len(ours))
    same = _same if WITHOUT_ORDER.isdisjoint(example.operators) else _same_rows
    for number, (wanted, got) in enumerate(zip(theirs[:end], ours[:end], strict=True)):
        if all(same(w, g) for w, g in zip(wanted, got, strict=True)):
            told = told or bool(wanted[-1])
            continue
        explained = divergence_of(example, theirs, ours, number)
        if explained is None:
            raise Difference(_told(example, number, wanted, got))
        known.add(explained[0])
        if explained[1] == "rest":
            whole, end = False, number
            break
    else:
        known |= _compare_ends(example, theirs, ours)
        known |= _compare_contents(example, kept, keeps)
    paired = told and len(example.operators) > 1
    return Compared(known, whole, _met(example, end) if paired else set())


def _leave_out_headers(example: Example, theirs: Written, ours: Written) -> set[str]:
    """Take the headers out of all rows of the sinks that are known to have others."""
    sinks = [step for step in example.steps if step["op"] == "to"]
    differing: set[str] = set()
    for place, sink in enumerate(sinks):
        known = headers_divergence_of(example, sink)
        if known is not None:
            if any(not _same(w[place], g[place]) for w, g in zip(theirs, ours, strict=False)):
                differing.add(known)
            for rows in (*theirs, *ours):
                rows[place] = [row._replace(headers=()) for row in rows[place]]
    return differing


def _met(example: Example, end: int) -> set[tuple[str, str]]:
    """Return the pairs both of which gave rows: a join behind a silent step may give its own."""
    tapped = of_mustela(replace(example, steps=example.tapped, inputs=example.inputs[:end]))
    count = len(example.operators)
    gave = [
        [number for number, sinks in enumerate(tapped) if sinks[place - count]]
        for place in range(count)
    ]
    return {
        pair
        for pair, (first, second) in zip(pairwise(example.operators), pairwise(gave), strict=True)
        if first and second and first[0] <= second[-1]
    }


def _same(wanted: Sequence[Row], got: Sequence[Row]) -> bool:
    return list(wanted) == list(got)


def _same_rows(wanted: Sequence[Row], got: Sequence[Row]) -> bool:
    return Counter(wanted) == Counter(got)


def _compare_ends(example: Example, theirs: Written, ours: Written) -> set[str]:
    """Return the known divergences by which a full buffer stops the two sides at other inputs.

    Raises:
        Difference: If that is not known.
    """
    if len(theirs) == len(ours):
        return set()
    number = min(len(theirs), len(ours))
    nothing = [[] for step in example.steps if step["op"] == "to"]
    wanted, got = ([*side, nothing] for side in (theirs, ours))
    explained = divergence_of(example, wanted, got, number, reach="rest")
    if explained is None:
        first = "Kafka Streams" if len(theirs) == number else "Mustela"
        lines = [*_setting(example, number), f"a full buffer stops {first} alone"]
        raise Difference("\n".join(lines))
    return {explained[0]}


def _compare_contents(example: Example, theirs: Contents, ours: Contents) -> set[str]:
    """Return the known divergences that the contents of stores show.

    Raises:
        Difference: If they differ in a way that is not known.
    """
    known: set[str] = set()
    if not (theirs and ours):
        return known
    for name, answers in theirs.items():
        for question in sorted(answers.keys() | ours[name].keys()):
            wanted, got = answers.get(question, []), ours[name].get(question, [])
            if _in_order(example, question):
                same = wanted == got
            else:
                same = Counter(wanted) == Counter(got)
            if not same:
                explained = contents_divergence_of(example, name, wanted, got)
                if explained is None:
                    raise Difference(_told_contents(example, f"{name}: {question}", wanted, got))
                known.add(explained)
    return known


def _in_order(example: Example, question: str) -> bool:
    """Tell whether an answer has an order that the two sides share.

    On disk Kafka Streams has the windows of several keys by segment, and the sessions of several
    keys it has by their end.
    """
    of_one_key = question.endswith(tuple(f" {key}" for key in example.asked.keys))
    return of_one_key or not ("fetch" in question or "session" in question or on_disk(example))


def _told_contents(example: Example, question: str, wanted: Any, got: Any) -> str:
    lines = [*_setting(example, len(example.inputs) - 1), f"{question}, {example.asked}"]
    return "\n".join([*lines, f"  Kafka Streams: {wanted}", f"  Mustela:       {got}"])


def _told(example: Example, number: int, wanted: Any, got: Any) -> str:
    lines = _setting(example, number)
    for sink, (w, g) in enumerate(zip(wanted, got, strict=True)):
        if not _same(w, g):
            only = "same rows in another order" if Counter(w) == Counter(g) else ""
            lines += [f"o{sink}: {only}", f"  Kafka Streams: {w}", f"  Mustela:       {g}"]
    return "\n".join(lines)


def _setting(example: Example, number: int) -> list[str]:
    lines = [f"after input {number} of:"]
    lines += [f"  {tuple(each)}" for each in example.inputs[: number + 1]]
    return [*lines, "through:", *(f"  {step}" for step in example.steps)]
