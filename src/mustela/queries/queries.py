"""Reading the stores of an application: the newest committed epoch, or a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

from mustela.clock import Clock, SystemClock
from mustela.model import TopicPartition
from mustela.queries.errors import EpochNotReachedError, QueryError
from mustela.queries.keeper import SnapshotKeeper
from mustela.queries.rows import EditionViews, StoreRows, pinned, retried
from mustela.queries.shown import (
    Shown,
    StoreInfo,
    handle_of,
    is_queried,
    place_of,
    shown_store,
    told_stores,
)
from mustela.queries.snapshot import Rows, Snapshot
from mustela.queries.source import Edition, StateSource, key_groups_of
from mustela.state.interfaces import StoreSpec

__all__ = ["LIFETIME", "LIFETIME_MAX", "TIMEOUT", "Queries", "Sent"]

T = TypeVar("T")

LIFETIME: Final = timedelta(seconds=30)
"""How long a snapshot may be read, unless it says otherwise."""

LIFETIME_MAX: Final = timedelta(minutes=5)
"""How long a snapshot may be read at most."""

TIMEOUT: Final = timedelta(seconds=10)
"""How long a reader waits for an epoch, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Records that somebody sent to an application, to wait until their results are committed.

    Attributes:
        offsets: The offset of the last record, by source partition.
    """

    offsets: Mapping[TopicPartition, int]


class Queries:
    """Reads the stores of one application; it can be used from any thread.

    Args:
        source: Where committed state comes from.
        clock: Monotonic time.
    """

    def __init__(self, source: StateSource, *, clock: Clock | None = None) -> None:
        self._source = source
        self._clock = clock or SystemClock()
        self._keeper = SnapshotKeeper(self._clock)
        self._handles: dict[tuple[str, Shown], tuple[StoreSpec, Any]] = {}

    @property
    def source(self) -> StateSource:
        """Where committed state comes from."""
        return self._source

    def stores(self) -> list[StoreInfo]:
        """Return the stores that can be read, by name."""
        return told_stores(self._source.newest())

    def store(
        self,
        name: str,
        *,
        timestamps: bool = False,
        headers: bool = False,
        min_epoch: int | bytes | Sent | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> Any:
        """Return a handle each of whose calls reads the newest committed epoch; see `App.store`."""
        self.wait(min_epoch, timeout)
        edition = self._source.newest()
        shown = Shown.of(timestamps=timestamps, headers=headers)
        place, known = edition.stores.get(name), self._handles.get((name, shown))
        if place is not None and known is not None and known[0] is place.spec:
            return known[1]  # making one takes as long as a get
        spec = place_of(edition, name).spec
        handle = handle_of(spec, shown, _LiveReading(self, spec, shown))
        if spec.own_kind is None:  # what others write may keep something of its own
            self._handles[name, shown] = spec, handle
        return handle

    def snapshot(
        self,
        *,
        lifetime: timedelta = LIFETIME,
        min_epoch: int | bytes | Sent | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> Snapshot:
        """Return a view of all stores as of the newest committed epoch; see `App.snapshot`."""
        if not timedelta(0) < lifetime <= LIFETIME_MAX:
            msg = f"a snapshot cannot be open for {lifetime}"
            most = f"{LIFETIME_MAX.total_seconds():g} seconds"
            why = "while it is open, disk space that it sees cannot be used again"
            raise QueryError(msg, why=why, fix=f"give it more than nothing and at most {most}")
        self.wait(min_epoch, timeout)
        return self._open(lifetime, _all_places)

    def wait(self, min_epoch: int | bytes | Sent | None, timeout: timedelta = TIMEOUT) -> None:
        """Wait until an epoch, or the results of records that were sent, are committed.

        Raises:
            EpochNotReachedError: If they are not in time.
        """
        if min_epoch is None:
            return
        is_there, what = _condition(min_epoch)
        if not self._source.wait(is_there, timeout.total_seconds()):
            seconds = f"{timeout.total_seconds():g}"
            msg = f"{what} was not committed within {seconds} seconds"
            raise EpochNotReachedError(
                msg,
                evidence={"newest": f"epoch {self._source.newest().epoch}"},
                why="the application is paused or behind, or no such thing was sent to it",
                fix="wait longer with timeout=, or look at the application's lag",
                fields={"newest": self._source.newest().epoch},
            )

    def wait_for_end(self, snapshot: Snapshot, timeout: timedelta) -> bool:
        """Wait until a snapshot is closed, or has expired; return False if the time is up first."""
        return self._keeper.wait_for_end(snapshot, timeout.total_seconds())

    def close(self) -> None:
        """Close all open snapshots."""
        self._keeper.close()

    def read_once(self, spec: StoreSpec, shown: Shown, read: Callable[[Any], T]) -> T:
        """Return what a function reads from a store as of the newest committed epoch."""

        def attempt(edition: Edition) -> T:
            views = EditionViews(edition)
            try:
                place = place_of(edition, spec.name)
                return read(shown_store(place.spec, shown, StoreRows(views, place)))
            finally:
                views.close()

        return retried(self._source, self._clock, attempt)

    def read_rows(
        self, spec: StoreSpec, shown: Shown, read: Callable[[Any], Iterator[T]]
    ) -> Rows[T]:
        """Iterate over what a function returns of a store as of the newest committed epoch."""
        found: Rows[T] = self.read_any(spec, shown, lambda store: iter(read(store)))
        return found

    def read_any(self, spec: StoreSpec, shown: Shown, read: Callable[[Any], Any]) -> Any:
        """Return what a function returns of a store as of the newest committed epoch.

        An iterator reads that epoch to its end.
        """

        def places(edition: Edition) -> list[tuple[int, int]]:
            place = place_of(edition, spec.name)
            return [(place.stage, group) for group in range(place.groups)]

        snapshot = self._open(LIFETIME_MAX, places)
        try:
            place = place_of(snapshot.edition, spec.name)
            store = shown_store(place.spec, shown, snapshot.rows_of(place))
            found = snapshot.reading(lambda: read(store))
        except BaseException:
            snapshot.close()
            raise
        if isinstance(found, Iterator):
            return Rows(snapshot, cast("Iterator[Any]", found), owns=True)
        snapshot.close()
        return found

    def _open(
        self, lifetime: timedelta, places: Callable[[Edition], list[tuple[int, int]]]
    ) -> Snapshot:
        self._keeper.check_room()
        views = pinned(self._source, self._clock, places)
        snapshot = Snapshot(
            views, clock=self._clock, lifetime=lifetime, on_close=self._keeper.forget
        )
        self._keeper.add(snapshot)
        return snapshot


def _condition(wanted: int | bytes | Sent) -> tuple[Callable[[Edition], bool], str]:
    """Return what a reader waits for, and its name."""
    if isinstance(wanted, Sent):
        offsets = wanted.offsets
        places = sorted(offsets.items())
        told = ", ".join(f"{place} offset {offset}" for place, offset in places)
        return (lambda edition: edition.has_read(offsets)), f"what was sent to {told}"
    epoch = _number(wanted)
    return (lambda edition: edition.epoch >= epoch), f"epoch {epoch}"


def _number(epoch: int | bytes) -> int:
    """Return the number of an epoch, which may be given as the header of an output record."""
    try:
        return int(epoch)
    except ValueError:
        msg = f"{epoch!r} is not the number of an epoch"
        fix = "pass a number, the bytes of the header mustela.epoch, or what sent() returns"
        raise QueryError(msg, fix=fix) from None


def _all_places(edition: Edition) -> list[tuple[int, int]]:
    """Return the key groups of all stores that can be read."""
    stores = edition.stores.values()
    return key_groups_of(place for place in stores if is_queried(place.spec) is not None)


class _LiveReading:
    """How a handle gets at the rows of the newest committed epoch."""

    def __init__(self, queries: Queries, spec: StoreSpec, shown: Shown) -> None:
        self._queries = queries
        self._spec = spec
        self._shown = shown

    @property
    def spec(self) -> StoreSpec:
        """Name, kind and serdes of the store."""
        return self._spec

    def once(self, read: Callable[[Any], T]) -> T:
        """Return what a function reads from the store."""
        return self._queries.read_once(self._spec, self._shown, read)

    def rows(self, read: Callable[[Any], Iterator[T]]) -> Rows[T]:
        """Iterate over what a function returns."""
        return self._queries.read_rows(self._spec, self._shown, read)

    def call(self, read: Callable[[Any], Any]) -> Any:
        """Return what a function returns; an iterator reads one epoch to its end."""
        return self._queries.read_any(self._spec, self._shown, read)
