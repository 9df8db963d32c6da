"""How many key groups an application has, where its settings leave that open."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.errors import MustelaError
from mustela.runtime.record.epoch_record import (
    EpochRecord,
    decode_epoch_record,
    encode_epoch_record,
)
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.topics.key_groups import first_key_groups
from tests.unit.runtime.fakes import FakeAdmin, world_of
from tests.unit.runtime.plans import settings_for, word_count_plan

CHANGELOG = "app-counts-changelog"


def silent(home: Path, **code: Any) -> Any:
    return settings_for(home, **{"key_groups": None, **code})


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ({"spark": {"spark.master": "local[1]"}}, 8),
        ({"spark": {"spark.master": "local"}}, 8),
        ({"spark": {"spark.master": "local[2,4]"}}, 8),
        ({"spark": {"spark.master": "local[3]"}}, 16),
        ({"spark": {"spark.master": "local[8]"}}, 32),
        ({"spark": {"spark.master": "local[40]"}}, 64),
        ({"spark": {"spark.master": "local[2]"}, "lanes": 5}, 32),
        ({"spark": {"spark.master": "local[2]"}, "lanes": 100}, 128),
        ({"spark": {"spark.master": "spark://host:7077"}}, 32),
        ({"spark": {"spark.master": "yarn"}, "lanes": 33}, 64),
        ({"spark": {"spark.master": "local[2]"}, "key_groups": 2}, 2),
    ],
)
def test_a_first_start_takes_four_for_each_core(
    tmp_path: Path, code: dict[str, Any], wanted: int
) -> None:
    """From 8 to 32, at least one for each lane; a cluster's cores may still come."""
    assert first_key_groups(silent(tmp_path, **code)) == wanted


def test_whose_session_it_is_decides_whether_the_cores_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A joined session's master, and a submitter's, are not in the settings."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    settings = silent(tmp_path)
    assert first_key_groups(settings) == 8
    assert first_key_groups(settings, joined=True) == 32
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert first_key_groups(settings) == 32
    assert first_key_groups(silent(tmp_path, spark={"spark.master": "local[2]"})) == 8


def started(
    home: Path, admin: FakeAdmin, record: EpochRecord | None = None, *, first: int, **code: Any
) -> EpochRecord:
    """Start on a host that would begin with so many key groups; return what the claim says."""
    records = [record] if record else []
    world = replace(world_of(admin, *records, clock=ManualClock(60_000)), first_key_groups=first)
    recovery = Recovery(silent(home, **code), word_count_plan(), world)
    recovery.examine()
    recovery.ensure_topics()
    state = recovery.next_claim(lanes=1)
    return decode_epoch_record(encode_epoch_record(state.to_record(1)))


def test_the_number_of_the_first_start_is_kept_on_every_other_host(tmp_path: Path) -> None:
    """A host with more cores, or with none that are known, goes on with the same groups."""
    admin = FakeAdmin({"lines": 2, "counts": 1})
    record = started(tmp_path, admin, first=8)
    assert record.key_groups == 8
    assert admin.partitions[CHANGELOG] == 8
    again = started(tmp_path, admin, record, first=32)
    assert again.key_groups == 8
    with pytest.raises(MustelaError, match="key_groups is 32, the state was made with 8"):
        started(tmp_path, admin, record, first=8, key_groups=32)


def test_a_first_start_that_broke_off_has_chosen_already(tmp_path: Path) -> None:
    """Its changelogs are there, but no record: another host goes on with their number."""
    admin = FakeAdmin({"lines": 2, "counts": 1, CHANGELOG: 16})
    assert started(tmp_path, admin, first=8).key_groups == 16
