"""Copies of key groups, brought to what was committed by what their changelogs hold."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final

from mustela.connectors.kafka.changelogs import Copies, check_lost, has_every_deletion
from mustela.connectors.kafka.log import read_between
from mustela.connectors.kafka.ranges import RangeReader
from mustela.connectors.kafka.reading_time import ReadingSince, RestoreTooSlowError, in_time
from mustela.errors import InvariantError
from mustela.faultpoints import reach
from mustela.plan.epoch import Program, changelog_topic
from mustela.processes import collection_paused
from mustela.state.faults import StateDamagedError, StateNotReadyError
from mustela.state.interfaces import (
    Committed,
    Condition,
    Environment,
    EnvironmentSpec,
    Snapshot,
    StoreSpec,
)
from mustela.state.locking import WriteLock

__all__ = [
    "StateAheadError",
    "end_reading",
    "make_current",
    "open_current",
    "read_ahead",
]


class StateAheadError(InvariantError):
    """Local state holds an epoch that the epochs topic does not contain."""

    code = "STATE_AHEAD"


_RESTORE_TIMEOUT_MS: Final = 3_600_000
"""How long a task waits while another one of its host restores what both want."""


_RESTORE_FETCH: Final = {
    # A changelog is read to its end: large fetches waste nothing, and a whole key group of a usual
    # size is fetched while another one is written.
    "max.partition.fetch.bytes": str(4 << 20),
    "queued.min.messages": "100000",
}
"""What a restore fetches at once, unless the settings say otherwise."""

_AHEAD_WAIT_MS: Final = 20

_TRIES: Final = 5
"""How often a task restores a key group that it then does not find."""


def make_current(
    process: Copies, stage: int, group: int, committed: Committed
) -> tuple[Environment, dict[str, int]]:
    """Bring one environment to the committed state.

    The lane that owns the key group and tasks that only read it may want that at once: one of them
    restores, and the others wait.

    Args:
        process: Where the copies are kept.
        stage: The stage.
        group: The key group.
        committed: The committed state.

    Returns:
        The environment, and the number of changelog records that were read, by store; 0 for one
        that has no changelog, and lost rows.

    Raises:
        StateAheadError: If the environment is ahead of the epochs topic.
    """
    environment = process.environment(stage, group)
    if environment.condition(committed).ready:
        return environment, {}
    path = environment.path
    with WriteLock(path.with_name(f"{path.name}.restore"), _RESTORE_TIMEOUT_MS).held():
        return environment, _restore(process, environment, committed)


def open_current(
    process: Copies, stage: int, group: int, committed: Committed, restored: dict[str, int]
) -> tuple[Environment, Snapshot]:
    """Bring one environment to the committed state, and open a view of it.

    Between the two it can be lost again: another task finds it damaged, or somebody deletes it.

    Args:
        process: Where the copies are kept.
        stage: The stage.
        group: The key group.
        committed: The committed state.
        restored: Takes the number of records that were read from changelogs, by store.
    """
    with suppress(StateNotReadyError, StateDamagedError):  # nearly always it is current
        environment = process.environment(stage, group)
        return environment, environment.snapshot(committed)
    tries = _TRIES
    while True:
        environment, read = make_current(process, stage, group, committed)
        for store, count in read.items():
            restored[store] = restored.get(store, 0) + count
        try:
            return environment, environment.snapshot(committed)
        except StateNotReadyError:
            tries -= 1
            if not tries:
                raise


def _restore(process: Copies, environment: Environment, committed: Committed) -> dict[str, int]:
    """Restore an environment, unless another task has done so."""
    condition = environment.condition(committed)
    if condition.ready:
        return {}
    if condition is Condition.AHEAD:
        spec = environment.spec
        msg = (
            f"the state of key group {spec.group} in stage {spec.stage} is ahead of the last epoch"
        )
        raise StateAheadError(
            msg,
            evidence={"committed": committed.token},
            why="the epochs topic lost records, or the state belongs to a run on another cluster",
            fix="clear the application's state and internal topics with: mustela reset"
            f" {process.program.application_id}",
        )
    late = condition is Condition.BEHIND and not has_every_deletion(process, environment, committed)
    if late or not condition.catches_up:
        environment.destroy()
    return _catch_up(process, environment, committed) | _lost(environment.spec, committed)


def _lost(spec: EnvironmentSpec, committed: Committed) -> dict[str, int]:
    """Return the stores that cannot be restored, because only the local copy had their rows."""
    if committed.token is None:  # there were none yet
        return {}
    return {store.name: 0 for store in spec.stores if not store.logged}


def read_ahead(process: Copies, stage: int, group: int, committed: Committed) -> None:
    """Begin to fetch what a key group will be restored from, while another one is restored."""
    spec = process.program.environment(stage, group)
    environment = process.environment_of(spec)
    condition = environment.condition(committed)
    if condition.ready:
        return
    positions = environment.positions() if condition.catches_up else {}
    for store in spec.stores:
        start = positions.get(store.name, 0)
        if store.logged and start < committed.changelog_ends.get(store.name, 0):
            topic = changelog_topic(process.program.application_id, store.log_name)
            process.reading_since.setdefault((topic, group, start), ReadingSince.now())
            _restore_reader(process).ahead(topic, group, start)
            return


def end_reading(process: Copies) -> None:
    """Stop what was sent ahead and found nobody to read it."""
    process.reading_since.clear()
    _restore_reader(process).drop_ahead()


def _restore_reader(process: Copies) -> RangeReader:
    program = process.program
    return RangeReader.shared(_restore_client(program), read_timeout=program.read_timeout)


def _restore_client(program: Program) -> dict[str, Any]:
    """Return the properties of consumers that restore.

    One that has fetched ahead to the end of its log waits there at the broker, not in a loop.
    """
    return {**_RESTORE_FETCH, **program.consumer, "fetch.wait.max.ms": str(_AHEAD_WAIT_MS)}


def _catch_up(process: Copies, environment: Environment, committed: Committed) -> dict[str, int]:
    """Read the changelogs from where the environment is to the committed ends."""
    reach("in-recovery")
    read: dict[str, int] = {}
    positions = environment.positions()
    for store in environment.spec.stores:
        if not store.logged:
            continue
        start, goes_on = positions.get(store.name, 0), bool(read)
        try:
            read[store.name] = _read(process, environment, store, committed, start, goes_on=goes_on)
        except RestoreTooSlowError:
            # It may have stood still meanwhile: what was read goes, and it is read once more.
            read[store.name] = _read(process, environment, store, committed, 0, goes_on=goes_on)
    environment.finish_restore(committed)
    return read


def _read(
    process: Copies,
    environment: Environment,
    store: StoreSpec,
    committed: Committed,
    start: int,
    *,
    goes_on: bool,
) -> int:
    """Read the changelog of one store from an offset to its committed end; return the records.

    Raises:
        RestoreTooSlowError: If it took so long that deletions may have been missed; the store has
            no position from that.
    """
    program, spec, token = process.program, environment.spec, committed.token
    end = committed.changelog_ends.get(store.name, 0)
    topic = changelog_topic(program.application_id, store.log_name)
    since = process.reading_since.pop((topic, spec.group, start), None) or ReadingSince.now()
    longest_ms = program.stale_after_ms.get(topic)
    counts: list[int] = []
    rows = read_between(
        _restore_client(program),
        topic,
        spec.group,
        start,
        end,
        timeout=program.read_timeout,
        on_chunk=counts.append,
        on_lost=partial(check_lost, process, spec, store, committed),
    )
    with collection_paused():
        environment.restore(
            store.name,
            in_time(rows, store.name, (topic, spec.group), since, longest_ms),
            end,
            start=start,
            goes_on=goes_on,
            anew=not start,
            incarnation=None if token is None else token.incarnation,
            time_ms=committed.time_ms,
        )
    return sum(counts)
