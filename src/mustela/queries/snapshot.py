"""A view of several stores as of one committed epoch, which ends at its deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast, overload

from mustela.clock import Clock
from mustela.queries.errors import QueryError, SnapshotExpiredError, StateUnavailableError
from mustela.queries.rows import EditionViews, StoreRows
from mustela.queries.shown import (
    H,
    Shown,
    StoreInfo,
    checked_handle,
    handle_of,
    place_of,
    shown_store,
    told_stores,
    without_values,
)
from mustela.queries.source import Edition, StorePlace
from mustela.state.faults import StateNotReadyError
from mustela.state.interfaces import StoreSpec
from mustela.state.resident import let_go_of_mapped_files

__all__ = ["Rows", "Snapshot"]

T = TypeVar("T")

_BATCH_MAX: Final = 256
"""How many rows are read at a time."""

_LET_GO_EVERY: Final = 64
"""After so many batches the pages that were read are unmapped again."""


class Snapshot:
    """All stores of an application as of one committed epoch.

    Nothing that is committed later changes it. While it is open, the disk space of what it sees is
    not used again, so it has a deadline: after it, reading raises `SnapshotExpiredError`, and the
    space is free whether the snapshot was closed or not. It can be used from any thread.

    Get one from `App.snapshot` or `TopologyTestDriver.snapshot`, and use it in a ``with`` block.

    Args:
        views: All key groups, open.
        clock: Monotonic time.
        lifetime: How long it may be read.
        on_close: Called once, when it ends.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> counts = words.group_by(lambda _key, word: word, key=str).count(store="counts")
        >>> with TopologyTestDriver(builder) as driver:
        ...     topic = driver.create_input_topic("words")
        ...     topic.pipe_value_list(["a", "b", "a"])
        ...     with driver.snapshot() as snapshot:
        ...         topic.pipe_value_list(["a"])
        ...         snapshot.epoch, snapshot.store("counts")["a"], driver.store("counts")["a"]
        (3, 2, 3)
    """

    def __init__(
        self,
        views: EditionViews,
        *,
        clock: Clock,
        lifetime: timedelta,
        on_close: Callable[[Snapshot], None],
    ) -> None:
        self._views = views
        self._edition = views.edition
        self._clock = clock
        self._lifetime = lifetime
        self.deadline: Final = clock.monotonic() + lifetime.total_seconds()
        self._on_close = on_close
        self._lock = threading.RLock()
        self._is_closed = False
        self._is_expired = False
        self._has_ended = False

    @property
    def epoch(self) -> int:
        """The number of the committed epoch; 0 before the first."""
        return self._edition.epoch

    @property
    def watermark(self) -> int | None:
        """Event time as of the epoch, in milliseconds; None if there is none yet."""
        return self._edition.watermark

    @property
    def edition(self) -> Edition:
        """What it shows, for other rooms."""
        return self._edition

    @property
    def closed(self) -> bool:
        """Whether it was closed, or has expired."""
        return self._is_closed

    def stores(self) -> list[StoreInfo]:
        """Return the stores that can be read, by name."""
        return told_stores(self._edition)

    @overload
    def store(
        self, name: str, handle: None = None, *, timestamps: bool = False, headers: bool = False
    ) -> Any: ...
    @overload
    def store(
        self, name: str, handle: type[H], *, timestamps: bool = False, headers: bool = False
    ) -> H: ...
    def store(
        self,
        name: str,
        handle: type[Any] | None = None,
        *,
        timestamps: bool = False,
        headers: bool = False,
    ) -> Any:
        """Return a read-only handle of a store, of its kind.

        Args:
            name: The store's name.
            handle: The class of the handle with the types of keys and values; see `App.store`.
            timestamps: Whether values are shown with their timestamps, as `ValueAndTimestamp`.
            headers: Whether values are shown with timestamps and headers.

        Raises:
            UnknownStoreError: If there is no store of that name.
            QueryError: If it is of another kind than ``handle``, keeps no timestamps or headers, or
                only its step can read it.
        """
        place = place_of(self._edition, name)
        shown = Shown.of(timestamps=timestamps, headers=headers)
        found = handle_of(place.spec, shown, PinnedReading(self, place, shown))
        return checked_handle(found, handle)

    def part_of(
        self,
        name: str,
        only: Collection[int] | None,
        *,
        timestamps: bool = False,
        values: bool = True,
    ) -> Any:
        """Return a handle that reads some key groups of a store; see `store`.

        Args:
            name: The store's name.
            only: The key groups, if rows of others are left out.
            timestamps: Whether values are shown with their timestamps.
            values: Whether values are decoded; otherwise some are shown as bytes.
        """
        place = place_of(self._edition, name)
        if not values:
            place = without_values(place)
        shown = Shown.of(timestamps=timestamps, headers=False)
        return handle_of(place.spec, shown, PinnedReading(self, place, shown, only))

    def close(self) -> None:
        """End it; closing it twice is allowed."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._views.close()
        self._on_close(self)

    def end(self) -> None:
        """Close it because the state that it shows is closed."""
        with self._lock:
            self._has_ended = not self._is_closed
            self.close()

    def expire(self) -> bool:
        """Close it if its deadline has passed; return False if it is being read at the moment."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._expire_if_late()
        finally:
            self._lock.release()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Snapshot of epoch {self.epoch}{', closed' if self._is_closed else ''}>"

    def rows_of(self, place: StorePlace, only: Collection[int] | None = None) -> StoreRows:
        """Return the rows of a store; they are read within `reading` only."""
        return StoreRows(self._views, place, only)

    def reading(self, read: Callable[[], T]) -> T:
        """Call a function that reads, while nothing closes the snapshot.

        Raises:
            SnapshotExpiredError: If the deadline has passed.
            StateUnavailableError: If the state that it shows was closed.
            QueryError: If the snapshot is closed.
        """
        with self._lock:
            self._expire_if_late()
            if self._is_expired:
                raise self._expired()
            if self._has_ended:
                msg = f"the snapshot of epoch {self.epoch} has ended"
                raise StateUnavailableError(
                    msg,
                    why="the application stopped, was replaced, or is a standby that takes over",
                    fix="open another one, in a moment",
                    fields={"epoch": self.epoch},
                )
            if self._is_closed:
                msg = f"the snapshot of epoch {self.epoch} is closed"
                raise QueryError(msg, fix="read it inside of its with block, or open another one")
            try:
                return read()
            except StateNotReadyError as error:
                msg = f"this store cannot be read as of epoch {self.epoch} any more"
                raise StateUnavailableError(
                    msg,
                    why="the copy of a global table is opened when it is first asked for, and "
                    "another reader has brought it to a later epoch",
                    fix="open another snapshot",
                    fields={"epoch": self.epoch},
                ) from error

    def _expire_if_late(self) -> None:
        if not self._is_closed and self._clock.monotonic() >= self.deadline:
            self._is_expired = True
            self.close()

    def _expired(self) -> SnapshotExpiredError:
        seconds = self._lifetime.total_seconds()
        msg = f"the snapshot of epoch {self.epoch} has expired after {seconds:g} seconds"
        return SnapshotExpiredError(
            msg,
            why="while it is open, disk space that it sees cannot be used again",
            fix="open another one, or give it longer: snapshot(lifetime=timedelta(minutes=2))",
            fields={"epoch": self.epoch, "seconds": seconds},
        )


class PinnedReading:
    """How a handle gets at the rows of a snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        place: StorePlace,
        shown: Shown,
        only: Collection[int] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._place = place
        self._store = shown_store(place.spec, shown, snapshot.rows_of(place, only))

    @property
    def spec(self) -> StoreSpec:
        """Name, kind and serdes of the store."""
        return self._place.spec

    def once(self, read: Callable[[Any], T]) -> T:
        """Return what a function reads from the store."""
        return self._snapshot.reading(lambda: read(self._store))

    def rows(self, read: Callable[[Any], Iterator[T]]) -> Rows[T]:
        """Iterate over what a function returns."""
        found: Rows[T] = self.call(lambda store: iter(read(store)))
        return found

    def call(self, read: Callable[[Any], Any]) -> Any:
        """Return what a function returns; an iterator is read in batches."""
        snapshot, store = self._snapshot, self._store
        found = snapshot.reading(lambda: read(store))
        if isinstance(found, Iterator):
            return Rows(snapshot, cast("Iterator[Any]", found))
        return found


