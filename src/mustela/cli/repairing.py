"""What the commands that change where an application goes on have in common."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mustela.cli.settings import loose_settings
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.model import TopicPartition
    from mustela.runtime.edits import Edit
    from mustela.runtime.repair import Repair, Sight

__all__ = [
    "BadOffsetsError",
    "Goal",
    "ToEarliest",
    "ToLatest",
    "ToTime",
    "goal_of",
    "open_repair",
    "settings_of",
    "target_offsets",
    "told_of",
]

ToEarliest = Annotated[
    bool, Parameter(name="--to-earliest", negative=(), help="To the first offset that is left.")
]
ToLatest = Annotated[
    bool, Parameter(name="--to-latest", negative=(), help="Past all records that are there now.")
]
ToTime = Annotated[
    str | None,
    Parameter(
        name="--to-time",
        help="To the first record of this time or later, such as 2026-05-04T10:00:00Z.",
    ),
]


class BadOffsetsError(UsageError):
    """What is given on the command line names no offsets."""

    code = "CLI_OFFSETS"


@dataclass(frozen=True, slots=True)
class Goal:
    """Where partitions are to go: ``earliest``, ``latest``, or a time in milliseconds."""

    name: str
    time_ms: int = 0


def settings_of(application: str, bootstrap_servers: str | None) -> Settings:
    """Return the settings of an application that is named by module and name, or by its id."""
    if ":" not in application:
        return loose_settings(application_id=application, bootstrap_servers=bootstrap_servers)
    from mustela.cli.loading import load_app

    app = load_app(application)
    if bootstrap_servers is not None:
        app.configure(bootstrap_servers=bootstrap_servers)
    return app.settings


@contextmanager
def open_repair(settings: Settings) -> Generator[Repair]:
    """Give what looks at an application and changes it, and close it after."""
    from mustela.clock import SystemClock
    from mustela.runtime.kafka_world import kafka_world
    from mustela.runtime.repair import Repair

    repair = Repair(settings, kafka_world(settings, SystemClock()))
    try:
        yield repair
    finally:
        repair.close()


def told_of(sight: Sight, edit: Edit) -> list[str]:
    """Return what an edit does, a line each; nothing if it does nothing."""
    lines: list[str] = []
    again = skipped = 0
    for place, offset in sorted(edit.offsets.items()):
        view = sight.views[place]
        name = f"{place.topic}-{place.partition}"
        if view.recorded == offset and not view.is_recreated:
            continue
        if view.recorded is None or view.is_recreated:
            lines.append(f"{name}: from {offset}")
            continue
        lines.append(f"{name}: from {view.recorded} to {offset}")
        again += max(0, view.recorded - offset)
        skipped += max(0, offset - view.recorded)
    lines += [f"{p.topic}-{p.partition}: is no longer there" for p in sorted(edit.dropped)]
    behind = [view for view in sight.views.values() if view.trouble == "the group was moved"]
    lines += [
        f"group of {v.place.topic}-{v.place.partition}: set back to {v.recorded}"
        for v in behind
        if v.place not in edit.offsets
    ]
    if again:
        lines.append(
            f"state stays: {again} offsets are read again, and their records counted again, or"
            " dropped as late"
        )
    if skipped:
        lines.append(f"{skipped} offsets are passed over unread")
    return lines


def target_offsets(
    repair: Repair, sight: Sight, goal: Goal, topics: Sequence[str]
) -> dict[TopicPartition, int]:
    """Return where partitions are to go; those of all recorded topics if none is named."""
    from mustela.runtime.edits import whole_topics

    if not topics:
        topics = sorted({p.topic for p, v in sight.views.items() if v.recorded_id})
    places = whole_topics(sight.views, topics)
    if goal.name == "time":
        return repair.offsets_at(places, goal.time_ms)
    views = [sight.views[place] for place in places]
    if goal.name == "latest":
        return {view.place: view.end for view in views if view.end is not None}
    return {view.place: view.earliest for view in views if view.earliest is not None}


def goal_of(*, to_earliest: bool, to_latest: bool, to_time: str | None) -> Goal | None:
    """Return what the options say, None if they say nothing.

    Raises:
        BadOffsetsError: If several are given, or the time is none.

    Example:
        >>> goal_of(to_earliest=False, to_latest=False, to_time="1970-01-01T00:00:01Z")
        Goal(name='time', time_ms=1000)
    """
    if to_earliest + to_latest + (to_time is not None) > 1:
        what = "--to-earliest, --to-latest and --to-time exclude each other"
        raise BadOffsetsError(what, fix="choose one of them")
    if to_time is not None:
        return Goal("time", _milliseconds(to_time))
    if to_earliest:
        return Goal("earliest")
    return Goal("latest") if to_latest else None


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        what = f"{text!r} is no time"
        raise BadOffsetsError(what, fix="write it like 2026-05-04T10:00:00Z") from None
    if moment.tzinfo is None:
        what = f"{text!r} does not say in which time zone"
        raise BadOffsetsError(what, fix=f"write {text}Z for UTC, or {text}+02:00")
    return int(moment.timestamp() * 1000)
