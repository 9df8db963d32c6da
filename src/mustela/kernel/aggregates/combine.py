"""Partial results in the source stage: one row per key crosses the exchange, not one per record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from operator import le
from typing import Any, ClassVar, Final
from uuid import UUID

from mustela.kernel.aggregates.aggregate import AggregateOperator, make_fold
from mustela.kernel.aggregates.partial_fold import PartialFold
from mustela.kernel.core.each import drop, without
from mustela.kernel.core.encode import encode_column
from mustela.model import Headers
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.primitives import BytesSerde, IntSerde, StrSerde, UUIDSerde
from mustela.serdes.values import ValueSerde
from mustela.topology.aggregate import AggregateNode

__all__ = ["CountCombiner", "FoldCombiner"]

_EQUAL_AS_BYTES: Final[dict[type[Any], type[Any]]] = {
    StrSerde: str,
    BytesSerde: bytes,
    IntSerde: int,
    UUIDSerde: UUID,
}
"""Serdes whose keys are equal exactly when their bytes are, if all have that type."""

_ANY_TYPE: Final = str
"""With a serde for values of any type, keys that are all of these types can be compared as objects:
equal strings have equal bytes, and no value of another type equals a string."""

_EQUAL_TO_NO_OTHER: Final = frozenset({str, bytes})
"""Types whose values never equal a value of another type (unlike 1 == True), so the type of each
key needs to be checked only once."""


class Combiner(AggregateOperator[AggregateNode]):
    """Keeps, per key, the time, order and headers of its last record.

    Keys are compared as Python objects where that gives the same result as comparing their bytes;
    otherwise their bytes are compared.
    """

    reads_only: ClassVar[bool] = False

    def open(self) -> None:
        """Start empty."""
        super().open()
        self._guessed = type(self._key) is ValueSerde
        self._type = _ANY_TYPE if self._guessed else _EQUAL_AS_BYTES.get(type(self._key))
        self._earlier: Batch | None = None
        self._clear()

    def _clear(self) -> None:
        self._times: dict[Any, int] = {}
        self._time_max = -1
        self._orders: dict[Any, Order] = {}
        self._headers: dict[Any, Headers] = {}
        self._samples: dict[Any, Any] = {}
        self._topics: Any = ()

    def note(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """Note time, order and headers of the last record of each key.

        Returns:
            The batch without the rows whose key cannot be encoded, and an identity for each key.
        """
        identities, last = self._by_object(batch)
        if last is None:
            batch = self.without_null_keys(batch)
            if self._guessed and not set(map(type, batch.keys)) <= {_ANY_TYPE}:
                self._stop_guessing()
            batch, identities = self._by_bytes(batch)
            last = _last_origins(batch, identities)
        if not identities:
            return batch, identities
        origins = batch.origins
        self._note_times(batch, identities, last)
        self._topics = origins.topics
        if self.context.ordered and (order := origins.order) is not None:
            self._orders.update(zip(last, map(order.__getitem__, last.values()), strict=True))
        if (headers := origins.headers) is not None:
            self._headers.update(zip(last, map(headers.__getitem__, last.values()), strict=True))
        return batch, identities

    def _stop_guessing(self) -> None:
        """Flush what was identified by objects; from here on keys are identified by their bytes."""
        self._earlier = self.finish()
        self._guessed = False
        self._type = None

    def _handed_on(self, batch: Batch | None) -> Batch | None:
        """Return ``batch`` after the rows that were flushed before it."""
        earlier, self._earlier = self._earlier, None
        if earlier is None or batch is None:
            return earlier if batch is None else batch
        return Batch.concatenate([earlier, batch])

    def _by_object(self, batch: Batch) -> tuple[list[Any], dict[Any, int] | None]:
        """Identify keys by the objects themselves; None if their types do not allow it."""
        kind, keys = self._type, batch.keys
        if kind is None:
            return keys, None
        if kind not in _EQUAL_TO_NO_OTHER and not set(map(type, keys)) <= {kind}:
            return keys, None
        try:
            last = _last_origins(batch, keys)
        except TypeError:  # the serde has no unhashable keys
            return keys, None
        return keys, last if set(map(type, last)) <= {kind} else None

    def _by_bytes(self, batch: Batch) -> tuple[Batch, list[Any]]:
        """Identify keys by their bytes; a key that cannot be encoded goes to the handler."""
        key_bytes, failed = encode_column(self._key, batch.keys, batch, self.encode_failures())
        batch, key_bytes = without(batch, failed), drop(key_bytes, failed)
        if self._type is not None:
            return batch, self._key.deserialize_many(key_bytes)
        self._samples.update(zip(key_bytes, batch.keys, strict=True))
        return batch, key_bytes

    def _note_times(self, batch: Batch, identities: list[Any], last: dict[Any, int]) -> None:
        column, rows = batch.origins.timestamps, batch.rows
        lowest, highest = min(column), max(column)
        ascending = lowest == highest or (
            all(map(le, column, islice(column, 1, None)))
            and (rows is None or rows == sorted(rows))  # sorting sorted numbers is quick
        )
        if ascending:
            latest = zip(last, map(column.__getitem__, last.values()), strict=True)
        else:
            times = batch.timestamps
            index = sorted(range(len(times)), key=times.__getitem__)
            latest = zip(
                map(identities.__getitem__, index), map(times.__getitem__, index), strict=True
            )
        if lowest >= self._time_max:
            self._times.update(latest)
        else:
            self._raise_times(latest)
        self._time_max = max(self._time_max, highest)

    def _raise_times(self, latest: Iterable[tuple[Any, int]]) -> None:
        times = self._times
        for identity, time in latest:
            if times.get(identity, -1) < time:
                times[identity] = time

    def flush(self, partials: dict[Any, Any]) -> Batch | None:
        """Return the partial results as rows, and start again from none."""
        if not partials:
            return None
        identities = list(partials)  # a key whose every record failed has a time but no partial
        by_bytes = bool(self._samples)
        orders, headers = self._orders, self._headers
        origins = Origins(
            [self._times[identity] for identity in identities],
            [headers.get(identity, ()) for identity in identities] if headers else None,
            [orders[identity] for identity in identities] if orders else None,
            self._topics,
        )
        batch = Batch(
            [self._samples[identity] for identity in identities] if by_bytes else identities,
            list(partials.values()),
            origins,
            key_bytes=identities if by_bytes else None,
        )
        self._clear()
        return batch


def _last_origins(batch: Batch, identities: list[Any]) -> dict[Any, int]:
    """Return, for each key, the record that its last row came from."""
    rows = range(len(identities)) if batch.rows is None else batch.rows
    return dict(zip(identities, rows, strict=True))


class CountCombiner(Combiner):
    """Counts per key, at the speed of `collections.Counter`."""

    reads_only: ClassVar[bool] = True

    def open(self) -> None:
        """Start with no counts."""
        super().open()
        self._counts: Counter[Any] = Counter()

    def process_one(self, batch: Batch) -> Batch | None:
        """Count the records of a batch."""
        _, identities = self.note(self.without_null_values(batch))
        self._counts.update(identities)
        full = len(self._counts) > self.options.combine_keys_max
        return self._handed_on(self.finish() if full else None)

    def finish(self) -> Batch | None:
        """Flush the counts."""
        counts, self._counts = self._counts, Counter()
        return self.flush(counts)


class FoldCombiner(Combiner):
    """Partial results of an associative reduce, or of an aggregate with a merger."""

    def open(self) -> None:
        """Build the fold."""
        super().open()
        self._fold = PartialFold(
            make_fold(self.node, partials=False),
            self.user_failures(self.node.adder),
            careful=self.processing_handler != "fail",
        )
        self._partials: dict[Any, Any] = {}

    def process_one(self, batch: Batch) -> Batch | None:
        """Fold the records of a batch into the partial results."""
        batch, identities = self.note(self.without_null_values(batch))
        self._fold.add(self._partials, identities, batch)
        full = len(self._partials) > self.options.combine_keys_max
        return self._handed_on(self.finish() if full else None)

    def finish(self) -> Batch | None:
        """Flush the partial results."""
        partials, self._partials = self._partials, {}
        return self.flush(partials)
