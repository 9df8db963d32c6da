"""mustela offsets: where an application goes on reading, shown and changed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from mustela.cli.asking import Application, Manner, confirm
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table
from mustela.cli.reset import settings_of
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.model import TopicPartition
    from mustela.runtime.edits import Edit, SourceView
    from mustela.runtime.repair import Repair, Sight

__all__ = ["BadOffsetsError", "Goal", "goal_of", "group", "open_repair", "target_offsets"]

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


_PLAIN = Manner()


class BadOffsetsError(UsageError):
    """What is given on the command line names no offsets."""

    code = "CLI_OFFSETS"


@dataclass(frozen=True, slots=True)
class Goal:
    """Where partitions are to go: ``earliest``, ``latest``, or a time in milliseconds."""

    name: str
    time_ms: int = 0


def group() -> App:
    """Return the commands ``mustela offsets …``."""
    app = App(name="offsets", help="Show and change where an application goes on reading.")
    app.command(show)
    app.command(set_offsets, name="set")
    app.command(skip)
    app.command(accept)
    return app


def show(
    application: Application, /, *, bootstrap_servers: Bootstrap = None, json: Json = False
) -> int:
    """Show how far each source is read, by the epoch record, the group and the broker.

    Args:
        application: The application, or only its id.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    with open_repair(settings) as repair:
        sight = repair.look()
    record = sight.record
    if json:
        document = {
            "application_id": settings.application_id,
            "incarnation": None if record is None else record.incarnation,
            "epoch": None if record is None else record.epoch,
            "sources": [_facts(view) for view in sight.views.values()],
        }
        print_json(document)
        return ExitCode.OK
    if record is None:
        print(f"{settings.application_id} has no epoch record")
    else:
        print(f"{settings.application_id}: epoch {record.epoch} of run {record.incarnation}")
    head = ["topic", "partition", "recorded", "group", "earliest", "end", "lag", ""]
    print_table(head, (_cells(view) for view in sight.views.values()))
    return ExitCode.OK


def set_offsets(
    application: Application,
    /,
    *places: Annotated[str, Parameter(name="TOPIC [PARTITION OFFSET]")],
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_time: ToTime = None,
    manner: Manner = _PLAIN,
) -> int:
    """Set where partitions are read on: TOPIC PARTITION OFFSET, several times over if need be.

    With --to-earliest, --to-latest or --to-time only topics are named, or none for all. State
    stays: what is read again is counted again. Stop the application first.

    Args:
        application: The application, or only its id.
        places: Topic, partition and next offset of each partition; or topics.
        to_earliest: To the first offset that is left.
        to_latest: To the end.
        to_time: To the first record of this time or later.
        manner: How the change is made.
    """
    from mustela.runtime import edits

    goal = goal_of(to_earliest=to_earliest, to_latest=to_latest, to_time=to_time)
    if goal is None:
        wanted = _triples(places)
        named = [place.topic for place in wanted]
    else:
        wanted, named = {}, list(places)

    def edit(repair: Repair, sight: Sight) -> Edit:
        if goal is None:
            return edits.move(sight.views, wanted)
        return edits.move(sight.views, target_offsets(repair, sight, goal, named))

    return _change(application, edit, named, manner)


def skip(
    application: Application,
    topic: Annotated[str, Parameter(name="TOPIC")],
    partition: Annotated[int, Parameter(name="PARTITION")],
    offset: Annotated[int, Parameter(name="OFFSET")],
    /,
    *,
    manner: Manner = _PLAIN,
) -> int:
    """Go past one record that stops the application; it must be the next one to be read.

    Args:
        application: The application, or only its id.
        topic: The record's topic.
        partition: Its partition.
        offset: Its offset.
        manner: How the change is made.
    """
    from mustela.model import TopicPartition
    from mustela.runtime import edits

    place = TopicPartition(topic, partition)

    def edit(_repair: Repair, sight: Sight) -> Edit:
        return edits.skip(sight.views, place, offset)

    return _change(application, edit, [], manner)


def accept(
    application: Application,
    /,
    *,
    group: Annotated[bool, Parameter(name="--group", negative=())] = False,
    truncated: Annotated[bool, Parameter(name="--truncated", negative=())] = False,
    record: Annotated[bool, Parameter(name="--record", negative=())] = False,
    manner: Manner = _PLAIN,
) -> int:
    """Say whose offsets are right where they differ: the group's, the broker's or the record's.

    Args:
        application: The application, or only its id.
        group: The consumer group's, which a tool has moved; the default.
        truncated: The broker's: topics that were made again are read from their start, partitions
            that lost records from what is left.
        record: The epoch record's: the group is set back to it.
        manner: How the change is made.
    """
    from mustela.runtime import edits

    if group + truncated + record > 1:
        what = "--group, --truncated and --record exclude each other"
        raise BadOffsetsError(what, fix="choose one of them")

    def edit(_repair: Repair, sight: Sight) -> Edit:
        if record:
            return edits.Edit()
        return edits.accept_broker(sight.views) if truncated else edits.accept_group(sight.views)

    return _change(application, edit, [], manner)


def _change(
    application: str,
    make: Callable[[Repair, Sight], Edit],
    topics: Sequence[str],
    manner: Manner,
) -> int:
    """Show what an edit changes, ask, fence, and commit it."""
    settings = settings_of(application, manner.bootstrap_servers)
    name = settings.application_id
    with open_repair(settings) as repair:
        sight = repair.look(topics)
        repair.recorded(sight)
        edit = make(repair, sight)
        told = told_of(sight, edit)
        if not told:
            print(f"nothing of {name} is to be changed")
            return ExitCode.OK
        plan = [f"{name}: to be changed", *(f"  {line}" for line in told)]
        if manner.dry_run:
            print("\n".join(plan))
            return ExitCode.OK
        if not manner.yes:
            confirm(plan, what=f"nothing of {name} is changed")
        repair.fence(sight)
        repair.change(sight, edit)
    for line in told:
        print(line)
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


def _triples(places: Sequence[str]) -> dict[TopicPartition, int]:
    from mustela.model import TopicPartition

    if not places or len(places) % 3:
        what = "an offset is given as TOPIC PARTITION OFFSET"
        fix = "write, for example, lines 0 42 lines 1 17, or name topics and add --to-earliest"
        raise BadOffsetsError(what, evidence={"given": " ".join(places) or "nothing"}, fix=fix)
    wanted: dict[TopicPartition, int] = {}
    for topic, partition, offset in zip(places[::3], places[1::3], places[2::3], strict=True):
        wanted[TopicPartition(topic, _number(partition))] = _number(offset)
    return wanted


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        what = f"{text!r} is no number from 0 on"
        raise BadOffsetsError(what, fix="an offset is given as TOPIC PARTITION OFFSET")
    return int(text)


def _facts(view: SourceView) -> dict[str, Any]:
    return {
        "topic": view.place.topic,
        "partition": view.place.partition,
        "recorded": view.recorded,
        "group": view.group,
        "earliest": view.earliest,
        "end": view.end,
        "lag": view.lag,
        "recorded_topic_id": view.recorded_id or None,
        "topic_id": view.broker_id or None,
        "trouble": view.trouble or None,
    }


def _cells(view: SourceView) -> list[object]:
    numbers = (view.recorded, view.group, view.earliest, view.end, view.lag)
    shown = ["-" if number is None else number for number in numbers]
    return [view.place.topic, view.place.partition, *shown, view.trouble]


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
