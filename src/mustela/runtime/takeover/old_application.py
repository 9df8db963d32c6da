"""What a Kafka Streams application has left on the broker; nothing of it is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mustela.connectors.kafka.groups import Commit, groups_beginning, look_at_group
from mustela.connectors.kafka.log import read_chunks
from mustela.connectors.kafka_streams.commits import partition_time
from mustela.connectors.kafka_streams.topics import own_topics
from mustela.model import TopicPartition
from mustela.runtime.ports import Cluster
from mustela.runtime.takeover.bearers import OldRow
from mustela.runtime.takeover.matching import Stop

__all__ = ["OldApplication", "look_at", "rows_between"]

_WAITING_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OldApplication:
    """A Kafka Streams application as it was left.

    Attributes:
        application_id: Its id, which is also its group.
        members: The client ids of those that still run.
        commits: Its committed offsets, of its sources only.
        times: The largest timestamp that it read of each of these partitions, or -1.
        changelogs: By store, its changelog.
        waiting: How many records wait in each partition of the topics through which its own
            records travel.
        starts: The first offset of each partition of its changelogs and sources.
        ends: The offset after the last committed record of each.
        undecided: The partitions with a transaction that has not ended.
    """

    application_id: str
    members: tuple[str, ...]
    commits: dict[TopicPartition, int]
    times: dict[TopicPartition, int]
    changelogs: dict[str, str]
    waiting: dict[TopicPartition, int]
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    undecided: tuple[TopicPartition, ...]

    @property
    def sources(self) -> frozenset[str]:
        """The topics that it read, other than its own."""
        return frozenset(place.topic for place in self.commits)

    def spans(self, topic: str, *, from_source: bool = False) -> dict[int, tuple[int, int]]:
        """Return the first offset of each partition of a topic, and the one to stop before.

        Args:
            topic: A changelog, or a source.
            from_source: Whether it is a source, which counts as far as it was read.
        """
        found: dict[int, tuple[int, int]] = {}
        for place, end in sorted(self.ends.items()):
            if place.topic == topic:
                until = self.commits.get(place, 0) if from_source else end
                found[place.partition] = (self.starts[place], min(until, end))
        return found

    def stops(self) -> list[Stop]:
        """Return what is in the way of a takeover, whatever the program is."""
        found: list[Stop] = []
        name = self.application_id
        if self.members:
            some = ", ".join(self.members[:_WAITING_SHOWN_MAX])
            what = f"{name} still runs: its group has {len(self.members)} members ({some})"
            fix = "stop it; one that was killed leaves its group after session.timeout.ms"
            found.append(Stop(what=what, fix=fix))
        if not self.commits and not self.changelogs:
            what = f"there is no Kafka Streams application {name!r} on these brokers"
            fix = "check --application-id and the brokers; a group without members loses its "
            found.append(Stop(what=what, fix=fix + "offsets after offsets.retention.minutes"))
        elif not self.commits:
            what = f"the group {name} has no offsets: they have expired, or nothing was committed"
            fix = "start it again where its offsets are known, or reprocess the inputs"
            found.append(Stop(what=what, fix=fix))
        for place in self.undecided:
            what = f"{place.topic}-{place.partition} has a transaction that has not ended"
            fix = "wait until the broker ends it (transaction.timeout.ms, 10 s by default)"
            found.append(Stop(what=what, fix=fix))
        for place, count in sorted(self.waiting.items()):
            wait = "record waits" if count == 1 else "records wait"
            what = f"{count} {wait} in {place.topic}-{place.partition}"
            fix = (
                f"start {name} again without new input until it has read them, and stop it then; "
                "it is where its own records travel, and nothing here reads that topic"
            )
            found.append(Stop(what=what, fix=fix))
        return found


def look_at(
    properties: Mapping[str, Any],
    cluster: Cluster,
    application_id: str,
    others: Iterable[str] = (),
) -> OldApplication:
    """Return what an application has left.

    Args:
        properties: Client properties of consumers.
        cluster: Knows topics and offsets.
        application_id: The old application.
        others: Applications that are known to be others; so are those that have a group.
    """
    names = cluster.topics()
    neighbours = groups_beginning(properties, f"{application_id}-")
    own = own_topics(application_id, names, [*others, *neighbours])
    mine = {*own.changelogs.values(), *own.between}
    there = cluster.describe(names)
    places = [
        TopicPartition(topic, partition)
        for topic, found in there.items()
        for partition in range(found.partitions)
    ]
    group = look_at_group(properties, application_id, places)
    commits = {place: at for place, at in group.commits.items() if place.topic not in mine}
    sources = {place.topic for place in commits}
    asked = [place for place in places if place.topic in mine | sources]
    starts = dict(cluster.earliest_offsets(asked)) if asked else {}
    ends = dict(cluster.end_offsets(asked)) if asked else {}
    tops = dict(cluster.high_watermarks([p for p in asked if p.topic in mine])) if mine else {}
    return OldApplication(
        application_id=application_id,
        members=group.members,
        commits={place: at.offset for place, at in commits.items()},
        times={place: partition_time(at.metadata) for place, at in commits.items()},
        changelogs=own.changelogs,
        waiting=_waiting(properties, own.between, group.commits, starts, ends),
        starts=starts,
        ends=ends,
        undecided=tuple(sorted(place for place, top in tops.items() if top > ends[place])),
    )


def rows_between(
    properties: Mapping[str, Any], topic: str, partition: int, start: int, end: int
) -> Iterator[OldRow]:
    """Yield the committed rows of a partition between two offsets; those without a key are none."""
    if start >= end:
        return
    for chunk in read_chunks(properties, topic, partition, start, end):
        headers = chunk.headers or [()] * len(chunk)
        columns = zip(chunk.keys, chunk.values, chunk.timestamps, headers, strict=True)
        for key, value, timestamp, some in columns:
            if key is not None:
                yield OldRow(key, value, timestamp, some, partition)


def _waiting(
    properties: Mapping[str, Any],
    topics: Iterable[str],
    commits: Mapping[TopicPartition, Commit],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Count the records after the committed offsets: the ends alone count transactions too."""
    wanted, found = set(topics), dict[TopicPartition, int]()
    for place, end in ends.items():
        if place.topic not in wanted:
            continue
        at = commits.get(place)
        start = max(starts[place], at.offset if at is not None else 0)
        if start < end:
            count = sum(map(len, read_chunks(properties, *place, start, end)))
            if count:
                found[place] = count
    return found
