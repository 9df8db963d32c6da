"""What the stores of a topology answer at its end; java/Contents.java asks the same in Java."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mustela import TopologyTestDriver
from mustela.state.kinds.session_store import SessionStore
from mustela.state.kinds.versioned_store import VersionedKeyValueStore
from mustela.state.kinds.window_store import TimestampedWindowStore
from mustela.stores import ValueAndTimestamp
from tests.differential.functions import text

__all__ = ["Answers", "Asked", "Contents", "contents"]

Entry = tuple[Any, ...]
"""A row of an answer: key, value, and what is known of its time."""

Answers = dict[str, list[Entry]]
"""What a store answers, by question; without those to which there is no answer."""

Contents = dict[str, Answers]
"""What each named store answers."""


class Asked(NamedTuple):
    """What stores are asked for, beside everything.

    Attributes:
        low: The lowest key of a range.
        high: The highest one.
        first: The first moment of a span of time.
        last: The last one.
        keys: Keys that are looked up one by one.
        moments: Of what a versioned store is asked for each of the keys.
    """

    low: str
    high: str
    first: int
    last: int
    keys: list[str]
    moments: list[int]


def contents(driver: TopologyTestDriver, names: Iterable[str], asked: Asked) -> Contents:
    """Return what some stores of a topology answer."""
    return {name: _answers(driver.get_state_store(name), asked) for name in names}


def _answers(store: Any, asked: Asked) -> Answers:
    if isinstance(store, VersionedKeyValueStore):
        return answered(_versions(store, asked))
    questions = _of_keys
    if isinstance(store, TimestampedWindowStore):
        questions = _of_windows
    elif isinstance(store, SessionStore):
        questions = _of_sessions
    found = ((question, map(_entry, rows)) for question, rows in questions(store, asked))
    return answered(found)


def answered(answers: Iterable[tuple[str, Iterable[Iterable[Any]]]]) -> Answers:
    """Return the answers in which there is anything."""
    found = {question: [tuple(row) for row in rows] for question, rows in answers}
    return {question: rows for question, rows in found.items() if rows}


def _entry(row: tuple[Any, Any]) -> Entry:
    key, value = text(row[0]), row[1]
    if isinstance(value, ValueAndTimestamp):
        return key, str(value.value), value.timestamp
    return key, str(value)


def _of_keys(store: Any, asked: Asked) -> Iterator[tuple[str, Iterable[Any]]]:
    everything = list(store.all())
    yield "all", everything
    yield "reverse_all", store.reverse_all()
    if everything and isinstance(everything[0][0], str):
        yield "range", store.range(asked.low, asked.high)
        yield "reverse_range", store.reverse_range(asked.low, asked.high)
        yield "prefix_scan", store.prefix_scan(asked.low)


def _versions(store: Any, asked: Asked) -> Iterator[tuple[str, Iterable[Entry]]]:
    newest = [(key, None, store.get(key)) for key in asked.keys]
    past = [(key, when, store.get(key, as_of=when)) for key in asked.keys for when in asked.moments]
    for question, rows in (("get", newest), ("get as of", past)):
        # Kafka Streams' own typed store does not tell how long a version held.
        yield question, [(key, when, *found[:2]) for key, when, found in rows if found is not None]


def _of_windows(store: Any, asked: Asked) -> Iterator[tuple[str, Iterable[Any]]]:
    span = (asked.first, asked.last)
    yield "all", store.all()
    yield "backward_all", store.backward_all()
    yield "fetch_all", store.fetch_all(*span)
    yield "backward_fetch_all", store.backward_fetch_all(*span)
    yield "fetch_range", store.fetch_range(asked.low, asked.high, *span)
    yield "backward_fetch_range", store.backward_fetch_range(asked.low, asked.high, *span)
    for key in asked.keys:
        yield f"fetch {key}", store.fetch(key, *span)
        yield f"backward_fetch {key}", store.backward_fetch(key, *span)
        one = store.fetch(key, asked.first)
        yield f"get {key}", [] if one is None else [(asked.first, one)]


def _of_sessions(store: Any, asked: Asked) -> Iterator[tuple[str, Iterable[Any]]]:
    span = (asked.first, asked.last)
    yield "fetch_range", store.fetch_range()
    yield "backward_fetch_range", store.backward_fetch_range()
    yield "find_sessions_range", store.find_sessions_range(asked.low, asked.high, *span)
    backward = store.backward_find_sessions_range(asked.low, asked.high, *span)
    yield "backward_find_sessions_range", backward
    for key in asked.keys:
        yield f"fetch {key}", store.fetch(key)
        yield f"backward_fetch {key}", store.backward_fetch(key)
        yield f"find_sessions {key}", store.find_sessions(key, *span)
        yield f"backward_find_sessions {key}", store.backward_find_sessions(key, *span)
