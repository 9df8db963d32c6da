"""Aggregations in a lane: records, or partial results, become the rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mustela.kernel.aggregates.watched import watched
from mustela.kernel.core.changes import ChangeOrigins
from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.encode import failing
from mustela.kernel.core.failures import SerializationError
from mustela.kernel.core.keyed import KeyedOperator, last_rows
from mustela.model import Headers
from mustela.plan.batch import Batch
from mustela.serdes.base import Serde
from mustela.serdes.primitives import IntSerde
from mustela.serdes.values import ValueSerde
from mustela.topology.aggregate import AggregateNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["AggregateOperator", "CountOperator", "FoldOperator", "make_fold"]

F = TypeVar("F", bound=AggregateNode | WindowAggregateNode)

Fold = Callable[[Any, Any, Any], Any]
"""(key, value, aggregate or None) -> aggregate."""

NO_PARTIAL_DELETES: Final = (
    "the function returned None, which deletes, but partial results cannot be deleted; "
    "leave out associative=True or merger="
)


def make_fold(node: AggregateNode | WindowAggregateNode, *, partials: bool) -> Fold:
    """Return the function that adds one record, or one partial result, to an aggregate.

    Args:
        node: The aggregation.
        partials: Whether values are partial results instead of records.
    """
    initializer, merger = node.initializer, node.merger
    adder = None if node.adder is None else watched(node.adder, node.name)
    if node.kind == "count":
        if partials:
            return lambda _key, value, total: value if total is None else total + value
        return lambda _key, _value, total: 1 if total is None else total + 1
    if node.kind == "reduce":
        assert adder is not None
        return lambda _key, value, total: value if total is None else adder(total, value)
    if partials:
        assert merger is not None
        return lambda key, value, total: value if total is None else merger(key, total, value)
    assert adder is not None
    assert initializer is not None
    return lambda key, value, total: adder(key, value, initializer() if total is None else total)


class AggregateOperator(KeyedOperator[F]):
    """What the halves of an aggregation have in common."""

    skips_null_values = True

    def open(self) -> None:
        """Choose the serdes."""
        spec = self.node.store
        self.use_key_serde(self.node.key or spec.key_serde)
        fallback: Serde[Any] = IntSerde() if self.node.kind == "count" else ValueSerde()
        self._codec = StoreCodec(spec, spec.value_serde or fallback)

    def headers_of(self, batch: Batch, rows: Sequence[int]) -> list[Headers] | None:
        """Return the headers of rows of a batch where the store keeps them, if there are any."""
        headers = batch.headers if self._codec.headed else None
        return None if headers is None else [headers[row] for row in rows]


class LaneOperator(AggregateOperator[F]):
    """An aggregation that keeps its table in the lane's state."""

    def open(self) -> None:
        """Look up the store."""
        super().open()
        self._store = self.lane_store(self.node.store)
        self.skips_null_values = self.step.role == "whole"

    def make_fold(self) -> Fold:
        """Return the fold of one record, or of one partial result."""
        return make_fold(self.node, partials=self.step.role == "merge")

    def encode_or_raise(self, batch: Batch, touched: Touched) -> list[bytes | None]:
        """Encode new rows; an error names the record that caused the row.

        Raises:
            SerializationError: For the first row that cannot be encoded.
        """
        try:
            return self._codec.encode_many(
                touched.values, touched.timestamps, self.headers_of(batch, touched.rows)
            )
        except Exception:
            for row, value in zip(touched.rows, touched.values, strict=True):
                try:
                    self._codec.encode_one(value, 0)
                except Exception as error:
                    failures = self._failures(SerializationError, None)
                    raise failures.error(batch.context(row), batch.keys[row], error) from error
            raise

    def changes(self, batch: Batch, touched: Touched) -> Batch | None:
        """Return the changes to forward."""
        if not touched.rows:
            return None
        origins = ChangeOrigins(
            touched.timestamps,
            batch,
            touched.rows,
            key_bytes=touched.key_bytes,
            key_groups=self.options.key_groups,
        )
        keys = batch.keys
        return Batch(
            [keys[row] for row in touched.rows],
            touched.values,
            origins,
            olds=touched.olds,
            key_bytes=touched.key_bytes,
        )


