"""mustela topics: list and create topics."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from mustela.cli.applications import Assignments, parse_assignments
from mustela.cli.clients import open_admin
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table

__all__ = ["group"]

Topic = Annotated[str, Parameter(name="TOPIC")]


def group() -> App:
    """Return the commands ``mustela topics …``."""
    app = App(name="topics", help="List and create topics.")
    app.command(list_topics, name="list")
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


def create(
    topic: Topic,
    /,
    *,
    partitions: int = 1,
    set: Assignments = None,
    bootstrap_servers: Bootstrap = None,
) -> int:
    """Create a topic; an existing one stays as it is.

    Args:
        topic: Its name.
        partitions: Its partitions.
        set: Topic settings.
        bootstrap_servers: The brokers.
    """
    from mustela.connectors.kafka.admin import TopicSpec

    config = {key: str(value) for key, value in parse_assignments(set or ()).items()}
    with open_admin(bootstrap_servers) as admin:
        admin.create([TopicSpec(name=topic, partitions=partitions, config=config)])
    return ExitCode.OK
