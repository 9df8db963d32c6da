"""Aggregations in tumbling, hopping and unlimited windows: a row for each key and window.

The fold itself is that of a plain aggregation: each record becomes a row for each of its windows,
identified by the key of the window's row in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mustela.api.window_specs import TimeWindowSpec, UnlimitedWindowSpec
from mustela.kernel.aggregates.aggregate import (
    CountOperator,
    FoldOperator,
    LaneOperator,
    Touched,
    make_fold,
)
from mustela.kernel.aggregates.watched import watched
from mustela.kernel.core.changes import ChangeOrigins
from mustela.kernel.core.isolate import copy_value, is_immutable_column
from mustela.kernel.windows.window_close import (
    WindowCloser,
    drop_late,
    in_merged_order,
    windowed_keys,
)
from mustela.kernel.windows.window_headers import WindowHeaders
from mustela.model import TIME_MAX, Headers
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.state.kinds.layout import TIME_BYTES
from mustela.state.kinds.window import WindowRows, split_window_key, window_keys
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["WindowCountOperator", "WindowFoldOperator", "make_window_fold"]


def make_window_fold(
    node: WindowAggregateNode, *, partials: bool
) -> Callable[[Any, Any, Any], Any]:
    """Return the function that adds one record to an aggregate.

    With several parents a value is (number of the parent, value).
    """
    if len(node.adders) < 2:
        return make_fold(node, partials=partials)
    adders = tuple(watched(adder, node.name) for adder in node.adders)
    initializer = node.initializer
    assert initializer is not None

    def fold(key: Any, tagged: tuple[int, Any], total: Any) -> Any:
        parent, value = tagged
        return adders[parent](key, value, initializer() if total is None else total)

    return fold


def separate(values: list[Any]) -> list[Any]:
    """Return the values of records in several windows, copied so that no two windows share one.

    A function may keep a value in one window's aggregate and change it there.
    """
    return values if is_immutable_column(values) else list(map(copy_value, values))


class _InWindows(LaneOperator[WindowAggregateNode]):
    """What counts and folds in windows share: everything except the fold."""

    def open(self) -> None:
        """Look up the store and the clock."""
        super().open()
        windows = self.node.windows
        assert isinstance(windows, TimeWindowSpec | UnlimitedWindowSpec)
        self._windows = windows
        self.skips_null_values = False
        self._clock = self.event_clock(self._store)
        self._starts: dict[int, list[int]] = {}
        self._headers = WindowHeaders.opened(self.node, self.context.state)
        self._closer = WindowCloser(
            self, self._store, self._clock, self._codec, headers=self._headers
        )

    def make_fold(self) -> Callable[[Any, Any, Any], Any]:
        """Return the fold of one record, or of one partial result."""
        return make_window_fold(self.node, partials=self.step.role == "merge")

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Fold the records of all parents in merged order."""
        return self.process_one(in_merged_order(inputs))

    def with_key_bytes(self, batch: Batch) -> tuple[Batch, list[bytes]]:
        """Return a row for each record and window, and the keys of the windows' rows."""
        batch, key_bytes = super().with_key_bytes(batch)
        if not key_bytes:
            return batch, key_bytes
        timestamps = batch.timestamps
        windows = self._windows
        if isinstance(windows, UnlimitedWindowSpec):
            start = windows.start_ms
            mask = [time >= start for time in timestamps]
            if not all(mask):
                batch = batch.select(mask)
                key_bytes = [key for key, inside in zip(key_bytes, mask, strict=True) if inside]
            return batch, window_keys([start] * len(key_bytes), key_bytes)
        times = self._clock.row_times(batch, key_bytes)
        if windows.advance_ms == windows.size_ms:
            size = windows.size_ms
            starts = [time - time % size for time in timestamps]
            index: Sequence[int] = range(len(starts))
        else:
            starts, index = self._hop(windows, timestamps)
        horizon = windows.size_ms + windows.grace_ms
        if min(starts) + horizon <= max(times):
            starts, index = self._on_time(batch, starts, index, times, horizon)
        if not isinstance(index, range):
            batch = batch.take(index)
            batch = batch.with_values(separate(batch.values))
            key_bytes = [key_bytes[row] for row in index]
        return batch, window_keys(starts, key_bytes)

    def _hop(
        self, windows: TimeWindowSpec, timestamps: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """Return the start of each record's windows, ascending, and the record of each."""
        starts: list[int] = []
        index: list[int] = []
        regular, known = windows.size_ms % windows.advance_ms == 0, self._starts
        for row, time in enumerate(timestamps):
            place = time - time % windows.advance_ms if regular else time
            mine = known.get(place)
            if mine is None:
                mine = known[place] = windows.starts(time)
            starts += mine
            index += [row] * len(mine)
        return starts, index

    def _on_time(
        self,
        batch: Batch,
        starts: list[int],
        index: Sequence[int],
        times: Sequence[int],
        horizon: int,
    ) -> tuple[list[int], list[int]]:
        """Leave out the windows that had closed when their record arrived."""
        kept_starts: list[int] = []
        kept_index: list[int] = []
        late: list[int] = []
        for start, row in zip(starts, index, strict=True):
            if start + horizon > times[row]:
                kept_starts.append(start)
                kept_index.append(row)
            else:
                late.append(row)
        if not late:
            return starts, list(index)
        drop_late(self, batch, late)
        return kept_starts, kept_index

    def changes(self, batch: Batch, touched: Touched) -> Batch | None:
        """Return the changes to forward, by key and window."""
        if self.node.emit == "close":
            if self._headers is not None and touched.rows:
                self._keep_headers(self._headers, batch.headers, touched)
            return None
        if not touched.rows:
            return None
        size, keys = self._windows.key_size_ms, batch.keys
        inner = [key[TIME_BYTES:] for key in touched.key_bytes]
        starts = [split_window_key(key)[0] for key in touched.key_bytes]
        ends = [min(start + size, TIME_MAX) for start in starts]
        windowed = windowed_keys(map(keys.__getitem__, touched.rows), starts, ends)
        origins = ChangeOrigins(
            touched.timestamps,
            batch,
            touched.rows,
            key_bytes=inner,
            key_groups=self.options.key_groups,
        )
        return Batch(
            windowed,
            touched.values,
            origins,
            olds=touched.olds,
            key_bytes=self._closer.windowed_bytes(inner, starts),
        )

    @staticmethod
    def _keep_headers(kept: WindowHeaders, headers: list[Headers] | None, touched: Touched) -> None:
        last: list[Headers] | None = None
        if headers is not None:
            rows = zip(touched.rows, touched.values, strict=True)
            last = [() if value is None else headers[row] for row, value in rows]
        kept.keep(touched.key_bytes, last)

    def finish(self) -> Batch | None:
        """Forward the windows that have closed, and remove expired ones."""
        if isinstance(self._windows, UnlimitedWindowSpec):
            return None
        moved = self._clock.save()
        windows, emitted = self._windows, None
        if self.node.emit == "close":
            horizon = windows.size_ms + windows.grace_ms
            emitted = self._closer.windows_over(lambda now: now - horizon, horizon)
        retention = self.node.store.retention_ms
        if retention is not None:
            for group in self._store.groups:
                floor = self._kept_from(windows, retention, self._clock.closed_until(group))
                rows = WindowRows(self._store.group(group))
                if group in moved:
                    rows.show_from(floor)
                rows.expire_before(floor)
        return emitted

    def _kept_from(self, windows: TimeWindowSpec, retention_ms: int, now: int) -> int:
        """Return the first start that is kept, counted from the newest window as in Kafka Streams.

        Kafka Streams keeps windows that are emitted on close for one millisecond longer.
        """
        newest = now - now % windows.advance_ms
        return newest - retention_ms + (self.node.emit == "update")

    def due_event_times(self) -> dict[int, int]:
        """Return when the next window of each key group closes."""
        windows = self._windows
        if self.node.emit != "close" or isinstance(windows, UnlimitedWindowSpec):
            return {}
        return self._closer.due_times(windows.size_ms + windows.grace_ms + self.step.lag_ms)

    def key_serde_out(self) -> Serde[Any]:
        """Return the serde of windowed keys."""
        return self.node.window_key


class WindowCountOperator(_InWindows, CountOperator[WindowAggregateNode]):
    """Counts in windows, at the barrier."""


class WindowFoldOperator(_InWindows, FoldOperator[WindowAggregateNode]):
    """Any other aggregation in windows."""

    def open(self) -> None:
        """Build the fold."""
        super().open()
        if self.node.kind == "reduce":  # values are already partial results, null ones too
            self._merges = False
