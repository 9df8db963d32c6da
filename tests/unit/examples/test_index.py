"""The examples are numbered, listed, and runnable where they are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mustela import App, TopologyTestDriver
from tests.unit.examples.programs import DIRECTORY, load

NAMES = sorted(path.stem for path in DIRECTORY.glob("*.py"))
WITH_A_BROKER = "e25_real_broker"


def test_they_are_numbered_and_listed_in_order() -> None:
    """Without a gap, each once."""
    assert [name[:3] for name in NAMES] == [f"e{n:02}" for n in range(1, len(NAMES) + 1)]
    index = (DIRECTORY / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\(\1\.py\)", index, re.MULTILINE) == NAMES
    told = (DIRECTORY.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(NAMES)} complete programs" in told


@pytest.mark.parametrize("name", [name for name in NAMES if name != WITH_A_BROKER])
def test_each_is_an_application_that_could_be_started(name: str) -> None:
    """All its steps and stores are named, and its functions can be sent to workers."""
    app: Any = load(name).app
    assert isinstance(app, App)
    with TopologyTestDriver(app):
        pass
    assert app.settings.application_id == name[4:].replace("_", "-")


def test_no_two_share_a_topic() -> None:
    """Whoever tries one after the other on one broker is not stopped by records of another kind."""
    users: dict[str, list[str]] = {}
    for name in NAMES:
        if name != WITH_A_BROKER:
            topics = load(name).app.topics
            for topic in {*topics.reads, *topics.writes}:
                users.setdefault(topic, []).append(name)
    assert {topic: names for topic, names in users.items() if len(names) > 1} == {}
