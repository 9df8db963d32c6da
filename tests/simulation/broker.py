"""A Kafka cluster in memory: logs, transactions, producers, groups. It never fails by itself.

Everything that a client can see of a real cluster and that Mustela depends on is here: offsets with
control records among them, last stable offsets, leader epochs, compaction, retention, truncation,
topics that are deleted and made anew. What goes wrong between a client and the cluster is for
`ports` to play.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter

__all__ = [
    "BASE_MS",
    "Entry",
    "Fenced",
    "Partition",
    "Producer",
    "SimBroker",
    "Topic",
    "Txn",
    "written",
]

DAY_MS = 86_400_000
BASE_MS = 1_700_000_000_000
"""When the world begins, by the clocks on its walls."""
_OFFSET = attrgetter("offset")


class Fenced(Exception):
    """The producer's epoch is not the newest one."""


class Txn:
    """One transaction of one producer."""

    __slots__ = ("began_ms", "offsets", "places", "status")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.status = "open"
        self.places: dict[tuple[str, int], Partition] = {}
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}


class Entry:
    """A record or a control record of a log."""

    __slots__ = (
        "append_ms",
        "control",
        "headers",
        "key",
        "leader",
        "lost_by",
        "offset",
        "swept_by",
        "timestamp",
        "txn",
        "value",
    )

    def __init__(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        *,
        headers: tuple = (),
        txn: Txn | None = None,
        append_ms: int = 0,
        leader: int = 0,
        control: bool = False,
    ) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.txn = txn
        self.append_ms = append_ms
        self.leader = leader
        self.control = control
        self.lost_by: int | None = None
        self.swept_by = 0

    @property
    def visible(self) -> bool:
        """Whether a read_committed reader gets it, once it lies before the last stable offset."""
        return not self.control and (self.txn is None or self.txn.status == "committed")


class Partition:
    """The log of one partition.

    Attributes:
        start: The first offset that the log holds.
        end: The high watermark.
        leader: The leader's epoch.
        epochs: Each leader epoch, and the offset at which it began.
        lost: What truncations took.
        expired: The records that retention took.
        cleanings: How often it was compacted.
        swept: The deletions that compaction has dropped.
    """

    __slots__ = (
        "cleanings",
        "end",
        "entries",
        "epochs",
        "expired",
        "leader",
        "lost",
        "open",
        "start",
        "swept",
    )

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        self.leader = 0
        self.epochs = [(0, 0)]
        self.lost: list[Entry] = []
        self.open: dict[Txn, int] = {}
        self.expired: list[Entry] = []
        self.cleanings = 0
        self.swept: list[Entry] = []

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min(self.open.values()) if self.open else self.end

    def append(self, entry: Entry) -> int:
        """Append; return the offset."""
        entry.offset = self.end
        entry.leader = self.leader
        if entry.txn is not None and not entry.control:
            self.open.setdefault(entry.txn, entry.offset)
        self.entries.append(entry)
        self.end += 1
        return entry.offset

    def between(self, start: int, end: int) -> list[Entry]:
        """Return the visible records with offsets from ``start`` up to ``end``."""
        first = bisect_left(self.entries, start, key=_OFFSET)
        last = bisect_left(self.entries, end, key=_OFFSET)
        return [entry for entry in self.entries[first:last] if entry.visible]

    def begun(self, cleanings: int, start: int, end: int) -> list[Entry]:
        """Return what `between` does to who began to read after so many cleanings.

        Kafka keeps a deletion for ``delete.retention.ms`` from the cleaning on that has dropped the
        rows before it, so that who has read such a row reads of its deletion, too. That somebody
        reads one log for longer is not played.
        """
        found = self.between(start, end)
        swept = [e for e in self.swept if e.swept_by > cleanings and start <= e.offset < end]
        return sorted([*found, *swept], key=_OFFSET) if swept else found

    def as_of(self, leader: int, start: int, end: int) -> list[Entry]:
        """Return the visible records between two offsets of the log that a leader had.

        What retention took since is among them; without a leader it is the log of now.
        """
        found = [*self.expired, *self.entries]
        if leader >= 0:
            lost = [e for e in self.lost if (e.lost_by or 0) > leader]
            found = [entry for entry in [*lost, *found] if entry.leader <= leader]
        within = [entry for entry in found if start <= entry.offset < end and entry.visible]
        return sorted(within, key=_OFFSET)

    def as_of_each(self, leader: int, start: int, end: int) -> list[list[Entry]]:
        """Return `as_of` for each log that somebody may have read of whom this is known.

        A leader is known from a look before the reading; younger ones may have taken over since.
        """
        if leader < 0 or not any(start <= e.offset < end for e in self.lost):
            return [self.as_of(leader, start, end)]
        logs = [self.as_of(known, start, end) for known in range(leader, self.leader + 1)]
        return [log for number, log in enumerate(logs) if log not in logs[:number]]

    def truncate(self, end: int) -> None:
        """Lose the records from ``end`` on: a replica that lagged has become leader."""
        self.leader += 1
        end = min(end, self.end)
        self.epochs = [known for known in self.epochs if known[1] < end]
        self.epochs.append((self.leader, end))
        first = bisect_left(self.entries, end, key=_OFFSET)
        for entry in self.entries[first:]:
            entry.lost_by = self.leader
        self.lost += self.entries[first:]
        del self.entries[first:]
        self.end = end
        self.start = min(self.start, end)
        self.open = {txn: first for txn, first in self.open.items() if first < end}

    def epoch_end(self, leader: int) -> int:
        """Return where the records of leader epochs up to ``leader`` end, -1 for an unknown one."""
        if leader > self.leader:
            return -1
        return next((start for epoch, start in self.epochs if epoch > leader), self.end)

    def compact(self, now_ms: int, delete_after_ms: int, keep_last: int) -> None:
        """Drop what a later record replaces, and old deletions; leave the last records alone."""
        self.cleanings += 1
        bound = min(self.stable, self.end - keep_last)
        newest: dict[bytes | None, int] = {}
        for entry in self.entries:
            if entry.offset < bound and entry.visible:
                newest[entry.key] = entry.offset
        kept: list[Entry] = []
        for entry in self.entries:
            if entry.offset >= bound:
                kept.append(entry)
            elif not entry.visible or newest[entry.key] != entry.offset:
                continue
            elif entry.value is not None or now_ms - entry.append_ms < delete_after_ms:
                kept.append(entry)
            else:
                entry.swept_by = self.cleanings
                self.swept.append(entry)
        self.entries = kept

    def retain(self, before_ms: int) -> None:
        """Drop the records at the beginning that are older than ``before_ms``."""
        entries, bound = self.entries, self.stable
        drop = 0
        while drop < len(entries) - 1:
            entry = entries[drop]
            if entry.offset >= bound or entry.timestamp >= before_ms:
                break
            drop += 1
        if drop:
            self.start = entries[drop].offset
            self.expired += entries[:drop]
            del entries[:drop]


