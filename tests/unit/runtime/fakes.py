"""A broker that is only what the runtime asks of it: topics, offsets, and a transaction's calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mustela.clock import Clock
from mustela.connectors.kafka.admin import MissingTopicError, TopicDescription, TopicSpec
from mustela.connectors.kafka.errors import RefusedRow, RowsRefused
from mustela.connectors.kafka.topic_checks import missing_topic, weak_topics
from mustela.connectors.kafka.truncation import LogPosition
from mustela.errors import Origin
from mustela.model import TopicPartition
from mustela.plan.epoch import RowOutline
from mustela.plan.ticket import Ticket
from mustela.runtime.ports import LocalState, World
from mustela.runtime.record.epoch_record import EpochRecord, encode_epoch_record


@dataclass
class FakeAdmin:
    """Topics with partitions, ends, ids and settings; what is created appears."""

    partitions: dict[str, int] = field(default_factory=dict[str, int])
    ids: dict[str, str] = field(default_factory=dict[str, str])
    first: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    ends: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    group: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    created: list[TopicSpec] = field(default_factory=list[TopicSpec])
    checked: list[TopicSpec] = field(default_factory=list[TopicSpec])
    times: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    open_ends: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    settings: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    asked: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    brokers: int = 1
    leaders: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    kept: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    compared: list[dict[TopicPartition, LogPosition]] = field(
        default_factory=list[dict[TopicPartition, LogPosition]]
    )

    def topics(self) -> list[str]:
        return sorted(self.partitions)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        self.asked.update(times)
        return {place: self.times.get(place) for place in self._known(times)}

    def cluster_id(self) -> str:
        return "cluster"

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        return {
            topic: TopicDescription(
                name=topic,
                topic_id=self.ids.get(topic, f"id-{topic}"),
                partitions=self.partitions[topic],
                replication_factor=1,
            )
            for topic in topics
            if topic in self.partitions
        }

    def create(self, specs: Sequence[TopicSpec]) -> None:
        self.created.extend(specs)
        self.partitions.update({spec.name: spec.partitions for spec in specs})

    def configure(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        for topic, values in wanted.items():
            self.settings[topic] = {**self.settings.get(topic, {}), **values}

    def check_internal(self, specs: Sequence[TopicSpec]) -> None:
        self.checked.extend(specs)

    def weak_topics(self, topics: Iterable[str]) -> list[str]:
        described = self.describe(topics)
        return weak_topics(described, self.configs(described), self.brokers)

    def missing_topic(
        self, topic: str, *, use: str = "", at: Origin | None = None
    ) -> MissingTopicError:
        return missing_topic(topic, self.topics(), use=use, at=at, servers="fake:1")

    def _known(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        wanted = [TopicPartition(*place) for place in places]
        for place in wanted:
            if place.partition >= self.partitions.get(place.topic, 0):
                raise self.missing_topic(place.topic)
        return wanted

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.ends.get(place, 0) for place in self._known(places)}

    def log_ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, LogPosition]:
        ends = self.end_offsets(places)
        return {p: LogPosition(end, self.leaders.get(p, -1)) for p, end in ends.items()}

    def kept_ends(self, read: Mapping[Any, LogPosition]) -> dict[TopicPartition, int]:
        self.compared.append(dict(read))
        return {place: self.kept[place] for place in read if place in self.kept}

    def earliest_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.first.get(place, 0) for place in self._known(places)}

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {**self.end_offsets(places), **self.open_ends}

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {topic: self.settings.get(topic, {}) for topic in topics}

    def close(self) -> None:
        """Nothing is open."""

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        return self.group


@dataclass
class FakeLog:
    """An epochs topic that holds these records."""

    records: list[EpochRecord] = field(default_factory=list[EpochRecord])

    def newest_first(self) -> Iterator[bytes]:
        return (encode_epoch_record(record) for record in reversed(self.records))


class FakeDisk:
    """Keeps what it is told in the settings' directory, and deletes nothing."""

    def choose(self, state: LocalState, say: object) -> Path:
        return state.root

    def remove_unclaimed(self, place: Path, application_id: str, claimed: object) -> None:
        """Nothing is there."""

    def release(self, place: Path) -> None:
        """Nothing is held."""


