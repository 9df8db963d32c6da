"""mustela reset: delete what an application has done, so that it can start over."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from cyclopts import Parameter

from mustela.cli.asking import Application, Manner, NotConfirmedError
from mustela.cli.clients import open_admin
from mustela.cli.console import ExitCode, print_json
from mustela.cli.foreign import WithoutRecord, refuse_foreign
from mustela.cli.living import alone
from mustela.cli.repairing import (
    BadOffsetsError,
    Goal,
    ToEarliest,
    ToLatest,
    ToTime,
    go_ahead,
    goal_of,
    offsets_given,
    open_repair,
    report,
    settings_of,
    sources_of,
    sources_seen,
    target_offsets,
    told_of,
)
from mustela.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mustela.config.settings import Settings
    from mustela.connectors.kafka.admin import KafkaAdmin
    from mustela.runtime.repairs.repair import Sight

__all__ = [
    "NothingConfirmedError",
    "NothingRecordedError",
    "ResetPlan",
    "delete_all",
    "planned_lines",
    "reset",
    "reset_plan",
]

CHANGELOG = "-changelog"


class NothingConfirmedError(NotConfirmedError):
    """The deletion was not confirmed."""

    code = "RESET_NOT_CONFIRMED"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where an application is to begin.

    Attributes:
        to_earliest: At the earliest offset that is left in each source.
        to_latest: With future records only.
        to_time: At the first record at or after this time.
        to_offsets: At the given offsets.
        keep_state: Keep state.
    """

    to_earliest: ToEarliest = False
    to_latest: ToLatest = False
    to_time: ToTime = None
    to_offsets: Annotated[
        list[str] | None,
        Parameter(
            name="--to-offsets",
            negative=(),
            help="To these offsets, as TOPIC-PARTITION=OFFSET, with commas between; repeatable.",
        ),
    ] = None
    keep_state: Annotated[
        bool,
        Parameter(
            name="--keep-state",
            negative=(),
            help="Only the offsets change: what is read again is counted again.",
        ),
    ] = False

    def goal(self) -> Goal | None:
        """Return where all partitions are to go, None if nothing, or each one, is named.

        Raises:
            BadOffsetsError: If several are given.
        """
        goal = goal_of(to_earliest=self.to_earliest, to_latest=self.to_latest, to_time=self.to_time)
        if goal is not None and self.to_offsets:
            what = "--to-offsets cannot be combined with the other starting points"
            raise BadOffsetsError(what, fix="choose one of them")
        if goal is None and not self.to_offsets and self.keep_state:
            what = "--keep-state without a new starting point changes nothing"
            raise BadOffsetsError(what, fix="add --to-earliest, --to-time or --to-offsets")
        return goal


class NothingRecordedError(UsageError):
    """No epoch record exists whose offsets could be kept."""

    code = "RESET_NO_RECORD"


class ResetPlan(NamedTuple):
    """What a reset would delete."""

    application_id: str
    topics: list[str]
    state: list[Path]
    group: bool


_PLAIN = Manner()
_ANYWHERE = Start()


def reset(
    application: Application,
    /,
    *,
    offsets: Literal["delete", "keep-record"] = "delete",
    start: Start = _ANYWHERE,
    without_record: WithoutRecord = False,
    manner: Manner = _PLAIN,
) -> int:
    """Delete an application's state, changelogs, epochs topic and group; stop it first.

    With --to-earliest, --to-latest, --to-time or --to-offsets the next start begins there,
    otherwise where auto_offset_reset says. With --keep-state nothing is deleted, and only the
    offsets change. With --offsets keep-record nothing is deleted either: the group's offsets, which
    a tool has moved, are reset to those of the last epoch record.

    Args:
        application: The application, or only its id.
        offsets: What to do with the group's offsets.
        start: Where to start.
        without_record: Do so even if no epoch of Mustela explains changelogs and group.
        manner: How it is done.
    """
    settings = settings_of(application, manner.bootstrap_servers)
    with open_admin(settings.bootstrap_servers) as admin:
        if offsets == "keep-record":
            kept = _keep_record(settings, admin)
            if manner.json:
                print_json({"application_id": settings.application_id, "offsets": kept})
            else:
                print(f"the group {settings.application_id} is at its last epoch record again")
            return ExitCode.OK
        if (goal := start.goal()) is not None or start.to_offsets:
            if not start.keep_state:
                found = reset_plan(settings, admin)
                refuse_foreign(found, settings, admin, without_record=without_record)
            return _begin_at(application, settings, admin, (goal, start), manner)
        plan = reset_plan(settings, admin)
        refuse_foreign(plan, settings, admin, without_record=without_record)
        told = [f"delete {line}" for line in planned_lines(plan)]
        if not delete_all(plan, settings, admin, manner, told):
            return ExitCode.OK
    if manner.json:
        print_json(plan._asdict())
    else:
        for line in planned_lines(plan):
            print(f"deleted {line}")
    return ExitCode.OK


