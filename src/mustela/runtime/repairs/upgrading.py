"""Rewrites rows of older versions in the changelogs of a stopped application.

Local state follows its changelog: a key group whose copy lags reads what was written since. So only
changelogs and the epoch record are written, in transactions of bounded size, each of which leaves a
state that an application can continue from. The rows show what is done, so that an interrupted job
can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import msgspec

from mustela.errors import UsageError
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.record.epoch_record import EpochRecord, GroupState, StoreState
from mustela.runtime.repairs.dropping import NoSuchStoreError
from mustela.serdes.row_versions import UpgradingSerde, version_of
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.values import with_values
from mustela.topology.meaning_changes import compare_meanings
from mustela.topology.store_meaning import StoreMeaning

__all__ = [
    "ROWS_MAX",
    "LogRow",
    "StateNotUpgradedError",
    "Upgrading",
    "imported_into",
    "in_parts",
    "is_old",
    "old_rows",
    "rewritten",
    "upgraded",
    "upgrades_of",
    "written",
]

ROWS_MAX: Final = 5_000
"""The maximum number of rows that one transaction rewrites."""

LogRow = tuple[int, bytes, bytes | None]
"""Offset, key and row of a changelog's record."""


class StateNotUpgradedError(UsageError):
    """The rows of a store cannot be rewritten."""

    code = "STATE_UPGRADE_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrading:
    """A store whose older rows will be rewritten.

    Attributes:
        store: Its name in the record.
        spec: The store in the program.
        stage: Identity of its stage.
        topic: Its changelog.
        versions: The older versions that rows may have.
        meaning: The meaning of its rows afterwards.
    """

    store: str
    spec: StoreSpec
    stage: str
    topic: str
    versions: tuple[int, ...]
    meaning: Mapping[str, Any]


def upgrades_of(
    record: EpochRecord, plan: Plan, application_id: str, only: str | None
) -> tuple[list[Upgrading], list[str]]:
    """Return the stores to rewrite, and messages about those that are not rewritten.

    Args:
        record: The last epoch record.
        plan: The program.
        application_id: The application.
        only: The only store to upgrade; None for all.

    Raises:
        UnknownStoreError: If the program has no such store.
        StateNotUpgradedError: If rows of a store cannot be read, or rows in local state would be
            lost.
    """
    if only is not None and only not in plan.stores:
        msg = f"{application_id} has no store {only!r} in its program"
        fix = f"its stores are {', '.join(plan.stores)}" if plan.stores else "there is none"
        raise NoSuchStoreError(msg, fix=fix, fields={"store": only})
    found: list[Upgrading] = []
    left: list[str] = []
    for name, (index, spec) in plan.stores.items():
        state = record.stores.get(spec.log_name)
        if only not in (None, name) or state is None or not state.meaning:
            continue
        stage = plan.stages[index]
        then, now = StoreMeaning.from_dict(state.meaning), plan.meanings[name]
        versions = [old.version for old in then.older]
        versions += [then.version] if then.version < now.version else []
        if not versions or not any(record.changelog_ends.get(spec.log_name, ())):
            continue
        _check(name, then, now)
        if spec.traits.values is None:
            left.append(
                f"leave {name}: rows waiting there are upgraded when they are emitted, so its "
                "upgrades have to stay in the program"
            )
            continue
        _check_local(name, [store for store in stage.stores if not store.logged])
        meaning = replace(
            then, version=now.version, value=now.value, value_shape=now.value_shape, older=()
        )
        found.append(
            Upgrading(
                store=spec.log_name,
                spec=spec,
                stage=stage.identity,
                topic=changelog_topic(application_id, spec.log_name),
                versions=tuple(versions),
                meaning=meaning.as_dict(),
            )
        )
    return found, left


def _check(store: str, then: StoreMeaning, now: StoreMeaning) -> None:
    wrong = [change for change in compare_meanings(then, now) if not change.compatible]
    if wrong:
        msg = f"the rows of store {store!r} cannot be read by this program"
        raise StateNotUpgradedError(
            msg,
            evidence={wrong[0].field: f"{wrong[0].then}, now {wrong[0].now}"},
            why=wrong[0].why,
            fix="mustela check MODULE:APP shows what a start would do, and how to continue",
            fields={"store": store},
        )