@dataclass(slots=True)
class Touched:
    """Changes being built, as columns."""

    rows: list[int] = field(default_factory=list[int])
    key_bytes: list[bytes] = field(default_factory=list[bytes])
    values: list[Any] = field(default_factory=list[Any])
    timestamps: list[int] = field(default_factory=list[int])
    olds: list[Any] | None = None

    def take(self, index: Sequence[int]) -> Touched:
        """Return some of the changes."""
        return Touched(
            [self.rows[i] for i in index],
            [self.key_bytes[i] for i in index],
            [self.values[i] for i in index],
            [self.timestamps[i] for i in index],
            None if self.olds is None else [self.olds[i] for i in index],
        )


class CountOperator(LaneOperator[F]):
    """Counts per batch, without handling records one by one."""

    def process_one(self, batch: Batch) -> Batch | None:
        """Add the records, or the partial counts, to the table."""
        batch, key_bytes = self.with_key_bytes(batch)
        if not key_bytes:
            return None
        last, times = last_rows(key_bytes, batch.timestamps)
        keys = list(last)
        if self.step.role == "merge":
            more = self._sums(key_bytes, batch.values, keys)
        else:
            counts = Counter(key_bytes)
            more = [counts[key] for key in keys]
        olds, old_times = self._codec.decode_many(self._store.getmulti(keys), keys)
        touched = Touched(
            rows=list(last.values()),
            key_bytes=keys,
            values=[n if old is None else old + n for old, n in zip(olds, more, strict=True)],
            timestamps=list(map(max, times, old_times)),
            olds=olds if self.step.wants_old else None,
        )
        self._store.put_many(keys, self.encode_or_raise(batch, touched))
        index = sorted(range(len(keys)), key=touched.rows.__getitem__)
        return self.changes(batch, touched.take(index))

    @staticmethod
    def _sums(key_bytes: list[bytes], values: list[int], keys: list[bytes]) -> list[int]:
        if len(keys) == len(key_bytes):  # each key once, in the same order
            return values
        sums = dict.fromkeys(keys, 0)
        for key, value in zip(key_bytes, values, strict=True):
            sums[key] += value
        return list(sums.values())


