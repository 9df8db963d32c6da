"""The topics an application needs: existing sources and sinks, and correct internal topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mustela.api.handlers import app_handlers, may_bury
from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import TopicSpec
from mustela.connectors.kafka.topic_checks import BROKER_TIME, missing_topics
from mustela.errors import Origin
from mustela.plan.epoch import changelog_topic, history_topic
from mustela.plan.plan import Plan
from mustela.runtime.ports import Cluster
from mustela.runtime.record.epoch_record import epochs_topic
from mustela.runtime.topics.lagging import describe_all
from mustela.state.interfaces import StoreSpec
from mustela.topology.sink import SinkNode

__all__ = [
    "COMPACTION_LAG",
    "dead_letter_topics",
    "ensure_topics",
    "first_chooser",
    "history_ms_of",
    "internal_topics",
    "sink_topics",
]

COMPACTION_LAG = "min.compaction.lag.ms"
_SEGMENT_BYTES = 50 * 1024 * 1024
_DAY_MS = 86_400_000


def changelog_config(store: StoreSpec, history_ms: int = 0) -> dict[str, str]:
    """Return the settings of a store's changelog topic.

    Args:
        store: The store.
        history_ms: For how long rows are kept that newer ones have overwritten.

    LogAppendTime, because a record's own time is inside its value, and an old timestamp would make
    the broker delete its segment. Windows leave the log by age: the store drops them without
    writing deletions. Every other kind deletes what it no longer needs, and its log is only
    compacted.
    """
    config = {
        "cleanup.policy": "compact",
        **BROKER_TIME,
        "segment.bytes": str(_SEGMENT_BYTES),
        "retention.ms": "-1",
    }
    if store.retention_ms is not None and store.traits.by_age:
        config["cleanup.policy"] = "compact,delete"
        config["retention.ms"] = str(store.retention_ms + _DAY_MS + history_ms)
    if history_ms:
        config[COMPACTION_LAG] = str(history_ms)
    return {**config, **store.topic_config}


def history_ms_of(settings: Settings) -> int:
    """Return for how many milliseconds changelogs keep what was overwritten; 0 for not at all."""
    history = settings.history
    return int(history.age.total_seconds() * 1000) if history.epochs else 0


def internal_topics(settings: Settings, plan: Plan, *, key_groups: int = 1) -> dict[str, TopicSpec]:
    """Return the specification of every internal topic of the application.

    Args:
        settings: The settings.
        plan: Its stores have changelogs.
        key_groups: The partitions of a changelog; for the names alone nobody needs to know.
    """
    replication = settings.replication_factor
    name = epochs_topic(settings.application_id)
    topics = {
        name: TopicSpec(
            name=name,
            application_id=settings.application_id,
            partitions=1,
            replication_factor=replication,
            config={
                "cleanup.policy": "compact",
                "segment.bytes": str(_SEGMENT_BYTES),
                "retention.ms": "-1",
            },
            created_with=BROKER_TIME,
        )
    }
    history_ms = history_ms_of(settings)
    if history_ms:
        name = history_topic(settings.application_id)
        topics[name] = TopicSpec(
            name=name,
            application_id=settings.application_id,
            partitions=1,
            replication_factor=replication,
            config={
                "cleanup.policy": "compact,delete",
                "segment.bytes": str(_SEGMENT_BYTES),
                "retention.ms": str(history_ms),
            },
            created_with=BROKER_TIME,
        )
    for _, store in plan.stores.values():
        if store.logged:
            topic = changelog_topic(settings.application_id, store.log_name)
            topics[topic] = TopicSpec(
                name=topic,
                application_id=settings.application_id,
                partitions=key_groups,
                replication_factor=replication,
                config=changelog_config(store, history_ms),
            )
    return topics


def sink_topics(plan: Plan) -> dict[str, SinkNode]:
    """Return the topics that sinks name directly, each with one of its sinks."""
    sinks: dict[str, SinkNode] = {}
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step.node, SinkNode) and isinstance(step.node.topic, str):
                sinks.setdefault(step.node.topic, step.node)
    return sinks


def first_chooser(plan: Plan) -> Origin | None:
    """Return the line of the first sink whose topics a function names, or None."""
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step.node, SinkNode) and not isinstance(step.node.topic, str):
                return step.node.origin
    return None


def ensure_topics(
    cluster: Cluster, settings: Settings, plan: Plan, clock: Clock, *, key_groups: int
) -> Mapping[str, int]:
    """Check all topics, create the internal ones, and return the sources' partition counts.

    Args:
        cluster: Knows and creates topics.
        settings: The settings.
        plan: The plan.
        clock: For waiting until brokers know new topics.
        key_groups: The number of key groups.

    Raises:
        MissingTopicError: If source topics or global tables' do not exist, or sink topics do not
            and ``topics.create`` is off; it names all of them.
        InternalTopicError: If an internal topic exists with other partitions or policy.
    """
    sinks = sink_topics(plan)
    wanted = internal_topics(settings, plan, key_groups=key_groups)
    dead_letters = dead_letter_topics(settings, plan)
    known = cluster.describe([*plan.topics, *sinks, *wanted, *dead_letters])
    required = _required(settings, plan, sinks)
    if required.keys() - known.keys():
        known |= describe_all(cluster, clock, required)
        _refuse_missing(cluster, required, known)
    cluster.check_internal([spec for name, spec in wanted.items() if name in known])
    _keep_overwritten(cluster, [spec for name, spec in wanted.items() if name in known])
    missing = [spec for name, spec in wanted.items() if name not in known]
    widest = max((known[name].partitions for name in plan.topics), default=1)
    missing.extend(
        TopicSpec(
            name=topic,
            partitions=widest,
            replication_factor=settings.replication_factor,
            config={},
        )
        for topic in [*sinks, *dead_letters]
        if topic not in known
    )
    cluster.create(missing)
    return {topic: known[topic].partitions for topic in plan.topics}


def _keep_overwritten(cluster: Cluster, specs: Iterable[TopicSpec]) -> None:
    """Let changelogs that are there keep overwritten rows for as long as the settings say."""
    logs = {spec.name: spec.config for spec in specs if COMPACTION_LAG in spec.config}
    if not logs:
        return
    there = cluster.configs(logs)
    wanted = {
        name: {
            key: config[key]
            for key in (COMPACTION_LAG, "retention.ms")
            if key in config and _is_less(there[name].get(key, "0"), config[key])
        }
        for name, config in logs.items()
    }
    changed = {name: values for name, values in wanted.items() if values}
    if changed:
        cluster.configure(changed)


def _is_less(has: str, wanted: str) -> bool:
    """Return whether one time is shorter than another; a negative one is unlimited."""
    return int(has) >= 0 and (int(wanted) < 0 or int(has) < int(wanted))


def _required(
    settings: Settings, plan: Plan, sinks: Mapping[str, SinkNode]
) -> dict[str, tuple[str, Origin | None]]:
    """Return the topics that the user must create, each with its use and the user's line."""
    required: dict[str, tuple[str, Origin | None]] = {}
    for source in plan.stages[0].sources:
        for topic in source.topics:
            required.setdefault(topic, ("source", source.origin))
    for table in plan.global_tables:
        required.setdefault(table.topic, ("global table", table.origin))
    if not settings.topics.create:
        for topic, sink in sinks.items():
            required.setdefault(topic, ("sink", sink.origin))
    return required


def _refuse_missing(
    cluster: Cluster, required: Mapping[str, tuple[str, Origin | None]], known: Collection[str]
) -> None:
    """Name all missing topics at once, so that users need not find them one start at a time.

    Raises:
        MissingTopicError: If there is one.
    """
    errors = [
        cluster.missing_topic(topic, use=use, at=at)
        for topic, (use, at) in required.items()
        if topic not in known
    ]
    if errors:
        raise errors[0] if len(errors) == 1 else missing_topics(errors)


def dead_letter_topics(settings: Settings, plan: Plan) -> list[str]:
    """Return the topic for dead letters, if anything can write one."""
    writes = plan.writes_letters or any(map(may_bury, app_handlers(settings).values()))
    return [settings.dead_letter_topic] if writes else []
