"""Every topic that an application needs, and what differs on the brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mustela.runtime.topics.topic_plan import PlannedTopic, plan_topics, specs_of
from tests.unit.runtime.fakes import FakeAdmin
from tests.unit.runtime.plans import settings_for, word_count_plan


def planned(admin: FakeAdmin | None, tmp_path: Path, **more: int) -> dict[str, PlannedTopic]:
    cluster: Any = admin
    found = plan_topics(settings_for(tmp_path), word_count_plan(), cluster, **more)
    return {topic.name: topic for topic in found}


def test_a_plan_names_every_topic_with_what_it_is_for(tmp_path: Path) -> None:
    """Also without brokers: then nobody says whether it is there."""
    found = planned(None, tmp_path, partitions=6)
    uses = [(topic.name.rpartition("-")[2], topic.use) for topic in found.values()]
    assert uses == [
        ("lines", "source"),
        ("counts", "sink"),
        ("changelog", "internal"),
        ("epochs", "internal"),
        ("lease", "internal"),
    ]
    assert (found["lines"].partitions, found["counts"].partitions) == (6, 6)
    assert {topic.exists for topic in found.values()} == {None}


def test_what_exists_is_kept_and_what_is_missing_is_made(tmp_path: Path) -> None:
    """A sink has as many partitions as the widest source."""
    found = planned(FakeAdmin(partitions={"lines": 12}), tmp_path)
    assert (found["lines"].exists, found["lines"].partitions) == (True, 12)
    assert (found["counts"].exists, found["counts"].partitions) == (False, 12)
    assert [spec.name for spec in specs_of(list(found.values()))] == [
        name for name in found if name != "lines"
    ]


def test_internal_topics_that_are_not_as_they_should_be_say_how(tmp_path: Path) -> None:
    """Each difference with both values; a user's own topics are the user's to make."""
    name = next(topic for topic in planned(None, tmp_path) if topic.endswith("-changelog"))
    found = planned(FakeAdmin(partitions={"lines": 1, "counts": 9, name: 7}), tmp_path)
    told = found[name].differences
    assert any(text.startswith("partitions: 7, not ") for text in told), told
    assert any(text.startswith("cleanup.policy: ") for text in told), told
    assert found["counts"].differences == ()
