"""The join of a table with a table, by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mustela.kernel.core.changes import latest_only
from mustela.kernel.core.codec import NO_TIMESTAMP
from mustela.kernel.core.each import MovedRows, call_each, without
from mustela.kernel.core.encode import failing
from mustela.kernel.core.isolate import copy_column
from mustela.kernel.tables.table import KeyedTableOperator
from mustela.kernel.tables.table_lookup import JoinOperator, LookupTable
from mustela.plan.batch import SOURCE_ORDER, Batch, Order, Origins
from mustela.topology.table_join import TableJoinKind, TableJoinNode

__all__ = ["TableJoinOperator"]

Row = tuple[Any, int]
"""Value and timestamp."""

_NO_ROW: Final[Row] = (None, NO_TIMESTAMP)

_Pair = tuple[Any, Any]
"""The values of both sides, left before right."""


class _Result(NamedTuple):
    """A change of the result, being built.

    Attributes:
        row: The change that caused it, counted over the changes of both sides.
        pair: The two values that make the new value.
        before: The two values that made the previous value.
        timestamp: Milliseconds.
    """

    row: int
    pair: _Pair
    before: _Pair
    timestamp: int


def _inner_goes_on(_side: int, _new: Any, _old: Any, partner: Any) -> bool:
    return partner is not None


def _left_goes_on(side: int, new: Any, old: Any, partner: Any) -> bool:
    if side:
        return partner is not None
    return not (partner is None and new is None and old is None)


def _outer_goes_on(_side: int, new: Any, old: Any, partner: Any) -> bool:
    return not (partner is None and new is None and old is None)


_GOES_ON: Final[Mapping[TableJoinKind, Callable[[int, Any, Any, Any], bool]]] = MappingProxyType(
    {"inner": _inner_goes_on, "left": _left_goes_on, "outer": _outer_goes_on}
)
"""Whether a change of side 0 or 1 changes the result, given its new and old value and the value of
the other side."""

_HAS_ROW: Final[Mapping[TableJoinKind, Callable[[_Pair], bool]]] = MappingProxyType(
    {
        "inner": lambda pair: pair[0] is not None and pair[1] is not None,
        "left": lambda pair: pair[0] is not None,
        "outer": lambda pair: pair[0] is not None or pair[1] is not None,
    }
)
"""Whether the result has a row for the values of both sides."""


class TableJoinOperator(JoinOperator[TableJoinNode], KeyedTableOperator[TableJoinNode]):
    """Joins the changes of two tables, each with the row that the other side has at that moment.

    Each side is fetched with one call for all keys of a batch. Then the changes of both sides are
    handled in order. The joiner is called only for what is forwarded: with ``emit = barrier`` once
    per key.
    """

    def open(self) -> None:
        """Look up both sides and the result's store."""
        assert self.node.sides is not None, self.node.name
        self.use_key_serde(self.node.key)
        self.open_store(self.node.store, self.node.value)
        kept_ms = self.node.kept_ms or (None, None)
        self._left, self._right = (
            LookupTable(self, side, kept_ms=kept)
            for side, kept in zip(self.node.sides, kept_ms, strict=True)
        )
        self._has_row = _HAS_ROW[self.node.kind]
        self._every = self.options.emit == "every" or self.step.each_change

    def with_key_bytes(self, batch: Batch) -> tuple[Batch, list[bytes]]:
        """Return the batch and its key bytes, which a result already has."""
        assert batch.key_bytes is not None
        return batch, batch.key_bytes

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Turn changes of the sides into changes of the result."""
        left, left_keys = self.keyed_input(latest_only(inputs[0]), 0)
        right, right_keys = self.keyed_input(latest_only(inputs[1]), 1)
        key_bytes = [*left_keys, *right_keys]
        if not key_bytes:
            return None
        changes = _plain(Batch.concatenate([left, right]))
        keys = list(dict.fromkeys(key_bytes))
        sides = tuple(
            self._rows(table, changes, keys, key_bytes) for table in (self._left, self._right)
        )
        walk = _Walk(changes, key_bytes, len(left_keys), sides, self.node.kind)
        walk.mends = not self._every
        walk.later = self.node.later if self._every else None
        walk.forgotten = self._forgotten(changes, key_bytes, len(left_keys))
        results = walk.results()
        self._left.tell(left, left_keys)
        self._right.tell(right, right_keys)
        if not self._every:
            results = _last_of(results, key_bytes)
        return self._made(changes, key_bytes, results) if results else None

    def finish(self) -> Batch | None:
        """Forget the windows that can no longer be found."""
        self._left.end()
        self._right.end()
        return None

    def _rows(
        self, table: LookupTable, changes: Batch, keys: list[bytes], key_bytes: list[bytes]
    ) -> dict[bytes, Row]:
        """Return the row that each key has on one side before the changes."""

        def objects() -> list[Any]:
            by_key = dict(zip(key_bytes, changes.keys, strict=True))
            return [by_key[key] for key in keys]

        def on_failure(place: int, error: Exception) -> None:
            self.user_failures(None).one(changes, key_bytes.index(keys[place]), error)

        values, times = table.rows(keys, objects, on_failure)
        return dict(zip(keys, zip(values, times, strict=True), strict=True))

    def _forgotten(
        self, changes: Batch, key_bytes: list[bytes], lefts: int
    ) -> tuple[set[int], set[int]]:
        """Return, for each side, the changes of windows it has forgotten when they arrive.

        An event is judged by the time before it; an epoch with no other event forgets when it ends.
        """
        return (
            self._forgotten_by(self._left, changes, key_bytes, range(lefts)),
            self._forgotten_by(self._right, changes, key_bytes, range(lefts, len(key_bytes))),
        )

    @staticmethod
    def _forgotten_by(
        table: LookupTable, changes: Batch, key_bytes: list[bytes], own: range
    ) -> set[int]:
        """Return the changes of windows that one side has forgotten; its own are ``own``."""
        clock = table.clock
        if clock is None:
            return set()
        order, moves = changes.order, table.moves(key_bytes)
        moves = [time if row in own else NO_TIMESTAMP for row, time in enumerate(moves)]
        if order is None:
            clock.row_times(Batch(key_bytes, key_bytes, Origins(moves, None, None)), key_bytes)
            return set()
        rows: list[int] = []
        times: list[int] = []
        asking: list[int] = []
        for event in _events(order):
            asking.extend(range(len(rows), len(rows) + len(event)))
            rows += [*event, *event]
            times += [*repeat(NO_TIMESTAMP, len(event)), *(moves[row] for row in event)]
        keys = [key_bytes[row] for row in rows]
        judged = clock.row_times(
            Batch(keys, keys, Origins(times, None, [order[row] for row in rows])), keys
        )
        kept = table.is_kept([keys[place] for place in asking], [judged[place] for place in asking])
        return {rows[place] for place, known in zip(asking, kept, strict=True) if not known}

    def _made(self, changes: Batch, key_bytes: list[bytes], results: list[_Result]) -> Batch:
        """Call the joiner for the results and return them as changes."""
        rows = [result.row for result in results]
        order, headers = changes.order, changes.headers
        origins = Origins(
            [result.timestamp for result in results],
            None if headers is None else [headers[row] for row in rows],
            None if order is None else [order[row] for row in rows],
            changes.origins.topics,
        )
        keys = [changes.keys[row] for row in rows]
        made = Batch(keys, rows, origins, key_bytes=[key_bytes[row] for row in rows])
        on_failure = failing(made, self.user_failures(self.node.joiner))
        values, failed = self._join([result.pair for result in results], on_failure)
        olds: list[Any] | None = None
        if self._store is None and self.step.wants_old:
            olds, _ = self._join([result.before for result in results], _forget)
        batch = Batch(keys, values, origins, olds=olds, key_bytes=made.key_bytes)
        if self._store is None and not self._every and None in values:
            pairs = zip(values, results, strict=True)
            mask = [new is not None or self._has_row(result.before) for new, result in pairs]
            for row in failed:
                mask[row] = False
            return batch.select(mask)
        batch = without(batch, failed)
        return batch if self._store is None else self.settled(batch)

    def _join(
        self, pairs: list[_Pair], on_failure: Callable[[int, Exception], None]
    ) -> tuple[list[Any], list[int]]:
        """Return the joiner's result for each pair, None where the result has no row."""
        places = [place for place, pair in enumerate(pairs) if self._has_row(pair)]
        results: list[Any] = [None] * len(pairs)
        if not places:
            return results, []
        lefts = copy_column([pairs[place][0] for place in places])
        rights = copy_column([pairs[place][1] for place in places])
        on_present = MovedRows(places, on_failure)
        found, failed = call_each(self.node.joiner, (lefts, rights), on_present)
        for place, value in zip(places, found, strict=True):
            results[place] = value
        return results, [places[row] for row in failed]


