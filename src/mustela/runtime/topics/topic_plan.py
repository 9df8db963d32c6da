"""Every topic that an application needs, as it should be, and what differs on the brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import TopicDescription, TopicSpec
from mustela.plan.epoch import changelog_topics
from mustela.plan.plan import Plan
from mustela.runtime.lease import lease_spec
from mustela.runtime.ports import Cluster
from mustela.runtime.topics.application_topics import (
    dead_letter_topics,
    internal_topics,
    sink_topics,
)
from mustela.runtime.topics.key_groups import chosen_key_groups, first_key_groups

__all__ = ["PlannedTopic", "TopicUse", "plan_topics", "specs_of"]

TopicUse = Literal["source", "global table", "sink", "dead letters", "internal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A topic as it should be, and as it is.

    Attributes:
        name: Its name.
        use: What the application does with it.
        partitions: Number of partitions; of a topic of the user's that exists, as it is.
        replication_factor: Copies; -1 for the broker's default.
        config: Topic settings that differ from the broker's.
        exists: Whether it is there; None if nobody asked the brokers.
        differences: What is not as it should be, a line each.
    """

    name: str
    use: TopicUse
    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    exists: bool | None = None
    differences: tuple[str, ...] = ()


def plan_topics(
    settings: Settings, plan: Plan, cluster: Cluster | None, *, partitions: int = 1
) -> list[PlannedTopic]:
    """Return every topic of an application: what it reads first, its own last.

    Args:
        settings: The settings.
        plan: What it runs; topics that patterns find are not in it.
        cluster: Is asked what there is; None asks nobody.
        partitions: Partitions of source topics that do not exist, and at least of sinks.
    """
    uses = _uses(settings, plan)
    lease = lease_spec(settings.application_id, settings.replication_factor)
    names = [*internal_topics(settings, plan), lease.name]
    known = {} if cluster is None else cluster.describe([*uses, *names])
    logs = changelog_topics(settings.application_id, plan) & known.keys()
    made = [known[log].partitions for log in logs]
    groups = chosen_key_groups(settings, None, made, first=first_key_groups(settings))
    internal = {**internal_topics(settings, plan, key_groups=groups), lease.name: lease}
    found = {} if cluster is None else cluster.configs(known)
    widest = max(
        (known[name].partitions for name, use in uses.items() if use == "source" and name in known),
        default=partitions,
    )
    wanted: list[tuple[TopicUse, TopicSpec]] = []
    for name, use in uses.items():
        count = partitions if use in ("source", "global table") else max(widest, partitions)
        there = known.get(name)
        wanted.append(
            (
                use,
                TopicSpec(
                    name=name,
                    partitions=count if there is None else there.partitions,
                    replication_factor=settings.replication_factor,
                ),
            )
        )
    own: list[tuple[TopicUse, TopicSpec]] = [("internal", internal[name]) for name in internal]
    wanted += sorted(own, key=lambda each: each[1].name)
    return [
        PlannedTopic(
            name=spec.name,
            use=use,
            partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            config={**spec.config, **spec.created_with},
            exists=None if cluster is None else spec.name in known,
            differences=_differences(spec, use, known.get(spec.name), found.get(spec.name, {})),
        )
        for use, spec in wanted
    ]


def specs_of(planned: Sequence[PlannedTopic]) -> list[TopicSpec]:
    """Return what has to be made: the topics that do not exist."""
    return [
        TopicSpec(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=topic.config,
        )
        for topic in planned
        if not topic.exists
    ]


def _uses(settings: Settings, plan: Plan) -> dict[str, TopicUse]:
    uses: dict[str, TopicUse] = {}
    for source in plan.stages[0].sources:
        for name in sorted(source.topics):
            uses.setdefault(name, "source")
    for table in plan.global_tables:
        uses.setdefault(table.topic, "global table")
    for name in sorted(sink_topics(plan)):
        uses.setdefault(name, "sink")
    for name in dead_letter_topics(settings, plan):
        uses.setdefault(name, "dead letters")
    return uses


def _differences(
    spec: TopicSpec,
    use: TopicUse,
    there: TopicDescription | None,
    config: Mapping[str, str],
) -> tuple[str, ...]:
    if there is None:
        return ()
    found: list[str] = []
    if use == "internal" and there.partitions != spec.partitions:
        found.append(f"partitions: {there.partitions}, not {spec.partitions}")
    if 0 < spec.replication_factor != there.replication_factor:
        copies = there.replication_factor
        found.append(f"replication factor: {copies}, not {spec.replication_factor}")
    found += [
        f"{name}: {config.get(name)}, not {value}"
        for name, value in spec.config.items()
        if set(config.get(name, "").split(",")) != set(value.split(","))
    ]
    return tuple(found)
