"""Steps that call external services, and park what is unfinished when the epoch ends."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from mustela.api.calls import CallFailedError
from mustela.errors import InvariantError
from mustela.kernel.calls.async_queue import Entry, KeyQueue
from mustela.kernel.calls.parked import (
    ParkedRecord,
    WaitingCall,
    call_id,
    fail_parked,
    read_waiting,
    write_waiting,
)
from mustela.kernel.core.each import drop, without
from mustela.kernel.core.encode import encode_column
from mustela.kernel.core.keyed import KeyedOperator
from mustela.kernel.core.options import Handler
from mustela.model import TIME_MAX, Headers, Record
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.calls import CallOutcome, Result, StepCalls, read_results, write_results
from mustela.plan.keygroups import row_groups
from mustela.plan.time import FULL
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.parking import Parked, ParkingRows
from mustela.topology.async_calls import AsyncNode

__all__ = ["AsyncOperator"]


class AsyncOperator(KeyedOperator[AsyncNode]):
    """Makes a call for each record, and forwards its results when they arrive.

    Calls that finish while the epoch waits never touch the store. The others are parked: the
    record, its place in the queue of its key, and the task that makes its call. A later epoch takes
    the results that have arrived, forwards them and removes the records in one commit, so each
    record has exactly one result. If the task that made a call has died, the call is made again.
    """

    def open(self) -> None:
        """Look up the store and the caller."""
        self.use_key_serde(self.node.key)
        self._value: Serde[Any] = self.node.value or ValueSerde()
        self._store = self.lane_store(self.node.parking)
        desk = self.options.calls
        if desk is None:
            msg = f"step {self.step.name!r} makes calls, but its engine does not"
            raise InvariantError(msg)
        self._calls: StepCalls = desk.step(self.node)
        wait = self.node.rules.wait
        wait_ms = self.options.call_wait_ms if wait is None else int(wait.total_seconds() * 1000)
        self._calls.begin(wait_ms)
        self._parking: dict[int, ParkingRows] = {}
        self._queues: dict[bytes, KeyQueue] = {}
        self._ready: deque[Entry] = deque()
        self._running: dict[str, Entry] = {}
        self._fresh: list[Entry] = []
        self._gone: list[Entry] = []
        self._results: list[tuple[Order, Entry, Result, Any]] = []
        self._seen: Counter[Any] = Counter()
        self._topics: Sequence[str] = ()
        self._resumed = False

    def process_one(self, batch: Batch) -> None:
        """Take records, and start the calls of those whose turn it is; see `finish`."""
        self._resume()
        self._topics = batch.origins.topics or self._topics
        fresh = self._entries(batch)
        if self.node.ordered:
            self._queue(fresh)
        else:
            self._ready.extend(fresh)
        self._fresh.extend(fresh)
        self._start()

    def finish(self) -> Batch | None:
        """Take the results that arrive in time, park the other records, and forward the results."""
        self._resume()
        self._start()
        while self._running and (outcomes := self._calls.completed(wait=self._begun)):
            for outcome in outcomes:
                self._settle(outcome)
            self._start()
        self._park()
        return self._batch()

    def due_processing_times(self) -> dict[int, int]:
        """Return when to look again for the results of each key group."""
        now = self.context.time.now_ms
        youngest: dict[int, int] = {}
        for entry in self._running.values():
            since = entry.waiting.since_ms
            youngest[entry.group] = max(youngest.get(entry.group, since), since)
        due = {
            group: now + self._calls.poll_ms(max(0, now - since))
            for group, since in youngest.items()
        }
        no_room = {entry.group for entry in self._ready}
        for group in self._store.groups:
            if group in no_room or (group not in due and self._rows(group).waits):
                due[group] = now + self._calls.poll_ms(None)
        return due

    def parked(self) -> dict[int, int]:
        """Return what share of the parking limit each key group uses."""
        most = self.node.rules.max_parked
        return {group: -(-self._rows(group).parked * FULL // most) for group in self._store.groups}

    def parked_records(self) -> dict[int, int]:
        """Return how many records are parked in each key group."""
        return {group: self._rows(group).parked for group in self._store.groups}

    def _rows(self, group: int) -> ParkingRows:
        rows = self._parking.get(group)
        if rows is None:
            rows = self._parking[group] = ParkingRows(self._store.group(group))
        return rows

    def _entries(self, batch: Batch) -> list[Entry]:
        """Return new records as they will be parked, without those that cannot be."""
        failures = self.encode_failures()
        batch, key_bytes = self.encoded_keys(batch, self.context.key_serde)
        values, failed = encode_column(self._value, batch.values, batch, failures)
        batch, key_bytes = without(batch, failed), drop(key_bytes, failed)
        values = drop(values, failed)
        headers: Sequence[Headers] = batch.headers or [()] * len(batch)
        stamps, order = batch.timestamps, batch.order
        assert order is not None, self.step.name
        suffix = self._key.group_suffix
        groups = row_groups(key_bytes, self.options.key_groups, suffix=suffix)
        now, entries = self.context.time.now_ms, list[Entry]()
        for row, (group, key) in enumerate(zip(groups, key_bytes, strict=True)):
            topic = batch.context(row).topic
            place = (topic, order[row], key)
            name = call_id(self.options.application_id, self.step.name, place, self._seen[place])
            self._seen[place] += 1
            waiting = WaitingCall(
                name, values[row], stamps[row], list(headers[row]), list(order[row]), topic, now
            )
            entries.append(Entry(group, key, waiting))
        return entries

    def _queue(self, fresh: Sequence[Entry]) -> None:
        """Queue new records after those of their keys; records without a key wait for no other."""
        new: dict[int, list[bytes]] = {}
        for entry in fresh:
            if entry.key is not None and entry.key not in self._queues:
                new.setdefault(entry.group, []).append(entry.key)
                self._queues[entry.key] = KeyQueue(self._rows(entry.group), entry.group, entry.key)
        for group, keys in new.items():
            for key, count in zip(keys, self._rows(group).counts(keys), strict=True):
                queue = self._queues[key]
                queue.before = queue.parked = count
        for entry in fresh:
            if entry.key is None:
                self._ready.append(entry)
                continue
            queue = entry.queue = self._queues[entry.key]
            queue.fresh.append(entry)
            self._advance(queue)

    def _advance(self, queue: KeyQueue) -> None:
        entry = queue.advance()
        if entry is not None:
            self._ready.append(entry)

    def _resume(self) -> None:
        """Resume what was parked, once per epoch and before anything new."""
        if self._resumed:
            return
        self._resumed = True
        groups = self._store.groups
        called = {
            entry.waiting.call_id: entry
            for group in groups
            for entry in self._taken_up(group, self._rows(group).called())
        }
        fates = {name: self._calls.fate(name, entry.owner or "") for name, entry in called.items()}
        arrived = self._calls.arrived(called)
        self._calls.sweep(groups, called)
        self._running.update(called)
        for group in groups:
            self._ready.extend(
                self._taken_up(group, self._rows(group).ready(self.node.rules.capacity))
            )
        for outcome in arrived:
            self._settle(outcome)
        for name, fate in fates.items():
            if fate == "lost" and name in self._running:
                self._ready.appendleft(self._running.pop(name))

    def _taken_up(self, group: int, rows: Any) -> list[Entry]:
        """Return parked records whose turn has come, each at the head of the queue of its key."""
        found: list[Parked] = list(rows)
        entries = [
            Entry(group, one.place.key, read_waiting(one.data), one.place, one.owner, listed=True)
            for one in found
        ]
        keyed = [(entry.key, entry) for entry in entries if entry.key is not None]
        counts = self._rows(group).counts([key for key, _ in keyed])
        for (key, entry), count in zip(keyed, counts, strict=True):
            if count:  # otherwise it was parked by a program that does not keep order
                queue = KeyQueue(self._rows(group), group, key, count - 1, count)
                queue.lead(entry)
                self._queues[key] = queue
        return entries

    def _start(self) -> None:
        while self._ready and self._calls.start(self._ready[0].request()):
            entry = self._ready.popleft()
            if entry.owner is not None:  # the task that made the call has died
                self.count("calls_made_again")
                entry.owner = None
            self._running[entry.waiting.call_id] = entry

    @property
    def _begun(self) -> bool:
        """Whether a call of this epoch is running: only those are worth waiting for."""
        return any(entry.owner is None for entry in self._running.values())

    def _settle(self, outcome: CallOutcome) -> None:
        """Forward the result of a call; ignore outcomes of other tasks' calls."""
        entry = self._running.pop(outcome.call_id, None)
        if entry is None:
            return
        if outcome.attempts > 1:
            self.count("call_retries", outcome.attempts - 1)
        self.count("calls_ended" if outcome.error is None else "calls_failed")
        order = entry.order if entry.queue is None else entry.queue.next_order(entry.order)
        key = self._key.deserialize(entry.key)
        for result in self._results_of(entry, key, outcome):
            self._results.append((order, entry, result, key))
        self._gone.append(entry)
        if entry.queue is not None:
            entry.queue.head = None
            self._advance(entry.queue)

    def _results_of(self, entry: Entry, key: Any, outcome: CallOutcome) -> list[Result]:
        if outcome.error is None:
            try:
                return read_results(self.node, outcome.result)
            except Exception as error:  # noqa: BLE001 - a serde of the user's may raise anything
                self._fail(entry, key, error, self.processing_handler)
                return []
        error = self._error(entry, outcome)
        wish = self.node.rules.on_failure
        if not callable(wish):
            self._fail(entry, key, error, wish or self.processing_handler)
            return []
        value = self._value.deserialize(entry.waiting.value)
        record = Record(key, value, max(0, entry.waiting.timestamp), entry.headers)
        try:
            given = wish(record, error)
            if self.node.gives == "value":
                return [Result(None, given)]
            return read_results(self.node, write_results(self.node, given))
        except Exception as failure:  # noqa: BLE001 - the function is the user's
            self._fail(entry, key, failure, self.processing_handler)
            return []

    def _error(self, entry: Entry, outcome: CallOutcome) -> CallFailedError:
        waiting = entry.waiting
        evidence: dict[str, object] = {"attempts": outcome.attempts}
        if outcome.where:
            evidence["line"] = outcome.where
        return CallFailedError(
            f"{outcome.error}: {outcome.text}",
            evidence=evidence,
            at=self.node.origin,
            fields={
                "cause": outcome.error,
                "attempts": outcome.attempts,
                "idempotency_key": waiting.call_id,
            },
        )

    def _fail(self, entry: Entry, key: Any, error: Exception, handler: Handler) -> None:
        """Hand a record whose call failed to the handler."""
        record = ParkedRecord(entry.waiting, entry.key, has_raw=self.node.value is not None)
        fail_parked(self, record, key, error, (handler, self.node.function))

    def _park(self) -> None:
        """Bring the store up to date."""
        parked = self._let_go(self._running)
        self._start()  # for keys whose last result has just arrived
        self._let_go(self._running.keys() - parked)
        gone = set(map(id, self._gone))
        stay = [entry for entry in self._fresh if id(entry) not in gone]
        self._count(stay)
        self._add(stay)
        for entry in self._gone:
            if entry.place is not None:
                self._rows(entry.group).remove(entry.place)
        for entry in self._running.values():
            assert entry.place is not None
            if entry.owner is None:
                self._rows(entry.group).call(entry.place, self._calls.owner)
        for entry in self._ready:
            assert entry.place is not None
            if not entry.listed:
                self._rows(entry.group).make_ready(entry.place)
        for queue in self._queues.values():
            if queue.count != queue.before:
                queue.parking.set_count(queue.key, queue.count)

    def _count(self, stay: Sequence[Entry]) -> None:
        """Note how many records of each key group will wait; the store still has the old count."""
        more = Counter(entry.group for entry in stay)
        more.subtract(entry.group for entry in self._gone if entry.place is not None)
        for group, change in more.items():
            if change:
                self._rows(group).parked += change

    def _let_go(self, names: Iterable[str]) -> set[str]:
        """Leave all calls to later epochs except those that have just ended; return their names."""
        left = set(names)
        for name in sorted(left):
            outcome = self._calls.park(name)
            if outcome is not None:
                self._settle(outcome)
        return left

    def _add(self, entries: Sequence[Entry]) -> None:
        """Write records of this epoch into the parking store."""
        by_group: dict[int, list[Entry]] = {}
        if entries:
            self.count("parked", len(entries))
        for entry in entries:
            by_group.setdefault(entry.group, []).append(entry)
        for group, mine in by_group.items():
            rows = [(entry.key, write_waiting(entry.waiting)) for entry in mine]
            for entry, place in zip(mine, self._rows(group).add(rows), strict=True):
                entry.place = place

    def _batch(self) -> Batch | None:
        """Return the results of the epoch, in order."""
        if not self._results:
            return None
        found = sorted(self._results, key=lambda one: one[0])
        keeps = self.node.gives == "value"
        stamps: list[int] = []
        headers: list[Headers] = []
        for _, entry, result, _ in found:
            stamp = result.timestamp
            stamps.append(entry.waiting.timestamp if stamp is None else min(stamp, TIME_MAX))
            headers.append(entry.headers if result.headers is None else tuple(result.headers))
        origins = Origins(
            stamps, headers if any(headers) else None, [one[0] for one in found], self._topics
        )
        values = [result.value for _, _, result, _ in found]
        self._results = []
        if not keeps:
            return Batch([result.key for _, _, result, _ in found], values, origins)
        key_bytes: Any = [entry.key for _, entry, _, _ in found]
        return Batch([key for _, _, _, key in found], values, origins, key_bytes=key_bytes)
