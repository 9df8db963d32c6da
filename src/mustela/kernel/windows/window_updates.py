"""Sliding windows and sessions: aggregates that are read, changed and forwarded per record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mustela.api.handlers import Handling
from mustela.kernel.aggregates.aggregate import AggregateOperator
from mustela.kernel.core.changes import ChangeOrigins
from mustela.kernel.core.isolate import copy_value
from mustela.kernel.windows.window_aggregate import make_window_fold
from mustela.kernel.windows.window_cells import ChangedWindows, ToldChange, WindowCell
from mustela.kernel.windows.window_close import (
    WindowCloser,
    drop_late,
    in_merged_order,
    windowed_keys,
)
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["WindowOperator"]


class _EncodeError(Exception):
    """A row cannot be encoded; the cause says why."""


class _AnsweredError(Exception):
    """A function failed on a record, and the handler has said what becomes of that.

    Args:
        end: The error that ends the epoch, if it said that.
    """

    def __init__(self, end: Exception | None = None) -> None:
        super().__init__()
        self.end = end


class WindowOperator(AggregateOperator[WindowAggregateNode]):
    """An aggregation whose windows depend on earlier records.

    Subclasses find the windows of a record and fold it; this class collects the changes and
    forwards them. With one change per epoch and handlers that fail, aggregates are encoded once, at
    the end; otherwise after each record, so that a failure loses only its own record and each
    change is forwarded as it was.
    """

    def open(self) -> None:
        """Look up the store and the clock, and build the fold."""
        super().open()
        options = self.options
        self._store = self.lane_store(self.node.store)
        self._clock = self.event_clock(self._store)
        self._closer = WindowCloser(self, self._store, self._clock, self._codec)
        self._retries = isinstance(self.processing_handler, Handling)
        self._in_hand: tuple[Batch, int] | None = None
        self._fold = self.tried(make_window_fold(self.node, partials=False))
        self._tells = self.node.emit == "update"
        self._every = self._tells and (options.emit == "every" or self.step.each_change)
        careful = {self.processing_handler, self.production_handler} != {"fail"}
        self._stepwise = self._every or careful
        self._shares = self._codec.serde.immutable
        self._failing = self.user_failures(self.node.adder)
        self._refusing = self.encode_failures()

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Fold the records of all parents in merged order."""
        # A value paired with the number of its parent is never null, so nulls are skipped first.
        present = [self.without_null_values(batch) for batch in inputs]
        return self.process_one(in_merged_order(present))

    def process_one(self, batch: Batch) -> Batch | None:
        """Fold a batch and return the changes to forward."""
        batch, key_bytes = self.with_key_bytes(batch)
        if not key_bytes:
            return None
        self._touches: list[WindowCell] = []
        self._replaces = False
        self._told: list[ToldChange] = []
        times = self._clock.row_times(batch, key_bytes)
        self._headers = batch.headers if self._codec.headed else None
        self.load(batch, key_bytes, times)
        late = self.fold_all(batch, key_bytes, times)
        if late:
            drop_late(self, batch, late)
        cells, changed = self._changes_of(batch, key_bytes)
        self.save(cells, changed)
        self.keep_headers(batch, changed)
        told = self._changes(batch, changed) if self._tells else None
        self.forget()
        return told

    def fold_all(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> list[int]:
        """Fold all records; return the rows that came too late, once for each window missed."""
        return self.fold_rows(batch, key_bytes, times, range(len(batch)))

    def fold_rows(
        self,
        batch: Batch,
        key_bytes: Sequence[bytes],
        times: Sequence[int],
        rows: Iterable[int],
    ) -> list[int]:
        """Fold some rows one by one; return the late ones as `fold_all` does."""
        late: list[int] = []
        keys, values, timestamps = batch.keys, batch.values, batch.timestamps
        retries = self._retries
        for row in rows:
            name = key_bytes[row]
            if retries:
                self._in_hand = batch, row
            try:
                missed = self.add(row, name, keys[row], values[row], timestamps[row], times[row])
            except _EncodeError as error:
                self._refusing.one(batch, row, error.__cause__ or error)
                self.recover(name)
                continue
            except _AnsweredError as answered:
                if answered.end is not None:
                    raise answered.end from answered.end.__cause__
                self.recover(name)
                continue
            except Exception as error:  # noqa: BLE001 - the function is the user's
                self._failing.one(batch, row, error)
                self.recover(name)
                continue
            late += [row] * missed
        return late

    def tried(self, function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
        """Return a function that is called again for a record as often as its handler wants.

        That is done for one call, and not for the record: it may be in other windows already. Each
        call gets the aggregates as they were before the first.

        Args:
            function: Called with a key, a value or an aggregate, and an aggregate.
        """
        if not self._retries:
            return function
        own = self.own

        def call(key: Any, value: Any, total: Any) -> Any:
            kept = own(value), own(total)
            try:
                return function(key, value, total)
            except Exception as error:  # noqa: BLE001 - the function is the user's
                failure = error
            assert self._in_hand is not None, self.step.name
            self._failing.begin()
            while self._wants_again(*self._in_hand, failure):
                try:
                    return function(key, *map(own, kept))
                except Exception as error:  # noqa: BLE001 - the function is the user's
                    failure = error
            raise _AnsweredError from failure

        return call

    def _wants_again(self, batch: Batch, row: int, error: Exception) -> bool:
        try:
            return self._failing.one(batch, row, error, repeats=True)
        except Exception as end:
            raise _AnsweredError(end) from end

    def forget(self) -> None:
        """Release the working state, because the garbage collector would traverse all of it."""
        self._touches = []
        self._told = []
        self._headers = None
        self._in_hand = None

    def load(self, batch: Batch, key_bytes: Sequence[bytes], times: Sequence[int]) -> None:
        """Fetch the windows that the records may touch."""
        raise NotImplementedError

    def add(self, row: int, name: bytes, key: Any, value: Any, time: int, now: int) -> int:
        """Fold one record; return how many windows it came too late for.

        Args:
            row: The record's row.
            name: Bytes of its key.
            key: Its key.
            value: Its value.
            time: Its timestamp.
            now: The event time at which it is judged.
        """
        raise NotImplementedError

    def recover(self, name: bytes) -> None:
        """Undo what a failed function did to the aggregates of a key."""
        raise NotImplementedError

    def save(self, cells: Sequence[WindowCell], changed: ChangedWindows) -> None:
        """Write the changed windows, which are also given as columns."""
        raise NotImplementedError

    def keep_headers(self, batch: Batch, changed: ChangedWindows) -> None:
        """Note what headers the changed windows forward when they close, if they do."""

    def own(self, value: Any) -> Any:
        """Return a copy of an aggregate that another window may change."""
        return value if self._shares else copy_value(value)

    def encoded(self, value: Any, time: int) -> bytes | None:
        """Return the row of an aggregate, or None if rows are encoded at the end.

        Raises:
            _EncodeError: If it cannot be encoded.
        """
        if not self._stepwise or value is None:
            return None
        try:
            return self._codec.encode_one(value, time)
        except Exception as error:
            raise _EncodeError from error

    def put(self, row: int, cell: WindowCell, raw: bytes | None) -> None:
        """Note that a record changed a window; ``cell.value`` is None if the record deleted it.

        Args:
            row: The record's row.
            cell: The window in its current state, except for its row.
            raw: The result of `encoded` for it.
        """
        cell.row = row
        self._touches.append(cell)
        if cell.value is None:
            self._replaces = True
        if not self._stepwise:
            return
        if self._headers is not None:
            raw = self._codec.with_headers(raw, self._headers[row])
        if self._every:
            value = cell.value
            if not self._shares and value is not None:
                value = self._codec.decode_one(raw)
            self._told.append(
                ToldChange(row, cell.name, cell.start, cell.end, value, cell.time, cell.raw)
            )
        cell.raw = raw

    def _changed(self) -> list[WindowCell]:
        """Return each changed window once, in its current state, ordered by its last record."""
        cells = list(dict.fromkeys(reversed(self._touches)))
        if self._replaces:  # a window that was deleted and created again is two cells
            last: dict[tuple[bytes, int, int], WindowCell] = {}
            for cell in cells:
                found = last.setdefault((cell.name, cell.start, cell.end), cell)
                if found is not cell and cell.before is not None:
                    found.before = cell.before
            cells = list(last.values())
        cells.reverse()
        return cells

    def _changes_of(
        self, batch: Batch, key_bytes: Sequence[bytes]
    ) -> tuple[list[WindowCell], ChangedWindows]:
        """Return the changed windows in their current state, with their rows, and as columns."""
        cells = self._changed()
        changed = ChangedWindows.of(cells, key_bytes)
        if self._stepwise:
            return cells, changed._replace(raws=[cell.raw for cell in cells])
        return cells, self._encoded(batch, changed)

    def _encoded(self, batch: Batch, changed: ChangedWindows) -> ChangedWindows:
        """Add the rows of the changed windows."""
        try:
            headers = self.headers_of(batch, changed.rows)
            raws = self._codec.encode_many(changed.values, changed.times, headers)
            return changed._replace(raws=raws)
        except Exception:
            for row, value, time in zip(changed.rows, changed.values, changed.times, strict=True):
                try:
                    self._codec.encode_one(value, time)
                except Exception as error:  # noqa: BLE001 - a serde may raise anything
                    self._refusing.one(batch, row, error)
            raise

    def _changes(self, batch: Batch, changed: ChangedWindows) -> Batch | None:
        columns: Any = changed[:-1]
        if self._every:
            columns = list(map(list, zip(*self._told, strict=True)))
        elif None in changed.raws:
            pairs = zip(changed.raws, changed.befores, strict=True)
            kept = [row for row, pair in enumerate(pairs) if pair != (None, None)]
            columns = [[column[row] for row in kept] for column in columns]
        if not columns or not columns[0]:
            return None
        rows, names, starts, ends, values, times, olds = columns
        keys = batch.keys
        origins = ChangeOrigins(
            times, batch, rows, key_bytes=names, key_groups=self.options.key_groups
        )
        return Batch(
            windowed_keys(map(keys.__getitem__, rows), starts, ends, sessions=self.node.is_session),
            values,
            origins,
            olds=self._codec.decode_many(olds)[0] if self.step.wants_old else None,
            key_bytes=self.windowed_bytes(names, starts, ends),
        )

    def windowed_bytes(
        self, names: Sequence[bytes], starts: Sequence[int], ends: Sequence[int]
    ) -> list[bytes]:
        """Return the bytes of windowed keys."""
        raise NotImplementedError

    def over(self, horizon: int) -> Batch | None:
        """Return the closed windows, if they are emitted on close; remove expired ones."""
        raise NotImplementedError

    def finish(self) -> Batch | None:
        """Advance event time."""
        self._clock.save()
        return self.over(self.horizon())

    def horizon(self) -> int:
        """Return how long after its last millisecond a window closes."""
        windows: Any = self.node.windows
        closes_at: Callable[[int, int], int] = windows.closes_at
        return closes_at(0, 0)

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of windowed keys."""
        return self.node.window_key
