"""What an epoch record says of each key group of a program's stages."""

from __future__ import annotations

from mustela.plan.epoch import GroupMark
from mustela.plan.plan import Plan
from mustela.runtime.record.epoch_record import EpochRecord, GroupState

__all__ = ["marks_of"]


def marks_of(plan: Plan, record: EpochRecord) -> dict[int, tuple[GroupMark, ...]]:
    """Return the committed state of each key group, by stage.

    A stage that the record does not know has other stores than the application that runs: its
    stores are kept as of the last epoch, as a start of this program would.

    Args:
        plan: The program of the replica.
        record: The record, with the program's names of stores.
    """
    groups, none = record.key_groups, [0] * record.key_groups
    last = GroupState(record.incarnation, record.epoch, record.attempt, record.time_ms)
    found: dict[int, tuple[GroupMark, ...]] = {}
    for stage in plan.stages:
        if not stage.stores:
            continue
        columns = [record.changelog_ends.get(store, none) for store in stage.logged]
        ends = list(zip(*columns, strict=True)) if columns else [()] * groups
        wrote = record.groups.get(stage.identity) or [last if any(e) else None for e in ends]
        found[stage.index] = tuple(
            GroupMark(
                None if state is None else (state.incarnation, state.epoch, state.attempt),
                tuple(ends[group]),
                0 if state is None else state.time_ms,
            )
            for group, state in enumerate(wrote)
        )
    return found
