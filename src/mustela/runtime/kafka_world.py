"""The world as it is: a Kafka cluster, this machine's disk, its clocks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from mustela.clock import Clock
from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin, MissingTopicError
from mustela.connectors.kafka.log import read_newest_first
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.faultpoints import armed, reach
from mustela.runtime.commit.epochs import EpochReader, refuse_gone
from mustela.runtime.ports import Cluster, LocalState, World
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic
from mustela.state.directories import choose_directory, release_directory, remove_unclaimed

__all__ = ["KafkaEpochLog", "LocalDisk", "kafka_world", "last_epoch"]


def kafka_world(settings: Settings, clock: Clock) -> World:
    """Return the world that the settings name; nothing is connected yet."""
    cluster = KafkaAdmin(client_properties(settings, "admin"))
    return World(
        cluster=cluster,
        transactions=TransactionalSink(
            client_properties(settings, "producer"),
            settings.application_id,
            options=TransactionOptions(
                commit_timeout=settings.commit_timeout.total_seconds(),
                timeless=frozenset({epochs_topic(settings.application_id)}),
            ),
            crash_point=reach if armed() else None,
        ),
        epochs=KafkaEpochLog(settings, cluster),
        disk=LocalDisk(),
        clock=clock,
        new_id=lambda: uuid.uuid4().hex,  # noqa: TID251 - has to differ from every other run's
        crash_point=reach,
    )


def last_epoch(settings: Settings, cluster: Cluster) -> EpochRecord | None:
    """Return the last committed epoch record of an application, or None if there is none.

    Args:
        settings: Name the application and the brokers.
        cluster: Answers where the epochs topic, which exists, begins and ends.
    """
    return EpochReader(KafkaEpochLog(settings, cluster), settings.application_id).last()


class KafkaEpochLog:
    """Reads the epochs topic from its end.

    Args:
        settings: Name the application and the brokers.
        cluster: Answers where the topic begins and ends.
    """

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster

    def newest_first(self) -> Iterator[bytes]:
        """Yield the values of the committed records, the last one first.

        Raises:
            EpochsTopicGoneError: If there is no such topic.
        """
        topic = epochs_topic(self._settings.application_id)
        rows = read_newest_first(
            client_properties(self._settings, "consumer"), topic, offsets=self._cluster
        )
        try:
            for row in rows:
                if row.value is not None:
                    yield row.value
        except MissingTopicError:
            refuse_gone(self._settings.application_id, [topic])


class LocalDisk:
    """This machine's disk and tmpfs."""

    def choose(self, state: LocalState, say: Callable[[str], None]) -> Path:
        """Return the directory to keep state in."""
        return choose_directory(state.root, state.application_id, backend=state.backend, say=say)

    def remove_unclaimed(self, place: Path, application_id: str, claimed: Collection[str]) -> None:
        """Delete what no stage of the application uses."""
        remove_unclaimed(place, application_id, claimed)

    def release(self, place: Path) -> None:
        """Delete a directory that `choose` made on tmpfs."""
        release_directory(place)
