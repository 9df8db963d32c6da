"""Topics as they should be and as they are, and the errors where the two differ."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mustela.errors import Origin, UsageError

__all__ = [
    "BROKER_TIME",
    "INTERNAL",
    "InternalTopicError",
    "MissingTopicError",
    "TopicDescription",
    "TopicSpec",
    "check_config",
    "check_partitions",
    "missing_topic",
    "missing_topics",
    "weak_topics",
]

INTERNAL = "internal"

_UNCLEAN = "unclean.leader.election.enable"
_CHECKED_BY_DEFAULT = ("cleanup.policy", "message.timestamp.type")


class MissingTopicError(UsageError):
    """A topic that the application reads or writes does not exist."""

    code = "TOPIC_MISSING"


class InternalTopicError(UsageError):
    """An internal topic exists, but not as the application needs it."""

    code = "TOPIC_INTERNAL_DIFFERS"


BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}
"""A broker takes no record of a clock that is an hour ahead of its own, unless it sets the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as it should be.

    Attributes:
        name: Its name.
        partitions: Number of partitions.
        replication_factor: Copies; -1 for the broker's default.
        config: Topic settings that differ from the broker's.
        created_with: More of them for a new topic; one that is there may have others.
        application_id: Whose internal topic it is.
    """

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    created_with: Mapping[str, str] = field(default_factory=dict[str, str])
    application_id: str = "APP"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as it is.

    Attributes:
        name: Its name.
        topic_id: Differs after the topic was deleted and created again.
        partitions: Number of partitions.
        replication_factor: Copies of the first partition.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int


def missing_topic(
    topic: str, there: Collection[str], *, use: str, at: Origin | None, servers: str
) -> MissingTopicError:
    """Make the error that a topic does not exist, with the name that may have been meant.

    Args:
        topic: The name that was given.
        there: The topics that exist.
        use: What it is for, where known; nobody is told to make an internal one by hand.
        at: The user's line.
        servers: Who was asked.
    """
    evidence = {"servers": servers}
    close = difflib.get_close_matches(topic, there, n=3, cutoff=0.6)
    fix = f"create it, for example: mustela topics create {topic} --partitions 6"
    if use == INTERNAL:
        close = []
        fix = (
            "start the application again: it creates its internal topics, or reports what they lost"
        )
    elif use == "sink":
        fix += "; or set topics.create = true"
    if close:
        evidence["did you mean"] = ", ".join(close)
        fix = f"correct the name, or {fix}"
    return MissingTopicError(
        f"{use} topic '{topic}' does not exist".lstrip(),
        evidence=evidence,
        at=at,
        fix=fix,
        fields={"topic": topic, "topics": [topic], "use": use, "close": close},
    )


def missing_topics(errors: Sequence[MissingTopicError]) -> MissingTopicError:
    """Make one error of several that each name a missing topic."""
    evidence = {"servers": errors[0].evidence.get("servers", "")}
    for error in errors:
        facts = [str(error.at)] if error.at is not None else []
        if error.fields.get("close"):
            facts.append(f"did you mean {', '.join(error.fields['close'])}?")
        evidence[error.what.removesuffix(" does not exist")] = "\n".join(facts) or "nowhere"
    topics = [error.fields["topic"] for error in errors]
    commands = "\n".join(f"mustela topics create {topic} --partitions 6" for topic in topics)
    sinks_only = all(error.fields.get("use") == "sink" for error in errors)
    more = "\nor set topics.create = true" if sinks_only else ""
    return MissingTopicError(
        f"{len(errors)} topics do not exist: {', '.join(topics)}",
        evidence=evidence,
        fix=f"correct the names, or create them, for example:\n{commands}{more}",
        fields={"topic": topics[0], "topics": topics},
    )


def check_partitions(spec: TopicSpec, topic: TopicDescription) -> None:
    """Check an internal topic's number of partitions.

    Raises:
        InternalTopicError: If it differs.
    """
    if topic.partitions == spec.partitions:
        return
    what = f"internal topic '{spec.name}' has {topic.partitions} partitions, not {spec.partitions}"
    raise InternalTopicError(
        what,
        why="a changelog has one partition for each key group, for the whole life of the "
        "application; the epochs topic has one",
        fix=f"set key_groups to {topic.partitions} again if it was changed, "
        f"or clear the application with: mustela reset {spec.application_id}",
        fields={"topic": spec.name, "has": topic.partitions, "wanted": spec.partitions},
    )


def check_config(spec: TopicSpec, config: Mapping[str, str]) -> None:
    """Check the settings of an internal topic on which a restore depends.

    Raises:
        InternalTopicError: If one differs.
    """
    for name in _CHECKED_BY_DEFAULT:
        wanted, has = spec.config.get(name), config.get(name)
        if wanted is None or has is None or _items(wanted) == _items(has):
            continue
        what = f"internal topic '{spec.name}' has {name}={has}, not {wanted}"
        listed = f"[{wanted}]" if "," in wanted else wanted
        raise InternalTopicError(
            what,
            why="with another setting the broker could delete what a restore needs",
            fix=f"mustela kafka-configs --alter --entity-type topics --entity-name {spec.name} "
            f"--add-config {shlex.quote(f'{name}={listed}')}",
            fields={"topic": spec.name, "setting": name, "has": has, "wanted": wanted},
        )


def weak_topics(
    described: Mapping[str, TopicDescription],
    configs: Mapping[str, Mapping[str, str]],
    brokers: int,
) -> list[str]:
    """Say which topics can lose what was committed, and what is to be done.

    Args:
        described: The topics.
        configs: Their settings, the broker's defaults among them.
        brokers: How many brokers the cluster has: one can have no second replica.

    Example:
        >>> weak_topics({}, {"app-epochs": {"unclean.leader.election.enable": "false"}}, 3)
        []
    """
    told: list[str] = []
    unclean = [name for name in sorted(configs) if configs[name].get(_UNCLEAN) == "true"]
    if unclean:
        commands = "; ".join(
            f"mustela kafka-configs --alter --entity-type topics --entity-name {name}"
            f" --add-config {_UNCLEAN}=false"
            for name in unclean
        )
        told.append(
            f"internal topics with {_UNCLEAN}=true can lose committed epochs and state when a"
            f" broker fails: {', '.join(unclean)}; set it to false: {commands}"
        )
    single = [name for name in sorted(described) if described[name].replication_factor == 1]
    if single and brokers > 1:
        told.append(
            f"internal topics with one replica, on a cluster of {brokers} brokers, are lost with"
            f" the broker that holds them: {', '.join(single)}; add replicas with Kafka's"
            " kafka-reassign-partitions (replication_factor applies only when a topic is created)"
        )
    return told


def _items(value: str) -> frozenset[str]:
    return frozenset(item.strip() for item in value.split(","))
