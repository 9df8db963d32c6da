"""mustela topics: list, plan and create topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from mustela.cli.applications import Assignments, Target, parse_assignments
from mustela.cli.clients import open_admin
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table, say
from mustela.cli.loading import load_app

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.connectors.kafka.admin import TopicSpec
    from mustela.runtime.topics.topic_plan import PlannedTopic

__all__ = ["group"]

Topic = Annotated[str, Parameter(name="TOPIC|MODULE:APP")]
Offline = Annotated[bool, Parameter(name="--offline", negative=())]


def group() -> App:
    """Return the commands ``mustela topics …``."""
    app = App(name="topics", help="List, plan and create topics.")
    app.command(list_topics, name="list")
    app.command(plan)
    app.command(create)
    return app


def list_topics(*, bootstrap_servers: Bootstrap = None, json: Json = False) -> int:
    """List the topics, with partitions and the number of visible records.

    Args:
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    with open_admin(bootstrap_servers) as admin:
        known = admin.describe(admin.topics())
        places = [(name, part) for name, topic in known.items() for part in range(topic.partitions)]
        ends, starts = admin.end_offsets(places), admin.earliest_offsets(places)
    rows: list[tuple[str, int, int]] = []
    for name, topic in sorted(known.items()):
        held = sum(ends[p] - starts[p] for p in ends if p.topic == name)
        rows.append((name, topic.partitions, held))
    if json:
        print_json([{"topic": n, "partitions": p, "offsets": held} for n, p, held in rows])
    else:
        print_table(["topic", "partitions", "offsets"], rows)
    return ExitCode.OK


def plan(
    target: Target,
    /,
    *,
    format: Literal["yaml", "strimzi"] = "yaml",
    partitions: int = 1,
    offline: Offline = False,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Print every topic of an application, as YAML to apply, and what differs on the brokers.

    Args:
        target: The module, and the name of the application in it.
        format: yaml, a list of topics; or strimzi, a KafkaTopic each for its operator.
        partitions: Partitions of source topics that do not exist yet.
        offline: Do not ask the brokers.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    settings, planned = _planned(target, bootstrap_servers, partitions, offline=offline)
    if json:
        document = {
            "application_id": settings.application_id,
            "ready": None if offline else all(t.exists and not t.differences for t in planned),
            "topics": [asdict(topic) for topic in planned],
        }
        print_json(document)
        return ExitCode.OK
    print(_strimzi(planned) if format == "strimzi" else _yaml(settings, planned), end="")
    missing = sum(topic.exists is False for topic in planned)
    differ = sum(bool(topic.differences) for topic in planned)
    if missing:
        say(f"{missing} of {len(planned)} topics do not exist: mustela topics create {target}")
    if differ:
        say(f"{differ} of {len(planned)} topics differ from the plan; see the comments")
    return ExitCode.OK


def create(
    topic: Topic,
    /,
    *,
    partitions: int = 1,
    set: Assignments = None,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Create a topic, or all topics that an application needs; existing ones stay as they are.

    Args:
        topic: Its name; or the module, and the name of the application in it.
        partitions: Its partitions; of an application those of its sources.
        set: Topic settings, for a single topic.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    from mustela.connectors.kafka.admin import TopicSpec
    from mustela.runtime.topics.topic_plan import specs_of

    wanted: list[TopicSpec]
    if ":" in topic:
        settings, planned = _planned(topic, bootstrap_servers, partitions)
        wanted, servers = specs_of(planned), settings.bootstrap_servers
    else:
        config = {key: str(value) for key, value in parse_assignments(set or ()).items()}
        wanted = [TopicSpec(name=topic, partitions=partitions, config=config)]
        servers = bootstrap_servers
    with open_admin(servers) as admin:
        there = admin.describe([spec.name for spec in wanted])
        wanted = [spec for spec in wanted if spec.name not in there]
        admin.create(wanted)
    if json:
        print_json({"created": [spec.name for spec in wanted]})
    for spec in () if json else wanted:
        say(f"created {spec.name} with {_count(spec.partitions, 'partition')}")
    if not wanted and not json:
        say("nothing to create: everything exists")
    return ExitCode.OK


def _planned(
    target: str, bootstrap_servers: str | None, partitions: int, *, offline: bool = False
) -> tuple[Settings, list[PlannedTopic]]:
    from mustela.runtime.topics.topic_plan import plan_topics

    app = load_app(target)
    if bootstrap_servers is not None:
        app.configure(bootstrap_servers=bootstrap_servers)
    settings, physical = app.settings, app.built_plan()
    if offline:
        return settings, plan_topics(settings, physical, None, partitions=partitions)
    with open_admin(settings.bootstrap_servers) as admin:
        return settings, plan_topics(settings, physical, admin, partitions=partitions)


def _yaml(settings: Settings, planned: Sequence[PlannedTopic]) -> str:
    """Write a list of topics, with a comment at each that is missing or differs."""
    lines = [f"# topics of {settings.application_id}", "topics:"]
    for topic in planned:
        lines += [f"  # {remark}" for remark in _remarks(topic)]
        lines += [f"  {line}" for line in _dump([_facts(topic)])]
    return "\n".join(lines) + "\n"


def _facts(topic: PlannedTopic) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": topic.name, "use": topic.use, "partitions": topic.partitions}
    if topic.replication_factor > 0:
        facts["replication_factor"] = topic.replication_factor
    if topic.config:
        facts["config"] = dict(topic.config)
    return facts


def _strimzi(planned: Sequence[PlannedTopic]) -> str:
    """Write a resource for each topic, as Strimzi's topic operator takes it."""
    parts: list[str] = []
    for topic in planned:
        spec: dict[str, Any] = {"topicName": topic.name, "partitions": topic.partitions}
        if topic.replication_factor > 0:
            spec["replicas"] = topic.replication_factor
        if topic.config:
            spec["config"] = dict(topic.config)
        resource = {
            "apiVersion": "kafka.strimzi.io/v1beta2",
            "kind": "KafkaTopic",
            "metadata": {"name": topic.name.lower().replace("_", "-")},
            "spec": spec,
        }
        parts.append("\n".join(["---", *(f"# {r}" for r in _remarks(topic)), *_dump(resource)]))
    return "\n".join(parts) + "\n"


def _remarks(topic: PlannedTopic) -> Iterable[str]:
    if topic.exists is False:
        yield "does not exist"
    yield from topic.differences


def _dump(value: object) -> list[str]:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False).splitlines()


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