class Topic:
    """A topic; one that is made anew is another one."""

    __slots__ = ("config", "name", "partitions", "topic_id")

    def __init__(
        self, name: str, topic_id: str, partitions: int, config: Mapping[str, str]
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [Partition() for _ in range(partitions)]
        self.config = dict(config)


class Producer:
    """What the cluster knows of a transactional id."""

    __slots__ = ("epoch", "timeout_ms", "txn")

    def __init__(self) -> None:
        self.epoch = -1
        self.timeout_ms = 60_000
        self.txn: Txn | None = None


class SimBroker:
    """A cluster.

    Args:
        now: Tells the cluster's wall-clock time.

    Attributes:
        ever: Every topic that there was, by its id.
        on_commit: Is told of each transaction that commits, with the producer's name.
    """

    DEFAULTS: Mapping[str, str] = {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "604800000",
        "delete.retention.ms": str(DAY_MS),
        "min.compaction.lag.ms": "0",
        "max.message.bytes": "1048588",
        "unclean.leader.election.enable": "false",
        "min.insync.replicas": "1",
        "segment.bytes": "1073741824",
    }

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.topics: dict[str, Topic] = {}
        self.producers: dict[str, Producer] = {}
        self.groups: dict[str, dict[tuple[str, int], int]] = {}
        self.made = 0
        self.ever: dict[str, Topic] = {}
        self.on_commit: Callable[[str, Txn], None] = _nobody

    # -- topics --------------------------------------------------------------------------------

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic, if there is none of the name."""
        if name not in self.topics:
            self.made += 1
            topic_id = f"id-{self.made}"
            topic = Topic(name, topic_id, partitions, {**self.DEFAULTS, **(config or {})})
            self.topics[name] = self.ever[topic_id] = topic

    def delete(self, name: str) -> None:
        """Delete a topic, and what groups know of it."""
        gone = self.topics.pop(name, None)
        if gone is not None:
            for group in self.groups.values():
                for place in [place for place in group if place[0] == name]:
                    del group[place]

    def widen(self, name: str, partitions: int) -> None:
        """Add partitions."""
        topic = self.topics[name]
        topic.partitions += [Partition() for _ in range(partitions - len(topic.partitions))]

    def partition(self, topic: str, number: int) -> Partition | None:
        """Return a partition, or None."""
        found = self.topics.get(topic)
        return found.partitions[number] if found and number < len(found.partitions) else None

    def places(self) -> Iterator[tuple[str, int, Partition]]:
        """Yield every partition."""
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                yield topic.name, number, partition

    # -- producing -----------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        *,
        headers: tuple = (),
        txn: Txn | None = None,
    ) -> int:
        """Append a record; return its offset."""
        where = self.topics[topic]
        log = where.partitions[partition]
        now = self._now()
        if where.config["message.timestamp.type"] == "LogAppendTime":
            timestamp = now
        if txn is not None:
            txn.places[topic, partition] = log
        entry = Entry(0, key, value, timestamp, headers=headers, txn=txn, append_ms=now)
        return log.append(entry)

    def init_producer(self, name: str, timeout_ms: int) -> int:
        """Fence older producers of a transactional id, end what they left; return the epoch."""
        producer = self.producers.setdefault(name, Producer())
        if producer.txn is not None:
            self._end(name, producer, commit=False)
        producer.epoch += 1
        producer.timeout_ms = timeout_ms
        return producer.epoch

    def renew_producer(self, name: str, epoch: int) -> int:
        """End what a producer left, and give it the next epoch, if nobody has taken over from it.

        Raises:
            Fenced: If somebody has.
        """
        return self.init_producer(name, self._owner(name, epoch).timeout_ms)

    def _owner(self, name: str, epoch: int) -> Producer:
        producer = self.producers[name]
        if producer.epoch != epoch:
            raise Fenced(name)
        return producer

    def transaction(self, name: str, epoch: int) -> Txn:
        """Return the producer's transaction, begun now if there is none.

        Raises:
            Fenced: If there is a newer producer, or the transaction timed out.
        """
        producer = self._owner(name, epoch)
        if producer.txn is None:
            producer.txn = Txn(self._now())
        return producer.txn

    def end_transaction(self, name: str, epoch: int, *, commit: bool) -> None:
        """Commit or abort.

        Raises:
            Fenced: If there is a newer producer, or the transaction timed out.
        """
        producer = self._owner(name, epoch)
        if producer.txn is not None:
            self._end(name, producer, commit=commit)

    def _end(self, name: str, producer: Producer, *, commit: bool) -> None:
        txn = producer.txn
        assert txn is not None
        producer.txn = None
        txn.status = "committed" if commit else "aborted"
        for log in txn.places.values():
            log.open.pop(txn, None)
            log.append(Entry(0, None, None, self._now(), append_ms=self._now(), control=True))
        if commit:
            for group, offsets in txn.offsets.items():
                self.groups.setdefault(group, {}).update(offsets)
            self.on_commit(name, txn)

    # -- time ----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Abort the transactions that are open for too long, and fence their producers."""
        now = self._now()
        for name, producer in self.producers.items():
            txn = producer.txn
            if txn is not None and now - txn.began_ms > producer.timeout_ms:
                self._end(name, producer, commit=False)
                producer.epoch += 1

    def compact(self, name: str, keep_last: int) -> None:
        """Clean a compacted topic."""
        topic = self.topics[name]
        if "compact" in topic.config["cleanup.policy"]:
            delete_after = int(topic.config["delete.retention.ms"])
            for partition in topic.partitions:
                partition.compact(self._now(), delete_after, keep_last)

    def retain(self, name: str) -> None:
        """Delete old records, where the topic's policy says so."""
        topic = self.topics[name]
        keep_ms = int(topic.config["retention.ms"])
        if keep_ms >= 0 and "delete" in topic.config["cleanup.policy"]:
            for partition in topic.partitions:
                partition.retain(self._now() - keep_ms)


def _nobody(_name: str, _txn: Txn) -> None:
    """Nobody is told."""


def written(log: list[Entry], txn: Txn) -> list[Entry]:
    """Return what a transaction has in a log, without its marker."""
    found: list[Entry] = []
    for entry in reversed(log):
        if entry.txn is txn and not entry.control:
            found.append(entry)
        elif found and entry.txn is not txn and entry.append_ms < txn.began_ms:
            break
    found.reverse()
    return found
