"""Streams that begin with a schedule: a function that is called at each tick."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name
from mustela.api.schedule import CatchUp, CronSchedule, EverySchedule, Schedule
from mustela.api.scheduled import TickFunction
from mustela.api.serdes import choose_serde
from mustela.api.spans import milliseconds
from mustela.dsl.registry import Registry
from mustela.errors import Origin
from mustela.state.interfaces import StoreSpec
from mustela.topology.scheduled import ScheduledSourceNode

__all__ = ["CatchUpWord", "add_scheduled", "schedule_of"]

CatchUpWord = Literal["all", "last", "none"]
"""The words for `CatchUp`."""

_STORE_SUFFIX: Final = "-schedule"
_WORDS: Final[dict[object, CatchUp]] = {
    "all": CatchUp.all(),
    "last": CatchUp.last(),
    "none": CatchUp.none(),
}


def add_scheduled(  # noqa: PLR0913 - the options of a method
    registry: Registry,
    name: str,
    function: TickFunction,
    *,
    schedule: Schedule,
    catch_up: object,
    key: object,
    value: object,
    stores: object,
    at: Origin,
) -> ScheduledSourceNode:
    """Add a scheduled source.

    Raises:
        DuplicateNameError: If another step has the name.
        FunctionError: If the function cannot be called with a tick.
        BadOptionError: If an option is invalid.
    """
    length_max = STORE_NAME_LENGTH_MAX - len(_STORE_SUFFIX)
    check_name(name, what="scheduled source", at=at, length_max=length_max)
    check_function(function, ("tick",), role="function", verb="scheduled", at=at)
    place = registry.place("scheduled", parents=(), at=at, name=name)
    node = ScheduledSourceNode(
        **place,
        function=function,
        schedule=schedule,
        catch_up=_catch_up(catch_up, at),
        progress=StoreSpec(name=f"{name}{_STORE_SUFFIX}", kind="key_value"),
        reads=_store_names(stores, at),
        key=choose_serde("key", key, None, holder="scheduled", at=at),
        value=choose_serde("value", value, None, holder="scheduled", at=at),
    )
    registry.add(node)
    return node


def schedule_of(
    *, every: object, offset: object, cron: object, time_zone: object, at: Origin
) -> Schedule:
    """Return the schedule that the options of a scheduled source give.

    Raises:
        BadOptionError: If they give none, or two.
    """
    if (every is None) == (cron is None):
        told = "neither every nor cron" if every is None else "both every and cron"
        msg = f"a scheduled source cannot have {told}"
        fix = 'write every=timedelta(minutes=1), or cron="0 6 * * *"'
        raise BadOptionError(msg, at=at, why="one of them says when it ticks", fix=fix)
    if cron is None:
        if time_zone is not None:
            msg = f"every={every!s} cannot have a time zone"
            why = "it counts from 1970-01-01 UTC, so that hours and days are those of UTC"
            raise BadOptionError(msg, at=at, why=why, fix="use cron, or move it by offset=")
        return _interval(every, offset, at)
    if offset is not None:
        msg = f"cron={cron!r} cannot have an offset"
        raise BadOptionError(msg, at=at, fix="give the minute, or the second, in the expression")
    return _cron(cron, time_zone, at)


def _interval(every: object, offset: object, at: Origin) -> EverySchedule:
    length = milliseconds("scheduled", "every", every, at=at, sign="positive")
    moved = 0 if offset is None else milliseconds("scheduled", "offset", offset, at=at)
    if moved >= length:
        msg = f"a source cannot tick every {every!s} with an offset of {offset!s}"
        raise BadOptionError(
            msg,
            at=at,
            why="the offset moves the ticks within the interval, so it must be shorter",
            fix="write every=timedelta(minutes=1), offset=timedelta(seconds=5)",
            fields={"every": every, "offset": offset},
        )
    return EverySchedule(every_ms=length, offset_ms=moved)


def _cron(cron: object, time_zone: object, at: Origin) -> CronSchedule:
    zone = _zone_name(time_zone, at)
    text = " ".join(cron.split()) if isinstance(cron, str) else ""
    schedule = CronSchedule(expression=text, time_zone=zone)
    try:
        schedule.check()
    except ValueError as error:
        msg = f"scheduled cannot read cron={cron!r}: {error}"
        raise BadOptionError(
            msg,
            at=at,
            why="it has five fields (minute, hour, day of the month, month, day of the week), or "
            "six with the seconds first",
            fix='write cron="0 6 * * MON-FRI", or cron="30 */5 * * * *" with seconds',
            fields={"option": "cron", "value": cron},
        ) from None
    return schedule


def _zone_name(time_zone: object, at: Origin) -> str:
    if time_zone is None or time_zone is UTC:
        return "UTC"
    name = time_zone.key if isinstance(time_zone, ZoneInfo) else time_zone
    try:
        if isinstance(name, str):
            return str(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    msg = f"scheduled knows no time zone {time_zone!r}"
    raise BadOptionError(
        msg,
        at=at,
        why="a time zone is given by its name in the tz database, which the machine must have",
        fix='write time_zone="Europe/Berlin"; if the machine has no database, install tzdata',
        fields={"option": "time_zone", "value": time_zone},
    )


def _catch_up(catch_up: object, at: Origin) -> CatchUp:
    if isinstance(catch_up, CatchUp):
        return catch_up
    if isinstance(catch_up, str) and catch_up in _WORDS:
        return _WORDS[catch_up]
    msg = f"scheduled cannot have catch_up={catch_up!r:.60}"
    fix = f"use one of {', '.join(map(repr, _WORDS))}, or CatchUp.none(tolerance=...)"
    raise BadOptionError(msg, at=at, fix=fix, fields={"option": "catch_up", "value": catch_up})


def _store_names(stores: object, at: Origin) -> tuple[str, ...]:
    if isinstance(stores, str) or not isinstance(stores, Sequence):
        msg = f"scheduled cannot read stores={stores!r:.60}"
        raise BadOptionError(msg, at=at, fix='name them: stores=("counts",)')
    names = cast("Sequence[Any]", stores)
    return tuple(check_name(name, what="store", at=at) for name in names)
