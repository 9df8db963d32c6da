"""What joins with tables mean, in the plainest way: one record after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from hypothesis import strategies as st

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.testing.driver import TopologyTestDriver as Driver
from tests.epochs import pipe_in_epochs

__all__ = [
    "CUTS",
    "EMITS",
    "TIMES",
    "WAYS",
    "Change",
    "Sent",
    "at_barriers",
    "by_key",
    "joined_table",
    "merged",
    "run",
    "sent",
]

KEYS = st.sampled_from(["a", "b", "c", None])
VALUES = st.one_of(st.none(), st.integers(-2, 9))
CUTS = st.lists(st.integers(1, 9), max_size=5)
EMITS = ("barrier", "every")
TIMES = ("watermark", "stream-time")
WAYS: dict[str, dict[str, Any]] = {
    "one lane": {},
    "crashes": {"key_groups": 8, "lanes": 3, "crash_after_every_record": True},
}


class Sent(NamedTuple):
    """A record of a topic."""

    topic: str
    key: str | None
    value: int | None
    timestamp: int


class Change(NamedTuple):
    """A change that a table or a stream gave."""

    value: Any
    timestamp: int


@st.composite
def sent(draw: st.DrawFn, topics: Sequence[str], size: int = 24) -> list[Sent]:
    """Draw records; the times of a topic may go back."""
    one = st.tuples(st.sampled_from(topics), KEYS, VALUES, st.integers(0, 30))
    return [Sent(*record) for record in draw(st.lists(one, max_size=size))]


def merged(epochs: Sequence[Sequence[Sent]]) -> Iterator[list[Sent]]:
    """Bring the records of each epoch into the order in which they are processed."""
    tops: dict[str, int] = {}
    for epoch in epochs:
        placed: list[tuple[int, str, int, Sent]] = []
        for number, record in enumerate(epoch):
            tops[record.topic] = max(tops.get(record.topic, -1), record.timestamp)
            placed.append((tops[record.topic], record.topic, number, record))
        yield [record for *_, record in sorted(placed, key=lambda row: row[:3])]


def run(
    builder: StreamsBuilder,
    epochs: Sequence[Sequence[Sent]],
    settings: dict[str, Any],
    way: str,
    look: Callable[[Driver], None] | None = None,
) -> dict[str, list[tuple[Any, Any, int]]]:
    """Run a topology; return what each topic holds at the end."""
    with TopologyTestDriver(
        builder.build(), settings=settings, initial_wall_clock=0, **WAYS[way]
    ) as driver:
        pipe_in_epochs(driver, epochs)
        if look is not None:
            look(driver)
        return {
            name: [
                (record.key, record.value, record.timestamp)
                for record in driver.create_output_topic(name).read_records_to_list()
            ]
            for name in sorted(driver.produced_topic_names)
        }


def by_key(rows: Sequence[tuple[Any, Any, int]]) -> dict[Any, list[Change]]:
    """Return rows by key: order holds within a key."""
    found: dict[Any, list[Change]] = {}
    for key, value, timestamp in rows:
        found.setdefault(key, []).append(Change(value, timestamp))
    return found


_NOTHING = Change(None, -1)


def joined_table(
    kind: str,
    epochs: Sequence[Sequence[Sent]],
    joiner: Callable[[Any, Any], Any],
) -> tuple[list[tuple[int, str, Change]], dict[str, Any]]:
    """Join topics ``left`` and ``right`` as tables.

    Returns:
        Each result with the number of its epoch, and the table at the end.
    """
    sides: dict[str, dict[str, Change]] = {"left": {}, "right": {}}
    results: list[tuple[int, str, Change]] = []
    for number, epoch in enumerate(merged(epochs)):
        for record in epoch:
            if record.key is None:
                continue
            mine = sides[record.topic]
            others = sides["right" if record.topic == "left" else "left"]
            old = mine.get(record.key, _NOTHING)
            new = Change(record.value, record.timestamp)
            mine[record.key] = new
            other = others.get(record.key, _NOTHING)
            other = other if other.value is not None else _NOTHING
            nothing = other.value is None and new.value is None and old.value is None
            if kind == "inner" or (kind == "left" and record.topic == "right"):
                nothing = other.value is None
            if nothing:
                continue
            pair = (new.value, other.value)
            pair = pair if record.topic == "left" else pair[::-1]
            value = joiner(*pair) if _has_row(kind, pair) else None
            stamp = max(record.timestamp, other.timestamp)
            results.append((number, record.key, Change(value, stamp)))
    table = {}
    for key in sides["left"].keys() | sides["right"].keys():
        pair = tuple(sides[side].get(key, _NOTHING).value for side in ("left", "right"))
        if _has_row(kind, pair):
            table[key] = joiner(*pair)
    return results, table


def _has_row(kind: str, pair: tuple[Any, ...]) -> bool:
    left, right = (value is not None for value in pair)
    return {"inner": left and right, "left": left, "outer": left or right}[kind]


def at_barriers(results: Sequence[tuple[int, str, Change]]) -> dict[str, list[Any]]:
    """Return what one change per key and epoch says, by key, without what changes nothing."""
    found: dict[str, list[Any]] = {}
    ordered = sorted(results, key=lambda row: (row[1], row[0]))
    for (key, _), rows in groupby(ordered, key=lambda row: (row[1], row[0])):
        *_, (_, _, last) = rows
        told = found.setdefault(key, [])
        if last.value != (told[-1] if told else None):
            told.append(last.value)
    return {key: values for key, values in found.items() if values}
