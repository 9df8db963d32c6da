"""What a host's copy of a changelog may be believed by, told by the log and not by clocks.

Changelogs carry the time at which the broker took each record. So the log itself says where the
records begin that are young enough for every deletion among them to be still there: a copy that has
read up to there has missed none, however wrong the clocks were when it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from mustela.clock import SystemClock
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.log import read_chunks
from mustela.connectors.kafka.reading_time import ReadingSince
from mustela.errors import EnvironmentFault, MustelaError
from mustela.model import TopicPartition
from mustela.plan.epoch import GroupMark, Program, changelog_topic
from mustela.plan.plan import Stage
from mustela.state.interfaces import Committed, Environment, EnvironmentSpec, StoreSpec
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.stored_value import StoredValueError

__all__ = [
    "ChangelogRowsLostError",
    "Copies",
    "check_lost",
    "has_every_deletion",
    "tell_place",
]

_AHEAD_MS = 3_600_000
"""How far ahead of the broker's clock the event time of a record may lie."""


_SOUGHT_MAX = 2_000_000
"""How many records of a partition are looked through for a row that cannot be read."""


class Copies(Protocol):
    """The copies of an application's state that a process of a host keeps.

    Attributes:
        watermark: A committed watermark, or -1.
        reading_since: By topic, partition and first offset, since when a changelog is fetched ahead
            of its restore.
    """

    watermark: int
    reading_since: dict[tuple[str, int, int], ReadingSince]

    @property
    def program(self) -> Program:
        """The application: its plan, its life, its clients."""
        ...

    @property
    def admin(self) -> KafkaAdmin:
        """Queries for the bounds and times of logs."""
        ...

    def environment(self, stage: int, group: int) -> LmdbEnvironment:
        """Return the open environment of one key group in one stage."""
        ...

    def environment_of(self, spec: EnvironmentSpec) -> LmdbEnvironment:
        """Return the open environment of a specification."""
        ...


class ChangelogRowsLostError(EnvironmentFault):
    """A changelog no longer holds rows that are to be restored from it."""

    code = "CHANGELOG_ROWS_LOST"


def has_every_deletion(process: Copies, environment: Environment, committed: Committed) -> bool:
    """Whether the changelogs still hold every deletion that a copy has not read yet.

    A store that has read nothing has no row that could be deleted. Of two clocks the later one
    counts: the copy seems older by it, and to read anew is never wrong.

    Args:
        process: Where the copies are kept.
        environment: The copy.
        committed: The committed state, which it is behind.
    """
    program, spec = process.program, environment.spec
    positions = environment.positions()
    now = max(SystemClock().now_ms(), committed.time_ms)
    reached: dict[tuple[str, int], int] = {}
    times: dict[tuple[str, int], int] = {}
    for store in spec.stores:
        topic = changelog_topic(program.application_id, store.log_name)
        position = positions.get(store.name, 0)
        age = program.stale_after_ms.get(topic) if store.logged else None
        if age is not None and 0 < position < committed.changelog_ends.get(store.name, 0):
            place = TopicPartition(topic, spec.group)
            reached[place], times[place] = position, now - age
    if not times:
        return True
    young = process.admin.offsets_for_times(times)
    return all(first is not None and first <= reached[place] for place, first in young.items())


def check_lost(
    process: Copies,
    spec: EnvironmentSpec,
    store: StoreSpec,
    committed: Committed,
    position: int,
    earliest: int,
) -> None:
    """Refuse to restore without rows that the broker has deleted and that may still count.

    Compaction never moves the beginning of a log. Retention does, by the broker's clock, and takes
    windows that event time has not closed where that stood still: while the application was down.
    A row is certainly of no use any more if the store has dropped, by the watermark, even windows
    of the time at which the broker took it, at the latest.

    Args:
        process: Where the copies are kept.
        spec: What is restored.
        store: The store whose changelog it is.
        committed: The committed state.
        position: The offset to read from.
        earliest: The first offset that is left.

    Raises:
        ChangelogRowsLostError: If a row that is gone may still count.
    """
    topic = changelog_topic(process.program.application_id, store.log_name)
    settings = process.admin.configs([topic])[topic]
    first = _first_left(process, (topic, spec.group), earliest, committed, store.name)
    if _dropped_by(process, store) > _taken_until(settings, first, committed.time_ms):
        return
    shown = {name: settings.get(name) for name in ("cleanup.policy", "retention.ms")}
    msg = f"rows of store {store.name!r} are lost: its changelog begins behind them"
    raise ChangelogRowsLostError(
        msg,
        evidence={
            "changelog": f"{topic}-{spec.group}",
            "begins at": earliest,
            "needed from": position,
            **shown,
        },
        why="the broker deleted them, by retention or by request, before event time had passed "
        "them, and this host has no copy: what would be restored is not what was committed",
        fix="start where state_dir still holds the state; or clear everything with: mustela reset"
        f" {process.program.application_id}; and give the topic a retention.ms longer than the "
        "application is ever down",
        fields={"store": store.name, "position": position, "earliest": earliest},
    )


