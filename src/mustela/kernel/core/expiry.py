"""Expiring rows: they are deleted when their time is up, and readers of the table are notified.

A step that keeps a table is run by `ExpiringOperator`, which looks at the step's input first: an
expired row is deleted before a record with its key arrives, so that it makes no difference how many
records are in an epoch. Rows that no record touches are deleted as soon as event time, or the
clock, reaches their expiry. Each deletion is forwarded as a change of the table, ordered by its
time.

Processors read any key at any time; the view of their store hides expired rows (`StoreExpiry`).
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
"""How many rows of a key group an epoch checks because they may have expired; the others wait for
the next epoch, which follows at once. Keys of input rows are checked in any case."""

_BEHIND: Final = 2**62
"""Takes the place of the key group in the order of a change: such a change comes after all changes
of the record, and before the next record."""


def expiring_store(stores: Sequence[StoreSpec]) -> StoreSpec | None:
    """Return the store whose rows expire, None if there is none."""
    return next((spec for spec in stores if spec.ttl_ms is not None), None)


class StoreExpiry:
    """The current time for the rows of a store in one lane, and which of them have expired.

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
        """Return the time of a key group after all its input so far."""
        return self.clock.closed_until(group)

    def sweep(self) -> list[tuple[int, Expired]]:
        """Remove the expired rows; return them with their key groups."""
        return [
            (group, expired)
            for group, view in self.views.items()
            for expired in view.take_until(self.now(group) - self.ttl_ms, most=SWEPT_MAX)
        ]

    def save(self) -> None:
        """Write the event time reached."""
        self.clock.save()

    def due_event_times(self) -> dict[int, int]:
        """Return the watermark at which the next row of each key group may expire."""
        if self.by_clock:
            return {}
        firsts = self._firsts()
        return {g: time + self.lag_ms for g, time in firsts.items() if time > self.now(g)}

    def due_processing_times(self) -> dict[int, int]:
        """Return the wall-clock time at which that is; at once where expired rows are left."""
        firsts = self._firsts()
        if self.by_clock:
            return firsts
        return {g: self._time.now_ms for g, time in firsts.items() if time <= self.now(g)}

    def _firsts(self) -> dict[int, int]:
        firsts = ((group, view.first_time()) for group, view in self.views.items())
        return {group: time + self.ttl_ms for group, time in firsts if time is not None}


class _Row(NamedTuple):
    """An input row of the step, with the time it is judged by."""

    order: Order
    place: int
    row: int
    key: bytes
    timestamp: int
    empty: bool
    now: int


class _Deletion(NamedTuple):
    """An expired row of the table."""

    order: Order
    timestamp: int
    expired: Expired


class ExpiringOperator(Operator[Any]):
    """Runs a step that keeps a table, and deletes the table's expired rows.

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
        """Give the step its rows, and delete what has expired by then."""
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
        """Give the step its rows, in several turns where rows of the table expire in between.

        Args:
            inputs: The rows.
            made: Collects the output of the step.
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
        """Return when rows that do not say it were written: the latest record of each key."""
        by_clock, skips = self._expiry.by_clock, self._operator.skips_null_values
        found: dict[bytes, int] = {}
        for row in turn:
            if not row.empty:
                time = row.now if by_clock else row.timestamp
                found[row.key] = max(time, found.get(row.key, time))
            elif not skips:  # after a deletion the row starts again
                found.pop(row.key, None)
        return found

    def _rows(self, inputs: Sequence[Batch]) -> list[_Row]:
        """Return the rows of all inputs in order, each with the time it is judged by."""
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
        """Return the time each row is judged by."""
        order, keys = [row[0] for row in rows], [row[3] for row in rows]
        origins = Origins([row[4] for row in rows], None, order if all(order) else None)
        return self._expiry.clock.row_times(Batch(keys, keys, origins), keys)

    def _times_of(self, rows: Sequence[_Row]) -> dict[bytes, int]:
        """Return when the table's rows of these keys were written."""
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

        A row waits if what is written for its key before it may have expired at its time. The first
        row of each key never waits: what has expired for it is deleted before the turn.
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
        """Whether nothing that these rows read or write can have expired for one of them."""
        oldest = min(min(row.timestamp, row.now) for row in rows)
        oldest = min(oldest, min(known.values(), default=oldest))
        return oldest + self._expiry.ttl_ms > max(row.now for row in rows)

    def _taken(self, rows: Sequence[_Row], known: Mapping[bytes, int]) -> list[_Deletion]:
        """Delete what has expired for the first row of its key."""
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
        """Delete what has expired though no input row has its key."""
        expiry, time = self._expiry, self.context.time
        found: list[_Deletion] = []
        for group, expired in expiry.sweep():
            timestamp = time.now_ms if expiry.by_clock else expired.time + expiry.ttl_ms
            moment = time.watermark if expiry.by_clock else timestamp
            found.append(self._deletion(group, expired, moment, timestamp))
        return found

    def _deletion(self, group: int, expired: Expired, moment: int, timestamp: int) -> _Deletion:
        """Return a deletion at a moment, but not before what the epoch wrote for the key."""
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
        """Finish the step, and delete what has expired by then."""
        made = self._operator.finish()
        gone = self._swept()
        self._expiry.save()
        if not gone:
            return made
        told = self._deletions(gone)
        return told if made is None else Batch.merge([made, told])

    def due_event_times(self) -> dict[int, int]:
        """Return when each key group has a row that expires, or the step has something to do."""
        return earliest(self._operator.due_event_times(), self._expiry.due_event_times())

    def due_processing_times(self) -> dict[int, int]:
        """Return the same by the clock."""
        return earliest(self._operator.due_processing_times(), self._expiry.due_processing_times())

    def parked(self) -> dict[int, int]:
        """Return how much the step has parked."""
        return self._operator.parked()

    def parked_records(self) -> dict[int, int]:
        """Return how many records the step has parked."""
        return self._operator.parked_records()

    def key_serde_out(self) -> Serde[Any] | None:
        """Return the serde of the key bytes in the output."""
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
