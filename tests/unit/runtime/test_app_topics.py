"""What an application says of itself before it starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.events import AppTopics
from mustela.runtime.app import AppStateError, NoTopologyError

TEXTS: dict[str, Any] = {"key": str, "value": str}


def told(build: Callable[[StreamsBuilder], None], **settings: Any) -> AppTopics:
    app = App("shop", **settings)
    app.topology(build)
    return app.topics


def everything(builder: StreamsBuilder) -> None:
    towns = builder.global_table("towns", **TEXTS)
    rows = builder.table("rows", **TEXTS)
    found = builder.stream(re.compile("shop-.*"), **TEXTS)
    lines = builder.stream(["lines", "more"], **TEXTS)
    lines.merge(found, name="all").join(towns, str.__add__, foreign_key=str, value=str).to("out")
    lines.to(lambda _key, value, _context: value)
    rows.to_stream().to("copies")


def test_every_topic_has_its_place() -> None:
    """By what the program does with it; a topic that a function names is not known."""
    topics = told(everything)
    assert topics == AppTopics(
        reads=("lines", "more", "rows"),
        patterns=("shop-.*",),
        global_tables=("towns",),
        writes=("copies", "out"),
        writes_any=True,
        dead_letters=None,
        internal=("shop-epochs", "shop-lease"),
    )


def counting(builder: StreamsBuilder) -> None:
    builder.stream("lines", **TEXTS).group_by_key().count(store="counts").to_stream().to("out")


@pytest.mark.parametrize(
    ("settings", "letters"),
    [
        ({}, None),
        ({"processing_handler": "continue"}, None),
        ({"processing_handler": "dead_letter"}, "shop-dead-letters"),
        ({"production_handler": "dead_letter", "dead_letter_topic": "dead"}, "dead"),
    ],
)
def test_dead_letters_have_a_topic_where_a_handler_writes_them(
    settings: dict[str, Any], letters: str | None
) -> None:
    """As the settings say; nothing is made for those that nobody writes."""
    assert told(counting, **settings).dead_letters == letters


def test_what_is_made_for_the_application_is_listed() -> None:
    """Changelogs of stores that have one."""
    assert told(counting).internal == ("shop-counts-changelog", "shop-epochs", "shop-lease")


def test_nobody_waits_for_an_application_that_was_not_started() -> None:
    """It would be for ever."""
    app = App("shop")
    app.topology(counting)
    with pytest.raises(AppStateError, match="was not started"):
        app.wait_until_caught_up()


def test_an_application_without_a_topology_has_no_topics() -> None:
    """It is said what is missing."""
    with pytest.raises(NoTopologyError):
        _ = App("shop").topics
