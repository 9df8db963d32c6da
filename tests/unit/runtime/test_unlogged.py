"""Who says that the rows of a store without a changelog are lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mustela.api.options import Materialized
from mustela.dsl.builder import StreamsBuilder
from mustela.plan.epoch import TaskReport
from mustela.plan.plan import Plan
from mustela.planner.planner import plan
from mustela.runtime.record.epoch_record import GroupState
from mustela.runtime.start.unlogged import UnloggedStores
from tests.unit.runtime.plans import begun_from


def counting(*, logged: bool) -> Plan:
    builder = StreamsBuilder()
    grouped = builder.stream("lines", key=str, value=str).group_by_key()
    grouped.count(materialized=Materialized(store="counts", logged=logged))
    return plan(builder.build())


def said_of(program: Plan, *, wrote: bool) -> tuple[UnloggedStores, list[str]]:
    """Begin a run behind a record whose epochs wrote the store, or not."""
    state = begun_from(program, None)
    last = GroupState(1, 1, 0, 5) if wrote else None
    record = replace(state, groups={stage: [last] * 4 for stage in state.groups}).to_record(1)
    said: list[str] = []
    stores = UnloggedStores(program, said.append)
    stores.begin(record)
    return stores, said


@pytest.mark.parametrize(("logged", "wrote"), [(False, True), (False, False), (True, True)])
def test_a_start_names_a_store_without_a_changelog_that_had_rows(
    *, logged: bool, wrote: bool
) -> None:
    """Not one that is new beside stores that are restored, and not one that has a changelog."""
    stores, said = said_of(counting(logged=logged), wrote=wrote)
    stores.restored({"counts": 0, "other": 7})
    assert len(said) == (wrote and not logged)
    assert all("store 'counts' are lost" in text for text in said)


def test_while_it_runs_each_such_restore_is_a_loss() -> None:
    """Also of a store that had no rows at the start."""
    stores, said = said_of(counting(logged=False), wrote=False)
    stores.restored({})
    stores.lost([TaskReport(stage=1, task=0, restored={"other": 1})])
    assert not said
    stores.lost([TaskReport(stage=1, task=0, restored={"counts": 0})])
    assert len(said) == 1
