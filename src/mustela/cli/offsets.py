"""mustela offsets: where an application goes on reading, shown and changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from mustela.cli.asking import Application, Manner
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table
from mustela.cli.repairing import (
    BadOffsetsError,
    ToEarliest,
    ToLatest,
    ToTime,
    go_ahead,
    goal_of,
    is_number,
    open_repair,
    report,
    settings_of,
    sources_seen,
    target_offsets,
    told_of,
)

if TYPE_CHECKING:
    from mustela.model import TopicPartition
    from mustela.runtime.repairs.edits import Edit, SourceView
    from mustela.runtime.repairs.repair import Repair, Sight

__all__ = ["group"]

_PLAIN = Manner()


def group() -> App:
    """Return the commands ``mustela offsets …``."""
    app = App(name="offsets", help="Show and change where an application continues reading.")
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
        to_earliest: To the earliest offset that is left.
        to_latest: To the end.
        to_time: To the first record of this time or later.
        manner: How the change is made.
    """
    from mustela.runtime.repairs import edits

    goal = goal_of(to_earliest=to_earliest, to_latest=to_latest, to_time=to_time)
    if goal is None:
        wanted = _triples(places)
        named = [place.topic for place in wanted]
    else:
        wanted, named = {}, list(places)

    def edit(repair: Repair, sight: Sight) -> Edit:
        if goal is None:
            return edits.move(sight.views, wanted)
        return edits.move(
            sight.views, target_offsets(repair, sight, goal, named or sources_seen(sight))
        )

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
    from mustela.runtime.repairs import edits

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
    """Choose which offsets to use where they differ: the group's, the broker's or the record's.

    An application that has never run starts at the group's offsets: name it as MODULE:APP.
    Partitions that the group does not have start at their first record.

    Args:
        application: The application, or only its id.
        group: Use the consumer group's offsets, which a tool has moved; the default.
        truncated: Use what the broker has: recreated topics are read from their start, partitions
            that lost records from what is left.
        record: Use the epoch record: the group is reset to it.
        manner: How the change is made.
    """
    from mustela.runtime.repairs import edits

    if group + truncated + record > 1:
        what = "--group, --truncated and --record are mutually exclusive"
        raise BadOffsetsError(what, fix="choose one of them")

    def edit(_repair: Repair, sight: Sight) -> Edit:
        if record:
            return edits.Edit()
        return edits.accept_broker(sight.views) if truncated else edits.accept_group(sight.views)

    return _change(application, edit, [], manner, may_begin=not (truncated or record))


def _change(
    application: str,
    make: Callable[[Repair, Sight], Edit],
    topics: Sequence[str],
    manner: Manner,
    *,
    may_begin: bool = False,
) -> int:
    """Show what an edit changes, ask, fence, and commit it.

    Args:
        application: The application, or only its id.
        make: Makes the edit.
        topics: Topics to look at that were never read.
        manner: How the change is made.
        may_begin: Whether the edit may be the start of an application that has never run.
    """
    settings = settings_of(application, manner.bootstrap_servers)
    name = settings.application_id
    with open_repair(settings) as repair:
        sight = repair.look(topics)
        begins = may_begin and sight.record is None and repair.group_alone(sight)
        if not begins:
            repair.recorded(sight)
        edit = make(repair, sight)
        told = told_of(sight, edit)
        if begins:
            told = [f"begin {p.topic}-{p.partition} at {at}" for p, at in edit.offsets.items()]
        if not told:
            return report(manner, settings, (), nothing=f"nothing to change for {name}")
        if not go_ahead(manner, settings, told, done="changed", heading="to be changed"):
            return ExitCode.OK
        repair.fence(sight)
        if begins:
            from mustela.runtime.topics.key_groups import first_key_groups

            repair.begin(sight, edit, key_groups=first_key_groups(settings))
        else:
            repair.change(sight, edit)
    return report(manner, settings, told)


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
    if not is_number(text):
        what = f"{text!r} is not a whole number from 0 up"
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
