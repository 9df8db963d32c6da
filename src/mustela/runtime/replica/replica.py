"""A copy of an application's state that follows it, and shows whole epochs only.

It reads the epochs topic and the changelogs, and writes nothing to Kafka. Its files are those of an
application on this host: an instance that starts here, or takes over here, restores nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.copies import StateAheadError
from mustela.connectors.kafka.tail import TailReader
from mustela.errors import MustelaError
from mustela.plan.epoch import Program
from mustela.plan.plan import Plan
from mustela.queries.errors import StateUnavailableError
from mustela.queries.source import Edition
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.record.group_marks import marks_of
from mustela.runtime.record.store_names import with_store_names
from mustela.runtime.replica.copies import ROWS_MAX, ReplicaCopies, Tail, distance
from mustela.runtime.replica.edition import Held, Marks, ReplicaEdition
from mustela.runtime.replica.epoch_feed import EpochFeed, KafkaEpochFeed
from mustela.runtime.replica.gathered import GatheredChanges
from mustela.runtime.replica.global_copies import GlobalCopies
from mustela.runtime.replica.program import program_of
from mustela.runtime.status.change_ring import ChangeRing

__all__ = ["Replica", "Sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a replica reads.

    Attributes:
        admin: Queries for topics and offsets.
        tail: Follows changelogs.
        feed: The epochs.
    """

    admin: KafkaAdmin
    tail: Tail
    feed: EpochFeed

    @classmethod
    def of(cls, settings: Settings) -> Sources:
        """Return the sources on the cluster that the settings name; nothing is connected yet."""
        consumer = client_properties(settings, "consumer")
        admin = KafkaAdmin(client_properties(settings, "admin"))
        tail = TailReader(consumer)
        feed = KafkaEpochFeed(settings.application_id, consumer, admin, tail)
        return cls(admin=admin, tail=tail, feed=feed)


