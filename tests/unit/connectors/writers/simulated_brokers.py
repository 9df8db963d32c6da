"""Brokers in memory that serve what the writers ask: as Kafka does, with messages lost and late.

They are as strict as Kafka and no stricter. In particular an end is answered before its markers are
written, a partition's leader asks the coordinator only about a producer that has no transaction
open there, and a request whose connection is lost may be served, now, later, or never.
"""

from __future__ import annotations

import random
import struct
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.writers.wire import (
    NO_TAGS,
    Answer,
    Api,
    compact_array,
    compact_string,
)
from tests.unit.connectors.writers.decoding import decode

Place = tuple[str, int]
OFFSETS: Place = ("__consumer_offsets", 0)
NOT_LEADER, OUT_OF_ORDER, OLD_EPOCH, WRONG_STATE, WRONG_ID = 6, 45, 47, 48, 49
CONCURRENT, FENCED = 51, 90
NODES = 2
REMEMBERED = 5
ADDS_FROM = {"Produce": 12, "TxnOffsetCommit": 5}
"""Versions from which a request adds the partition that it writes to, in Kafka's version 2."""


@dataclass
class Producer:
    """What the leader of a partition knows of a producer."""

    epoch: int
    following: int = 0
    is_open: bool = False
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


@dataclass
class Partition:
    """A log: rows of (producer, epoch), and the markers that decide over them."""

    entries: list[tuple[int, int, bytes | bool]] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)

    def committed(self) -> list[bytes]:
        """What a read_committed reader sees when nothing is open."""
        waiting: dict[int, list[bytes]] = defaultdict(list)
        places: dict[int, list[int]] = defaultdict(list)
        seen: list[tuple[int, bytes]] = []
        for place, (producer, _, entry) in enumerate(self.entries):
            if isinstance(entry, bytes):
                waiting[producer].append(entry)
                places[producer].append(place)
            else:
                rows = zip(places.pop(producer, []), waiting.pop(producer, []), strict=True)
                if entry:
                    seen += rows
        return [row for _, row in sorted(seen)]


