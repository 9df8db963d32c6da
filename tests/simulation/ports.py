"""The ports of the driver's loop, into the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mustela.connectors.kafka.admin import KafkaAdmin, TopicDescription, TopicSpec
from mustela.connectors.kafka.errors import (
    BrokerUnavailable,
    OffsetOutOfRange,
    ReadTimedOut,
    SourceGone,
    TransactionAborted,
    TransactionExpired,
    TransactionFenced,
    TransactionUnknown,
)
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import Headers, TopicPartition
from mustela.plan.partitions import partition_of
from mustela.plan.ranges import RawChunk
from mustela.plan.sealed import SealedRows
from mustela.plan.ticket import Ticket
from mustela.runtime.ports import LocalState
from tests.simulation.broker import Fenced, Partition
from tests.simulation.world import BASE_MS, Life, SimWorld, current_life, current_world

__all__ = ["SimClock", "SimCluster", "SimDisk", "SimEpochLog", "SimReader", "SimTransactions"]

OPEN_TRIES = 20
HALF = 0.5


class _Port:
    def __init__(self, world: SimWorld, life: Life) -> None:
        self._world = world
        self._life = life
        self._broker = world.broker

    def _ask(self, what: str) -> None:
        """Reach the cluster: a request that is to fail fails here."""
        self._world.at(self._life, what)
        if self._world.failure(self._life) is not None:
            self._world.note(f"{what} fails")
            raise BrokerUnavailable(f"could not {what}: simulated")


class SimClock:
    """The clocks of a machine."""

    def __init__(self, world: SimWorld, life: Life) -> None:
        self._world = world
        self._life = life

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return BASE_MS + self._world.ms + self._life.machine.skew_ms

    def monotonic(self) -> float:
        """Seconds."""
        return self._world.ms / 1000

    def sleep(self, seconds: float) -> None:
        """Let the others run."""
        self._world.sleep(self._life, seconds)


class SimCluster(_Port):
    """What `KafkaAdmin` offers, with the checks of the real one."""

    _servers = "simulated"
    check_internal = KafkaAdmin.check_internal
    missing_topic = KafkaAdmin.missing_topic

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        self._ask("ask for the cluster id")
        return "simulated"

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        self._ask("list topics")
        return sorted(self._broker.topics)

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Describe those of ``topics`` that exist, as far as the asked broker knows."""
        self._ask("describe topics")
        found: dict[str, TopicDescription] = {}
        for name in sorted(set(topics)):
            topic = self._world.seen_topic(self._life, name)
            if topic is not None:
                found[name] = TopicDescription(
                    name=name,
                    topic_id=topic[0],
                    partitions=topic[1],
                    replication_factor=1,
                )
        return found

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics."""
        self._ask("ask for topic settings")
        return {name: dict(self._broker.topics[name].config) for name in sorted(set(topics))}

    def weak_topics(self, topics: Iterable[str]) -> list[str]:
        """Nothing is weak here: one broker, and its truncations are told by the world."""
        return []

    def configure(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Change nothing: no simulated application keeps its history."""
        assert not wanted

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics."""
        if not specs:
            return
        self._ask("create topics")
        for spec in specs:
            self._broker.create(spec.name, spec.partitions, {**spec.config, **spec.created_with})
        self._ask("see topics made")  # where this fails, they were made although nobody says so

    def _log(self, place: tuple[str, int]) -> Partition:
        log = self._broker.partition(*place)
        if log is None:
            if place[0] not in self._broker.topics:
                raise self.missing_topic(place[0])
            raise SourceGone(f"topic '{place[0]}' has no partition {place[1]}")
        return log

    def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition."""
        self._ask("ask for offsets")
        return {TopicPartition(*place): self._log(place).stable for place in places}

    def log_ends(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, LogPosition]:
        """Return the last stable offset of each partition, and its leader's epoch."""
        self._ask("ask for offsets")
        logs = {TopicPartition(*place): self._log(place) for place in places}
        return {place: LogPosition(log.stable, log.leader) for place, log in logs.items()}

    def kept_ends(self, read: Mapping[TopicPartition, LogPosition]) -> dict[TopicPartition, int]:
        """Return up to where logs are what was read of them, where they lost some of that."""
        if not read:
            return {}
        self._ask("compare logs with what was read of them")
        kept: dict[TopicPartition, int] = {}
        for place, at in read.items():
            end = self._log(place).epoch_end(at.leader_epoch)
            if end < at.offset:
                kept[TopicPartition(*place)] = end
        return kept

    def high_watermarks(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the end of each partition, open transactions included."""
        self._ask("ask for offsets")
        return {TopicPartition(*place): self._log(place).end for place in places}

    def earliest_offsets(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        self._ask("ask for offsets")
        return {TopicPartition(*place): self._log(place).start for place in places}

    def offsets_for_times(
        self, times: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at or after a time."""
        self._ask("ask for offsets")
        return {
            TopicPartition(*place): next(
                (entry.offset for entry in self._log(place).entries if entry.timestamp >= time),
                None,
            )
            for place, time in times.items()
        }

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return the offsets of a group."""
        self._ask("ask for group offsets")
        known = self._broker.groups.get(group, {})
        return {TopicPartition(*place): offset for place, offset in known.items()}

    def close(self) -> None:
        """Do nothing."""


class SimTransactions:
    """What `TransactionalSink` offers, with its outcomes: after an error the producer is gone."""

    takes_sealed = False

    def __init__(self, world: SimWorld, life: Life, name: str, timeout_ms: int) -> None:
        self._world = world
        self._life = life
        self._broker = world.broker
        self._name = name
        self._timeout_ms = timeout_ms
        self._epoch: int | None = None
        self._began = 0
        self._ends: dict[tuple[str, int], int] = {}
        self._error: str | None = None

    def warm(self) -> None:
        """Nothing is connected here."""

    def reopen(self) -> None:
        """Make a new producer: older ones are fenced, and what they left open is ended.

        It tries again, as the real one does; each try may have its effect without an answer.
        """
        self._epoch = None
        for _ in range(OPEN_TRIES):
            self._world.at(self._life, "init transactions")
            failed = self._world.failure(self._life)
            if failed is None or self._world.random.random() < HALF:
                self._world.deliver_late(self._name)
                self._epoch = self._broker.init_producer(self._name, self._timeout_ms)
            self._world.at(self._life, "init transactions answered")
            if failed is None:
                return
            self._world.note("init transactions fails")
            self._epoch = None
            self._world.sleep(self._life, 0.1)
        raise BrokerUnavailable("could not open the transactional producer: simulated")

    def lend(self) -> Ticket | None:
        """Nobody but the driver writes."""

    def begin(self, ticket: Ticket | None = None) -> None:
        """Begin a transaction; the cluster hears of it with the first record."""
        assert self._epoch is not None, "the transactional producer is not open"
        self._ends, self._error = {}, None
        self._began = self._world.ms
        self._world.at(self._life, "begin")

    def produce_columns(
        self,
        topics: str | Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
        partitions: Sequence[int | None] | int | None = None,
        *,
        header: tuple[str, bytes] | None = None,
        tag: object = None,
        skip: Collection[int] = (),
    ) -> None:
        """Produce rows."""
        for row, value in enumerate(values):
            if row in skip:
                continue
            topic = topics if isinstance(topics, str) else topics[row]
            key = keys[row]
            chosen = partitions[row] if isinstance(partitions, Sequence) else partitions
            if chosen is None:
                known = self._broker.topics.get(topic)
                chosen = partition_of(key or b"", len(known.partitions) if known else 1)
            timestamp = BASE_MS + self._world.ms if timestamps is None else max(1, timestamps[row])
            own = headers[row] if headers is not None else ()
            self._produce(topic, chosen, key, value, timestamp, tuple(own))
        self._world.at(self._life, "produce")

    def produce_sealed(self, sealed: Sequence[SealedRows]) -> None:
        """Nobody puts rows together here."""
        raise AssertionError(sealed)

    def produce_tracked(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        *,
        tag: object = None,
    ) -> None:
        """Produce rows whose end offset `flush` returns."""
        for key, value in zip(keys, values, strict=True):
            end = self._produce(topic, partition, key, value, BASE_MS + self._world.ms, ())
            self._ends[topic, partition] = end + 1
        self._world.at(self._life, "produce tracked")

    def _produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: tuple,
    ) -> int:
        assert self._epoch is not None, "the transactional producer is not open"
        if self._error is not None:
            return 0
        try:
            txn = self._broker.transaction(self._name, self._epoch)
        except Fenced:
            self._error = "fenced"
            return 0
        if self._broker.partition(topic, partition) is None:
            self._error = "unknown topic"
            return 0
        return self._broker.append(
            topic, partition, key, value, timestamp, headers=headers, txn=txn
        )

    def flush(self) -> dict[tuple[str, int], int]:
        """Wait until the cluster has every row; return the ends of what is tracked."""
        self._check("send the rows of a transaction")
        return dict(self._ends)

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the ends of what is tracked."""
        return dict(self._ends)

    def send_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the group's offsets with the transaction."""
        self._check("add offsets to a transaction")
        assert self._epoch is not None
        try:
            txn = self._broker.transaction(self._name, self._epoch)
        except Fenced:
            self._fail("fenced", "add offsets to a transaction")
        txn.offsets.setdefault(self._name, {}).update(offsets)
        self._world.at(self._life, "offsets added")

    def commit(self) -> None:
        """Commit the transaction."""
        doing = "commit a transaction"
        if self._error is not None:
            self._fail(self._error, doing)
        self._world.at(self._life, "commit")
        failed = self._world.failure(self._life, "commit")
        epoch = self._epoch
        assert epoch is not None
        if failed is not None:
            # It was done, it is done later, or it never arrives: the client cannot tell.
            how = self._world.random.choice(("done", "late", "lost"))
            self._world.note(f"commit without an answer: {how}")
            self._world.happened[f"commit without an answer: {how}"] += 1
            if how == "late":
                self._world.late_commits.append((self._name, epoch))
            elif how == "done":
                self._end(epoch, doing)
            self._epoch = None
            raise TransactionUnknown(f"could not {doing}: simulated")
        self._end(epoch, doing)
        self._world.at(self._life, "committed")

    def _end(self, epoch: int, doing: str) -> None:
        try:
            self._broker.end_transaction(self._name, epoch, commit=True)
        except Fenced:
            self._fail("fenced", doing)

    def _check(self, doing: str) -> None:
        if self._error is not None:
            self._fail(self._error, doing)
        self._world.at(self._life, doing)
        if self._world.failure(self._life) is not None:
            self._fail("simulated", doing)

    def _fail(self, why: str, doing: str) -> Any:
        """Let the producer go; its transaction is aborted, unless it is too late for that."""
        epoch, self._epoch = self._epoch, None
        what = f"could not {doing} of '{self._name}': {why}"
        if why == "fenced":
            if self._world.ms - self._began >= self._timeout_ms:
                raise TransactionExpired(what)
            raise TransactionFenced(what)
        if epoch is not None and self._world.random.random() < HALF:
            with suppress(Fenced):
                self._broker.end_transaction(self._name, epoch, commit=False)
        raise TransactionAborted(what)

    def close(self) -> None:
        """Let the producer go; an open transaction is aborted, if that is quick."""
        self._world.at(self._life, "close the producer")
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            with suppress(Fenced):
                self._broker.end_transaction(self._name, epoch, commit=False)


class SimDisk(_Port):
    """The disk of the machine that the driver runs on."""

    def choose(self, state: LocalState, say: Callable[[str], None]) -> Path:
        """Return the directory."""
        return self._life.machine.root

    def remove_unclaimed(self, place: Path, application_id: str, claimed: Collection[str]) -> None:
        """Delete what no stage uses."""
        self._world.at(self._life, "remove unclaimed state")
        self._life.machine.remove_unclaimed(application_id, set(claimed))

    def release(self, place: Path) -> None:
        """Leave it."""


class SimReader:
    """What `RangeReader` offers. It is made without a word, so it looks whose thread it is in."""

    def __init__(
        self, properties: Any = None, *, read_timeout: float = 30.0, isolation: str = ""
    ) -> None:
        self._life = current_life()
        self._world = current_world()

    @classmethod
    def shared(cls, properties: Any, *, read_timeout: float = 30.0) -> SimReader:
        """Return a reader."""
        return cls(properties)

    def ahead(self, topic: str, partition: int, start: int) -> None:
        """It is a hint."""

    def gather(self, wanted: Any) -> None:
        """It is a hint."""

    def drop_ahead(self) -> None:
        """There is nothing to drop."""

    def statistics(self) -> dict[str, dict[str, float]]:
        """Nothing is measured here: there are no clients."""
        return {}

    def close(self) -> None:
        """There is nothing to close."""

    def read(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_batch: int = 1000,
        bare: bool = False,
        goes_on: bool = False,
    ) -> Generator[RawChunk]:
        """Read the committed records of a range, in chunks of any size."""
        if start >= end:
            return
        world, life = self._world, self._life
        step = min(max_batch, world.script.options.get("chunk", 20))
        position, leader = start, -1
        first = world.broker.partition(topic, partition)
        cleanings = 0 if first is None else first.cleanings
        while position < end:
            world.at(life, f"read {topic}-{partition}")
            if world.failure(life) is not None:
                raise ReadTimedOut(f"could not read {topic}-{partition}: simulated")
            log = world.broker.partition(topic, partition)
            if log is None:
                raise SourceGone(f"there is no partition {partition} of topic '{topic}'")
            if position < log.start or end > log.end:
                raise OffsetOutOfRange(
                    f"topic '{topic}' partition {partition} does not hold offset {position}",
                    fields={
                        "topic": topic,
                        "partition": partition,
                        "offset": position,
                        "earliest": log.start,
                        "end": log.end,
                    },
                )
            if end > log.stable:
                raise ReadTimedOut(f"could not read {topic}-{partition} up to {end}: it is held")
            if leader >= 0 and log.epoch_end(leader) < position:  # the client asks as it reads on
                raise OffsetOutOfRange(f"topic '{topic}' partition {partition} lost {position - 1}")
            entries = log.begun(cleanings, position, end)[:step]
            life.read_as[topic, partition, start] = log.leader
            if not entries:
                return
            position, leader = entries[-1].offset + 1, log.leader
            headers = [entry.headers for entry in entries]
            yield RawChunk(
                [entry.offset for entry in entries],
                [entry.key for entry in entries],
                [entry.value for entry in entries],
                [] if bare else [entry.timestamp for entry in entries],
                headers if not bare and any(headers) else None,
                entries[-1].leader,
            )


class SimEpochLog(_Port):
    """The epochs topic."""

    def __init__(self, world: SimWorld, life: Life, topic: str) -> None:
        super().__init__(world, life)
        self._topic = topic

    def newest_first(self) -> Iterator[bytes]:
        """Yield the values of the committed records, the last one first."""
        self._ask("read the epochs topic")
        log = self._broker.partition(self._topic, 0)
        if log is None:
            raise KafkaAdmin.missing_topic(SimCluster(self._world, self._life), self._topic)  # type: ignore[arg-type]
        for entry in reversed(log.between(log.start, log.stable)):
            if entry.value is not None:
                yield entry.value
