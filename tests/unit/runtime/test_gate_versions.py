"""The gate: versions of a store's rows, and the upgrades that a program has."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mustela.api.join_windows import JoinWindows, StreamJoined
from mustela.api.joined import Joined
from mustela.api.options import Materialized
from mustela.api.stores import Stores
from mustela.api.suppression import BufferConfig, Suppressed
from mustela.api.upgrades import Upgrade
from mustela.api.windows import TimeWindows
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.repairs.upgrading import upgraded, upgrades_of
from tests.unit.runtime.fakes import FakeAdmin
from tests.unit.runtime.test_gate import Program, Runs, counting, dropped, held


@pytest.fixture(name="runs")
def _runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path, FakeAdmin({"lines": 1, "more": 1}))


def priced(value: Any, version: int = 1, upgrade: Any = None) -> Program:
    def build(builder: StreamsBuilder) -> None:
        kept = Materialized[str, Any](store="prices", version=version, upgrade=upgrade)
        builder.table("lines", key=str, value=value, materialized=kept)

    return build


FROM_1 = Upgrade(value=float, by=str)
FROM_2 = Upgrade(value=str, by=int)


def test_a_version_that_rises_with_an_upgrade_goes_on_and_is_said(runs: Runs) -> None:
    """Rows of each older version may be there from then on: each needs its upgrade."""
    runs.run(priced(float))
    runs.run(priced(str, 2, FROM_1))
    assert runs.heard("'prices' goes on from version 1 to version 2")
    runs.said.clear()
    runs.run(priced(str, 2, FROM_1))
    assert not runs.heard("goes on from version")
    error = runs.refused(priced(int, 3, FROM_2), "STORE_NOT_UPGRADED")
    assert "rows of version 1" in error.evidence["prices"]
    runs.run(priced(int, 3, {1: FROM_1, 2: FROM_2}))
    assert runs.record is not None
    older = runs.record.stores["prices"].meaning["older"]
    assert [(version, value) for version, value, _ in older] == [(1, "float"), (2, "str")]


@pytest.mark.parametrize("upgrade", [None, Upgrade(value=int, by=str)])
def test_a_version_that_rises_without_the_upgrade_of_its_rows_is_refused(
    runs: Runs, upgrade: Any
) -> None:
    """Without any, and with one that reads another type than the rows are of."""
    runs.run(priced(float))
    runs.refused(priced(str, 2, upgrade), "STORE_NOT_UPGRADED")
    runs.start(priced(float))


def test_an_upgrade_that_is_taken_away_while_old_rows_may_be_there_is_refused(runs: Runs) -> None:
    """Nobody knows that there are none."""
    runs.run(priced(float))
    runs.run(priced(str, 2, FROM_1))
    runs.refused(priced(str, 2), "STORE_NOT_UPGRADED")


def test_a_version_that_falls_is_refused_and_a_rollback_is_a_version_of_its_own(
    runs: Runs,
) -> None:
    """The advice of the stop is followed: the old type comes back as the next version."""
    runs.run(priced(float))
    runs.run(priced(str, 2, FROM_1))
    error = runs.refused(priced(float), "STORE_VERSION_FALLEN")
    assert "undo the change with another version" in (error.fix or "")
    runs.run(priced(float, 3, {1: FROM_1, 2: Upgrade(value=str, by=float)}))


def test_a_store_that_begins_with_a_later_version_has_no_older_rows(runs: Runs) -> None:
    """So its upgrades may be taken away at any time."""
    runs.run(priced(str, 2, FROM_1))
    runs.run(priced(str, 2))
    runs.refused(priced(str), "STORE_VERSION_FALLEN")


def test_another_type_without_a_version_is_refused_and_offered_an_upgrade(runs: Runs) -> None:
    """The advice is followed."""
    runs.run(priced(float))
    error = runs.refused(priced(str), "STORE_MEANING_CHANGED")
    assert "Materialized(version=2, upgrade=Upgrade(" in (error.fix or "")
    runs.run(priced(str, 2, FROM_1))


def windows(grace: int, retention: int | None = None) -> Program:
    def build(builder: StreamsBuilder) -> None:
        lines = builder.stream("lines", key=str, value=str)
        span = TimeWindows(size=timedelta(seconds=60), grace=timedelta(seconds=grace))
        kept = Materialized[str, int](
            store="counts", retention=None if retention is None else timedelta(seconds=retention)
        )
        lines.group_by_key().windowed_by(span).count(materialized=kept)

    return build


def test_a_longer_grace_says_that_dropped_windows_may_begin_again(runs: Runs) -> None:
    """But not where their rows were kept for long enough."""
    runs.run(windows(0))
    runs.run(windows(30))
    assert runs.heard("'counts' accepts later records than before, with a grace of 30000 ms")


def test_a_longer_grace_over_rows_that_were_kept_is_nothing_to_fear(runs: Runs) -> None:
    """So a longer retention, one release before the longer grace, loses nothing."""
    runs.run(windows(0, 600))
    runs.run(windows(30, 600))
    assert not runs.heard("accepts later records")
    assert runs.heard("grace_ms 0 ms becomes 30000 ms")


def test_a_store_that_was_dropped_needs_a_changelog(runs: Runs) -> None:
    """Without one nothing would tell its old local state from its new."""
    runs.run(counting())
    dropped(runs, "counts", counting())
    unlogged = counting(logged=False)
    runs.refused(unlogged, "STORE_DROPPED")
    runs.run(counting())
    runs.refused(unlogged, "STORE_DROPPED")
    runs.run(counting(store="counted", logged=False))


def test_parked_calls_have_no_versions_and_another_step_begins_without_them(runs: Runs) -> None:
    """As the guide says: let them come to their end, and give the step another name."""

    def called(value: Any, name: str) -> Program:
        def build(builder: StreamsBuilder) -> None:
            lines = builder.stream("lines", key=str, value=value)
            lines.map_values_async(asked, name=name, value=str).to("more")

        return build

    runs.run(called(float, "ask"))
    error = runs.refused(called(str, "ask"), "STORE_MEANING_CHANGED")
    assert error.fields["store"] == "ask.parked"
    runs.run(called(str, "ask-text"))
    assert runs.heard("no step of the program uses the store 'ask.parked' any more")


async def asked(value: Any) -> str:
    return str(value)


def held_back(value: Any, version: int = 1, upgrade: Any = None) -> Program:
    def build(builder: StreamsBuilder) -> None:
        kept = Materialized[str, Any](store="prices", version=version, upgrade=upgrade)
        prices = builder.table("lines", key=str, value=value, materialized=kept)
        rare = Suppressed.until_time_limit(
            timedelta(seconds=5), BufferConfig.unbounded(), name="held"
        )
        prices.suppress(rare)

    return build


def joined(value: Any, version: int = 1, upgrade: Any = None) -> Program:
    """Keep the records of both streams, each with its own versions."""

    def build(builder: StreamsBuilder) -> None:
        one = builder.stream("lines", key=str, value=value)
        other = builder.stream("more", key=str, value=value)
        near = JoinWindows.of_time_difference(timedelta(hours=1), grace=timedelta(0))
        kept = StreamJoined[str, Any, Any](
            name="near",
            store="near",
            version=version,
            upgrade=upgrade,
            other_version=version,
            other_upgrade=upgrade,
        )
        one.join(other, lambda mine, _: mine, windows=near, stream_joined=kept).to(
            "out", key=str, value=value
        )

    return build


def awaiting(value: Any, version: int = 1, upgrade: Any = None) -> Program:
    """Let records wait until a table has come to their time."""

    def build(builder: StreamsBuilder) -> None:
        history = Stores.persistent_versioned_key_value_store("history", timedelta(days=9))
        table = builder.table(
            "more", key=str, value=str, materialized=Materialized(supplier=history)
        )
        waits = Joined[str, Any, str](
            name="met", grace=timedelta(seconds=5), version=version, upgrade=upgrade
        )
        lines = builder.stream("lines", key=str, value=value)
        lines.join(table, lambda mine, _: mine, joined=waits).to("out", key=str, value=value)

    return build


@pytest.mark.parametrize(
    ("program", "jobs", "waiting"),
    [
        (held_back, ["prices"], ["held"]),
        (joined, [], ["near-other-join-store", "near-this-join-store"]),
        (awaiting, [], ["met.buffer"]),
    ],
)
def test_the_job_leaves_what_waits_and_its_upgrade_has_to_stay(
    runs: Runs, program: Any, jobs: list[str], waiting: list[str]
) -> None:
    """It says so of each such store, and a program without the upgrade is stopped."""
    runs.admin.partitions["out"] = 1
    runs.run(program(float))
    runs.run(program(str, 2, FROM_1))
    assert runs.record is not None
    plan = runs.plan_of(program(str, 2, FROM_1))
    found, left = upgrades_of(runs.record, plan, "app", None)
    assert [job.store for job in found] == jobs
    assert all("its upgrades have to stay" in text for text in left)
    assert sorted(text.split()[1].rstrip(":") for text in left) == waiting
    for job in found:
        runs.record = upgraded(runs.record, job, now_ms=7)
    error = runs.refused(program(str, 2), "STORE_NOT_UPGRADED")
    assert error.fields["store"] in waiting
    runs.run(program(str, 2, FROM_1))


BOTH_WAYS = Upgrade(value=float, by=str, back=float)


def test_a_version_that_is_held_leaves_the_way_back_until_it_is_released(runs: Runs) -> None:
    """Once it is released it cannot be held any more, which is said before anything is written."""
    runs.run(priced(float))
    runs.run(held(priced(str, 2, BOTH_WAYS)), hold_format=True)
    assert not runs.heard("goes on from version")
    runs.run(priced(float))
    runs.run(held(priced(str, 2, BOTH_WAYS)), hold_format=True)
    runs.run(priced(str, 2, BOTH_WAYS))
    assert runs.heard("'prices' goes on from version 1 to version 2")
    runs.refused(priced(float), "STORE_VERSION_FALLEN")
    held_again = held(priced(str, 2, BOTH_WAYS))
    error = runs.refused(held_again, "FORMAT_NOT_HELD", hold_format=True)
    assert "rows of version 2 are there already" in str(error)


def without_stores(builder: StreamsBuilder) -> None:
    """Only pass on what comes."""
    builder.stream("lines", key=str, value=str).to("more")


@pytest.mark.parametrize("program", [priced(str, 2, FROM_1), without_stores])
def test_what_cannot_be_held_is_refused_by_name(runs: Runs, program: Program) -> None:
    """An upgrade without a way back, and a store that is left out; the old program goes on."""
    runs.run(priced(float))
    error = runs.refused(held(program), "FORMAT_NOT_HELD", hold_format=True)
    assert "store 'prices'" in str(error)
    runs.run(priced(float))
