"""What must hold, whatever happens: checked at each commit, and at the end of a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from mustela.errors import EnvironmentFault
from mustela.plan.epoch import GroupMark
from mustela.plan.plan import Plan
from mustela.runtime.commit.epochs import EpochReader
from mustela.runtime.record.epoch_record import EpochRecord, PartitionState, epochs_topic
from mustela.runtime.record.record_rows import RecordFold
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.kinds.list import ListRows
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from tests.simulation.broker import BASE_MS, Entry, Partition, Txn, written
from tests.simulation.happenings import Happenings
from tests.simulation.machine import DiskEnvironment
from tests.simulation.oracle import CountOracle, EachOracle, Found
from tests.simulation.oracle_streams import LATER
from tests.simulation.programs import KEYS, PROGRAMS, planned
from tests.simulation.readers import Readers
from tests.simulation.world import Life, SimWorld, Violation, current_life

__all__ = ["INVARIANTS", "NOT_HELD", "Invariants"]

INVARIANTS = {
    "rows": "an epoch writes the rows that its input calls for, and no others",
    "order": "epochs follow each other: numbers, offsets and watermark never go back",
    "changelog": "a changelog ends where the epoch record says",
    "mirror": "the offsets of the consumer group are those of the epoch record",
    "state": "local state and changelogs say the same of the last epoch",
    "time": "the watermark is not held up for ever by a clock that was wrong for a while",
    "reads": "a reader sees what one committed epoch left, whole, and never an older one again",
    "told": "an epoch that is told to be done is committed, and told once",
    "complete": "all input is read in the end",
    "stops": "an application that stops says so by name, and for a reason",
    "progress": "an application comes to rest",
}
"""Every invariant by name."""

FAILURES_BORNE = 3
"""So many failures at most end no process."""

NOT_HELD: frozenset[str] = frozenset()
"""Invariants that Mustela does not keep; a test for each says so, and fails when it does."""

EXCUSED: dict[str, frozenset[str]] = {
    "log lost": frozenset(
        {"CHANGELOG_TRUNCATED", "CHANGELOG_RECREATED", "STATE_WITHOUT_RECORD", "OFFSETS_MOVED"}
    ),
    "expired": frozenset({"SOURCE_EXPIRED", "SOURCE_OFFSET_OUT_OF_RANGE"}),
    "age": frozenset({"CHANGELOG_ROWS_LOST"}),
    "compact": frozenset(
        {"RESTORE_TOO_SLOW"}
    ),  # where a changelog keeps deletions for a millisecond
    "group": frozenset({"OFFSETS_MOVED"}),
    # An old answer about topics names the old one, of which the log is too short.
    "recreate": frozenset(
        {"SOURCE_TOPIC_RECREATED", "SOURCE_OFFSET_OUT_OF_RANGE", "SOURCE_TRUNCATED"}
    ),
    "truncate": frozenset({"SOURCE_OFFSET_OUT_OF_RANGE", "SOURCE_TRUNCATED"}),
}
"""The codes with which an application may stop for good, by what happened."""

_SAYS_WHY = frozenset[str]().union(*EXCUSED.values())
"""Who stops with one of these says that somebody did something to its topics."""


class Invariants:
    """Watches the cluster of a world.

    Args:
        world: The world.
        application_id: The application.
        readers: Who reads meanwhile.
    """

    def __init__(self, world: SimWorld, application_id: str, readers: Readers) -> None:
        self._world = world
        self._readers = readers
        self._name = application_id
        self._epochs = epochs_topic(application_id)
        self._program = PROGRAMS[world.script.program]
        self._begin()
        self._claims: list[tuple[Life, int]] = []
        self._newest = -1
        self._latest: dict[Any, bytes | None] = {}
        world.broker.on_commit = self.committed
        world.on_end = self.ended
        world.may_stop = self._is_excused
        world.on_reset = self._begin

    def _begin(self) -> None:
        """A life begins: nothing of an earlier one is known."""
        self._readers.reset()
        self._last: EpochRecord | None = None
        self._fold = RecordFold()
        self._oracle = self._program.oracle()
        every = self._program.settings.get("emit") == "every"
        self._grown = EachOracle("extra", "more") if every else CountOracle(out="more")
        self._read: dict[tuple[str, str, int], int] = {}
        self._began: dict[tuple[str, int], int] = {}
        self._passed: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._leaders: dict[tuple[str, str, int], tuple[int, int]] = {}

    def committed(self, name: str, txn: Txn) -> None:
        """Check a transaction that has just been committed."""
        if name != self._name:
            return
        epochs = txn.places.get((self._epochs, 0))
        if epochs and epochs is not self._world.broker.partition(self._epochs, 0):
            self._world.note("committed to an epochs topic that is gone: nobody finds that record")
            return
        entries = {place: written(log.entries, txn) for place, log in txn.places.items()}
        records = entries.pop((self._epochs, 0), [])
        if len(records) != 1:
            self._fail("order", f"{len(records)} epoch records in one transaction")
            return
        assert records[0].value is not None
        record = self._fold.take(records[0].value)
        if record is None:
            self._fail("order", "a delta follows another base than its own")
            return
        self._check_rebuilt(record)
        self._world.note(
            f"committed {record.incarnation}/{record.epoch}/{record.attempt}"
            f" {[(p.topic, p.partition, p.end) for p in record.partitions]}"
        )
        if "log lost" in self._world.applied and (record.incarnation, record.epoch) == (1, 0):
            self._begin_without_record(records[0].value)
        if self._last is None or record.incarnation > self._last.incarnation:
            self._claims.append((current_life(), self._world.ms))
        self._world.has_begun = self._world.has_begun or any(
            topic not in {"more", f"{self._name}-extra-changelog"} for topic, _ in entries
        )
        self._check_order(record)
        self._check_rows(record, entries)
        self._check_changelogs(record, entries)
        self._readers.committed(record, entries)
        self._last = record

    def _begin_without_record(self, row: bytes) -> None:
        """The epochs topic was lost: what was there must have been nothing, as far as is known.

        Where neither a changelog nor the group tells of it either, it is another life that begins.
        """
        topics = self._world.broker.topics
        logs = (topics[name].partitions for name in topics if name.endswith("-changelog"))
        if any(log.end for partitions in logs for log in partitions) or self._knows_group():
            self._last = None
            self._read.clear()
        else:
            self._begin()
            self._fold.take(row)

    def _knows_group(self) -> bool:
        """Whether the group has offsets in the sources of the program."""
        group = self._world.broker.groups.get(self._name, {})
        return any(topic in self._program.sources for topic, _ in group)

    def told(self, life: Life, epoch: int) -> None:
        """Check what a process tells its listeners of an epoch that it says is done."""
        if epoch <= life.told_epoch:
            self._fail("told", f"epoch {epoch} is told to be done after epoch {life.told_epoch}")
        life.told_epoch = epoch

    def ended(self, life: Life) -> None:
        """Check why a process ended."""
        error = life.error
        if life.outcome == "FENCED":
            since = [claimed for claimed, at in self._claims if at >= life.began_ms]
            if not any(claimed is not life for claimed in since):
                self._fail("stops", "an instance calls itself replaced, and no other one has come")
        if life.outcome in _SAYS_WHY and not self._is_excused(life.outcome):
            self._fail("stops", f"an instance says {life.outcome}, and nothing like that happened")
        may_pass = isinstance(error, EnvironmentFault) and error.retryable
        if may_pass and life.running and life.met < FAILURES_BORNE and not life.paused:
            self._fail("stops", f"{life.met} failures ended an instance: {life.outcome}")

    def _fail(self, invariant: str, what: str) -> None:
        self._world.report(Violation(invariant, what))

    def _check_rebuilt(self, record: EpochRecord) -> None:
        """Whoever reads the topic now, compacted as far as can be, finds this record."""
        log = self._world.broker.topics[self._epochs].partitions[0]
        newest: dict[bytes | None, Entry] = {}
        for entry in log.between(log.start, log.stable):
            newest.pop(entry.key, None)
            newest[entry.key] = entry
        rebuilt = EpochReader(_Rows(list(newest.values()))).last()
        if rebuilt != record:
            self._fail("order", f"a reader finds {rebuilt}, not {record}")

    def _check_order(self, record: EpochRecord) -> None:
        last = self._last
        if last is None:
            if (record.incarnation, record.epoch) != (1, 0):
                self._fail("order", f"the first record is {record.incarnation}/{record.epoch}")
            return
        now, then = (record.incarnation, record.epoch), (last.incarnation, last.epoch)
        if now not in {(then[0] + 1, then[1]), (then[0], then[1] + 1)}:
            self._fail("order", f"{now} follows {then}")
        if record.watermark < last.watermark:
            self._fail("order", f"the watermark goes from {last.watermark} to {record.watermark}")
        for topic, topic_id in last.topic_ids.items():
            if record.topic_ids.get(topic) != topic_id:
                continue
            before = {p.partition: p.end for p in last.partitions if p.topic == topic}
            after = {p.partition: p.end for p in record.partitions if p.topic == topic}
            for partition, end in before.items():
                if after.get(partition, end) < end:
                    self._fail(
                        "order", f"{topic}-{partition} goes from {end} to {after[partition]}"
                    )

    def _check_rows(
        self, record: EpochRecord, entries: Mapping[tuple[str, int], list[Entry]]
    ) -> None:
        readings: list[dict[str, list[tuple[int, Entry]]]] = [{}]
        for part in record.partitions:
            topic_id = record.topic_ids[part.topic]
            place = (part.topic, topic_id, part.partition)
            start = self._read.get(place, self._first(part))
            if part.end < start:
                self._fail("order", f"{place} is read again from {part.end}, it was at {start}")
            if place not in self._read:
                self._began[part.topic, part.partition] = start
            self._read[place] = part.end
            passed = self._passed.setdefault((part.topic, part.partition), [])
            passed.append((BASE_MS + self._world.ms, part.end))
            log = self._world.broker.ever[topic_id].partitions[part.partition]
            # Where nothing is left to read of a range, the record cannot say whose log it was.
            asked = current_life().read_as.get((part.topic, part.partition, start), -1)
            logs = log.as_of_each(max(asked, part.leader_epoch), start, part.end)
            logs += self._of_another(part, topic_id, start)
            if len(logs) > 1:
                readings = [_copy(read) for read in readings for _ in logs]
            for number, read in enumerate(readings):
                rows = logs[number % len(logs)]
                read.setdefault(part.topic, []).extend((part.partition, e) for e in rows)
            self._check_one_log(part, log, place)
        found = self._found(entries)
        more = {place: found.pop(place) for place in list(found) if place[0] == "more"}
        names = (name for name, store in record.stores.items() if store.slept_at is None)
        self._oracle.stores = frozenset(names)
        copies = self._copies(record)
        read = self._plausible([{**read, **copies} for read in readings], record, found)
        grown = {"extra": read.pop("extra", [])}
        if self._program.is_loose:
            self._check_sent({**self._oracle.epoch(read, record.watermark)})
            self._check_sent({**self._grown.epoch(grown, record.watermark)})
            return
        wrong = self._oracle.wrong(read, record.watermark, found)
        wrong += self._grown.wrong(grown, record.watermark, more)
        if wrong:
            self._fail("rows", f"epoch {record.epoch}: {wrong[:3]} (found, expected)")

    def _of_another(self, part: PartitionState, topic_id: str, start: int) -> list[list[Entry]]:
        """Return what may have been read of topics that an old answer gave another one's id."""
        ever = self._world.broker.ever.items() if "lag" in self._world.applied else ()
        others = [topic for of, topic in ever if topic.name == part.topic and of != topic_id]
        logs = [log for topic in others for log in topic.partitions[part.partition :][:1]]
        return [log.as_of(-1, start, part.end) for log in logs]

    def _copies(self, record: EpochRecord) -> dict[str, list[tuple[int, Entry]]]:
        """Return what the copies of global tables have read, and what they may have read, too."""
        read: dict[str, list[tuple[int, Entry]]] = {}
        for topic, (topic_id, ends) in record.global_ends.items():
            _, leaders = record.global_logs.get(topic, (0, []))
            for number, end in enumerate(ends):
                log = self._world.broker.ever[topic_id].partitions[number]
                leader = leaders[number] if number < len(leaders) else -1
                rows = log.as_of(leader, 0, end)
                later = [
                    entry
                    for entry in (*log.lost, *log.entries)
                    if entry.visible and (entry.offset >= end or entry.leader > leader >= 0)
                ]
                read.setdefault(topic, []).extend((number, entry) for entry in rows)
                read.setdefault(LATER, []).extend((number, entry) for entry in later)
        return read

    def _plausible(
        self,
        readings: list[dict[str, list[tuple[int, Entry]]]],
        record: EpochRecord,
        found: Found,
    ) -> dict[str, list[tuple[int, Entry]]]:
        """Return what an epoch has read, by what it wrote; the first, if that tells nothing.

        Where a log lost its end while it was read nobody can tell what of it came in time: who
        goes on from the place learns of the loss, and stops.
        """
        for read in readings if len(readings) > 1 else ():
            oracle = deepcopy(self._oracle)
            if self._program.is_loose:
                rows = oracle.epoch(read, record.watermark)
                if all(self._was_sent(place, rows[place]) for place in rows):
                    return read
            elif not oracle.wrong(read, record.watermark, deepcopy(found)):
                return read
        return readings[0]

    def _was_sent(self, place: tuple[str, bytes], rows: list[bytes | None]) -> bool:
        lives = self._world.every_life
        return any(life.sent.get(place, [])[-len(rows) :] == rows for life in lives)

    def _check_sent(self, rows: Mapping[Any, list[bytes | None]]) -> None:
        """Rows of at_least_once are there when their epoch commits, and no older one after."""
        mine = current_life()
        for place, expected in rows.items():
            if not self._was_sent(place, expected):
                self._fail("rows", f"{place}: {expected} was not sent")
            last = mine.sent.get(place)
            if last and last[-1] != expected[-1] and not self._is_late:
                self._fail("rows", f"{place}: {last[-1]!r} was sent after {expected[-1]!r}")
            self._latest[place] = expected[-1]

    def _check_latest(self) -> None:
        """Where one instance ran at a time, the last row of a key is its newest."""
        if self._world.happened["instances at once: 2"]:
            return
        left = self._left_by_attempts()
        for (topic, key), value in self._latest.items():
            logs = self._world.broker.topics[topic].partitions
            rows = [e.value for log in logs for e in log.entries if e.key == key and e.visible]
            if rows[-1] != value and rows[-1] not in left.get((topic, key), ()):
                self._fail("rows", f"the last row of {key!r} is {rows[-1]!r}, not {value!r}")

    def _left_by_attempts(self) -> dict[tuple[str, bytes], list[bytes | None]]:
        """Return the rows that an epoch which failed may have left, for nobody repeats it.

        It read a source that the next release lacks: its records rest, and so do those rows.
        """
        last = self._last
        left: dict[tuple[str, bytes], list[bytes | None]] = {}
        if last is None or "extra" not in last.dormant:
            return left
        grown = deepcopy(self._grown)
        for part in last.partitions:
            if part.topic != "extra":
                continue
            log = self._world.broker.topics[part.topic].partitions[part.partition]
            for entry in log.between(part.end, log.stable):
                rows = grown.epoch({part.topic: [(part.partition, entry)]}, last.watermark)
                for place, values in rows.items():
                    left.setdefault(place, []).extend(values)
        return left

    def _found(self, entries: Mapping[tuple[str, int], list[Entry]]) -> Found:
        """Return the rows of the sinks."""
        found: Found = {}
        for (topic, _), rows in entries.items():
            if not topic.startswith(f"{self._name}-"):
                for row in rows:
                    found.setdefault((topic, row.key), []).append(row.value)
        return found

    @property
    def _is_late(self) -> bool:
        """Whether a transaction commits that the process in hand did not begin."""
        return self._world.delivers_late

    def _first(self, part: PartitionState) -> int:
        """Return where a partition begins that no epoch has read.

        A topic that is new to the application begins where a setting says. A partition that is
        found later begins with its first record, or the application stops.
        """
        if self._last is None:
            return part.end
        is_new = part.topic not in self._last.topic_ids
        if is_new and self._world.script.options["reset"] == "latest":
            return part.end
        return 0

    def _check_one_log(
        self, part: PartitionState, log: Partition, place: tuple[str, str, int]
    ) -> None:
        """What is read goes on what was read before: no truncation took any of that between."""
        then, start = self._leaders.get(place, (-1, 0))
        lost = [e for e in log.lost if then < (e.lost_by or 0) <= part.leader_epoch]
        gone = [e.offset for e in lost if e.leader <= then and e.offset < start]
        if then >= 0 and gone:
            self._fail("order", f"{place} lost {gone} of what was read, and reading goes on")
        self._leaders[place] = part.leader_epoch, part.end

    def _check_changelogs(
        self, record: EpochRecord, entries: Mapping[tuple[str, int], list[Entry]]
    ) -> None:
        for store, ends in record.changelog_ends.items():
            topic = f"{self._name}-{store}-changelog"
            for group, end in enumerate(ends):
                rows = entries.get((topic, group))
                if rows and rows[-1].offset + 1 != end:
                    self._fail(
                        "changelog", f"{topic}-{group} ends at {rows[-1].offset + 1}, not {end}"
                    )

    def at_the_end(self, happenings: Happenings) -> None:
        """Check what must hold when everything was put right and the application came to rest."""
        last, world = self._last, self._world
        self._newest = -1 if last is None else last.watermark
        if not world.came_to_rest:
            ended = world.ends[-1] if world.ends else "nothing"
            if ended != "stopped":  # it was told to stop, because it did not come to rest
                self._excuse(ended)
            return
        if last is None:
            self._fail("complete", "nothing was ever committed")
            return
        read = {(part.topic, part.partition): part.end for part in last.partitions}
        for place, log in happenings.sources.items():
            if place[0] in self._program.global_:
                continue
            left = log.between(read.get(place, 0), log.stable)
            if left:
                self._fail("complete", f"{len(left)} records of {place} are not read")
            late = self._written_behind(place, log)
            if late and not EXCUSED["truncate"].intersection(world.ends):
                self._fail("complete", f"{late} of {place} came where it had been, and is not read")
        missing = self._oracle.left()
        if missing:
            self._fail("complete", f"nothing came of {missing[:3]}")
        self._check_latest()
        self._check_mirror(last)
        self._check_time(last)
        self._check_state(last)

    def _written_behind(self, place: tuple[str, int], log: Partition) -> list[int]:
        """Return the offsets that reading had passed when their records were written."""
        passed = self._passed.get(place, [])
        return [
            entry.offset
            for entry in log.between(0, log.stable)
            if any(ms < entry.append_ms and end > entry.offset for ms, end in passed)
        ]

    def _excuse(self, code: str) -> None:
        """An application that does not come back must have been given a reason."""
        if not self._is_excused(code):
            self._fail("stops", f"it ends with {code}, however often it is started")

    def _is_excused(self, code: str) -> bool:
        applied, stuck = self._world.applied, self._program.stuck
        if any(code in EXCUSED.get(kind, ()) for kind in applied):
            return True
        return any(code in stuck[n] and f"version {n}" in applied for n in stuck)

    def _check_mirror(self, last: EpochRecord) -> None:
        """The group's offsets are those of the record, where anything was read."""
        group = self._world.broker.groups.get(self._name, {})
        for part in last.partitions:
            known = group.get((part.topic, part.partition))
            began = self._began.get((part.topic, part.partition), 0)
            is_forgotten = known is None and (part.end == began or "group" in self._world.applied)
            is_forgotten = is_forgotten or not self._has_started_since(self._world.moved_ms)
            if known != part.end and not is_forgotten:
                place = f"{part.topic}-{part.partition}"
                self._fail(
                    "mirror", f"the group is at {known} of {place}, the record at {part.end}"
                )

    def _has_started_since(self, moved_ms: int) -> bool:
        """Whether an instance has looked at the group's offsets after somebody moved them."""
        return any(life.began_ms >= moved_ms for life, _ in self._claims)

    def _check_time(self, last: EpochRecord) -> None:
        """All partitions are idle in the end, so windows that the newest record closes are over."""
        read = [part for part in last.partitions if part.topic not in last.dormant]
        newest = max((part.max_timestamp for part in read), default=-1)
        overdue = self._oracle.overdue(newest)
        if overdue:
            self._fail("time", f"{overdue[:3]} are over, and nobody was told")

    def _check_state(self, last: EpochRecord) -> None:
        """What a changelog holds up to its recorded end is what each current copy holds."""
        plan = self._plan_of(last)
        for stage in plan.stages:
            if not stage.stores:
                continue
            ends = [last.changelog_ends[plan.log_names[name]] for name in stage.logged]
            for group, wrote in enumerate(last.groups[stage.identity]):
                mark = GroupMark(
                    None if wrote is None else (wrote.incarnation, wrote.epoch, wrote.attempt),
                    tuple(end[group] for end in ends),
                    0 if wrote is None else wrote.time_ms,
                )
                for machine in self._world.machines:
                    path = f"{self._name}/{stage.identity}/{group}"
                    environment = machine.environments.get(path)
                    if environment is not None:
                        self._compare(
                            stage.stores, environment, mark.committed(stage.logged), group
                        )

    def _plan_of(self, last: EpochRecord) -> Plan:
        """The release that wrote the last epoch: instances of two may have run in the end."""
        script = self._world.script
        versions = {event.args[1] for event in script.events if event.kind == "start"}
        plans = [planned(script.program, version) for version in sorted({0, *versions})]
        return next(
            plan
            for plan in plans
            if all(stage.identity in last.groups for stage in plan.stages if stage.stores)
        )

    def _times(self) -> set[int]:
        """Return the times of all records that there were."""
        topics = self._world.broker.topics
        logs = [log for name in self._program.sources for log in topics[name].partitions]
        return {e.timestamp for log in logs for e in (*log.entries, *log.expired, *log.lost)}

    def _compare(
        self,
        stores: Sequence[StoreSpec],
        environment: DiskEnvironment,
        committed: Committed,
        group: int,
    ) -> None:
        if committed.token is None or not environment.condition(committed).ready:
            return
        snapshot = environment.snapshot(committed)
        for store in stores:
            if not store.logged:
                continue
            topic = f"{self._name}-{store.log_name}-changelog"
            log = self._world.broker.topics[topic].partitions[group]
            rows: dict[bytes, bytes] = {}
            for entry in log.between(0, committed.changelog_ends[store.name]):
                if entry.value is None:
                    rows.pop(entry.key or b"", None)
                else:
                    rows[entry.key or b""] = entry.value
            held = dict(snapshot.range(store.name, None, None))
            if store.kind == "list":
                times = self._times()
                held, rows = (_joinable(store, of, self._newest, times) for of in (held, rows))
            # What is over leaves a windowed store without a word, and its changelog by age.
            wrong = {key for key in held if rows.get(key) != held[key]}
            if store.retention_ms is None or store.kind == "list":
                wrong |= rows.keys() - held.keys()
            if wrong and not (store.retention_ms is not None and "age" in self._world.applied):
                self._fail(
                    "state", f"{topic}-{group} and local state differ in {sorted(wrong)[:3]}"
                )
        snapshot.close()


