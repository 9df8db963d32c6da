"""What the commands that change where an application goes on have in common."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mustela.cli.asking import Manner, NotConfirmedError, confirm
from mustela.cli.console import ExitCode, print_json
from mustela.cli.living import refuse_while_alive
from mustela.cli.settings import loose_settings
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.model import TopicPartition
    from mustela.runtime.repairs.edits import Edit
    from mustela.runtime.repairs.repair import Repair, Sight

__all__ = [
    "BadOffsetsError",
    "Goal",
    "ToEarliest",
    "ToLatest",
    "ToTime",
    "go_ahead",
    "goal_of",
    "is_number",
    "moment_ms",
    "offsets_given",
    "open_repair",
    "report",
    "settings_of",
    "sources_of",
    "sources_seen",
    "target_offsets",
    "told_of",
]

ToEarliest = Annotated[
    bool, Parameter(name="--to-earliest", negative=(), help="To the earliest offset that is left.")
]
ToLatest = Annotated[
    bool, Parameter(name="--to-latest", negative=(), help="Past all current records.")
]
ToTime = Annotated[
    str | None,
    Parameter(
        name="--to-time",
        help="To the first record at or after this time, such as 2026-05-04T10:00:00Z.",
    ),
]


class BadOffsetsError(UsageError):
    """The offsets given on the command line cannot be read."""

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


def sources_of(application: str) -> list[str]:
    """Return the source topics of an application that is named by module and name, else none."""
    if ":" not in application:
        return []
    from mustela.cli.loading import load_app

    return list(load_app(application).built_plan().topics)


@contextmanager
def open_repair(settings: Settings) -> Generator[Repair]:
    """Give what looks at an application and changes it, and close it after."""
    from mustela.clock import SystemClock
    from mustela.runtime.kafka_world import kafka_world
    from mustela.runtime.repairs.repair import Repair

    repair = Repair(settings, kafka_world(settings, SystemClock()))
    try:
        yield repair
    finally:
        repair.close()


def go_ahead(
    manner: Manner,
    settings: Settings,
    told: Sequence[str],
    *,
    done: str,
    heading: str = "to be done",
    error: type[NotConfirmedError] = NotConfirmedError,
) -> bool:
    """Return whether a change is to be made; with ``--dry-run`` show it instead.

    Args:
        manner: How the change is made.
        settings: Of the application.
        told: What is to be done, a line each.
        done: What would be done, in a word: ``deleted``.
        heading: What stands before the lines.
        error: What is raised without one.

    Raises:
        InstanceAliveError: If an instance lives, unless that is forced.
        NotConfirmedError: If nobody says yes.
    """
    name = settings.application_id
    lines = [f"{name}: {heading}", *(f"  {line}" for line in told)]
    if manner.dry_run:
        if manner.json:
            print_json({"application_id": name, "would": list(told)})
        else:
            print("\n".join(lines))
        return False
    if not manner.force:
        refuse_while_alive(settings)
    if not manner.yes:
        confirm(lines, what=f"nothing {done} for {name}", error=error)
        if not manner.force:
            refuse_while_alive(settings)  # one may have been started while nobody said yes
    return True


def report(manner: Manner, settings: Settings, told: Sequence[str], *, nothing: str = "") -> int:
    """Print what was done.

    Args:
        manner: How the change is made.
        settings: Of the application.
        told: What was done, a line each.
        nothing: What is said to people where nothing was.
    """
    if manner.json:
        print_json({"application_id": settings.application_id, "done": list(told)})
    else:
        print("\n".join(told) or nothing)
    return ExitCode.OK


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
    lines += [f"{p.topic}-{p.partition}: no longer exists" for p in sorted(edit.dropped)]
    behind = [view for view in sight.views.values() if view.trouble == "the group was moved"]
    lines += [
        f"group of {v.place.topic}-{v.place.partition}: reset to {v.recorded}"
        for v in behind
        if v.place not in edit.offsets
    ]
    if again:
        lines.append(
            f"state stays: {again} offsets are read again, and their records counted again, or"
            " dropped as late"
        )
    if skipped:
        lines.append(f"{skipped} offsets are skipped unread")
    return lines


def target_offsets(
    repair: Repair, sight: Sight, goal: Goal, topics: Sequence[str]
) -> dict[TopicPartition, int]:
    """Return where all partitions of topics are to go."""
    from mustela.runtime.repairs.edits import whole_topics

    places = whole_topics(sight.views, topics)
    if goal.name == "time":
        return repair.offsets_at(places, goal.time_ms)
    views = [sight.views[place] for place in places]
    if goal.name == "latest":
        return {view.place: view.end for view in views if view.end is not None}
    return {view.place: view.earliest for view in views if view.earliest is not None}


def sources_seen(sight: Sight, more: Sequence[str] = ()) -> list[str]:
    """Return the topics that the record knows, and more of them, as far as they are there."""
    return sorted(
        {
            place.topic
            for place, view in sight.views.items()
            if view.end is not None and (view.recorded_id or place.topic in more)
        }
    )


def goal_of(*, to_earliest: bool, to_latest: bool, to_time: str | None) -> Goal | None:
    """Return what the options say, None if they say nothing.

    Raises:
        BadOffsetsError: If several are given, or the time is none.

    Example:
        >>> goal_of(to_earliest=False, to_latest=False, to_time="1970-01-01T00:00:01Z")
        Goal(name='time', time_ms=1000)
    """
    if to_earliest + to_latest + (to_time is not None) > 1:
        what = "--to-earliest, --to-latest and --to-time are mutually exclusive"
        raise BadOffsetsError(what, fix="choose one of them")
    if to_time is not None:
        return Goal("time", moment_ms(to_time))
    if to_earliest:
        return Goal("earliest")
    return Goal("latest") if to_latest else None


def offsets_given(given: Sequence[str]) -> dict[TopicPartition, int]:
    """Return the offsets that are written as ``TOPIC-PARTITION=OFFSET``, with commas between.

    Raises:
        BadOffsetsError: If one is written in another way.

    Example:
        >>> offsets_given(["lines-0=42,my-lines-1=7"])  # doctest: +NORMALIZE_WHITESPACE
        {TopicPartition(topic='lines', partition=0): 42,
         TopicPartition(topic='my-lines', partition=1): 7}
    """
    from mustela.model import TopicPartition

    found: dict[TopicPartition, int] = {}
    for text in (part for item in given for part in item.split(",")):
        place, _, offset = text.strip().partition("=")
        topic, _, partition = place.rpartition("-")
        if not topic or not is_number(partition) or not is_number(offset):
            what = f"{text.strip()!r} is not TOPIC-PARTITION=OFFSET"
            raise BadOffsetsError(what, fix="write, for example, --to-offsets lines-0=42,lines-1=7")
        found[TopicPartition(topic, int(partition))] = int(offset)
    return found


def is_number(text: str) -> bool:
    """Whether a text is a whole number from 0 on."""
    return text.isascii() and text.isdigit()


def moment_ms(text: str) -> int:
    """Return the milliseconds of a time that was typed.

    Raises:
        BadOffsetsError: If it is none, or has no time zone.

    Example:
        >>> moment_ms("1970-01-01T00:00:01Z")
        1000
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        what = f"{text!r} is no time"
        raise BadOffsetsError(what, fix="write it like 2026-05-04T10:00:00Z") from None
    if moment.tzinfo is None:
        what = f"{text!r} has no time zone"
        raise BadOffsetsError(what, fix=f"write {text}Z for UTC, or {text}+02:00")
    return int(moment.timestamp() * 1000)
