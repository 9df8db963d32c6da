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
    """Says for each epoch how far the copies of global tables must have read.

    The ends go forward only: a copy never has to unread. They are what the topics hold when an
    epoch is cut, so the first epoch finds each table as its topic is. A topic that loses records
    which were read, as its leader epochs tell, is read from its start into another copy.

    Args:
        plan: Names the tables.
        cluster: Answers where topics end.
        say: Tells the user of a table that is read anew.
    """

    def __init__(self, plan: Plan, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._tables = plan.global_tables
        self._cluster = cluster
        self._say = say
        self.marks: dict[str, GlobalMark] = {}
        self._sure: dict[str, GlobalMark] = {}

    def find(self) -> None:
        """Look for the topics and their partitions; a topic that was made anew begins anew.

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
        """Whether the topics are those that the last order named; if not, name the new ones.

        A copy is read by name: what a task read for an order may be of a topic that was made anew
        since, or lost its end. One that is not there tells nothing: what was read of it was read
        before it went. Where nothing had to be read since the last look at the logs they are not
        looked at again.

        Args:
            described: What the topics are now.

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
        """Go on from what the last epoch recorded."""
        for table in self._tables:
            if table.topic in marks:
                self.marks.setdefault(table.topic, marks[table.topic])

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions whose ends are asked for."""
        return [
            TopicPartition(topic, partition)
            for topic, mark in self.marks.items()
            for partition in range(len(mark.ends))
        ]

    def see(self, ends: Mapping[TopicPartition, LogPosition]) -> None:
        """Take over where the topics end now; one that ends early may have been made anew.

        Args:
            ends: Where partitions end, with their leaders' epochs.

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
        """Return up to where the topics are to be read, and in which leader's time they were."""
        return [
            (TopicPartition(topic, partition), LogPosition(end, mark.leader(partition)))
            for topic, mark in self.marks.items()
            for partition, end in enumerate(mark.ends)
        ]

    def _lost(self, ends: Mapping[TopicPartition, LogPosition]) -> set[str]:
        """Return the topics that lost records which were read, by logs that have other leaders."""
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
    """Return the later one of two ends of a log; of the same end the younger leader."""
    return known if found is None else max(known, found)
