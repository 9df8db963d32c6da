"""What stores mean, and what a changed program makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from mustela.api.join_windows import JoinWindows
from mustela.api.options import Materialized
from mustela.api.stores import Stores
from mustela.api.windows import SessionWindows, SlidingWindows, TimeWindows
from mustela.dsl.builder import StreamsBuilder
from mustela.planner.planner import plan
from mustela.topology.meaning_changes import MeaningChange, compare_meanings
from mustela.topology.store_meaning import StoreMeaning

Write = Callable[[StreamsBuilder], Any]
SECOND = timedelta(seconds=1)


@dataclass
class Order:
    total: int


@dataclass
class OrderWithNote:
    total: int
    note: str = ""


def meaning(write: Write, store: str = "s") -> StoreMeaning:
    builder = StreamsBuilder()
    write(builder)
    found = plan(builder.build()).meanings
    assert set(found) == set(plan(builder.build()).stores)
    return found[store]


def changes(then: Write, now: Write, store: str = "s") -> list[tuple[str, bool]]:
    found = compare_meanings(meaning(then, store), meaning(now, store))
    return [(change.field, change.compatible) for change in found]


def table(key: Any = str, value: Any = str, **options: Any) -> Write:
    stored = Materialized(store="s", **options)
    return lambda builder: builder.table("t", key=key, value=value, materialized=stored)


def windowed(windows: Any) -> Write:
    def write(builder: StreamsBuilder) -> None:
        lines = builder.stream("t", key=str, value=str)
        lines.group_by_key().windowed_by(windows).count(store="s")

    return write


def joined(seconds: int, kind: str = "join") -> Write:
    def write(builder: StreamsBuilder) -> None:
        left, right = (builder.stream(topic, key=str, value=str) for topic in "ab")
        windows = JoinWindows.of_time_difference(seconds * SECOND, grace=SECOND)
        getattr(left, kind)(right, lambda a, b: a, windows=windows, name="j")

    return write


def foreign(key: Any) -> Write:
    def write(builder: StreamsBuilder) -> None:
        left = builder.table("a", key=str, value=str)
        right = builder.table("b", key=key, value=str)
        left.join(right, lambda a, b: a, foreign_key=key, name="f")

    return write


@pytest.mark.parametrize(
    ("then", "now", "field"),
    [
        (table(value=float), table(value=int), "value"),
        (table(key=int), table(key=float), "key"),
        (table(value=OrderWithNote), table(value=Order), "value_shape"),
        (table(key=Order), table(key=OrderWithNote), "key_shape"),
        (
            windowed(TimeWindows(size=60 * SECOND, grace=SECOND)),
            windowed(TimeWindows(size=120 * SECOND, grace=SECOND)),
            "window",
        ),
        (
            windowed(TimeWindows(size=60 * SECOND, grace=SECOND)),
            windowed(TimeWindows(size=60 * SECOND, advance=30 * SECOND, grace=SECOND)),
            "window",
        ),
        (
            windowed(SlidingWindows(time_difference=SECOND, grace=SECOND)),
            windowed(SlidingWindows(time_difference=2 * SECOND, grace=SECOND)),
            "window",
        ),
        (
            windowed(SessionWindows(inactivity_gap=SECOND, grace=SECOND)),
            windowed(SessionWindows(inactivity_gap=2 * SECOND, grace=SECOND)),
            "window",
        ),
        (table(), windowed(TimeWindows(size=SECOND, grace=SECOND)), "kind"),
    ],
)
def test_rows_that_mean_something_else_are_not_compatible(
    then: Write, now: Write, field: str
) -> None:
    """Other bytes, other windows, another kind."""
    assert (field, False) in changes(then, now)


def test_a_value_may_gain_fields_with_defaults() -> None:
    """Rows are read as they are; a class of another name is no change at all."""
    assert changes(table(value=Order), table(value=OrderWithNote)) == [("value_shape", True)]
    other = type("Other", (), {"__annotations__": {"total": int}})
    assert changes(table(value=Order), table(value=dataclass(other))) == []


def test_grace_and_retention_are_the_programs_to_choose() -> None:
    """They hold from now on."""
    then = windowed(TimeWindows(size=60 * SECOND, grace=SECOND))
    now = windowed(TimeWindows(size=60 * SECOND, grace=5 * SECOND))
    assert changes(then, now) == [("grace_ms", True), ("retention_ms", True)]
    assert changes(now, then) == [("grace_ms", True), ("retention_ms", True)]


def test_stores_that_nobody_named_have_a_meaning_too() -> None:
    """What joins keep, and what waits in them."""
    kept = "j-this-join-store"
    assert ("window", False) in changes(joined(5), joined(6), kept)
    waiting = meaning(joined(5, "left_join"), "j-left-shared-join-store")
    assert waiting.value == "waiting(str, str)"
    assert ("key", False) in changes(foreign(str), foreign(int), "f-subscription-store")


def test_a_store_that_two_processors_share_belongs_to_both() -> None:
    """Under the names of both, in the order of the names."""

    def write(builder: StreamsBuilder) -> None:
        store = Stores.persistent_window_store("s", 60 * SECOND, 10 * SECOND)
        builder.add_state_store(Stores.window_store_builder(store, key=str, value=int))
        lines = builder.stream("t", key=str, value=str)
        for name in "ba":
            lines.process(Mute, stores=["s"], name=name)

    found = meaning(write)
    assert (found.owner, found.operation, found.window) == (
        "a, b",
        "process",
        "windows of 10000 ms",
    )


class Mute:
    def process(self, record: Any) -> None: ...


def test_a_store_may_begin_to_keep_headers() -> None:
    """The way back is a change of the layout."""
    plain, headers = table(), table(with_headers=True)
    assert changes(plain, headers) == [("layout", True)]
    assert changes(headers, plain) == [("layout", False)]


def test_a_meaning_outlives_its_record() -> None:
    """What a later version adds is left out."""
    found = meaning(windowed(TimeWindows(size=60 * SECOND, grace=SECOND)))
    assert StoreMeaning.from_dict(found.as_dict()) == found
    assert StoreMeaning.from_dict({**found.as_dict(), "later": 1}) == found


def test_a_change_says_what_was_and_what_is() -> None:
    """In the words of the program."""
    (change,) = compare_meanings(meaning(table(value=OrderWithNote)), meaning(table(value=Order)))
    assert change == MeaningChange(
        field="value_shape",
        then="OrderWithNote(total: int, note: str = …)",
        now="Order(total: int)",
        compatible=False,
        why="field note is gone",
    )
    same = meaning(table())
    (moved,) = compare_meanings(same, replace(same, owner="elsewhere"))
    assert (moved.field, moved.compatible) == ("owner", True)
