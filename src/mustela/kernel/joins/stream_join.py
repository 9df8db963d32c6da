"""The join of two streams: matches each record with the other side's within a time window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Any, Final

from mustela.kernel.core.each import call_each, drop, without
from mustela.kernel.core.encode import encode_column, failing
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.operator import EXCHANGED
from mustela.kernel.joins.stream_join_origins import JoinOrigins
from mustela.kernel.joins.stream_join_part import Part, Reach, places_by_group
from mustela.kernel.joins.stream_join_results import JoinResults
from mustela.kernel.joins.stream_join_rows import KeyRows, Seen, SideRows, insert
from mustela.kernel.joins.stream_join_spans import SPAN_BYTES, RecordSpans
from mustela.kernel.joins.stream_join_time import JoinRows, join_clock
from mustela.kernel.joins.stream_join_waiting import Closed, WaitingRecords
from mustela.plan.batch import Batch, in_turn
from mustela.plan.columns import picked
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.stream_join import StreamJoinNode

__all__ = ["StreamJoinOperator"]

LEFT, RIGHT = 0, 1


@dataclass(slots=True)
class _Side:
    """The rows of one input that can be kept, with their keys and values as bytes.

    Null keys and null values are None.
    """

    batch: Batch
    keys: list[Any]
    values: list[Any]


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
        self._sides = [SideRows(store, segment_ms=window.segment_ms) for store in stores]
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
        results = JoinResults()
        if rows.nulls:
            self._add_without_key(rows, results)
        for group, places in places_by_group(rows):
            part = self._part(rows, group, places)
            if self._waiting is None:
                self._match_inner(part, results)
            else:
                self._match_outer(self._waiting, rows, part, results)
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

    def _part(self, rows: JoinRows, group: int, places: tuple[list[int], list[int]]) -> Part:
        """Return the rows at some places, left ones and right ones, as columns."""
        order, lefts = rows.order, len(places[LEFT])
        both = places[LEFT] + places[RIGHT]
        some = picked(order, both)
        keys, times = picked(rows.keys, some), picked(rows.times, some)
        values = picked(rows.values, some)
        lows, highs = self._reach.spans(LEFT, times[:lefts])
        right_lows, right_highs = self._reach.spans(RIGHT, times[lefts:])
        lows += right_lows
        highs += right_highs
        if min(lows) < max(rows.newest_floor, 0):
            floors = picked(self._clock.floors(rows), some)
            lows = [max(low, floor, 0) for low, floor in zip(lows, floors, strict=True)]
        if self._spans is not None:
            self._spans.narrow(times[:lefts], values, lows, highs)
        return Part(group, lefts, both, some, keys, times, values, lows, highs)

    # --- matching -----------------------------------------------------------------------------

    def _kept(self, part: Part) -> tuple[dict[bytes, KeyRows], dict[bytes, KeyRows]]:
        """Return the stored records of each side that rows may match, and then keep the rows."""
        left, right = part.bounds(LEFT), part.bounds(RIGHT)
        on_left = self._sides[LEFT].handle(part, right, left)
        return on_left, self._sides[RIGHT].handle(part, left, right)

    def _match_inner(self, part: Part, results: JoinResults) -> None:
        """Find the partners of each row, and keep it.

        Only keys with several records on a side need to be gone through record by record.
        """
        on_left, on_right = self._kept(part)
        rows, partners, in_turn = self._pairs(part, on_left, on_right)
        results.add_pairs(part, rows, partners)
        for known, bounds in ((on_right, part.bounds(LEFT)), (on_left, part.bounds(RIGHT))):
            if known:
                keys = part.keys[bounds]
                for at in compress(range(bounds.start, bounds.stop), map(known.__contains__, keys)):
                    key = part.keys[at]
                    if key not in in_turn:
                        self._add_many(results, part, at, known[key])
        if in_turn:
            self._match_in_turn(part, in_turn, (Seen(on_left), Seen(on_right)), results)

    def _pairs(
        self, part: Part, on_left: dict[bytes, KeyRows], on_right: dict[bytes, KeyRows]
    ) -> tuple[list[int], list[int], set[bytes]]:
        """Return the rows whose only partner came before them in this epoch, and those partners.

        And the other keys that came on both sides. Keys that came on one side can have stored
        partners alone.
        """
        lefts, rights, repeated = part.last_by_key()
        places, times, lows, highs = part.places, part.times, part.lows, part.highs
        spans = self._spans
        rows, partners, others = list[int](), list[int](), set[bytes]()
        for key in filter(lefts.__contains__, rights):
            if key in on_left or key in on_right or key in repeated:
                others.add(key)
                continue
            left, at = lefts[key], rights[key]
            partner = left
            if places[left] > places[at]:
                partner, at = at, left
            other = times[partner]
            if lows[at] <= other <= highs[at] and (
                spans is None
                or at == left
                or spans.meeting(times[at], [other], [part.values[partner]])
            ):
                rows.append(at)
                partners.append(partner)
        return rows, partners, others

    def _match_in_turn(
        self, part: Part, keys: set[bytes], sides: tuple[Seen, Seen], results: JoinResults
    ) -> None:
        """Find the partners of the rows of some keys, in merged order."""
        left, right = sides
        for at in part.in_turn():
            key = part.keys[at]
            if key in keys:
                mine, side = (left, right) if at < part.lefts else (right, left)
                self._partners(results, part, at, side)
                mine.add(part, at)

    def _partners(self, results: JoinResults, part: Part, at: int, side: Seen) -> _Met:
        """Add the matches of a row; return the times and values of its partners."""
        key = part.keys[at]
        if key not in side.fresh:
            return (
                self._add_many(results, part, at, side.by_key[key])
                if key in side.by_key
                else _NOBODY
            )
        partner = side.fresh[key]
        time, other, raw = part.times[at], part.times[partner], part.values[partner]
        if not part.lows[at] <= other <= part.highs[at]:
            return _NOBODY
        if (
            self._spans is not None
            and at >= part.lefts
            and not self._spans.meeting(time, [other], [raw])
        ):
            return _NOBODY
        results.places.append(part.places[at])
        results.others.append(raw)
        results.times.append(other if other > time else time)
        return [other], [raw]

    def _add_many(self, results: JoinResults, part: Part, at: int, known: KeyRows) -> _Met:
        """Add the matches of a row among the records of its key; return their times and values."""
        theirs, raws = known
        start = bisect_left(theirs, part.lows[at])
        end = bisect_right(theirs, part.highs[at], start)
        if end <= start:
            return _NOBODY
        time, met, values = part.times[at], theirs[start:end], raws[start:end]
        if self._spans is not None and at >= part.lefts:
            places = self._spans.meeting(time, met, values)
            met, values = [met[n] for n in places], [values[n] for n in places]
        results.places.extend(repeat(part.places[at], len(met)))
        results.others.extend(values)
        results.times.extend([max(other, time) for other in met])
        return met, values

    def _match_outer(
        self, waiting: WaitingRecords, rows: JoinRows, part: Part, results: JoinResults
    ) -> None:
        """Find the partners of each row, keep it, and close the windows that have ended."""
        group, lefts, now = part.group, part.lefts, rows.now
        waiting.begin(group, max([now[row] for row in part.rows]), min(part.times))
        on_left, on_right = self._kept(part)
        done = bytearray(len(part.rows))
        if waiting.is_traceless and self._spans is None:
            self._match_at_once(part, now, (on_left, on_right), done, results)
        left, right = Seen(on_left), Seen(on_right)
        for waits, seen in zip(self._outer, (left, right), strict=True):
            if waits:
                seen.note_stored()
        triggers, nexts = rows.triggers, waiting.nexts
        next_close = nexts[group]
        for at in part.in_turn():
            row = part.rows[at]
            if next_close < now[row] and triggers[row]:
                self._close(waiting, rows, row, part.places[at], results)
                next_close = nexts[group]
            if done[at]:
                continue
            mine, side = (left, right) if at < lefts else (right, left)
            met = self._partners(results, part, at, side)
            if met[0]:
                self._met(waiting, part, at, met, side.stored)
            else:
                self._unmet(waiting, part, at, now[row], results)
            mine.add(part, at)
            next_close = nexts[group]

    def _match_at_once(
        self,
        part: Part,
        now: list[int],
        stored: tuple[dict[bytes, KeyRows], dict[bytes, KeyRows]],
        done: bytearray,
        results: JoinResults,
    ) -> None:
        """Match the rows that need not wait for their only partner, and mark them in ``done``.

        It comes before their window closes, so that nobody would see them wait.
        """
        rows, partners, _ = self._pairs(part, *stored)
        matched, met = list[int](), list[int]()
        for at, partner in zip(rows, partners, strict=True):
            side = LEFT if partner < part.lefts else RIGHT
            if self._outer[side]:
                came, comes = now[part.rows[partner]], now[part.rows[at]]
                close = part.times[partner] + self._waits[side]
                if part.highs[partner] < came or close < comes:
                    continue
            done[at] = done[partner] = 1
            matched.append(at)
            met.append(partner)
        results.add_pairs(part, matched, met)

    def _close(
        self, waiting: WaitingRecords, rows: JoinRows, row: int, place: int, results: JoinResults
    ) -> None:
        """Add the results of closed windows, before those of the row that closed them."""
        side = LEFT if row < rows.lefts else RIGHT
        for closed in waiting.take(rows.groups[row], rows.now[row], side):
            results.add_closed(closed, self._clock.cause(row), self._opened(closed), place)

    def _add_without_key(self, rows: JoinRows, results: JoinResults) -> None:
        """Add the results of rows that cannot have a match, if they have one."""
        for place, row in enumerate(rows.order):
            side = LEFT if row < rows.lefts else RIGHT
            if self._outer[side] and rows.keys[row] is None and rows.values[row] is not None:
                results.add_alone(place, rows.times[row])

    def _met(
        self,
        waiting: WaitingRecords,
        part: Part,
        at: int,
        met: _Met,
        stored: dict[bytes, set[int]],
    ) -> None:
        """Stop the partners found for a row, by time and value, from waiting."""
        side = RIGHT if at < part.lefts else LEFT
        if not self._outer[side]:
            return
        group, key = part.group, part.keys[at]
        known = stored.get(key, ())
        wait, times = self._waits[side], met[0]
        if self._spans is not None and side == LEFT:  # not all records of one time may match
            heads = [raw[:SPAN_BYTES] for raw in met[1]]
            for time, span in dict.fromkeys(zip(times, heads, strict=True)):
                waiting.discard(group, time + wait, side, span + key, stored=time in known)
            return
        for time in times if len(times) == 1 else dict.fromkeys(times):
            waiting.discard(group, time + wait, side, key, stored=time in known)

    def _unmet(
        self, waiting: WaitingRecords, part: Part, at: int, now: int, results: JoinResults
    ) -> None:
        """Let a row without a partner wait, or add its result if none can come."""
        side = LEFT if at < part.lefts else RIGHT
        if not self._outer[side]:
            return
        time, high = part.times[at], part.highs[at]
        if self._spans is not None and side == LEFT:  # it waits as in the widest window
            high = max(time + self._reach.younger[LEFT], self._reach.highest_min or 0)
        if high < now:
            results.add_alone(part.places[at], time)
        else:
            close, key = time + self._waits[side], part.keys[at]
            if self._spans is not None and side == LEFT:
                key = part.values[at][:SPAN_BYTES] + key
            waiting.add(part.group, close, side, key, part.values[at])

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
        results = JoinResults()
        for group, now in self._clock.ends(self._sides[LEFT].store.groups):
            waiting.begin(group, now)
            for closed in waiting.take(group, now):
                results.add_closed(closed, -1, self._opened(closed), 0)
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
        (store,), results = self._sides, JoinResults()
        for group, places in places_by_group(rows):
            part = self._part(rows, group, places)
            by_key = store.handle(part, slice(0, len(part.rows)), part.bounds(LEFT))
            for at in part.in_turn():
                known = by_key.setdefault(part.keys[at], ([], []))
                if at >= part.lefts:
                    insert(known, part.times[at], part.values[at])
                self._add_many(results, part, at, known)
        return self._joined(rows, results)

    # --- results ------------------------------------------------------------------------------

    def _joined(self, rows: JoinRows, results: JoinResults) -> Batch | None:
        """Call the joiner for all results at once."""
        results.put_in_order(rows.order)
        causes = results.rows
        if not causes:
            return None
        values, lefts = rows.batch.values, rows.lefts
        others = self._other_values(results, lefts)
        if not results.closed:
            keys, key_bytes = picked(rows.batch.keys, causes), picked(rows.keys, causes)
            pairs = zip(causes, others, strict=True)
            left = [values[row] if row < lefts else other for row, other in pairs]
            pairs = zip(causes, others, strict=True)
            right = [other if row < lefts else values[row] for row, other in pairs]
            return self._call(rows, results, (keys, left, right), key_bytes)
        keys = [None if row < 0 else rows.batch.keys[row] for row in causes]
        key_bytes = [None if row < 0 else rows.keys[row] for row in causes]
        left = [
            None if row < 0 else values[row] if row < lefts else other
            for row, other in zip(causes, others, strict=True)
        ]
        right = [
            None if row < 0 else other if row < lefts else values[row]
            for row, other in zip(causes, others, strict=True)
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

    def _other_values(self, results: JoinResults, lefts: int) -> list[Any]:
        """Return the value of each result's partner, None if it has none."""
        left, right = self._serdes
        if self._spans is None and left == right:
            return left.deserialize_many(results.others)
        pairs = list(zip(results.rows, results.others, strict=True))
        left_others = [raw for row, raw in pairs if row >= lefts]
        right_others = [raw for row, raw in pairs if row < lefts]
        if self._spans is not None:
            left_others = [None if raw is None else raw[SPAN_BYTES:] for raw in left_others]
        next_left = iter(left.deserialize_many(left_others)).__next__
        next_right = iter(right.deserialize_many(right_others)).__next__
        return [next_left() if row >= lefts else next_right() for row in results.rows]

    def _call(
        self,
        rows: JoinRows,
        results: JoinResults,
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

    def _result_groups(
        self, rows: JoinRows, results: JoinResults, key_bytes: list[Any]
    ) -> list[int]:
        """Return the key group of each result: that of the row that caused it, if one did."""
        if results.closed:
            return self._groups_of(key_bytes)
        return picked(rows.groups, results.rows)

    def _groups_of(self, key_bytes: list[Any]) -> list[int]:
        store = self._sides[LEFT].store
        if None not in key_bytes:
            return store.groups_of(key_bytes)
        groups = store.groups_of([key or b"" for key in key_bytes])
        return [0 if key is None else group for key, group in zip(key_bytes, groups, strict=True)]
