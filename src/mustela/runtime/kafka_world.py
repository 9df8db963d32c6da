"""The real world: a Kafka cluster, this machine's disk, its clocks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from mustela.clock import Clock
from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin, MissingTopicError
from mustela.connectors.kafka.bell import RecordBell
from mustela.connectors.kafka.errors import OffsetOutOfRange
from mustela.connectors.kafka.log import read_newest_first
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.errors import EnvironmentFault, InvariantError
from mustela.faultpoints import armed, reach
from mustela.plan.epoch import changelog_topic, history_topic
from mustela.runtime.commit.epochs import EpochReader, refuse_gone
from mustela.runtime.ports import Cluster, LocalState, World
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic
from mustela.runtime.topics.found_topics import internal_topics_of
from mustela.runtime.topics.key_groups import first_key_groups
from mustela.runtime.topics.neighbours import CHANGELOG, Neighbour, neighbours_of, sharing
from mustela.state.directories import choose_directory, release_directory, remove_unclaimed

__all__ = [
    "KafkaEpochLog",
    "LocalDisk",
    "changelogs_of_others",
    "kafka_world",
    "last_epoch",
    "own_topics",
    "transaction_options",
]


def kafka_world(settings: Settings, clock: Clock, *, joined: bool = False) -> World:
    """Return the world that the settings name; nothing is connected yet.

    Args:
        settings: Name the application and the brokers.
        clock: Wall and monotonic time.
        joined: Whether Spark's session is the user's own.
    """
    cluster = KafkaAdmin(client_properties(settings, "admin"))
    return World(
        cluster=cluster,
        transactions=TransactionalSink(
            client_properties(settings, "producer"),
            settings.application_id,
            options=transaction_options(settings),
            crash_point=reach if armed() else None,
        ),
        epochs=KafkaEpochLog(settings, cluster),
        epochs_of=lambda name: KafkaEpochLog(settings, cluster, name),
        disk=LocalDisk(),
        clock=clock,
        new_id=lambda: uuid.uuid4().hex,  # noqa: TID251 - has to differ from every other run's
        crash_point=reach,
        first_key_groups=first_key_groups(settings, joined=joined),
        bell=RecordBell(client_properties(settings, "consumer")),
    )


def transaction_options(settings: Settings) -> TransactionOptions:
    """Return the limits of an application's transactions."""
    name = settings.application_id
    return TransactionOptions(
        commit_timeout=settings.commit_timeout.total_seconds(),
        timeless=frozenset({epochs_topic(name), history_topic(name)}),
    )


def last_epoch(
    settings: Settings, cluster: Cluster, application_id: str = ""
) -> EpochRecord | None:
    """Return the last committed epoch record of an application, or None if there is none.

    Args:
        settings: Name the application and the brokers.
        cluster: Finds the start and end of the epochs topic, which must exist.
        application_id: The application; default: the one that the settings name.
    """
    name = application_id or settings.application_id
    return EpochReader(KafkaEpochLog(settings, cluster, name), name).last()


def changelogs_of_others(
    settings: Settings, cluster: Cluster, topics: Iterable[str]
) -> dict[str, Neighbour]:
    """Return which changelogs another application writes, although they match this one's names.

    Args:
        settings: Name the application and the brokers.
        cluster: Describes topics.
        topics: Topics; those that are not changelogs are ignored.
    """
    logs = [topic for topic in topics if topic.endswith(CHANGELOG)]
    neighbours = neighbours_of(settings.application_id, logs)
    there = cluster.describe({*logs, *(one.epochs for one in neighbours)}) if neighbours else {}
    ids = {topic: found.topic_id for topic, found in there.items()}
    return sharing(neighbours, lambda other: last_epoch(settings, cluster, other), ids)


def own_topics(settings: Settings, cluster: Cluster) -> list[str]:
    """Return the topics that an application created and no other one writes.

    Its record names its changelogs, whatever they are called; if it cannot be read, only their
    names decide.

    Args:
        settings: Name the application and the brokers.
        cluster: Knows all topics.
    """
    name, topics = settings.application_id, cluster.topics()
    own: list[str] = []
    if epochs_topic(name) in topics:
        try:
            record = last_epoch(settings, cluster)
        except (EnvironmentFault, InvariantError) as error:
            if isinstance(error, EnvironmentFault) and error.retryable:
                raise
            record = None
        stores = {*record.stores, *record.changelog_ends} if record else set[str]()
        own = [changelog_topic(name, store) for store in stores]
    found = internal_topics_of(name, topics, own)
    others = changelogs_of_others(settings, cluster, found)
    return [topic for topic in found if topic not in others]


class KafkaEpochLog:
    """Reads the epochs topic from its end.

    Args:
        settings: Name the application and the brokers.
        cluster: Finds the start and end of the topic.
        application_id: The application; default: the one that the settings name.
    """

    def __init__(self, settings: Settings, cluster: Cluster, application_id: str = "") -> None:
        self._settings = settings
        self._cluster = cluster
        self._application_id = application_id or settings.application_id

    def newest_first(self) -> Iterator[bytes]:
        """Yield the values of the committed records, the last one first.

        Raises:
            EpochsTopicGoneError: If there is no such topic.
        """
        is_begun = False
        for is_last in (False, False, True):
            try:
                for value in self._newest_first():
                    is_begun = True
                    yield value
            except OffsetOutOfRange:
                # The topic was made anew after a broker had told its end.
                if is_begun or is_last:
                    raise
            else:
                return

    def _newest_first(self) -> Iterator[bytes]:
        topic = epochs_topic(self._application_id)
        rows = read_newest_first(
            client_properties(self._settings, "consumer"), topic, offsets=self._cluster
        )
        try:
            for row in rows:
                if row.value is not None:
                    yield row.value
        except MissingTopicError:
            refuse_gone(self._application_id, [topic])


class LocalDisk:
    """This machine's disk and tmpfs."""

    def choose(self, state: LocalState, say: Callable[[str], None]) -> Path:
        """Return the directory to keep state in."""
        return choose_directory(state.root, state.application_id, backend=state.backend, say=say)

    def remove_unclaimed(self, place: Path, application_id: str, claimed: Collection[str]) -> None:
        """Delete the directories that no stage of the application uses."""
        remove_unclaimed(place, application_id, claimed)

    def release(self, place: Path) -> None:
        """Delete a directory that `choose` made on tmpfs."""
        release_directory(place)
