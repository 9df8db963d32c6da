"""An adder that forgets its ``return`` on some way is told when a row goes for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import SessionWindows, StreamsBuilder, TimeWindows, TopologyTestDriver
from mustela.kernel.aggregates.watched import MissingReturnWarning, ends_without_return, watched

MINUTE = timedelta(minutes=1)


def forgets(_key: Any, value: Any, seen: list[Any]) -> Any:
    if value != "x":
        return [*seen, value]


def forgets_in_reduce(one: str, other: str) -> Any:
    if other != "x":
        return one + other


def falls_out_of_a_loop(_key: Any, value: Any, seen: list[Any]) -> Any:
    for known in seen:
        if known == value:
            return seen


def falls_out_of_an_except(_key: Any, value: Any, seen: list[Any]) -> Any:
    try:
        return [*seen, int(value)]
    except ValueError:
        seen.clear()


def forgets_after_a_none(_key: Any, value: Any, seen: list[Any]) -> Any:
    if value == "x":
        return None
    elif value:
        return seen


def says_none(_key: Any, value: Any, seen: list[Any]) -> Any:
    if value == "x":
        return None
    return [*seen, value]


def says_return(_key: Any, value: Any, seen: list[Any]) -> Any:
    if value == "x":
        return
    return [*seen, value]


def always_returns(_key: Any, value: Any, seen: list[Any]) -> Any:
    while True:
        if value:
            return seen


def merge(_key: Any, one: list[Any], other: list[Any]) -> list[Any]:
    return one + other


@pytest.mark.parametrize(
    ("function", "forgotten"),
    [
        (forgets, True),
        (forgets_in_reduce, True),
        (falls_out_of_a_loop, True),
        (falls_out_of_an_except, True),
        (forgets_after_a_none, True),
        (says_none, False),
        (says_return, False),
        (always_returns, False),
        (lambda _k, v, seen: seen if v else None, False),
        (max, False),
    ],
)
def test_a_way_without_return_is_seen(function: Callable[..., Any], forgotten: bool) -> None:
    """What says None means it."""
    assert ends_without_return(function) == forgotten
    assert (watched(function, "step") is function) == (not forgotten)


Verb = Callable[[Any], Any]
VERBS: dict[str, Verb] = {
    "aggregate": lambda g: g.aggregate(list, forgets, store="s"),
    "reduce": lambda g: g.reduce(forgets_in_reduce, store="s"),
    "cogroup": lambda g: g.cogroup(forgets).aggregate(list, store="s"),
    "windows": lambda g: g.windowed_by(TimeWindows(size=MINUTE, grace=MINUTE)).aggregate(
        list, forgets, store="s"
    ),
    "sessions": lambda g: g.windowed_by(
        SessionWindows(inactivity_gap=MINUTE, grace=MINUTE)
    ).aggregate(list, forgets, merger=merge, store="s"),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_row_that_goes_for_a_forgotten_return_is_told_once(verb: Verb) -> None:
    """With the function, the step, and what to write; not again for the next row."""
    builder = StreamsBuilder()
    verb(builder.stream("in", key=str, value=str).group_by_key())
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("a", "1", timestamp=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            topic.pipe_input("a", "x", timestamp=1)
            topic.pipe_input("a", "1", timestamp=2)
            topic.pipe_input("a", "x", timestamp=3)
    (warning,) = caught
    assert warning.category is MissingReturnWarning
    assert warning.filename == __file__
    text = str(warning.message)
    assert "forgets" in text
    assert "write: return None" in text


def test_a_table_that_is_grouped_is_watched_too() -> None:
    """Its adder, whatever the subtractor does."""
    builder = StreamsBuilder()
    rows = builder.table("rows", key=str, value=str)
    grouped = rows.group_by(lambda key, value: ("all", value), key=str, value=str)
    grouped.aggregate(list, forgets, lambda _k, _v, seen: seen, store="s")
    with TopologyTestDriver(builder) as driver, pytest.warns(MissingReturnWarning, match="forgets"):
        driver.create_input_topic("rows").pipe_input("a", "x")


def test_a_row_that_is_deleted_on_purpose_is_no_matter() -> None:
    """No warning, which would be an error here."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.aggregate(list, says_none, store="s")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_value_list(["1", "x"])
        driver.create_input_topic("in").pipe_input("a", "x")
        assert "a" not in driver.get_key_value_store("s")
