"""Rows that are kept for a time: where it is over they are deleted, and their readers are told.

A step that keeps a table is run by `ExpiringOperator`. What it is given is looked at first: rows
whose key it meets after their time are deleted before it meets them, so that it makes no difference
how many records are in an epoch. What nobody touches is deleted as soon as event time, or the
clock, has come so far. Each deletion goes on as a change of the table, in the place of the moment.

Processors read any key at any time; the view of their store hides what is over (`StoreExpiry`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from mustela.kernel.core.codec import StoreCodec
from mustela.kernel.core.event_time import EventClock, WallClock
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.lane_state import LaneStore
from mustela.kernel.core.operator import Operator
from mustela.plan.batch import Batch, Order, Origins
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.ttl import Expired, TtlView

__all__ = ["SWEPT_MAX", "ExpiringOperator", "StoreExpiry", "earliest", "expiring_store"]

SWEPT_MAX: Final = 100_000
"""How many rows of a key group an epoch looks at because they may be over; the others wait for the
next epoch, which follows at once. A key that is met is looked at in any case."""

_BEHIND: Final = 2**62
"""Stands where a change of a record has its key group: what has this comes after all changes of
the record, and before the next one."""


def expiring_store(stores: Sequence[StoreSpec]) -> StoreSpec | None:
    """Return the store whose rows expire, None if there is none."""
    return next((spec for spec in stores if spec.ttl_ms is not None), None)


class StoreExpiry:
    """What time it is for the rows of a store in one lane, and which of them are over.

    Args:
        operator: The step.
        spec: Its store.
    """

    def __init__(self, operator: KeyedOperator[Any], spec: StoreSpec) -> None:
        assert spec.ttl_ms is not None, spec.name
        self.ttl_ms = spec.ttl_ms
        self.by_clock = spec.ttl_by == "processing_time"
        self.store = operator.lane_store(spec)
        self.lag_ms = operator.step.lag_ms
        self._time = operator.context.time
        groups = self.store.groups
        self.views: dict[int, TtlView] = {group: self._view(group) for group in groups}
        whole: Any = {group: view.view for group, view in self.views.items()}
        rows = LaneStore(spec.name, whole, operator.options.key_groups)
        self.clock: EventClock = (
            WallClock(self._time) if self.by_clock else operator.event_clock(rows)
        )

    def _view(self, group: int) -> TtlView:
        found: Any = self.store.group(group)
        assert isinstance(found, TtlView), found
        return found

    def now(self, group: int) -> int:
        """Return the time behind all that a key group was given so far."""
        return self.clock.closed_until(group)

    def sweep(self) -> list[tuple[int, Expired]]:
        """Remove what is over; return it with its key groups."""
        return [
            (group, expired)
            for group, view in self.views.items()
            for expired in view.take_until(self.now(group) - self.ttl_ms, most=SWEPT_MAX)
        ]

    def save(self) -> None:
        """Write how far event time has come."""
        self.clock.save()

    def due_event_times(self) -> dict[int, int]:
        """Return the watermark at which the next row of each key group may be over."""
        if self.by_clock:
            return {}
        firsts = self._firsts()
        return {g: time + self.lag_ms for g, time in firsts.items() if time > self.now(g)}

    def due_processing_times(self) -> dict[int, int]:
        """Return the time of the clock at which that is; at once where rows are left that are."""
        firsts = self._firsts()
        if self.by_clock:
            return firsts
        return {g: self._time.now_ms for g, time in firsts.items() if time <= self.now(g)}

    def _firsts(self) -> dict[int, int]:
        firsts = ((group, view.first_time()) for group, view in self.views.items())
        return {group: time + self.ttl_ms for group, time in firsts if time is not None}


class _Row(NamedTuple):
    """A row that the step is given, with the time at which it is judged."""

    order: Order
    place: int
    row: int
    key: bytes
    timestamp: int
    empty: bool
    now: int


class _Deletion(NamedTuple):
    """A row of the table that is over."""

    order: Order
    timestamp: int
    expired: Expired


class ExpiringOperator(Operator[Any]):
    """Runs a step that keeps a table, and deletes the rows of the table whose time is over.

    Args:
        operator: The step.
        spec: Its store.
    """

    unprompted = True

    def __init__(self, operator: KeyedOperator[Any], spec: StoreSpec) -> None:
        self._operator = operator
        self._expiry = StoreExpiry(operator, spec)
        self._expiry.store.swept_by = operator.step.name
        self._codec = StoreCodec(spec, spec.value_serde or ValueSerde())
        self._met: dict[bytes, Order] = {}
        super().__init__(operator.step, operator.node, operator.context)

    def process(self, inputs: Sequence[Batch]) -> Batch | None:
        """Let the step meet its rows, and delete what is over by then."""
        made: list[Batch] = []
        keyed = [self._keyed(batch, place) for place, batch in enumerate(inputs)]
        gone = self._in_turns(keyed, made) if any(map(len, keyed)) else []
        gone += self._swept()
        if gone:
            made.append(self._deletions(gone))
        return Batch.merge(made) if len(made) > 1 else made[0] if made else None

    def _keyed(self, batch: Batch, place: int) -> Batch:
        """Return the rows of an input that have a key, with its bytes."""
        if not len(batch):
            return batch
        known = self.context.key_serdes
        serde = known[place] if place < len(known) else self.context.key_serde
        batch, keys = self._operator.encoded_keys(self._operator.without_null_keys(batch), serde)
        return batch if keys is batch.key_bytes else batch.with_key_bytes(keys)

    def _in_turns(self, inputs: Sequence[Batch], made: list[Batch]) -> list[_Deletion]:
        """Give the step its rows, in as many turns as rows of the table are over in between.

        Args:
            inputs: The rows.
            made: Takes what the step gives.
        """
        gone: list[_Deletion] = []
        rows = self._rows(inputs)
        while rows:
            known = self._times_of(rows)
            turn, later = self._divided(rows, known)
            gone += self._taken(turn, known)
            written = self._written(turn)
            for view in self._expiry.views.values():
                view.clock.written = written
            self._met.update({row.key: row.order for row in turn})
            whole = len(turn) == sum(map(len, inputs))
            given = self._operator.process(inputs if whole else _parts(inputs, turn))
            if given is not None and len(given):
                made.append(given)
            rows = later
        return gone

    def _written(self, turn: Sequence[_Row]) -> dict[bytes, int]:
        """Return when rows are written that do not say it: the latest record of each key counts."""
        by_clock, skips = self._expiry.by_clock, self._operator.skips_null_values
        found: dict[bytes, int] = {}
        for row in turn:
            if not row.empty:
                time = row.now if by_clock else row.timestamp
                found[row.key] = max(time, found.get(row.key, time))
            elif not skips:  # what comes after a deletion begins anew
                found.pop(row.key, None)
        return found

    def _rows(self, inputs: Sequence[Batch]) -> list[_Row]:
        """Return the rows of all inputs in their order, each with what time it is for it."""
        found: list[tuple[Order, int, int, bytes, int, bool]] = []
        for place, batch in enumerate(inputs):
            keys: Any = batch.key_bytes or ()
            order = batch.order or [()] * len(batch)
            columns = zip(order, keys, batch.timestamps, batch.values, strict=True)
            found += [
                (at, place, row, key, time, value is None)
                for row, (at, key, time, value) in enumerate(columns)
            ]
        found.sort(key=itemgetter(0, 1, 2))
        return [_Row(*row, now) for row, now in zip(found, self._judged(found), strict=True)]

    def _judged(self, rows: Sequence[tuple[Order, int, int, bytes, int, bool]]) -> list[int]:
        """Return what time it is for each row."""
        order, keys = [row[0] for row in rows], [row[3] for row in rows]
        origins = Origins([row[4] for row in rows], None, order if all(order) else None)
        return self._expiry.clock.row_times(Batch(keys, keys, origins), keys)

    def _times_of(self, rows: Sequence[_Row]) -> dict[bytes, int]:
        """Return when the rows of the table were written whose keys are met."""
        keys = list(dict.fromkeys(row.key for row in rows))
        found: dict[bytes, int] = {}
        for view, places in self._expiry.store.by_group(keys):
            mine = [keys[place] for place in places]
            assert isinstance(view, TtlView), view
            times = zip(mine, view.times_of(mine), strict=True)
            found.update({key: time for key, time in times if time is not None})
        return found

    def _divided(
        self, rows: list[_Row], known: Mapping[bytes, int]
    ) -> tuple[list[_Row], list[_Row]]:
        """Return the rows of the next turn, and those that have to wait for another one.

        A row waits if what is written for its key before it may be over at its time. The first one
        of each key never does: what is over for it is deleted before the turn.
        """
        ttl, by_clock = self._expiry.ttl_ms, self._expiry.by_clock
        if by_clock or self._all_young(rows, known):
            return rows, []
        least: dict[bytes, int] = {}  # no row of the table is older in this turn
        turn: list[_Row] = []
        later: list[_Row] = []
        waiting: set[bytes] = set()
        for row in rows:
            key, found = row.key, least.get(row.key)
            if found is None:
                before = known.get(key)
                if before is not None and before + ttl > row.now:
                    found = before
            elif key in waiting or found + ttl <= row.now:
                waiting.add(key)
                later.append(row)
                continue
            written = min(row.timestamp, row.now)
            least[key] = written if found is None else min(found, written)
            turn.append(row)
        return turn, later

    def _all_young(self, rows: Sequence[_Row], known: Mapping[bytes, int]) -> bool:
        """Whether nothing that these rows meet or write can be over for one of them."""
        oldest = min(min(row.timestamp, row.now) for row in rows)
        oldest = min(oldest, min(known.values(), default=oldest))
        return oldest + self._expiry.ttl_ms > max(row.now for row in rows)

    def _taken(self, rows: Sequence[_Row], known: Mapping[bytes, int]) -> list[_Deletion]:
        """Delete what is over for the first row of its key."""
        ttl, by_clock = self._expiry.ttl_ms, self._expiry.by_clock
        if not known:
            return []
        first: dict[bytes, _Row] = {}
        for row in rows:
            first.setdefault(row.key, row)
        over = [key for key, row in first.items() if known.get(key, row.now) + ttl <= row.now]
        found: list[_Deletion] = []
        for key, group in zip(over, self._expiry.store.groups_of(over), strict=True):
            row = first[key]
            for expired in self._expiry.views[group].take([key]):
                timestamp = row.now if by_clock else expired.time + ttl
                moment = self.context.time.before if by_clock else timestamp
                if row.order:
                    moment = min(moment, row.order[0])
                found.append(self._deletion(group, expired, moment, timestamp))
        return found

    def _swept(self) -> list[_Deletion]:
        """Delete what is over though no row meets it."""
        expiry, time = self._expiry, self.context.time
        found: list[_Deletion] = []
        for group, expired in expiry.sweep():
            timestamp = time.now_ms if expiry.by_clock else expired.time + expiry.ttl_ms
            moment = time.watermark if expiry.by_clock else timestamp
            found.append(self._deletion(group, expired, moment, timestamp))
        return found

    def _deletion(self, group: int, expired: Expired, moment: int, timestamp: int) -> _Deletion:
        """Return a deletion at a moment, but behind what the epoch wrote for the key."""
        order: Order = (moment, -1, -1, -1, group, 0)
        met = self._met.get(expired.key)
        if met is not None and met >= order:
            order = (*met, _BEHIND)
        return _Deletion(order, timestamp, expired)

    def _deletions(self, gone: list[_Deletion]) -> Batch:
        """Return the changes that delete rows."""
        self.count("expired", len(gone))
        gone.sort(key=lambda one: (one.order, one.expired.key))
        inner = [one.expired.key for one in gone]
        serde: Serde[Any] = self._operator.key_serde_out() or ValueSerde(sort_keys=True)
        order: list[Order] = [(*one.order, number) for number, one in enumerate(gone)]
        olds: list[Any] | None = None
        if self.step.wants_old:
            olds = self._codec.decode_many([one.expired.row for one in gone], inner)[0]
        return Batch(
            serde.deserialize_many(inner),
            [None] * len(gone),
            Origins([one.timestamp for one in gone], None, order),
            olds=olds,
            key_bytes=inner,
        )

    def finish(self) -> Batch | None:
        """Let the step end, and delete what is over by then."""
        made = self._operator.finish()
        gone = self._swept()
        self._expiry.save()
        if not gone:
            return made
        told = self._deletions(gone)
        return told if made is None else Batch.merge([made, told])

    def due_event_times(self) -> dict[int, int]:
        """Return when each key group has a row that is over, or the step something to do."""
        return earliest(self._operator.due_event_times(), self._expiry.due_event_times())

    def due_processing_times(self) -> dict[int, int]:
        """Return the same by the clock."""
        return earliest(self._operator.due_processing_times(), self._expiry.due_processing_times())

    def parked(self) -> dict[int, int]:
        """Return what the step has parked."""
        return self._operator.parked()

    def parked_records(self) -> dict[int, int]:
        """Return how many records the step has parked."""
        return self._operator.parked_records()

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the serde of the key bytes that go on."""
        return self._operator.key_serde_out()


def _parts(inputs: Sequence[Batch], rows: Sequence[_Row]) -> list[Batch]:
    """Return some rows of the inputs."""
    chosen: list[list[int]] = [[] for _ in inputs]
    for row in rows:
        chosen[row.place].append(row.row)
    return [batch.take(sorted(mine)) for batch, mine in zip(inputs, chosen, strict=True)]


def earliest(*times: Mapping[int, int]) -> dict[int, int]:
    """Return the lowest of several times for each key group.

    Example:
        >>> earliest({0: 5, 1: 7}, {1: 6})
        {0: 5, 1: 6}
    """
    groups = set[int]().union(*times)
    return {group: min(one[group] for one in times if group in one) for group in sorted(groups)}