def world_of(
    admin: FakeAdmin,
    *records: EpochRecord,
    clock: Clock,
    sink: FakeSink | None = None,
    others: Mapping[str, list[EpochRecord]] | None = None,
) -> World:
    """Return a world with such a broker, whose epochs topics hold these records."""
    transactions: Any = sink or FakeSink()
    cluster: Any = admin
    return World(
        cluster=cluster,
        transactions=transactions,
        epochs=FakeLog(list(records)),
        epochs_of=lambda name: FakeLog(list((others or {}).get(name, ()))),
        disk=FakeDisk(),
        clock=clock,
        new_id=iter(f"id-{number}" for number in range(1_000)).__next__,
        crash_point=lambda _name: None,
    )


class FakeSink:
    """A transactional producer that notes each call, and fails where it is told to.

    Args:
        failures: By call, what it raises the next times.

    Attributes:
        forgets: Places whose end it does not tell.
        log_ends: Where each log ends.
        tickets: What each transaction was begun with.
    """

    takes_sealed = False

    def __init__(self, **failures: list[Exception]) -> None:
        self.calls: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.committed: list[list[dict[str, Any]]] = []
        self.offsets: Mapping[TopicPartition, int] = {}
        self._failures = failures
        self._ends: dict[tuple[str, int], int] = {}
        self.log_ends: dict[tuple[str, int], int] = {}
        self.batch_bytes = 1_000_000
        self.forgets: set[tuple[str, int]] = set()
        self.tickets: list[Ticket | None] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self._failures.get(name):
            raise self._failures[name].pop(0)

    def lend(self) -> Ticket:
        self._call("lend")
        return Ticket("app", 1, len(self.calls), by_writing=True)

    def begin(self, ticket: Ticket | None = None) -> None:
        self.sent, self._ends = [], {}
        self.tickets.append(ticket)
        self._call("begin")

    def produce_columns(self, topics: Any, keys: Any, values: Any, *rest: Any, **more: Any) -> None:
        timestamps, headers, partitions = rest
        row = {"topics": topics, "keys": keys, "values": values, "timestamps": timestamps}
        self.sent.append({**row, "headers": headers, "partitions": partitions, **more})
        self._call("rows")

    def produce_sealed(self, sealed: Any) -> None:
        self.calls.append("sealed")

    def produce_tracked(
        self, topic: str, partition: int, keys: Any, values: Any, *, tag: object = None
    ) -> None:
        self.sent.append({"topics": topic, "keys": keys, "values": values})
        place = (topic, partition)
        self.log_ends[place] = self.log_ends.get(place, 100) + len(values)
        self._ends[place] = self.log_ends[place]
        self._call("tracked")

    def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets = offsets
        self._call("offsets")

    def flush(self) -> dict[tuple[str, int], int]:
        self._call("flush")
        return {place: end for place, end in self._ends.items() if place not in self.forgets}

    def ends(self) -> dict[tuple[str, int], int]:
        return dict(self._ends)

    def commit(self) -> None:
        self._call("commit")
        self.committed.append(self.sent)

    def warm(self) -> None:
        """Nothing is connected here."""

    def reopen(self) -> None:
        self._call("reopen")

    def fit(self, batch_bytes: int) -> None:
        self.batch_bytes = batch_bytes

    def close(self) -> None:
        self._call("close")


class FakeChecks:
    """Says of some rows that the broker would refuse them, and how large batches may be."""

    def __init__(self, *rows: RefusedRow, largest: int = 1_000_000) -> None:
        self.rows = rows
        self.largest = largest

    def suspicious(self, outline: RowOutline) -> bool:
        return any(row.topic in outline.topics for row in self.rows)

    def refused(
        self, tag: object, _columns: Any, _outline: RowOutline | None = None
    ) -> list[RefusedRow]:
        return [row for row in self.rows if row.tag == tag]

    def batch_bytes(self, _topics: Any) -> int:
        return self.largest


def refused(*rows: tuple[str, int, int]) -> RowsRefused:
    """The broker refuses rows, each given as the kind of its part, the part and the row."""
    return RowsRefused.of(
        RefusedRow((kind, part), row, "out", "MSG_SIZE_TOO_LARGE", "too large")
        for kind, part, row in rows
    )
