"""Looks at the group of another application, and changes nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from mustela.connectors.kafka.calls import await_coordinator, close_aside
from mustela.connectors.kafka.client import ClientErrors, admin_client, consumer_client
from mustela.connectors.kafka.errors import fault
from mustela.model import TopicPartition as Place

__all__ = ["Commit", "GroupLook", "groups_beginning", "look_at_group", "metadata_of"]

_TIMEOUT_S = 30.0


class Commit(NamedTuple):
    """A committed offset.

    Attributes:
        offset: Of the next record to read.
        metadata: What was committed beside it, and perhaps more: the client tells it without its
            length, and reads on until it finds a zero byte.
    """

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class GroupLook:
    """What the broker knows about a group.

    Attributes:
        members: The client ids of its members; none if it has stopped.
        commits: Its committed offsets.
    """

    members: tuple[str, ...]
    commits: dict[Place, Commit]


def look_at_group(
    properties: Mapping[str, Any],
    group: str,
    places: Iterable[tuple[str, int]],
    *,
    timeout: float = _TIMEOUT_S,
) -> GroupLook:
    """Return members and committed offsets of a group; one that does not exist has neither.

    Args:
        properties: Client properties.
        group: The group.
        places: The partitions whose offsets are asked for.
        timeout: Seconds for each question.

    Raises:
        EnvironmentFault: If the broker does not answer.
    """
    errors = ClientErrors()
    wanted = [TopicPartition(topic, partition) for topic, partition in places]
    commits: dict[Place, Commit] = {}
    if wanted:
        # As in KafkaAdmin.group_offsets: the admin client's own question can kill the process.
        consumer = consumer_client(properties, {"group.id": group}, errors)
        try:
            await_coordinator(consumer, wanted[0], timeout)
            for found in consumer.committed(wanted, timeout=timeout):
                if found.offset >= 0:
                    place = Place(found.topic, found.partition)
                    commits[place] = Commit(found.offset, metadata_of(found))
        except KafkaException as raised:
            raise fault(raised, f"ask for the offsets of group '{group}'") from raised
        finally:
            close_aside(consumer)
    return GroupLook(_members(admin_client(properties, errors), group, timeout), commits)


def groups_beginning(
    properties: Mapping[str, Any], prefix: str, *, timeout: float = _TIMEOUT_S
) -> list[str]:
    """Return the names of the groups that begin with a prefix.

    Args:
        properties: Client properties.
        prefix: The prefix.
        timeout: Seconds for the question.

    Raises:
        EnvironmentFault: If the broker does not answer.
    """
    admin: Any = admin_client(properties, ClientErrors())
    try:
        found = admin.list_consumer_groups(request_timeout=timeout).result(timeout)
    except KafkaException as raised:
        raise fault(raised, "list the groups") from raised
    return sorted(one.group_id for one in found.valid if one.group_id.startswith(prefix))


def metadata_of(found: Any) -> str:
    """Return the metadata of a commit, as far as they are text: memory after them need not be.

    Args:
        found: The client's own description of a committed offset.
    """
    try:
        return found.metadata or ""
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode()


def _members(admin: Any, group: str, timeout: float) -> tuple[str, ...]:
    future = admin.describe_consumer_groups([group], request_timeout=timeout)[group]
    try:
        described = future.result(timeout)
    except KafkaException as raised:
        if raised.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return ()
        raise fault(raised, f"ask for the members of group '{group}'") from raised
    return tuple(sorted(member.client_id for member in described.members))
