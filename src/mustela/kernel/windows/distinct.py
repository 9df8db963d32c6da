"""Dropping records that repeat an earlier one within a time span."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any, Final

from mustela.kernel.core.each import call_each, without
from mustela.kernel.core.encode import failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import Operator
from mustela.kernel.windows.window_close import LateRecord
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.serdes.primitives import BoolSerde
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.kinds.window import WindowRows
from mustela.topology.distinct import DistinctKeysNode, DistinctNode

__all__ = ["DistinctKeysOperator", "DistinctOperator"]

_SEEN: Final = BoolSerde().serialize(True) or b""


class DistinctKeysOperator(Operator[DistinctKeysNode]):
    """Makes the deduplication key of a record its key, and the pair of key and value its value."""

    def process_one(self, batch: Batch) -> Batch:
        """Replace key and value of each record."""
        chooser = self.node.chooser
        on_failure = failing(batch, self.user_failures(chooser))
        chosen, failed = call_each(chooser, (batch.keys, batch.values), on_failure)
        pairs = list(zip(batch.keys, batch.values, strict=True))
        return without(batch.with_keys(chosen, pairs), failed)


class DistinctOperator(KeyedOperator[DistinctNode]):
    """Forwards the first record of each key, and drops those close to it in time.

    Forwarded records are remembered for ``within`` plus ``grace``, counted from their timestamps;
    dropped ones are not. Records without a key are all forwarded.
    """

    def open(self) -> None:
        """Look up the store and the clock."""
        store = self.node.store
        self.use_key_serde(store.key_serde)
        self._store = self.lane_store(store)
        self._clock = self.event_clock(self._store)
        self._kept_ms = self.node.within_ms + self.node.grace_ms

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the serde of the key bytes; None if the records get back their original keys."""
        return None if self.node.chosen else self._key

    def process_one(self, batch: Batch) -> Batch | None:
        """Return the records to forward."""
        batch, key_bytes = self.encoded_keys(batch, self.context.key_serde)
        if not key_bytes:
            return None
        batch = batch.with_key_bytes(key_bytes)
        rows = [row for row, key in enumerate(key_bytes) if key is not None]
        goes = bytearray(b"\x01") * len(key_bytes)
        if rows:
            self._look(batch if len(rows) == len(key_bytes) else batch.take(rows), rows, goes)
        if not all(goes):
            batch = batch.select(goes)
        return self._unpacked(batch) if len(batch) else None

    def _look(self, batch: Batch, rows: Sequence[int], goes: bytearray) -> None:
        """Look at the records that have a key.

        Args:
            batch: The records.
            rows: Their places in ``goes``.
            goes: Set to 0 for those that are dropped.
        """
        key_bytes: Any = batch.key_bytes
        within, kept = self.node.within_ms, self._kept_ms
        times = self._clock.row_times(batch, key_bytes)
        seen = self._seen(key_bytes)
        fresh: dict[bytes, list[int]] = {}
        late: list[int] = []
        columns = zip(rows, key_bytes, batch.timestamps, times, strict=True)
        for number, (row, key, time, now) in enumerate(columns):
            mine, floor = seen[key], now - kept
            place = bisect_left(mine, max(time - within, floor))
            if place < len(mine) and mine[place] <= time + within:
                goes[row] = 0
            elif time >= floor:
                insort(mine, time)
                fresh.setdefault(key, []).append(time)
            else:
                late.append(number)
        self.count("duplicates", len(goes) - sum(goes))
        self._save(fresh, min(times) - kept)
        if late:
            self._late(batch, rows, late, goes)

    def _seen(self, key_bytes: Sequence[bytes]) -> dict[bytes, list[int]]:
        """Return when records of each key were forwarded, ascending; one fetch per key group."""
        names, found = list(dict.fromkeys(key_bytes)), dict[bytes, list[int]]()
        for view, places in self._store.by_group(names):
            keys = [names[place] for place in places]
            starts = WindowRows(view, indexed=True).starts_of(keys)
            found.update(zip(keys, starts, strict=True))
        return found

    def _save(self, fresh: dict[bytes, list[int]], floor: int) -> None:
        """Remember what is forwarded; what no record can need any more leaves the index."""
        names = list(fresh)
        for view, places in self._store.by_group(names):
            keys = [names[place] for place in places for _ in fresh[names[place]]]
            starts = [start for place in places for start in fresh[names[place]]]
            rows = [pack_timestamped(_SEEN, start) for start in starts]
            WindowRows(view, indexed=True).put_many(keys, starts, rows, floor=floor)

    def _late(
        self, batch: Batch, rows: Sequence[int], late: Sequence[int], goes: bytearray
    ) -> None:
        """Forward records so late that earlier ones with their key would no longer be remembered.

        Those of sources that send late records to dead letters become dead letters instead.
        """
        self.count("late", len(late))
        letters, order = self.options.late_letters, batch.order
        if not letters or order is None:
            return
        told = LateRecord("records that old are no longer remembered")
        bury, encode = self.late_failures(), ValueSerde().serialize
        found = self._unpacked(batch)
        for number in late:
            if order[number][1] in letters:
                bury.one(found, number, told, encode=encode)
                goes[rows[number]] = 0

    def _unpacked(self, batch: Batch) -> Batch:
        """Return the records with their original keys and values."""
        if not self.node.chosen or not len(batch):
            return batch
        keys, values = zip(*batch.values, strict=True)
        return batch.with_keys(list(keys), list(values))

    def finish(self) -> Batch | None:
        """Advance event time, and forget what is too old."""
        moved = self._clock.save()
        for group in self._store.groups:
            floor = self._clock.closed_until(group) - self._kept_ms
            rows = WindowRows(self._store.group(group), indexed=True)
            if group in moved:
                rows.show_from(floor)
            rows.expire_before(floor)
        return None
