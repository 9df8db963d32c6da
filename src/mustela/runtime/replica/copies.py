"""The copies of key groups that a replica keeps, and how they follow their changelogs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.copies import make_current
from mustela.connectors.kafka.errors import OffsetOutOfRange
from mustela.connectors.kafka.reading_time import ReadingSince
from mustela.connectors.kafka.tail import TailRow
from mustela.faultpoints import reach
from mustela.model import TopicPartition
from mustela.plan.epoch import GroupMark, Program, changelog_topic
from mustela.plan.plan import Stage
from mustela.processes import boot_id
from mustela.runtime.replica.gathered import GatheredChanges
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions
from mustela.state.registry import EnvironmentRegistry

__all__ = ["ROWS_MAX", "ReplicaCopies", "Tail", "distance"]

ROWS_MAX = 100_000
"""How many offsets of changelogs are held in memory to go from one epoch to another.

Where there are more, key groups are restored in bulk.
"""


class Tail(Protocol):
    """Follows logs; see `mustela.connectors.kafka.tail`."""

    def follow(self, starts: Mapping[TopicPartition, int]) -> None:
        """Follow logs from given offsets."""
        ...

    def take(self, place: TopicPartition, end: int) -> Sequence[TailRow]:
        """Return the rows of a followed log before an offset."""
        ...

    def close(self) -> None:
        """Follow nothing any more."""
        ...


class ReplicaCopies:
    """The copies of one application's key groups in this process.

    Args:
        program: The application, as its last record describes it.
        admin: Queries for the bounds and times of logs.
        tail: Follows changelogs.
        before_bulk: Called before a key group cannot be read for a while.
        gathered: Takes what key groups are changed by.

    Attributes:
        watermark: The committed watermark, or -1.
        reading_since: Nothing is fetched ahead here.
    """

    def __init__(
        self,
        program: Program,
        admin: KafkaAdmin,
        tail: Tail,
        before_bulk: Callable[[], None] = lambda: None,
        gathered: GatheredChanges | None = None,
    ) -> None:
        self.program = program
        self.admin = admin
        self.watermark = -1
        self.reading_since: dict[tuple[str, int, int], ReadingSince] = {}
        self._tail = tail
        self._before_bulk = before_bulk
        self._gathered = gathered or GatheredChanges()
        saved = program.saved_dir
        options = LmdbOptions(map_bytes=program.map_size, saved_in=Path(saved) if saved else None)
        boot = boot_id() or f"replica {program.identity}"
        # Snapshots of all key groups are open at a time, so that none may be closed to make room.
        groups = program.key_groups * len(program.plan.stages)
        self._registry = EnvironmentRegistry(
            Path(program.state_dir), options=options, boot=boot, open_max=max(256, groups)
        )

    def environment(self, stage: int, group: int) -> LmdbEnvironment:
        """Return the open environment of one key group in one stage."""
        return self._registry.get(self.program.environment(stage, group))

    def environment_of(self, spec: EnvironmentSpec) -> LmdbEnvironment:
        """Return the open environment of a specification."""
        return self._registry.get(spec)

    def snapshot(self, stage: Stage, group: int, mark: GroupMark) -> Snapshot:
        """Open a view of a key group as of a mark.

        Raises:
            StateNotReadyError: If it has moved on since, or is not there yet.
        """
        return self.environment(stage.index, group).snapshot(mark.committed(stage.logged))

    def close(self, *, clean: bool) -> None:
        """Close the copies; ``clean`` syncs them and marks them clean."""
        self._registry.close_all(clean=clean)

    def bring(
        self,
        stage: Stage,
        group: int,
        old: GroupMark | None,
        new: GroupMark,
        markers: Collection[tuple[int, ...]] = (),
    ) -> bool:
        """Bring a key group to a newer mark.

        Args:
            stage: Its stage.
            group: The key group.
            old: Where this process brought it before, if it did.
            new: Where it shall be.
            markers: The ends of its changelogs at the epochs between the two.

        Returns:
            Whether all that was committed in between was certainly still there; if not, compaction
            may have removed a row because of a newer one that is not part of ``new``.
        """
        committed = new.committed(stage.logged)
        environment = self._registry.get(self.program.environment(stage.index, group))
        if environment.condition(committed).ready:
            self._gathered.miss()
            return True
        if old is not None and new.token is not None:
            before = old.committed(stage.logged)
            if environment.condition(before).ready:
                try:
                    changes, is_whole = self._changes(stage, group, old, new, markers)
                except OffsetOutOfRange:
                    pass  # what follows says whether what is gone still counts
                else:
                    reach("replica-before-pending")
                    assert committed.token is not None
                    environment.write_pending(committed.token, before, changes)
                    reach("replica-after-pending")
                    self._gathered.take(group, changes)
                    return is_whole
        self._gathered.miss()
        self._before_bulk()
        _, read = make_current(self, stage.index, group, committed)
        return not any(read.values())

    def _changes(
        self,
        stage: Stage,
        group: int,
        old: GroupMark,
        new: GroupMark,
        markers: Collection[tuple[int, ...]],
    ) -> tuple[dict[str, list[tuple[bytes, bytes | None]]], bool]:
        """Return the rows between two marks, and whether every offset of theirs was there."""
        changes: dict[str, list[tuple[bytes, bytes | None]]] = {}
        is_whole = True
        ends = zip(stage.logged, old.changelog_ends, new.changelog_ends, strict=True)
        for at, (store, start, end) in enumerate(ends):
            if start == end:
                continue
            place = self._place(stage, store, group)
            self._tail.follow({place: start})
            rows = self._tail.take(place, end)
            # A transaction ends with a marker in each log that it wrote: one offset of no row.
            ended = {known[at] for known in (old.changelog_ends, *markers)} & {*range(start, end)}
            is_whole &= len(rows) == end - start - len(ended - {0})
            newest = {row.key: row.value for row in rows if row.key is not None}
            changes[store] = sorted(newest.items())
        return changes, is_whole

    def _place(self, stage: Stage, store: str, group: int) -> TopicPartition:
        log = next(spec.log_name for spec in stage.stores if spec.name == store)
        return TopicPartition(changelog_topic(self.program.application_id, log), group)

    def follow(self, marks: Mapping[int, tuple[GroupMark, ...]]) -> None:
        """Begin to fetch what will be committed after given marks."""
        self._tail.follow(
            {
                self._place(stage, store, group): end
                for stage in self.program.plan.stages
                for group, mark in enumerate(marks.get(stage.index, ()))
                for store, end in zip(stage.logged, mark.changelog_ends, strict=True)
            }
        )

    def is_current(self, stage: Stage, group: int, mark: GroupMark) -> bool:
        """Whether a key group can be read as of a mark."""
        committed: Committed = mark.committed(stage.logged)
        spec = self.program.environment(stage.index, group)
        return self._registry.get(spec).condition(committed).ready


def distance(old: GroupMark, new: GroupMark) -> int:
    """Return how many offsets of changelogs lie between two marks."""
    pairs = zip(old.changelog_ends, new.changelog_ends, strict=True)
    return sum(now - then for then, now in pairs)