class Brokers:
    """Two brokers, one transactional id.

    Args:
        seed: Of all that is random.
        version: Of Kafka's transactions: 1 or 2.
        last_epoch: The last epoch of an id; a short with Kafka.
    """

    def __init__(self, seed: int, version: int, last_epoch: int) -> None:
        self.random = random.Random(seed)
        self.version, self.last_epoch = version, last_epoch
        self.partitions: dict[Place, Partition] = defaultdict(Partition)
        self.leaders: dict[Place, int] = {}
        self.offsets: dict[Place, int] = {}
        self.is_calm = False
        self.asked: Counter[str] = Counter()
        self._producer, self._epoch, self._before = -1, -1, (-1, -1)
        self._members: set[Place] = set()
        self._state = "empty"
        self._markers: list[tuple[Place, int, int, bool]] = []
        self._late: list[Callable[[], object]] = []
        self._offered: dict[tuple[int, int], dict[Place, int]] = {}

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return not self.is_calm and self.random.random() < probability

    def tick(self, _seconds: float = 0.0) -> None:
        """Let something happen that takes time: a marker, a late request, a new leader."""
        if self._markers and self.random.random() < 0.6:
            self._mark(*self._markers.pop(self.random.randrange(len(self._markers))))
        if self._late and self.random.random() < 0.3:
            self._late.pop(self.random.randrange(len(self._late)))()
        if self.leaders and self.chance(0.05):
            place = self.random.choice(sorted(self.leaders))
            self.leaders[place] = self.random.randrange(NODES)

    def settle(self) -> None:
        """Let everything happen that is under way, and nothing else go wrong."""
        self.is_calm = True
        while self._markers or self._late:
            self.tick()

    def connect(self, place: tuple[str, int], *_: Any) -> Node:
        """Return a connection; the place names the broker."""
        return Node(self, place[1] % NODES)

    def serve(self, node: int, api: Api, body: bytes) -> bytes:
        """Answer a request."""
        ask, answers = (
            Answer(body),
            {
                "FindCoordinator": self._find,
                "Metadata": self._metadata,
                "InitProducerId": self._init,
                "AddPartitionsToTxn": self._add,
                "AddOffsetsToTxn": self._add_offsets,
                "EndTxn": self._end,
            },
        )
        self.asked[api.name] += 1
        if api.name == "Produce":
            return self._produce(node, api, ask)
        if api.name == "TxnOffsetCommit":
            return self._commit_offsets(api, ask)
        return answers[api.name](ask)

    def later(self, request: Callable[[], object]) -> None:
        """Serve a request whose connection is gone when it pleases the network."""
        self._late.append(request)

    def _mark(self, place: Place, producer: int, epoch: int, committed: bool) -> None:
        partition = self.partitions[place]
        partition.entries.append((producer, epoch, committed))
        known = partition.producers.setdefault(producer, Producer(epoch))
        if epoch > known.epoch:
            partition.producers[producer] = known = Producer(epoch)
        known.is_open = False
        if place == OFFSETS:
            offered = self._offered.pop((producer, epoch if self.version == 1 else epoch - 1), {})
            if committed:
                self.offsets.update(offered)
        if not self._markers:
            self._state = "empty"

    def _find(self, _ask: Answer) -> bytes:
        node = struct.pack(">i", 0) + compact_string("host") + struct.pack(">i", 0)
        return struct.pack(">ih", 0, 0) + compact_string(None) + node + NO_TAGS

    def _metadata(self, ask: Answer) -> bytes:
        def topic() -> str:
            name = ask.string() or ""
            ask.tags()
            return name

        def broker(node: int) -> bytes:
            place = compact_string("host") + struct.pack(">i", node)
            return struct.pack(">i", node) + place + compact_string(None) + NO_TAGS

        def described(name: str) -> bytes:
            found: list[bytes] = []
            for number in range(4):
                leader = self.leaders.setdefault((name, number), number % NODES)
                head = struct.pack(">hiii", 0, number, leader, 0)
                found.append(head + compact_array([]) * 3 + NO_TAGS)
            head = struct.pack(">h", 0) + compact_string(name) + b"\0"
            return head + compact_array(found) + struct.pack(">i", 0) + NO_TAGS

        topics = ask.array(topic)
        nodes = compact_array(broker(node) for node in range(NODES))
        about = compact_string("cluster") + struct.pack(">i", 0)
        described_topics = compact_array(described(name) for name in topics)
        return struct.pack(">i", 0) + nodes + about + described_topics + NO_TAGS

    def _init(self, ask: Answer) -> bytes:
        ask.string()
        ask.int32()
        known = ask.int64(), ask.int16()
        mine = self._producer, self._epoch
        if known != (-1, -1) and known not in (mine, self._before):
            return struct.pack(">ihqh", 0, FENCED, -1, -1) + NO_TAGS
        if self._state == "open":
            self._before = mine
            self._epoch += 1
            self._begin_end(committed=False, epoch=self._epoch)
        if self._state == "ending":
            return struct.pack(">ihqh", 0, CONCURRENT, -1, -1) + NO_TAGS
        if known in ((-1, -1), mine):
            self._before = mine if known == mine else (-1, -1)
            self._bump()
        return struct.pack(">ihqh", 0, 0, self._producer, self._epoch) + NO_TAGS

    def _bump(self) -> None:
        if self._producer < 0 or self._epoch >= self.last_epoch:
            self._producer, self._epoch = self._producer + 1, 0
        else:
            self._epoch += 1

    def _refusal(self, producer: int, epoch: int) -> int:
        """Why the coordinator does not add a partition now; 0 if it does."""
        if producer != self._producer:
            return WRONG_ID
        if epoch != self._epoch:
            return FENCED
        return CONCURRENT if self._state == "ending" else 0

    def _join(self, producer: int, epoch: int, places: list[Place]) -> int:
        code = self._refusal(producer, epoch)
        if not code:
            self._state = "open"
            self._members.update(places)
        return code

    def _places(self, ask: Answer, read: Callable[[], int]) -> list[Place]:
        found: list[Place] = []

        def topic() -> None:
            name = ask.string() or ""
            found.extend((name, number) for number in ask.array(read))
            ask.tags()

        ask.array(topic)
        return found

    def _add(self, ask: Answer) -> bytes:
        ask.string()
        producer, epoch = ask.int64(), ask.int16()
        places = self._places(ask, ask.int32)
        return _each(places, self._join(producer, epoch, places))

    def _add_offsets(self, ask: Answer) -> bytes:
        ask.string()
        code = self._join(ask.int64(), ask.int16(), [OFFSETS])
        return struct.pack(">ih", 0, code) + NO_TAGS

    def _commit_offsets(self, api: Api, ask: Answer) -> bytes:
        ask.string()
        ask.string()
        producer, epoch = ask.int64(), ask.int16()
        ask.int32()
        ask.string()
        ask.string()
        found: list[int] = []

        def partition() -> int:
            number = ask.int32()
            found.append(ask.int64())
            ask.int32()
            ask.string()
            ask.tags()
            return number

        places = self._places(ask, partition)
        code = self._asked(api, OFFSETS, producer, epoch)
        if not code:
            offered = self._offered.setdefault((producer, epoch), {})
            offered.update(zip(places, found, strict=True))
        return _each(places, code)

    def _end(self, ask: Answer) -> bytes:
        ask.string()
        producer, epoch, committed = ask.int64(), ask.int16(), bool(ask.int8())
        code = self._refusal(producer, epoch)
        if not code and self._state != "open":
            code = WRONG_STATE
        if not code:
            self._before = producer, epoch
            self._begin_end(committed=committed, epoch=epoch + self.version - 1)
            if self.version == 2:
                self._bump()
        if self.version == 1:
            return struct.pack(">ih", 0, code) + NO_TAGS
        return struct.pack(">ihqh", 0, code, self._producer, self._epoch) + NO_TAGS

    def _begin_end(self, *, committed: bool, epoch: int) -> None:
        self._state = "ending"
        members, self._members = sorted(self._members), set()
        self._markers += [(place, self._producer, epoch, committed) for place in members]

    def _produce(self, node: int, api: Api, ask: Answer) -> bytes:
        ask.string()
        ask.int16()
        ask.int32()
        said: list[bytes] = []

        def topic() -> None:
            name = ask.string() or ""

            def partition() -> bytes:
                number, data = ask.int32(), ask.data() or b""
                ask.tags()
                code, offset = self._append(node, api, (name, number), data)
                head = struct.pack(">ihqqq", number, code, offset, -1, 0)
                return head + compact_array([]) + compact_string(None) + NO_TAGS

            said.append(compact_string(name) + compact_array(ask.array(partition)) + NO_TAGS)
            ask.tags()

        ask.array(topic)
        return compact_array(said) + struct.pack(">i", 0) + NO_TAGS

    def _append(self, node: int, api: Api, place: Place, data: bytes) -> tuple[int, int]:
        head, rows = decode(data)
        producer, epoch, sequence = head["id"], head["epoch"], head["sequence"]
        if self.leaders.get(place) != node:
            return NOT_LEADER, -1
        partition = self.partitions[place]
        known = partition.producers.get(producer)
        if known is not None and epoch < known.epoch:
            return OLD_EPOCH, -1
        if known is not None and epoch == known.epoch:
            for first, offset in known.recent:
                if first == sequence:
                    return 0, offset
        if known is None or epoch > known.epoch or not known.is_open:
            code = self._asked(api, place, producer, epoch)
            if code:
                return code, -1
        if known is None or epoch > known.epoch:
            known = partition.producers[producer] = Producer(epoch)
        if sequence != known.following:
            return OUT_OF_ORDER, -1
        offset = len(partition.entries)
        partition.entries += [(producer, epoch, row[1] or b"") for row in rows]
        known.following, known.is_open = sequence + len(rows), True
        known.recent.append((sequence, offset))
        return 0, offset

    def _asked(self, api: Api, place: Place, producer: int, epoch: int) -> int:
        """What the coordinator says of a producer that has nothing open in a partition."""
        if api.version >= ADDS_FROM[api.name]:
            code = self._join(producer, epoch, [place])
        else:
            code = self._refusal(producer, epoch)
            if not code and place not in self._members:
                code = WRONG_STATE
        return OLD_EPOCH if code == FENCED else code