def _begin_at(
    application: str,
    settings: Settings,
    admin: KafkaAdmin,
    where: tuple[Goal | None, Start],
    manner: Manner,
) -> int:
    """Set where the application begins, and delete its state unless that is to be kept."""
    from mustela.runtime.repairs import edits

    goal, start = where
    named = offsets_given(start.to_offsets or ())
    topics = [place.topic for place in named] or sources_of(application)
    with open_repair(settings) as repair, alone(settings, manner) as refuse_newcomer:
        sight = repair.look(topics)
        if start.keep_state or ":" not in application:
            repair.recorded(sight)
        known = sources_seen(sight, topics)
        wanted = named if goal is None else target_offsets(repair, sight, goal, known)
        edit = edits.move(sight.views, wanted)
        plan = reset_plan(settings, admin)
        plan = plan._replace(topics=[t for t in plan.topics if t.endswith(CHANGELOG)])
        if start.keep_state:
            told = told_of(sight, edit)
        else:
            told = [f"delete {line}" for line in planned_lines(plan)]
            told += [f"begin {p.topic}-{p.partition} at {at}" for p, at in sorted(wanted.items())]
        if not _goes_on(settings, manner, told):
            return ExitCode.OK
        repair.fence(sight)
        if start.keep_state:
            repair.change(sight, edit)
        else:
            refuse_newcomer()
            admin.delete_group(settings.application_id)
            _delete_planned(plan, admin)
            repair.begin(sight, edit, key_groups=_key_groups(application, settings, sight))
    return report(manner, settings, told)


def _key_groups(application: str, settings: Settings, sight: Sight) -> int:
    """Return the number of key groups; an id alone says nothing of the program's own settings."""
    from mustela.runtime.topics.key_groups import first_key_groups

    if ":" in application or sight.record is None:
        return first_key_groups(settings)
    return sight.record.key_groups


def _goes_on(settings: Settings, manner: Manner, told: Sequence[str]) -> bool:
    """Show what is to be done, and say whether to do it."""
    return go_ahead(manner, settings, told, done="deleted", error=NothingConfirmedError)


def delete_all(
    plan: ResetPlan,
    settings: Settings,
    admin: KafkaAdmin,
    manner: Manner,
    told: Sequence[str],
) -> bool:
    """Ask, fence the application, and delete what a plan names; return whether that was done.

    Args:
        plan: What to delete.
        settings: Of the application.
        admin: Deletes topics and the group.
        manner: How it is done.
        told: What is to be done, a line each.

    Raises:
        InstanceAliveError: If an instance lives, or starts meanwhile, unless that is forced.
        NotConfirmedError: If nobody says yes.
    """
    with alone(settings, manner) as refuse_newcomer:
        if not _goes_on(settings, manner, told):
            return False
        if plan.topics:
            with open_repair(settings) as repair:
                repair.take_over()
            refuse_newcomer()
        admin.delete_group(plan.application_id)
        _delete_planned(plan, admin)
    return True


def _delete_planned(plan: ResetPlan, admin: KafkaAdmin) -> None:
    """Delete what a plan names, but for the group."""
    admin.delete(plan.topics)
    for state in plan.state:
        if state.is_dir():
            shutil.rmtree(state)
        else:
            state.unlink(missing_ok=True)


def reset_plan(settings: Settings, admin: KafkaAdmin) -> ResetPlan:
    """Return what a reset deletes of an application."""
    from mustela.runtime.kafka_world import own_topics
    from mustela.state.directories import memory_directory

    name = settings.application_id
    places = (settings.state_dir / name, memory_directory(name))
    return ResetPlan(
        application_id=name,
        topics=own_topics(settings, admin),
        state=[place for place in places if place.is_dir() and not place.is_symlink()],
        group=bool(admin.group_offsets(name)),
    )


def planned_lines(plan: ResetPlan) -> list[str]:
    """Return what a plan deletes, a line each."""
    told = [f"topic {topic}" for topic in plan.topics]
    told += [f"state in {place}" for place in plan.state]
    if plan.group:
        told.append(f"offsets of group {plan.application_id}")
    return told or [f"nothing: {plan.application_id} left nothing"]


def _keep_record(settings: Settings, admin: KafkaAdmin) -> dict[str, int]:
    from mustela.runtime.kafka_world import last_epoch
    from mustela.runtime.record.epoch_record import epochs_topic

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
