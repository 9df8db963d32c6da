"""The topics of global tables, as the driver follows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from mustela.connectors.kafka.admin import TopicDescription
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark, global_identity
from mustela.plan.plan import Plan
from mustela.runtime.ports import Cluster

__all__ = ["GlobalFollower"]


class GlobalFollower:
    """Determines, for each epoch, how far the copies of global tables must have read.

    The ends only advance: a copy never has to undo a read. They are the ends of the topics when an
    epoch is cut, so the first epoch sees the whole table. A topic that loses records which were
    read, as its leader epochs show, is read from its start into a new copy.

    Args:
        plan: Names the tables.
        cluster: Finds the ends of topics.
        say: Called with a message about a table that is read again.
    """

    def __init__(self, plan: Plan, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._tables = plan.global_tables
        self._cluster = cluster
        self._say = say
        self.marks: dict[str, GlobalMark] = {}
        self._sure: dict[str, GlobalMark] = {}

    def find(self) -> None:
        """Look up the topics and their partitions; a recreated topic is read from its start.

        Raises:
            MissingTopicError: If a topic does not exist.
        """
        if not self._tables:
            return
        described = self._cluster.describe([table.topic for table in self._tables])
        for table in self._tables:
            found = described.get(table.topic)
            if found is None:
                raise self._cluster.missing_topic(table.topic, use="global table", at=table.origin)
            known = self.marks.get(table.topic)
            if known is None:
                known = GlobalMark(found.topic_id, ())
            elif known.topic_id != found.topic_id:
                self._say(
                    f"topic {table.topic} of a global table was deleted and recreated: the table "
                    "is read again from its start"
                )
                known = GlobalMark(found.topic_id, ())
            missing = (0,) * (found.partitions - len(known.ends))
            self.marks[table.topic] = known._replace(ends=known.ends + missing)

    @property
    def topics(self) -> set[str]:
        """The topics."""
        return {table.topic for table in self._tables}

    def is_still_read(self, described: Mapping[str, TopicDescription]) -> bool:
        """Return whether the topics are those of the last order; otherwise switch to the new ones.

        A copy is read by name: what a task read for an order may be from a topic that was recreated
        since, or lost its end. A missing topic is not judged: what was read of it was read before
        it was deleted. If nothing had to be read since the last look at the logs, they are not
        checked again.

        Args:
            described: The current descriptions of the topics.

        Raises:
            EnvironmentFault: If no broker answers.
        """
        if any(self.marks[topic].topic_id != now.topic_id for topic, now in described.items()):
            self.find()
            return False
        if self._sure != self.marks and described.keys() >= self.marks.keys():
            lost = self._lost(self._cluster.log_ends(self.places))
            self._read_anew(lost)
            if lost:
                return False
            self._sure = dict(self.marks)
        return True

    def resume(self, marks: Mapping[str, GlobalMark]) -> None:
        """Continue from what the last epoch recorded."""
        for table in self._tables:
            if table.topic in marks:
                self.marks.setdefault(table.topic, marks[table.topic])

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions whose ends are needed."""
        return [
            TopicPartition(topic, partition)
            for topic, mark in self.marks.items()
            for partition in range(len(mark.ends))
        ]

    def see(self, ends: Mapping[TopicPartition, LogPosition]) -> None:
        """Take over the current ends of the topics; one that ends early may have been recreated.

        Args:
            ends: The ends of partitions, with their leader epochs.

        Raises:
            EnvironmentFault: If no broker answers.
        """
        if any(ends.get(place, at).offset < at.offset for place, at in self._positions()):
            self.find()
        self._read_anew(self._lost(ends))
        for topic, mark in self.marks.items():
            now = [
                _further(LogPosition(end, mark.leader(n)), ends.get(TopicPartition(topic, n)))
                for n, end in enumerate(mark.ends)
            ]
            self.marks[topic] = mark._replace(
                ends=tuple(at.offset for at in now), leaders=tuple(at.leader_epoch for at in now)
            )

    def _positions(self) -> list[tuple[TopicPartition, LogPosition]]:
        """Return how far to read the topics, with the leader epochs."""
        return [
            (TopicPartition(topic, partition), LogPosition(end, mark.leader(partition)))
            for topic, mark in self.marks.items()
            for partition, end in enumerate(mark.ends)
        ]

    def _lost(self, ends: Mapping[TopicPartition, LogPosition]) -> set[str]:
        """Return the topics that lost records which were read, checking logs with new leaders."""
        led = {
            place: at
            for place, at in self._positions()
            if at.offset > 0 and place in ends and ends[place].leader_epoch > at.leader_epoch >= 0
        }
        return {place.topic for place in self._cluster.kept_ends(led)} if led else set()

    def _read_anew(self, lost: Collection[str]) -> None:
        for topic in sorted(lost):
            mark = self.marks[topic]
            self._say(
                f"topic {topic} of a global table lost records that were read: "
                "the table is read again from its start"
            )
            self.marks[topic] = GlobalMark(
                mark.topic_id, (0,) * len(mark.ends), losses=mark.losses + 1
            )

    @property
    def claimed(self) -> set[str]:
        """The directories of the copies, which are in use."""
        return {
            global_identity(table, self.marks[table.topic])
            for table in self._tables
            if table.topic in self.marks
        }


def _further(known: LogPosition, found: LogPosition | None) -> LogPosition:
    """Return the later of two ends of a log; for equal ends, the newer leader."""
    return known if found is None else max(known, found)
