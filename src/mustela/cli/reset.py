"""mustela reset: forget what an application has done, so that it can begin anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mustela.cli.asking import Application, Manner, NotConfirmedError, confirm
from mustela.cli.clients import open_admin
from mustela.cli.console import ExitCode, Json, print_json
from mustela.cli.living import refuse_while_alive
from mustela.cli.repairing import open_repair, settings_of
from mustela.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mustela.config.settings import Settings
    from mustela.connectors.kafka.admin import KafkaAdmin

__all__ = [
    "NothingConfirmedError",
    "NothingRecordedError",
    "internal_topics_of",
    "reset",
]

CHANGELOG = "-changelog"


_PLAIN = Manner()


class NothingConfirmedError(NotConfirmedError):
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
    application: Application,
    /,
    *,
    offsets: Literal["delete", "keep-record"] = "delete",
    manner: Manner = _PLAIN,
    json: Json = False,
) -> int:
    """Delete an application's state, changelogs, epochs topic and group; stop it first.

    With --offsets keep-record nothing is deleted: the group's offsets, which a tool has moved, are
    set again to those of the last epoch record.

    Args:
        application: The application, or only its id.
        offsets: What becomes of the group's offsets.
        manner: How it is done.
        json: Print JSON.
    """
    settings = settings_of(application, manner.bootstrap_servers)
    with open_admin(settings.bootstrap_servers) as admin:
        if offsets == "keep-record":
            kept = _keep_record(settings, admin)
            if json:
                print_json({"application_id": settings.application_id, "offsets": kept})
            else:
                print(f"the group {settings.application_id} is at its last epoch record again")
            return ExitCode.OK
        plan = _plan(settings, admin)
        if not _goes_on(settings, manner, _told(plan), json=json):
            return ExitCode.OK
        if plan.topics:
            with open_repair(settings) as repair:
                repair.take_over()
        admin.delete_group(plan.application_id)
        _delete(plan, admin)
    if json:
        print_json(plan._asdict())
    else:
        for line in _told(plan):
            print(f"deleted {line}")
    return ExitCode.OK


def _goes_on(settings: Settings, manner: Manner, told: Sequence[str], *, json: bool) -> bool:
    """Show what is to be done, and say whether to do it."""
    name = settings.application_id
    lines = [f"{name}: to be deleted", *(f"  {line}" for line in told)]
    if manner.dry_run:
        if json:
            print_json({"application_id": name, "would": list(told)})
        else:
            print("\n".join(lines))
        return False
    if not manner.force:
        refuse_while_alive(settings)
    if not manner.yes:
        confirm(lines, what=f"nothing of {name} is deleted", error=NothingConfirmedError)
    return True


def _delete(plan: Plan, admin: KafkaAdmin) -> None:
    admin.delete(plan.topics)
    for state in plan.state:
        shutil.rmtree(state)


def internal_topics_of(application_id: str, topics: Iterable[str]) -> list[str]:
    """Return those of ``topics`` that an application made for itself.

    Example:
        >>> internal_topics_of("a", ["a-epochs", "a-lease", "a-n-changelog", "a-n", "ab-lease"])
        ['a-epochs', 'a-lease', 'a-n-changelog']
    """
    from mustela.runtime.epoch_record import epochs_topic
    from mustela.runtime.lease import lease_topic

    prefix = f"{application_id}-"
    return sorted(
        topic
        for topic in topics
        if topic in {epochs_topic(application_id), lease_topic(application_id)}
        or (topic.startswith(prefix) and topic.endswith(CHANGELOG))
    )


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
