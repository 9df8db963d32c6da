"""What driver and tasks say to each other."""

from __future__ import annotations

import pickle

import pytest

from mustela.plan.epoch import GroupMark, Program, TaskReport, changelog_topic
from mustela.state.interfaces import Committed, Token
from tests.unit.runtime.plans import word_count_plan


def program() -> Program:
    return Program(
        identity="run",
        application_id="app",
        cluster_id="cluster",
        plan=word_count_plan(),
        lanes=2,
        key_groups=8,
        guarantee="exactly_once",
        kernel={},
        consumer={},
        producer={},
        state_dir="/nowhere",
        stale_after_ms={"app-counts-changelog": 5, "elsewhere": 3},
    )


def test_an_environment_is_described_by_stage_and_group() -> None:
    """What is found on disk must agree with all of it."""
    spec = program().environment(1, 3)
    assert (spec.application_id, spec.cluster_id, spec.group, spec.groups) == (
        *("app", "cluster"),
        *(3, 8),
    )
    assert spec.stage == program().plan.stages[1].identity
    assert [store.name for store in spec.stores] == ["counts"]
    assert spec.stale_after_ms == 5


def test_a_mark_says_what_is_committed_by_store() -> None:
    """A key group that was never written has no token."""
    assert GroupMark((1, 2, 3), (7, 9), 5).committed(("a", "b")) == Committed(
        token=Token(1, 2, 3), changelog_ends={"a": 7, "b": 9}, time_ms=5
    )
    assert GroupMark(None, (), 0).committed(()) == Committed()
    with pytest.raises(ValueError, match="zip"):
        GroupMark(None, (1,), 0).committed(("a", "b"))


def test_reports_travel() -> None:
    """And two reports do not share their lists."""
    report = TaskReport(stage=1, task=2, wrote=[3], counters={"n": 4})
    assert pickle.loads(pickle.dumps(report)) == report
    assert TaskReport(stage=0, task=0).ranges is not TaskReport(stage=0, task=0).ranges


def test_the_changelog_is_named_after_application_and_store() -> None:
    """As in Kafka Streams."""
    assert changelog_topic("app", "counts") == "app-counts-changelog"
