"""Examines record, broker and program, and decides whether an application may continue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import TopicDescription
from mustela.model import TopicPartition
from mustela.plan.epoch import changelog_topic, changelog_topics
from mustela.plan.plan import Plan
from mustela.runtime.commit.epochs import EpochReader
from mustela.runtime.gate.answers import refuse, told
from mustela.runtime.gate.differences import (
    BrokerFacts,
    Difference,
    Kind,
    ProgramFacts,
    differences,
    ids_of,
    led_by_others,
    names_taken,
    shared_changelogs,
    unchanged,
    without_leader,
)
from mustela.runtime.ports import World
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic
from mustela.runtime.record.store_names import with_store_names
from mustela.runtime.topics.found_topics import with_found
from mustela.runtime.topics.key_groups import chosen_key_groups
from mustela.runtime.topics.lagging import describe_all
from mustela.runtime.topics.log_formats import askable_leaders
from mustela.runtime.topics.neighbours import Neighbour, neighbours_of, sharing

__all__ = ["Examination", "Gate"]

_MOVING = frozenset(
    {
        Kind.OFFSETS_MOVED,
        Kind.GROUP_FOREIGN,
        Kind.EPOCHS_REMADE,
        Kind.STATE_WITHOUT_RECORD,
        Kind.SOURCE_TRUNCATED,
        Kind.CHANGELOG_TRUNCATED,
    }
)
"""Differences that a commit between two requests can cause: its markers do not reach all logs at
once."""
_LOOKS_MAX = 3
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The findings of the gate.

    Attributes:
        record: The last epoch record, if any epoch was ever committed, with the stores under their
            names in the program.
        program: The program to run.
        broker: The findings on the broker.
        found: All differences.
    """

    record: EpochRecord | None
    program: ProgramFacts
    broker: BrokerFacts
    found: list[Difference] = field(default_factory=list[Difference])

    def decide(self, say: Callable[[str], None]) -> None:
        """Report differences that do not stop the application, or raise the first that does.

        Raises:
            MustelaError: For the first difference that is a stop.
        """
        name = self.program.application_id
        refuse(self.found, name)
        for difference in self.found:
            say(told(difference, name))


class Gate:
    """Compares the last epoch record, the broker and the program; writes nothing.

    Args:
        settings: The settings.
        world: Kafka.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self._settings = settings
        self._cluster = world.cluster
        self._clock = world.clock
        self._epochs = EpochReader(world.epochs, settings.application_id)
        self._first = world.first_key_groups
        self._epochs_of = world.epochs_of

    def look(self, plan: Plan) -> Examination:
        """Do the same as `examine` where an epoch may be committed between two requests.

        A difference that such a commit, or a newly elected leader, may have caused counts only if
        it is still there, with the same values, a moment later.
        """
        seen = self.examine(plan)
        for _ in range(_LOOKS_MAX):
            if not any(difference.kind in _MOVING for difference in seen.found):
                break
            self._clock.sleep(_LOOK_AGAIN_S)
            again = self.examine(plan)
            lasting = [d for d in again.found if d.kind not in _MOVING or d in seen.found]
            if lasting == again.found:
                return again
            seen = replace(again, found=lasting)
        return seen

    def examine(self, plan: Plan) -> Examination:
        """Return all differences between record, broker and program, from a single look.

        Args:
            plan: The plan; topics that match its patterns are looked up.
        """
        name = self._settings.application_id
        there = self._cluster.describe([epochs_topic(name)]).get(epochs_topic(name))
        record = self._epochs.last() if there else None
        taken: list[Difference] = []
        if record is not None:
            taken = names_taken(record, plan)
            record = with_store_names(record, plan)
        if plan.has_patterns:
            known = record.found_topics if record else ()
            plan = with_found(plan, self._settings, known, self._cluster.topics())
        broker = self._ask(record, plan, there.topic_id if there else "")
        logs = changelog_topics(name, plan)
        made = [found.partitions for topic, found in broker.topics.items() if topic in logs]
        program = ProgramFacts(
            application_id=name,
            plan=plan,
            key_groups=chosen_key_groups(self._settings, record, made, first=self._first),
            event_time=self._settings.event_time,
            holds_format=self._settings.hold_format,
        )
        found = [*taken, *differences(record, broker, program)]
        return Examination(record=record, program=program, broker=broker, found=found)

    def refuse_shared(self, plan: Plan) -> None:
        """Raise if another application claimed a changelog at the same time as this one.

        Raises:
            ChangelogSharedError: If one has.
        """
        name = self._settings.application_id
        logs = changelog_topics(name, plan)
        neighbours = neighbours_of(name, logs)
        if neighbours:
            topics = self._cluster.describe({*logs, *(one.epochs for one in neighbours)})
            shared = self._sharing(neighbours, topics)
            program = ProgramFacts(application_id=name, plan=plan, key_groups=0, event_time="")
            broker = BrokerFacts(topics=topics, starts={}, ends={}, group={}, shared=shared)
            refuse(shared_changelogs(broker, program), name)

    def _sharing(
        self, neighbours: Iterable[Neighbour], topics: Mapping[str, TopicDescription]
    ) -> dict[str, Neighbour]:
        return sharing(
            neighbours,
            lambda other: EpochReader(self._epochs_of(other), other).last(),
            ids_of(topics),
        )

    def _ask(self, record: EpochRecord | None, plan: Plan, epochs_id: str) -> BrokerFacts:
        name, cluster = self._settings.application_id, self._cluster
        logs = changelog_topics(name, plan)
        known = set(record.topic_ids) if record else set[str]()
        wanted = set(plan.topics) - set(plan.found_topics)
        if record is not None:
            wanted |= (set(plan.topics) & known) - set(record.dormant)
            full = record.changelog_ends.keys() & plan.log_names.keys()
            wanted |= {changelog_topic(name, plan.log_names[store]) for store in full}
        neighbours = neighbours_of(name, logs)
        maybe = {*plan.topics, *logs, *known, *(one.epochs for one in neighbours)}
        topics = describe_all(cluster, self._clock, wanted, maybe=maybe)
        still = unchanged(record.topic_ids, ids_of(topics)) if record else set[str]()
        sources = [
            part.place
            for part in (record.partitions if record else ())
            if part.topic in still and part.partition < topics[part.topic].partitions
        ]
        same = {
            TopicPartition(topic, partition)
            for topic in still
            for partition in range(topics[topic].partitions)
        }
        written = [
            TopicPartition(log, group)
            for log in sorted(logs & topics.keys())
            for group in range(topics[log].partitions)
        ]
        ends = cluster.log_ends([*sources, *written]) if sources or written else {}
        read = led_by_others(record, ends) if record else {}
        nameless = without_leader(record, ends) if record else {}
        return BrokerFacts(
            topics=topics,
            starts=cluster.earliest_offsets(sorted(same)) if same else {},
            ends={place: end.offset for place, end in ends.items()},
            group=cluster.group_offsets(name),
            kept=cluster.kept_ends({p: at for p, at in read.items() if p.topic in plan.topics}),
            epochs_id=epochs_id,
            leaders=askable_leaders(cluster, nameless),
            shared=self._sharing(neighbours, topics),
        )