class _Rows:
    """An epochs topic with these rows."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def newest_first(self) -> Iterator[bytes]:
        """Yield the values."""
        return (entry.value for entry in reversed(self._entries) if entry.value is not None)


def _copy(read: Mapping[str, list[tuple[int, Entry]]]) -> dict[str, list[tuple[int, Entry]]]:
    return {topic: [*rows] for topic, rows in read.items()}


def _joinable(
    store: StoreSpec, rows: dict[bytes, bytes], newest: int, times: set[int]
) -> dict[bytes, bytes]:
    """Return what may still be joined of a list store, by key.

    A copy keeps the same records in lists of its own, and what is over for longer than the log.
    """
    place = EnvironmentSpec(application_id="a", stage="s", group=0, groups=1, stores=(store,))
    environment = MemoryEnvironment(place)
    environment.restore(store.name, iter(rows.items()), 0)
    environment.finish_restore(Committed())
    assert store.segment_ms is not None
    assert store.retention_ms is not None
    low = max(0, newest - store.retention_ms + store.segment_ms)
    view = Overlay(environment.snapshot(Committed())).store(store.name)
    lists = ListRows(view, segment_ms=store.segment_ms)
    count, length = len(KEYS), store.segment_ms
    kept: dict[bytes, list[tuple[int, bytes]]] = {}
    for start in sorted({time - (time - low) % length for time in times if time >= low}):
        found = lists.read(KEYS, [start] * count, [start + length - 1] * count)
        for key, (stamps, values) in found.items():
            there = [
                row for row in zip(stamps, values, strict=True) if 0 <= row[0] - start < length
            ]
            kept.setdefault(key, []).extend(there)
    return {key: repr(rows).encode() for key, rows in kept.items() if rows}