class Node:
    """A connection to one of the brokers, which may be lost with each question."""

    def __init__(self, brokers: Brokers, number: int) -> None:
        self._brokers, self._number = brokers, number
        self._answer: bytes | None = None
        self.features = {"transaction.version": brokers.version}

    def knows(self, _api: Api) -> bool:
        return True

    def is_lost(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def call(self, api: Api, body: bytes, _sent: object = None) -> Answer:
        self.send(api, body)
        return self.receive(api)

    def send(self, api: Api, *parts: bytes) -> None:
        brokers, body = self._brokers, b"".join(parts)
        brokers.tick()
        self._answer = None
        if brokers.chance(0.02):
            if brokers.chance(0.5):
                brokers.later(lambda: brokers.serve(self._number, api, body))
        else:
            answer = brokers.serve(self._number, api, body)
            self._answer = None if brokers.chance(0.02) else answer

    def receive(self, _api: Api) -> Answer:
        self._brokers.tick()
        answer, self._answer = self._answer, None
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the connection is lost"))
        return Answer(answer)


def _each(places: list[Place], code: int) -> bytes:
    """The answer that has a code for each partition."""
    topics: dict[str, list[bytes]] = defaultdict(list)
    for topic, number in places:
        topics[topic].append(struct.pack(">ih", number, code) + NO_TAGS)
    each = (
        compact_string(topic) + compact_array(found) + NO_TAGS for topic, found in topics.items()
    )
    return struct.pack(">i", 0) + compact_array(each) + NO_TAGS