class Replica:
    """Follows an application.

    It is a source of `mustela.queries`. One thread calls `step` and `close`; any may call the rest.

    Args:
        settings: Name the application, the brokers and the directory of state.
        plan: The program, whose stores are followed.
        examine: Checks that the program fits what was committed; called for the first record, and
            whenever another program has committed one.
        place: The directory of state; default: the one in the settings.
        sources: What it reads; default: the cluster that the settings name.
        changes: Gets what is changed in stores that somebody follows.
    """

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        *,
        examine: Callable[[], None],
        place: Path | None = None,
        sources: Sources | None = None,
        changes: ChangeRing | None = None,
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._examine = examine
        self._root = place or settings.state_dir
        self._tables = GlobalCopies(lambda: settings)
        self._gathered = GatheredChanges(changes)
        sources = sources or Sources.of(settings)
        self._admin, self._tail, self._feed = sources.admin, sources.tail, sources.feed
        self._copies: ReplicaCopies | None = None
        self._last: EpochRecord | None = None
        self._marks: Marks = {}
        self._waiting: list[EpochRecord] = []
        self._lock = threading.Lock()
        self._shown: ReplicaEdition | None = None
        self._changed = threading.Condition()

    @property
    def record(self) -> EpochRecord | None:
        """The record of the epoch that is shown; None while none is whole."""
        shown = self._shown
        return None if shown is None else shown.record

    @property
    def shown(self) -> Edition | None:
        """The epoch that is shown; None while none is whole."""
        return self._shown

    @property
    def behind(self) -> int:
        """How many known epochs are not shown yet."""
        waiting, shown = self._waiting, self.record  # another thread may replace both
        newest = waiting[-1] if waiting else self._last
        if newest is None or shown is None:
            return 0 if newest is None else 1
        return max(0, newest.epoch - shown.epoch)

    def step(self, wait_s: float = 0.0) -> bool:
        """Bring all key groups to the newest committed epoch; return whether that was one more.

        Args:
            wait_s: How many seconds to wait for one.

        Raises:
            MustelaError: If it cannot be followed. The next call begins again with what the
                directory holds.
        """
        try:
            if not self._waiting:
                self._waiting = list(self._feed.new(wait_s))
            if not self._waiting:
                return False
            between = [with_store_names(record, self._plan) for record in self._waiting]
            self._fit(between[-1])
            is_whole = self._brought(between)
            self._waiting = []
            if not is_whole:
                # What compaction took away has a newer row, in an epoch that is known by now.
                self._waiting = list(self._feed.all_new())
            if self._waiting:
                self._hide()
            else:
                self._show()
        except MustelaError:
            self._begin_again()
            raise
        return True

    def newest(self) -> Edition:
        """Return the epoch that is shown.

        Raises:
            StateUnavailableError: While none is whole: it catches up, or follows no more.
        """
        shown = self._shown
        if shown is not None:
            return shown
        name = self._settings.application_id
        msg = f"the replica of {name} shows no epoch now"
        raise StateUnavailableError(
            msg,
            why="it has not caught up with the application yet, or nothing was committed",
            fix="try again in a moment; the log says how far it is, or why it cannot follow",
        )

    def wait(self, holds: Callable[[Edition], bool], seconds: float) -> bool:
        """Wait until the epoch that is shown meets a condition; return False if it is not in time.

        Raises:
            StateUnavailableError: If none is shown by then.
        """

        def met() -> bool:
            shown = self._shown
            return shown is not None and holds(shown)

        with self._changed:
            if self._changed.wait_for(met, seconds):
                return True
        self.newest()
        return False

    def close(self, *, clean: bool = True) -> None:
        """Stop following, and close all files.

        Args:
            clean: Whether to sync them and mark them clean, which survives a reboot.
        """
        self._begin_again(clean=clean)
        self._tables.close()
        self._tail.close()
        self._admin.close()

    def _show(self) -> None:
        assert self._last is not None
        assert self._copies is not None
        with self._changed:
            self._shown = ReplicaEdition(
                self._last,
                self._marks,
                self._plan,
                Held(copies=self._copies, lock=self._lock, tables=self._tables),
            )
            self._changed.notify_all()
        self._gathered.show(self._last.epoch)

    def _hide(self) -> None:
        self._shown = None

    def _begin_again(self, *, clean: bool = False) -> None:
        self._hide()
        self._feed.close()
        self._waiting = []
        self._forget(clean=clean)

    def _forget(self, *, clean: bool) -> None:
        self._hide()
        self._last, self._marks = None, {}
        copies, self._copies = self._copies, None
        if copies is not None:
            with self._lock:
                copies.close(clean=clean)

    def _fit(self, record: EpochRecord) -> None:
        """Get ready for the program, the life and the topics of a record."""
        last = self._last
        if last is not None and _identity(last) == _identity(record):
            return
        if last is None or last.fingerprint != record.fingerprint:
            self._examine()
        if last is None or self._copies is None or _owner(last) != _owner(record):
            self._forget(clean=False)
            self._gathered.miss()
            self._copies = ReplicaCopies(
                self._program(record), self._admin, self._tail, self._hide, self._gathered
            )

    def _brought(self, between: Sequence[EpochRecord]) -> bool:
        """Do the same as `_bring`; an instance of this host that is ahead is no error."""
        try:
            return self._bring(between)
        except StateAheadError:
            newer = list(self._feed.all_new())
            if not newer:
                raise
            return self._brought([with_store_names(record, self._plan) for record in newer])

    def _bring(self, between: Sequence[EpochRecord]) -> bool:
        """Bring all key groups to the last of some epochs; return whether nothing was missing."""
        assert self._copies is not None
        self._gathered.begin()
        steps = [marks_of(self._plan, record) for record in between]
        new, is_first = steps[-1], self._last is None
        is_far = is_first or self._distance(new) > ROWS_MAX
        self._copies.watermark = between[-1].watermark
        is_whole = True
        for stage in self._plan.stages:
            for group, mark in enumerate(new.get(stage.index, ())):
                old = None if is_first else self._marks[stage.index][group]
                if old == mark:
                    continue
                old = None if is_far else old
                markers = [step[stage.index][group].changelog_ends for step in steps[:-1]]
                with self._lock:
                    is_whole &= self._copies.bring(stage, group, old, mark, markers)
        self._last, self._marks = between[-1], new
        if is_far:
            self._copies.follow(new)
        return is_whole

    def _distance(self, new: Marks) -> int:
        pairs = ((self._marks[stage], marks) for stage, marks in new.items())
        return sum(distance(*pair) for old, marks in pairs for pair in zip(old, marks, strict=True))

    def _program(self, record: EpochRecord) -> Program:
        return program_of(self._settings, self._plan, record, self._admin, self._root)


def _owner(record: EpochRecord) -> tuple[object, ...]:
    """Return what local state belongs to."""
    ids = {store: state.changelog_id for store, state in record.stores.items()}
    return record.life, record.adopts_unnamed, record.key_groups, ids


def _identity(record: EpochRecord) -> tuple[object, ...]:
    return (record.fingerprint, *_owner(record))