def _dropped_by(process: Copies, store: StoreSpec) -> int:
    """Return the event time before which a store has dropped all; -1 if that is not known."""
    options = process.program.kernel
    by_watermark = options.get("event_time", "watermark") == "watermark"
    if not store.traits.by_age or store.retention_ms is None or not by_watermark:
        return -1
    return process.watermark - store.retention_ms - (store.window_ms or 0)


def _first_left(
    process: Copies, place: tuple[str, int], earliest: int, committed: Committed, store: str
) -> int | None:
    """Return when the broker took the first record that is left, None if there is none."""
    client, timeout = process.program.consumer, process.program.read_timeout
    end = committed.changelog_ends.get(store, 0)
    chunk = next(read_chunks(client, *place, earliest, end, timeout=timeout), None)
    return None if chunk is None else chunk.timestamps[0]


def _taken_until(settings: Mapping[str, str], first: int | None, written_ms: int) -> int:
    """Return an event time that no row that is gone has reached.

    Args:
        settings: The topic's settings.
        first: When the broker took the first record that is left.
        written_ms: When the key group was last written, by the driver's clock.
    """
    now = max(SystemClock().now_ms(), written_ms, first or 0)
    before = first if first is not None else written_ms or now
    retention = int(settings.get("retention.ms", "-1"))
    by_age = "delete" in settings.get("cleanup.policy", "") and retention >= 0
    if by_age and settings.get("retention.bytes", "-1") == "-1":
        before = min(before, now - retention)
    return before + _AHEAD_MS


def tell_place(
    process: Copies, stage: Stage, marks: Sequence[GroupMark], error: StoredValueError
) -> None:
    """Add to an error about a stored row where its changelog has the row, if that can be found.

    Args:
        process: Where the copies are kept.
        stage: Where the store lives.
        marks: What is committed of each key group.
        error: Names the store, the bytes and, where it is known, the key.
    """
    name, key, data = (error.fields.get(field) for field in ("store", "key", "data"))
    store = next((spec for spec in stage.stores if spec.name == name and spec.logged), None)
    if store is None or not isinstance(data, bytes) or not (data or key):
        return
    topic = changelog_topic(process.program.application_id, store.log_name)
    with suppress(MustelaError):  # the row cannot be read, whether its place is found or not
        for group, mark in enumerate(marks):
            end = mark.committed(stage.logged).changelog_ends.get(store.name, 0)
            offset = _last_with(process, (topic, group, end), key, data)
            if offset is not None:
                error.evidence["changelog"] = f"{topic}-{group}, offset {offset}"
                error.fields |= {"topic": topic, "partition": group, "offset": offset}
                return


def _last_with(
    process: Copies, place: tuple[str, int, int], key: bytes | None, data: bytes
) -> int | None:
    """Return the offset of the last record that holds bytes, and a key, before an offset."""
    topic, partition, end = place
    client, timeout = process.program.consumer, process.program.read_timeout
    start = max(0, end - _SOUGHT_MAX)
    last: int | None = None
    for chunk in read_chunks(client, topic, partition, start, end, timeout=timeout, bare=True):
        for offset, found, row in zip(chunk.offsets, chunk.keys, chunk.values, strict=True):
            if found is None or (key is not None and key not in found):
                continue
            last = offset if row is not None and data in row else last
    return last
