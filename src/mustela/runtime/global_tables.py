"""The topics of global tables, as the driver follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mustela.connectors.kafka.admin import TopicDescription
from mustela.model import TopicPartition
from mustela.plan.epoch import GlobalMark, global_identity
from mustela.plan.plan import Plan
from mustela.runtime.ports import Cluster

__all__ = ["GlobalFollower"]


class GlobalFollower:
    """Says for each epoch how far the copies of global tables must have read.

    The ends go forward only: a copy never has to unread. They are what the topics hold when an
    epoch is cut, so the first epoch finds each table as its topic is.

    Args:
        plan: Names the tables.
        admin: Answers where topics end.
        say: Tells the user of a table that is read anew.
    """

    def __init__(self, plan: Plan, admin: Cluster, say: Callable[[str], None]) -> None:
        self._tables = plan.global_tables
        self._admin = admin
        self._say = say
        self.marks: dict[str, GlobalMark] = {}

    def find(self) -> None:
        """Look for the topics and their partitions; a topic that was made anew begins anew.

        Raises:
            MissingTopicError: If a topic does not exist.
        """
        if not self._tables:
            return
        described = self._admin.describe([table.topic for table in self._tables])
        for table in self._tables:
            found = described.get(table.topic)
            if found is None:
                raise self._admin.missing_topic(table.topic, use="global table", at=table.origin)
            known = self.marks.get(table.topic)
            ends = known.ends if known is not None and known.topic_id == found.topic_id else ()
            if known is not None and known.topic_id != found.topic_id:
                self._say(
                    f"topic {table.topic} of a global table was deleted and made anew: "
                    "the table is read again from its start"
                )
            missing = (0,) * (found.partitions - len(ends))
            self.marks[table.topic] = GlobalMark(found.topic_id, ends + missing)

    @property
    def topics(self) -> set[str]:
        """The topics."""
        return {table.topic for table in self._tables}

    def is_still_read(self, described: Mapping[str, TopicDescription]) -> bool:
        """Whether the topics are those that the last order named; if not, name the new ones.

        A copy is read by name: what a task read for an order may be of a topic that was made anew
        since. One that is not there tells nothing: what was read of it was read before it went.

        Args:
            described: What the topics are now.
        """
        if all(self.marks[topic].topic_id == now.topic_id for topic, now in described.items()):
            return True
        self.find()
        return False

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

    def see(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take over where the topics end now; one that ends early may have been made anew."""
        if any(
            ends.get(TopicPartition(topic, partition), known) < known
            for topic, mark in self.marks.items()
            for partition, known in enumerate(mark.ends)
        ):
            self.find()
        for topic, mark in self.marks.items():
            now = tuple(
                max(known, ends.get(TopicPartition(topic, partition), known))
                for partition, known in enumerate(mark.ends)
            )
            self.marks[topic] = GlobalMark(mark.topic_id, now)

    @property
    def claimed(self) -> set[str]:
        """The directories of the copies, which are in use."""
        return {
            global_identity(table, self.marks[table.topic])
            for table in self._tables
            if table.topic in self.marks
        }