class FoldOperator(LaneOperator[F]):
    """Any aggregation, one record at a time in merged order."""

    def open(self) -> None:
        """Build the fold."""
        super().open()
        self._merges = self.step.role == "merge"
        self._fold = self.make_fold()
        self._function = (self.node.merger if self._merges else None) or self.node.adder
        options = self.options
        careful = {self.processing_handler, self.production_handler} != {"fail"}
        self._every = options.emit == "every" or self.step.each_change
        self._stepwise = self._every or careful

    def process_one(self, batch: Batch) -> Batch | None:
        """Add the records, or the partial results, to the table."""
        batch, key_bytes = self.with_key_bytes(batch)
        if not key_bytes:
            return None
        keys = list(dict.fromkeys(key_bytes))
        raw = dict(zip(keys, self._store.getmulti(keys), strict=True))
        if self._stepwise:
            updates = self._fold_stepwise(batch, key_bytes, raw)
            final = dict(zip(updates.touched.key_bytes, updates.encoded, strict=True))
            self._store.put_many(list(final), list(final.values()))
            if self._every:
                return self.changes(batch, updates.touched)
            touched = self._last_of(updates)
        else:
            touched = self._fold_at_once(batch, key_bytes, raw)
            encoded = self.encode_or_raise(batch, touched)
            self._store.put_many(touched.key_bytes, encoded)
        before = [raw[key] for key in touched.key_bytes]
        if self.step.wants_old:  # decoded again: the fold may have changed the first copies
            touched.olds = self._codec.decode_many(before)[0]
        if None in touched.values and None in before:
            pairs = zip(touched.values, before, strict=True)
            kept = [i for i, (new, old) in enumerate(pairs) if new is not None or old is not None]
            touched = touched.take(kept)
        return self.changes(batch, touched)

    def _fold_at_once(
        self, batch: Batch, key_bytes: list[bytes], raw: dict[bytes, bytes | None]
    ) -> Touched:
        """Fold live aggregates and encode them once; any failure ends the epoch."""
        fold, merges = self._fold, self._merges
        totals, latest = map(list[Any], self._codec.decode_many(list(raw.values()), list(raw)))
        keys = list(raw)
        places = dict(zip(keys, range(len(keys)), strict=True))
        numbers = list(map(places.__getitem__, key_bytes))
        row = -1
        rows = zip(numbers, batch.keys, batch.values, batch.timestamps, strict=True)
        try:
            for row, (place, key, value, time) in enumerate(rows):  # noqa: B007
                old = totals[place]
                totals[place] = new = fold(key, value, old)
                if new is None and merges:
                    raise TypeError(NO_PARTIAL_DELETES)
                if old is None or time > latest[place]:
                    latest[place] = time
        except Exception as error:  # noqa: BLE001 - the function is the user's
            self.user_failures(self._function).one(batch, row, error)
        last = dict(zip(numbers, range(len(numbers)), strict=True))
        order = sorted(last, key=last.__getitem__)
        return Touched(
            rows=[last[place] for place in order],
            key_bytes=[keys[place] for place in order],
            values=[totals[place] for place in order],
            timestamps=[latest[place] for place in order],
        )

    def _fold_stepwise(
        self, batch: Batch, key_bytes: list[bytes], raw: dict[bytes, bytes | None]
    ) -> Updates:
        """Fold and encode after each record, so that a failure loses only that record's change."""
        codec, fold = self._codec, self._fold
        shares = codec.serde.immutable
        olds: list[Any] | None = [] if self.step.wants_old else None
        updates = Updates(Touched(olds=olds))
        touched = updates.touched
        now = dict(raw)
        values, times = codec.decode_many(list(raw.values()), list(raw))
        totals = dict(zip(raw, values, strict=True))
        latest = dict(zip(raw, times, strict=True))
        on_user = failing(batch, self.user_failures(self._function))
        on_encode = failing(batch, self.encode_failures())
        headers = batch.headers if codec.headed else None
        keys, record_values, record_times = batch.keys, batch.values, batch.timestamps
        row, count = 0, len(key_bytes)
        while row < count:
            place, record_time = key_bytes[row], record_times[row]
            old = totals[place]
            time = record_time if old is None else max(record_time, latest[place])
            on_failure = on_user
            try:
                new = fold(keys[row], record_values[row], old)
                if new is None and self._merges:
                    raise TypeError(NO_PARTIAL_DELETES)
                on_failure = on_encode
                encoded = codec.encode_one(new, time, headers[row] if headers else ())
            except Exception as error:  # noqa: BLE001 - the function is the user's
                again = on_failure.again(row, error)
                totals[place] = codec.decode_one(now[place])  # which it may have changed in place
                row += not again
                continue
            if olds is not None:
                olds.append(old if shares else codec.decode_one(now[place]))
            now[place], totals[place], latest[place] = encoded, new, time
            touched.rows.append(row)
            touched.key_bytes.append(place)
            touched.values.append(new if shares else codec.decode_one(encoded))
            touched.timestamps.append(time)
            updates.encoded.append(encoded)
            row += 1
        return updates

    @staticmethod
    def _last_of(updates: Updates) -> Touched:
        keys = updates.touched.key_bytes
        last = dict(zip(keys, range(len(keys)), strict=True))
        return updates.touched.take(sorted(last.values()))


@dataclass(slots=True)
class Updates:
    """Every update of a batch, with the bytes it stores."""

    touched: Touched
    encoded: list[bytes | None] = field(default_factory=list[bytes | None])
