"""The join of two streams: matches each record with the other side's within a time window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from mustela.kernel.core.each import call_each, drop, without
from mustela.kernel.core.encode import encode_column, failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import EXCHANGED
from mustela.kernel.joins.stream_join_origins import JoinOrigins
from mustela.kernel.joins.stream_join_part import Part, Reach
from mustela.kernel.joins.stream_join_rows import KeyRows, SideRows, insert
from mustela.kernel.joins.stream_join_spans import SPAN_BYTES, RecordSpans
from mustela.kernel.joins.stream_join_time import JoinRows, join_clock
from mustela.kernel.joins.stream_join_waiting import Closed, WaitingRecords
from mustela.plan.batch import Batch, in_turn
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.stream_join import StreamJoinNode

__all__ = ["StreamJoinOperator"]

LEFT, RIGHT = 0, 1

PART_ROWS: Final = 50_000
"""How many rows are joined at a time: few enough to stay in the cache."""


@dataclass(slots=True)
class _Side:
    """The rows of one input that can be kept, with their keys and values as bytes.

    Null keys and null values are None.
    """

    batch: Batch
    keys: list[Any]
    values: list[Any]


@dataclass(slots=True)
class _Results:
    """Results being built, as columns.

    Attributes:
        rows: The row that caused each; for a closed window's result, -1 minus its place in
            `closed`.
        others: The partner's value as bytes, or None.
        times: Timestamps.
        closed: The closed windows with results, each with the row that closed it, or -1.
    """

    rows: list[int] = field(default_factory=list[int])
    others: list[bytes | None] = field(default_factory=list[bytes | None])
    times: list[int] = field(default_factory=list[int])
    closed: list[tuple[Closed, bytes, int]] = field(default_factory=list[tuple[Closed, bytes, int]])

    def adders(
        self,
    ) -> tuple[Callable[[int], None], Callable[[bytes], None], Callable[[int], None]]:
        """Return functions that append a row, a partner and a timestamp, for use in hot loops."""
        return self.rows.append, self.others.append, self.times.append

    def add_closed(self, closed: Closed, cause: int, time: int) -> None:
        """Add the records of a closed window."""
        for value in closed.values:
            self.closed.append((closed, value, cause))
            self.rows.append(-len(self.closed))
            self.others.append(None)
            self.times.append(time)


_Met = tuple[Sequence[int], Sequence[bytes]]
"""The partners found for a row, by time and value."""
_NOBODY: Final[_Met] = ((), ())


class StreamJoinOperator(KeyedOperator[StreamJoinNode]):
    """Inner, left and outer join of two streams.

    A record is matched with the records kept from the other side, then kept itself. A record of an
    outer side without a match waits until its window closes.
    """

    def open(self) -> None:
        """Look up stores and serdes."""
        node = self.node
        window = node.window
        self.use_key_serde(node.key)
        self._serdes: list[Serde[Any]] = [
            spec.rows_of(spec.value_serde or ValueSerde())
            for spec in (node.left, node.left if node.single_store else node.right)
        ]
        kept = (node.left,) if node.single_store else (node.left, node.right)
        stores = [self.lane_store(spec) for spec in kept]
        self._outer = node.outer_sides
        self._sides = [
            SideRows(store, segment_ms=window.segment_ms, waits=waits)
            for store, waits in zip(stores, self._outer, strict=False)
        ]
        unmatched = None if node.unmatched is None else self.lane_store(node.unmatched)
        self._clock = join_clock(self, stores, unmatched)
        self._reach = Reach(
            older=(window.before_ms, window.after_ms),
            younger=(window.after_ms, window.before_ms),
            highest_min=self._clock.highest_min,
        )
        self._spans = None if node.spans is None else RecordSpans(node.spans, window)
        self._waits = [younger + window.grace_ms for younger in self._reach.younger]
        self._waiting = self._clock.waiting

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Join the rows of both sides, in merged order."""
        sides = [self._side(side, batch) for side, batch in enumerate(inputs)]
        if self.node.single_store:
            return self._process_self(sides[LEFT])
        rows = self._merged(sides)
        self._judge(rows)
        results = _Results()
        for start in range(0, len(rows.order), PART_ROWS):
            self._match(rows, rows.order[start : start + PART_ROWS], results)
        return self._joined(rows, results)

    def _side(self, side: int, batch: Batch) -> _Side:
        """Encode keys and values; rows that cannot be encoded go to the handler and are dropped."""
        known = self.context.key_serde
        failed: set[int] = set()
        if batch.key_bytes is not None and (known is EXCHANGED or known == self._key):
            keys: list[Any] = batch.key_bytes
        else:
            keys, wrong = encode_column(self._key, batch.keys, batch, self.encode_failures())
            failed.update(wrong)
        values, wrong = encode_column(
            self._serdes[side], batch.values, batch, self.encode_failures()
        )
        failed.update(wrong)
        if self._spans is not None and side == LEFT:
            values, wrong = self._spanned(self._spans, batch, keys, values)
            failed.update(wrong)
        if failed:
            rows = sorted(failed)
            batch, keys, values = without(batch, rows), drop(keys, rows), drop(values, rows)
        outer = self._outer[side]
        if None in keys:
            lost = sum(
                key is None and (value is None or not outer)
                for key, value in zip(keys, values, strict=True)
            )
            self._count_lost("dropped_null_key", lost)
        if None in values:
            lost = sum(
                value is None and key is not None for key, value in zip(keys, values, strict=True)
            )
            self._count_lost("dropped_null_value", lost)
        return _Side(batch, keys, values)

    def _spanned(
        self, spans: RecordSpans, batch: Batch, keys: list[Any], values: list[Any]
    ) -> tuple[list[Any], list[int]]:
        """Return the values of left rows, each prefixed with the window of its row."""
        met = [key is not None and raw is not None for key, raw in zip(keys, values, strict=True)]
        rows = [row for row, meets in enumerate(met) if meets]
        if not rows:
            return values, []
        asked = batch if len(rows) == len(met) else batch.select(met)
        headers = asked.headers or [()] * len(asked)
        columns = (asked.keys, asked.values, asked.timestamps, headers)
        on_failure = failing(asked, self.user_failures(spans.functions()[0]))
        told, failed = call_each(spans.of, columns, on_failure)
        values = list(values)
        for row, window in zip(rows, told, strict=True):
            if window is not None:
                values[row] = window + values[row]
        return values, [rows[place] for place in failed]

    def _count_lost(self, what: str, lost: int) -> None:
        if lost:
            self.count(what, lost)

    def _merged(self, sides: list[_Side]) -> JoinRows:
        left, right = sides
        batch = Batch.concatenate([side.batch for side in sides])
        order = batch.order if len(left.keys) and len(right.keys) else None
        places: Sequence[int] = range(len(batch))
        if order is not None:
            turn = in_turn(order, [len(left.keys), len(right.keys)], self.step.turns)
            places = sorted(places, key=turn.__getitem__)
        return JoinRows(
            batch=batch,
            lefts=len(left.keys),
            order=places,
            keys=left.keys + right.keys,
            values=left.values + right.values,
            times=batch.timestamps,
            nulls=any(None in column for side in sides for column in (side.keys, side.values)),
        )

    # --- when a row comes ---------------------------------------------------------------------

    def _judge(self, rows: JoinRows) -> None:
        """Set, for each row, event time and how far back the other side still has records."""
        rows.groups = self._groups_of(rows.keys)
        self._clock.judge(rows)

    def _part(self, rows: JoinRows, order: Sequence[int]) -> Part:
        lefts = rows.lefts
        columns = (rows.keys, rows.times, rows.values, rows.groups, rows.floors)
        keys, times, values, groups, floors = ([column[row] for row in order] for column in columns)
        rights = [row >= lefts for row in order]
        lows, highs = self._reach.spans(times, floors, rights)
        if self._spans is not None:
            lows, highs = self._spans.narrowed((times, rights, keys, values), lows, highs)
        return Part(order, rights, keys, times, values, groups, lows, highs)

    # --- matching -----------------------------------------------------------------------------

    def _match(self, rows: JoinRows, order: Sequence[int], results: _Results) -> None:
        """Find the partners of each row, keep it, and close the windows that have ended."""
        part = self._part(rows, order)
        for group, places in part.by_group(nulls=rows.nulls):
            for side, other in ((LEFT, RIGHT), (RIGHT, LEFT)):
                looks, came = part.look(places[other]), part.records(places[side])
                self._sides[side].handle(group, looks, came)
        if self._waiting is None:
            self._match_inner(rows, part, results)
        else:
            self._match_outer(rows, part, results)
        for kept in self._sides:
            kept.forget()

    def _match_inner(self, rows: JoinRows, part: Part, results: _Results) -> None:
        lows, highs, times, values = part.lows, part.highs, part.times, part.values
        spans = self._spans
        left, right = self._sides
        add_row, add_other, add_time = results.adders()
        for at, (row, key, time, on_right) in enumerate(
            zip(part.rows, part.keys, times, part.rights, strict=True)
        ):
            if rows.nulls and (key is None or values[at] is None):
                continue
            mine, side = (right, left) if on_right else (left, right)
            if key in side.fresh:
                partner = side.fresh[key]
                other = times[partner]
                if lows[at] <= other <= highs[at] and (
                    spans is None or not on_right or spans.meeting(time, [other], [values[partner]])
                ):
                    add_row(row)
                    add_other(values[partner])
                    add_time(other if other > time else time)
            elif key in side.by_key:
                self._add_many(results, part, at, side.by_key[key])
            if key in mine.fresh or key in mine.by_key:
                mine.add(part, at)
            else:
                mine.fresh[key] = at

    def _add_many(self, results: _Results, part: Part, at: int, known: KeyRows) -> _Met:
        """Add the matches of a row among the records of its key; return their times and values."""
        theirs, raws = known
        start = bisect_left(theirs, part.lows[at])
        end = bisect_right(theirs, part.highs[at], start)
        if end <= start:
            return _NOBODY
        time, met, values = part.times[at], theirs[start:end], raws[start:end]
        if self._spans is not None and part.rights[at]:
            places = self._spans.meeting(time, met, values)
            met, values = [met[n] for n in places], [values[n] for n in places]
        results.rows.extend(repeat(part.rows[at], len(met)))
        results.others.extend(values)
        results.times.extend([max(other, time) for other in met])
        return met, values

    def _match_outer(self, rows: JoinRows, part: Part, results: _Results) -> None:
        waiting = self._waiting
        assert waiting is not None
        lows, highs, times, values = part.lows, part.highs, part.times, part.values
        now, triggers, nexts, spans = rows.now, rows.triggers, waiting.nexts, self._spans
        until, oldest = max(map(now.__getitem__, part.rows)), min(times)
        for group in sorted(set(part.groups)):
            waiting.begin(group, until, oldest)
        left, right = self._sides
        add_row, add_other, add_time = results.adders()
        for at, (row, key, time, group, on_right) in enumerate(
            zip(part.rows, part.keys, times, part.groups, part.rights, strict=True)
        ):
            if triggers[row] and nexts[group] < now[row]:
                self._close(waiting, rows, row, results)
            if key is None or values[at] is None:
                self._add_without_key(rows, row, results)
                continue
            mine, side = (right, left) if on_right else (left, right)
            met = _NOBODY
            if key in side.fresh:
                partner = side.fresh[key]
                other, raw = times[partner], values[partner]
                if lows[at] <= other <= highs[at] and (
                    spans is None or not on_right or spans.meeting(time, [other], [raw])
                ):
                    add_row(row)
                    add_other(raw)
                    add_time(other if other > time else time)
                    met = [other], [raw]
            elif key in side.by_key:
                met = self._add_many(results, part, at, side.by_key[key])
            if met[0]:
                self._met(waiting, rows, row, met)
            else:
                self._unmet(waiting, rows, row, highs[at], results)
            if key in mine.fresh or key in mine.by_key:
                mine.add(part, at)
            else:
                mine.fresh[key] = at

    def _close(self, waiting: WaitingRecords, rows: JoinRows, row: int, results: _Results) -> None:
        """Add the results of closed windows, before those of the row that closed them."""
        side = LEFT if row < rows.lefts else RIGHT
        for closed in waiting.take(rows.groups[row], rows.now[row], side):
            results.add_closed(closed, self._clock.cause(row), self._opened(closed))

    def _add_without_key(self, rows: JoinRows, row: int, results: _Results) -> None:
        """Add the result of a row that cannot have a match, if it has one."""
        side = LEFT if row < rows.lefts else RIGHT
        if rows.values[row] is not None and self._outer[side]:
            self._add_alone(results, row, rows.times[row])

    def _met(self, waiting: WaitingRecords, rows: JoinRows, row: int, met: _Met) -> None:
        """Stop the partners found for a row, by time and value, from waiting."""
        side = RIGHT if row < rows.lefts else LEFT
        if not self._outer[side]:
            return
        group, key = rows.groups[row], rows.keys[row]
        stored = self._sides[side].stored.get(key, ())
        wait, times = self._waits[side], met[0]
        if self._spans is not None and side == LEFT:  # not all records of one time may match
            heads = [raw[:SPAN_BYTES] for raw in met[1]]
            for time, span in dict.fromkeys(zip(times, heads, strict=True)):
                waiting.discard(group, time + wait, side, span + key, stored=time in stored)
            return
        for time in times if len(times) == 1 else dict.fromkeys(times):
            waiting.discard(group, time + wait, side, key, stored=time in stored)

    def _unmet(
        self, waiting: WaitingRecords, rows: JoinRows, row: int, high: int, results: _Results
    ) -> None:
        """Let a row without a partner wait, or add its result if none can come."""
        side = LEFT if row < rows.lefts else RIGHT
        if not self._outer[side]:
            return
        time = rows.times[row]
        if self._spans is not None and side == LEFT:  # it waits as in the widest window
            high = max(time + self._reach.younger[LEFT], self._reach.highest_min or 0)
        if high < rows.now[row]:
            self._add_alone(results, row, time)
        else:
            close, key = time + self._waits[side], rows.keys[row]
            if self._spans is not None and side == LEFT:
                key = rows.values[row][:SPAN_BYTES] + key
            waiting.add(rows.groups[row], close, side, key, rows.values[row])

    @staticmethod
    def _add_alone(results: _Results, row: int, time: int) -> None:
        results.rows.append(row)
        results.others.append(None)
        results.times.append(time)

    # --- windows that close -------------------------------------------------------------------

    def _opened(self, closed: Closed) -> int:
        return closed.close - self._waits[closed.side]

    def finish(self) -> Batch | None:
        """Close the windows that end with the epoch, and drop segments that no record can match."""
        closed: Batch | None = None
        if self._waiting is not None:
            closed = self._close_at_end(self._waiting)
            self._waiting.save()
        for number, side in enumerate(self._sides):
            for group, bound in self._clock.forgets(number, side.store.groups):
                side.expire_before(group, bound)
        return closed

    def _close_at_end(self, waiting: WaitingRecords) -> Batch | None:
        results = _Results()
        for group, now in self._clock.ends(self._sides[LEFT].store.groups):
            waiting.begin(group, now)
            for closed in waiting.take(group, now):
                results.add_closed(closed, -1, self._opened(closed))
        if not results.rows:
            return None
        nothing = Batch.empty()
        return self._joined(JoinRows(nothing, 0, (), [], [], []), results)

    def due_event_times(self) -> dict[int, int]:
        """Return when the window of the first waiting record closes."""
        if self._waiting is None:
            return {}
        lag = self.step.lag_ms
        due = self._waiting.due(self._sides[LEFT].store.groups)
        return {group: time + lag for group, time in due.items()}

    # --- a stream with itself -----------------------------------------------------------------

    def _process_self(self, side: _Side) -> Batch | None:
        """Join a stream with itself: each row is a left one, and then a right one.

        As a left row it matches all records before it; as a right row also itself, after those that
        are not younger.
        """
        count = len(side.keys)
        twice = [*range(count), *range(count)]
        keys, values = side.keys * 2, side.values * 2
        order = [
            row
            for left in range(count)
            if keys[left] is not None and values[left] is not None
            for row in (left, left + count)
        ]
        rows = JoinRows(
            batch=side.batch.take(twice),
            lefts=count,
            order=order,
            keys=keys,
            values=values,
            times=side.batch.timestamps * 2,
        )
        self._judge(rows)
        part = self._part(rows, rows.order)
        (store,) = self._sides
        for group, (lefts, rights) in part.by_group(nulls=False):
            store.handle(group, part.look([*lefts, *rights]), part.records(lefts))
        results = _Results()
        for at, row in enumerate(part.rows):
            known = store.by_key.setdefault(part.keys[at], ([], []))
            if row >= count:
                insert(known, part.times[at], part.values[at])
            self._add_many(results, part, at, known)
        store.forget()
        return self._joined(rows, results)

    # --- results ------------------------------------------------------------------------------

    def _joined(self, rows: JoinRows, results: _Results) -> Batch | None:
        """Call the joiner for all results at once."""
        if not results.rows:
            return None
        batch, lefts = rows.batch, rows.lefts
        causes, others = results.rows, results.others
        left_others = [raw for row, raw in zip(causes, others, strict=True) if row >= lefts]
        right_others = [raw for row, raw in zip(causes, others, strict=True) if 0 <= row < lefts]
        if self._spans is not None:
            left_others = [None if raw is None else raw[SPAN_BYTES:] for raw in left_others]
        next_left = iter(self._serdes[LEFT].deserialize_many(left_others)).__next__
        next_right = iter(self._serdes[RIGHT].deserialize_many(right_others)).__next__
        values = batch.values
        if not results.closed:
            keys = [batch.keys[row] for row in causes]
            key_bytes = [rows.keys[row] for row in causes]
            left = [values[row] if row < lefts else next_left() for row in causes]
            right = [next_right() if row < lefts else values[row] for row in causes]
            return self._call(rows, results, (keys, left, right), key_bytes)
        keys = [None if row < 0 else batch.keys[row] for row in causes]
        key_bytes = [None if row < 0 else rows.keys[row] for row in causes]
        left = [None if row < 0 else values[row] if row < lefts else next_left() for row in causes]
        right = [
            None if row < 0 else next_right() if row < lefts else values[row] for row in causes
        ]
        for place in [place for place, row in enumerate(causes) if row < 0]:
            closed, raw, _ = results.closed[-causes[place] - 1]
            key = closed.key
            if self._spans is not None and closed.side == LEFT:
                key, raw = key[SPAN_BYTES:], raw[SPAN_BYTES:]
            keys[place], key_bytes[place] = self._key.deserialize(key), key
            own = left if closed.side == LEFT else right
            own[place] = self._serdes[closed.side].deserialize(raw)
        return self._call(rows, results, (keys, left, right), key_bytes)

    def _call(
        self,
        rows: JoinRows,
        results: _Results,
        columns: tuple[list[Any], list[Any], list[Any]],
        key_bytes: list[Any],
    ) -> Batch:
        closes = [
            (closed.close + self.step.lag_ms + 1, cause) for closed, _, cause in results.closed
        ]
        origins = JoinOrigins(
            results.times,
            rows.batch,
            results.rows,
            closes=closes,
            groups=lambda: self._result_groups(rows, results, key_bytes),
        )
        node = self.node
        keys, left, right = columns
        before = Batch(keys, left, origins, key_bytes=key_bytes)
        on_failure = failing(before, self.user_failures(node.joiner))
        called = columns if node.with_key else (left, right)
        made, failed = call_each(node.joiner, called, on_failure)
        return without(before.with_values(made), failed)

    def _result_groups(self, rows: JoinRows, results: _Results, key_bytes: list[Any]) -> list[int]:
        """Return the key group of each result: that of the row that caused it, if one did."""
        if results.closed:
            return self._groups_of(key_bytes)
        return [rows.groups[row] for row in results.rows]

    def _groups_of(self, key_bytes: list[Any]) -> list[int]:
        store = self._sides[LEFT].store
        if None not in key_bytes:
            return store.groups_of(key_bytes)
        groups = store.groups_of([key or b"" for key in key_bytes])
        return [0 if key is None else group for key, group in zip(key_bytes, groups, strict=True)]