def _events(order: Sequence[Order]) -> Iterator[list[int]]:
    """Yield the rows of each source record in turn."""
    index = sorted(range(len(order)), key=order.__getitem__)
    return (list(rows) for _, rows in groupby(index, key=lambda row: order[row][:SOURCE_ORDER]))


def _plain(changes: Batch) -> Batch:
    """Return changes without what only versioned tables carry: the result is not versioned."""
    if changes.latest is None:
        return changes
    return Batch(
        changes.keys,
        changes.values,
        changes.origins,
        rows=changes.rows,
        key_bytes=changes.key_bytes,
    )


def _forget(row: int, error: Exception) -> None:
    """Treat an old value on which the joiner raises as absent."""
    del row, error


def _last_of(results: list[_Result], key_bytes: list[bytes]) -> list[_Result]:
    """Return the last result of each key, with the previous value of the first one."""
    last: dict[bytes, _Result] = {}
    first: dict[bytes, _Result] = {}
    for result in results:
        key = key_bytes[result.row]
        last.pop(key, None)
        last[key] = result
        first.setdefault(key, result)
    return [
        result._replace(before=before.before)
        for key, result in last.items()
        if (before := first[key])
    ]


class _Walk:
    """Handles the changes of both sides in order.

    All changes that one source record makes to both sides are one event: each side is joined with
    the other as it is after the event. So a table that is joined twice with the same table gives
    two equal results for one record, as in Kafka Streams, and no intermediate result.

    Args:
        changes: The changes of the left side, then those of the right side.
        key_bytes: Their keys.
        lefts: How many are of the left side.
        sides: For each side the row of each key before the changes.
        kind: Which rows the result has.

    Attributes:
        mends: Whether the result's row is deleted when one record deletes both sides, as can happen
            where a table is joined twice with the same table. With ``emit = every``, as in Kafka
            Streams, the row stays, because each side alone finds nothing on the other.
        later: The side that a record reaches later than the other, if any, because it returns from
            another lane, like the result of a foreign-key join. Then a record's changes to both
            sides are not one event.
        forgotten: For each side, the changes of windows it has forgotten when they arrive.
    """

    def __init__(
        self,
        changes: Batch,
        key_bytes: list[bytes],
        lefts: int,
        sides: tuple[dict[bytes, Row], ...],
        kind: TableJoinKind,
    ) -> None:
        self._key_bytes = key_bytes
        self._rows = list(zip(changes.values, changes.timestamps, strict=True))
        self._order = changes.order
        self._lefts = lefts
        self._sides = sides
        self._goes_on = _GOES_ON[kind]
        self._has_row = _HAS_ROW[kind]
        self.mends = True
        self.later: int | None = None
        self.forgotten: tuple[set[int], set[int]] = (set(), set())
        self._shown: dict[bytes, _Pair] = {}
        self._results: list[_Result] = []

    def results(self) -> list[_Result]:
        """Return the changes of the result, in order."""
        count = len(self._rows)
        order = self._order
        if order is None or not (any(self.forgotten) or 0 < self._lefts < count):
            for row in range(count):
                self._step(row, {})
            return self._results
        for event in _events(order):
            for side, forgotten in enumerate(self.forgotten):
                for row in forgotten.intersection(event):
                    self._forget(side, self._key_bytes[row])
            ahead: dict[tuple[int, bytes], Row] = {}
            if self.later is not None:
                event.sort(key=lambda row: int(row >= self._lefts) == self.later)
            elif len(event) > 1:
                ahead = self._ahead(event)
            for row in event:
                self._step(row, ahead)
        return self._results

    def _ahead(self, event: list[int]) -> dict[tuple[int, bytes], Row]:
        """Return the rows of each side after an event."""
        return {(int(row >= self._lefts), self._key_bytes[row]): self._rows[row] for row in event}

    def _forget(self, side: int, key: bytes) -> None:
        """Remove the row of a key from a side without emitting a change."""
        if self._sides[side][key][0] is not None:
            self._sides[side][key] = _NO_ROW
            self._shown.pop(key, None)

    def _step(self, row: int, ahead: dict[tuple[int, bytes], Row]) -> None:
        key, (value, time) = self._key_bytes[row], self._rows[row]
        side = int(row >= self._lefts)
        mine, others = self._sides[side], self._sides[1 - side]
        old = mine[key][0]
        partner, partner_time = ahead.get((1 - side, key)) or others[key]
        before = self._shown.get(key)
        if before is None:
            before = (old, others[key][0]) if side == 0 else (others[key][0], old)
        pair = (value, partner) if side == 0 else (partner, value)
        mine[key] = (value, time)
        self._shown[key] = pair
        vanishes = self.mends and self._has_row(before)
        if vanishes or self._goes_on(side, value, old, partner):
            stamp = time if partner is None else max(time, partner_time)
            self._results.append(_Result(row, pair, before, stamp))