class Rows(Iterator[T], Generic[T]):
    """Rows of a snapshot, read in batches as they are asked for.

    Args:
        snapshot: The snapshot.
        rows: The rows, which are read while nothing closes the snapshot.
        owns: Whether the snapshot ends with the iteration.
    """

    def __init__(self, snapshot: Snapshot, rows: Iterator[T], *, owns: bool = False) -> None:
        self._snapshot = snapshot
        self._rows: Iterator[T] | None = rows
        self._owns = owns
        self._batch: Sequence[T] = ()
        self._at = 0
        self._size = 1
        self._batches = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._at == len(self._batch) and not self._more():
            raise StopIteration
        row = self._batch[self._at]
        self._at += 1
        return row

    def close(self) -> None:
        """End the reading; closing it twice is allowed."""
        self._rows, self._batch, self._at = None, (), 0
        if self._owns:
            self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _more(self) -> bool:
        """Read the next batch; the first ones are small, because few rows may be wanted."""
        rows = self._rows
        if rows is None:
            return False
        size, self._size = self._size, min(self._size * 2, _BATCH_MAX)
        self._batch, self._at = self._snapshot.reading(lambda: _taken(rows, size)), 0
        self._batches += 1
        if self._batches % _LET_GO_EVERY == 0:
            let_go_of_mapped_files()
        if not self._batch:
            self.close()
        return bool(self._batch)


def _taken(rows: Iterator[T], size: int) -> list[T]:
    batch: list[T] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            break
    return batch
