"""mustela reset: forget what an application has done, so that it can begin anew."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from mustela.cli.clients import open_admin
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, say
from mustela.cli.settings import loose_settings
from mustela.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mustela.config.settings import Settings
    from mustela.connectors.kafka.admin import KafkaAdmin

__all__ = [
    "NothingConfirmedError",
    "NothingRecordedError",
    "internal_topics_of",
    "reset",
    "settings_of",
]

CHANGELOG = "-changelog"


class NothingConfirmedError(UsageError):
    """Nobody said yes to the deletion."""

    code = "RESET_NOT_CONFIRMED"


class NothingRecordedError(UsageError):
    """There is no epoch record whose offsets could be kept."""

    code = "RESET_NO_RECORD"


class Plan(NamedTuple):
    """What a reset would delete."""

    application_id: str
    topics: list[str]
    state: list[Path]
    group: bool


def reset(
    application: Annotated[str, Parameter(name="MODULE:APP|APPLICATION-ID")],
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative=())] = False,
    offsets: Literal["delete", "keep-record"] = "delete",
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Delete an application's state, changelogs, epochs topic and group; stop it first.

    With --offsets keep-record nothing is deleted: the group's offsets, which a tool has moved, are
    set again to those of the last epoch record.

    Args:
        application: The application, or only its id.
        yes: Do not ask.
        offsets: What becomes of the group's offsets.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    with open_admin(settings.bootstrap_servers) as admin:
        if offsets == "keep-record":
            kept = _keep_record(settings, admin)
            if json:
                print_json({"application_id": settings.application_id, "offsets": kept})
            else:
                print(f"the group {settings.application_id} is at its last epoch record again")
            return ExitCode.OK
        plan = _plan(settings, admin)
        if not yes:
            _confirm(plan)
        admin.delete_group(plan.application_id)
        admin.delete(plan.topics)
        for state in plan.state:
            shutil.rmtree(state)
    if json:
        print_json(plan._asdict())
    else:
        for line in _told(plan):
            print(f"deleted {line}")
    return ExitCode.OK


def internal_topics_of(application_id: str, topics: Iterable[str]) -> list[str]:
    """Return those of ``topics`` that an application made for itself.

    Example:
        >>> internal_topics_of("a", ["a-epochs", "a-counts-changelog", "a-lines", "ab-epochs"])
        ['a-counts-changelog', 'a-epochs']
    """
    from mustela.runtime.epoch_record import epochs_topic

    prefix = f"{application_id}-"
    return sorted(
        topic
        for topic in topics
        if topic == epochs_topic(application_id)
        or (topic.startswith(prefix) and topic.endswith(CHANGELOG))
    )


def settings_of(application: str, bootstrap_servers: str | None) -> Settings:
    """Return the settings of an application that is named by module and name, or by its id."""
    if ":" not in application:
        return loose_settings(application_id=application, bootstrap_servers=bootstrap_servers)
    from mustela.cli.loading import load_app

    app = load_app(application)
    if bootstrap_servers is not None:
        app.configure(bootstrap_servers=bootstrap_servers)
    return app.settings


def _plan(settings: Settings, admin: KafkaAdmin) -> Plan:
    from mustela.state.directories import memory_directory

    name = settings.application_id
    places = (settings.state_dir / name, memory_directory(name))
    return Plan(
        application_id=name,
        topics=internal_topics_of(name, admin.topics()),
        state=[place for place in places if place.is_dir() and not place.is_symlink()],
        group=bool(admin.group_offsets(name)),
    )


def _told(plan: Plan) -> list[str]:
    told = [f"topic {topic}" for topic in plan.topics]
    told += [f"state in {place}" for place in plan.state]
    if plan.group:
        told.append(f"offsets of group {plan.application_id}")
    return told or [f"nothing: {plan.application_id} has left nothing"]


def _confirm(plan: Plan) -> None:
    say("\n".join([f"{plan.application_id}: to be deleted", *(f"  {t}" for t in _told(plan))]))
    if not sys.stdin.isatty():
        what = f"nothing of {plan.application_id} is deleted without a yes"
        raise NothingConfirmedError(what, fix="add --yes")
    say("type yes to go on:")
    if sys.stdin.readline().strip().lower() not in {"yes", "y"}:
        what = f"nothing of {plan.application_id} was deleted"
        raise NothingConfirmedError(what)


def _keep_record(settings: Settings, admin: KafkaAdmin) -> dict[str, int]:
    from mustela.runtime.epoch_record import epochs_topic
    from mustela.runtime.kafka_world import last_epoch

    name = settings.application_id
    topic = epochs_topic(name)
    record = last_epoch(settings, admin) if admin.describe([topic]) else None
    if record is None:
        what = f"{name} has no epoch record"
        raise NothingRecordedError(
            what, evidence={"topic": topic}, fix="check the application's id"
        )
    offsets = {(p.topic, p.partition): p.end for p in record.partitions}
    admin.set_group_offsets(name, offsets)
    return {f"{topic}-{part}": end for (topic, part), end in offsets.items()}