def _check_local(store: str, unlogged: list[StoreSpec]) -> None:
    if not unlogged:
        return
    names = ", ".join(f"'{one.name}'" for one in unlogged)
    msg = f"store {store!r} cannot be rewritten beside {names}, without a changelog"
    raise StateNotUpgradedError(
        msg,
        why="the job writes changelogs, which local state then follows; rows that exist only in "
        "local state could be lost",
        fix="keep the upgrades in the program: each row is upgraded when it is read",
        fields={"store": store, "beside": [one.name for one in unlogged]},
    )


def old_rows(job: Upgrading, read: Callable[[], Iterator[LogRow]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and new rows for the rows of older versions in a changelog partition.

    Only the newest row of a key counts. The log is read twice, so that no more than the keys of
    old rows are held in memory.

    Args:
        job: The store.
        read: Reads the partition from its start.
    """
    last: dict[bytes, int] = {}
    for offset, key, row in read():
        if row is not None and is_old(job.spec, key, row):
            last[key] = offset
        else:
            last.pop(key, None)
    if last:
        for offset, key, row in read():
            if row is not None and last.get(key) == offset:
                yield key, rewritten(job.spec, key, row)


def is_old(spec: StoreSpec, key: bytes, row: bytes) -> bool:
    """Return whether a row holds a value of an older version."""
    assert spec.row_versions is not None, spec.name
    newest, found = spec.row_versions.written, False

    def look(value: bytes) -> bytes:
        nonlocal found
        found = found or version_of(value) != newest
        return value

    with_values(spec, key, row, look)
    return found


def rewritten(spec: StoreSpec, key: bytes, row: bytes) -> bytes:
    """Return a row with all of its values in the newest version.

    Raises:
        SerdeError: If one cannot be read, or its upgrade fails.
    """
    serde = spec.rows_of(spec.value_serde or ValueSerde())
    assert isinstance(serde, UpgradingSerde), spec.name

    def change(value: bytes) -> bytes:
        data = serde.serialize(serde.deserialize(value))
        assert data is not None, "an upgrade never gives None"
        return data

    return with_values(spec, key, row, change)


def in_parts(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield rows in lists that each fit into a transaction."""
    while part := list(islice(rows, ROWS_MAX)):
        yield part


def written(
    record: EpochRecord, job: Upgrading, group: int, end: int, *, now_ms: int
) -> EpochRecord:
    """Return the record after a transaction that wrote rows of a key group."""
    incarnation = record.incarnation + 1
    ends = list(record.changelog_ends[job.store])
    ends[group] = end
    groups = dict(record.groups)
    if job.stage in groups:
        states = list(groups[job.stage])
        states[group] = GroupState(incarnation, record.epoch, record.attempt, now_ms)
        groups[job.stage] = states
    return msgspec.structs.replace(
        record,
        incarnation=incarnation,
        time_ms=now_ms,
        groups=groups,
        changelog_ends={**record.changelog_ends, job.store: ends},
    )


def imported_into(
    record: EpochRecord, store: str, stage: str, ends: Mapping[int, int], *, now_ms: int
) -> EpochRecord:
    """Return the record of the epoch that a transaction with rows of some key groups is.

    Args:
        record: The record before.
        store: The store's name in it.
        stage: Identity of its stage.
        ends: The new end of each changelog partition that was written.
        now_ms: The time.
    """
    incarnation = record.incarnation + 1
    groups, found = dict(record.groups), list(record.changelog_ends[store])
    states = list(groups.get(stage) or [None] * record.key_groups)
    for group, end in ends.items():
        found[group] = end
        states[group] = GroupState(incarnation, record.epoch + 1, 0, now_ms)
    return msgspec.structs.replace(
        record,
        incarnation=incarnation,
        epoch=record.epoch + 1,
        attempt=0,
        time_ms=now_ms,
        groups={**groups, stage: states},
        changelog_ends={**record.changelog_ends, store: found},
    )


def upgraded(record: EpochRecord, job: Upgrading, *, now_ms: int) -> EpochRecord:
    """Return the record that says that a store has no rows of older versions."""
    was: StoreState = record.stores[job.store]
    state = msgspec.structs.replace(was, meaning=dict(job.meaning))
    return msgspec.structs.replace(
        record,
        incarnation=record.incarnation + 1,
        time_ms=now_ms,
        stores={**record.stores, job.store: state},
    )
