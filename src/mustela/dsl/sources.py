"""How topics are read: names, patterns, where to begin, and the timestamps of records."""

from __future__ import annotations

import re
from typing import Any, TypedDict, cast, get_args

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.handlers import read_on_error
from mustela.api.names import check_name, path_name
from mustela.api.options import AutoOffsetReset, Consumed, ResetWord
from mustela.api.serdes import choose, choose_serde
from mustela.api.spans import milliseconds
from mustela.api.timestamps import BuiltInExtractor, FailOnInvalidTimestamp
from mustela.api.watermarks import LatePolicy, WatermarkStrategy
from mustela.errors import Origin
from mustela.topology.source import SourceNode

__all__ = ["checked_extractor", "event_time_options", "reading_start", "source_node", "topic_names"]


def source_node(
    topics: object,
    *,
    key: object,
    value: object,
    name: str | None,
    options: Consumed[Any, Any],
    at: Origin,
) -> SourceNode:
    """Return the node that reads topics as a stream; see `StreamsBuilder.stream`."""
    pattern = cast("re.Pattern[Any]", topics) if isinstance(topics, re.Pattern) else None
    names = () if pattern is not None else topic_names(cast("object", topics), at=at)
    said = choose("name", name, options.name, holder="Consumed", at=at)
    default = path_name("-".join(names)) if pattern is None else pattern_name(pattern)
    return SourceNode(
        name=default if said is None else check_name(said, what="step", at=at),
        origin=at,
        explicit_name=said is not None,
        topics=names,
        pattern=checked_pattern(pattern, at=at),
        key=choose_serde("key", key, options.key, holder="Consumed", at=at),
        value=choose_serde("value", value, options.value, holder="Consumed", at=at),
        auto_offset_reset=reading_start(options, at=at),
        timestamp_extractor=checked_extractor(options, at=at),
        on_error=read_on_error(options.on_error, verb="stream", at=at),
        **event_time_options(options, at=at),
    )


def topic_names(topics: object, *, at: Origin) -> tuple[str, ...]:
    """Return the topics that the user named.

    Raises:
        BadOptionError: If it is neither a topic nor a list of topics.
    """
    if isinstance(topics, str):
        return (check_name(topics, what="topic", at=at),)
    given = cast("list[object]", topics) if isinstance(topics, list | tuple) else []
    if not given:
        msg = f"{topics!r} is neither a topic nor a list of topics"
        raise BadOptionError(
            msg,
            at=at,
            fix='pass "orders", or ["orders", "returns"]',
        )
    names = [check_name(topic, what="topic", at=at) for topic in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"topic {twice[0]!r} is named twice in one stream"
        raise BadOptionError(
            msg,
            at=at,
            fix="name each topic once",
            fields={"topics": tuple(twice)},
        )
    return tuple(names)


def checked_pattern(pattern: re.Pattern[Any] | None, *, at: Origin) -> re.Pattern[str] | None:
    if pattern is None or isinstance(pattern.pattern, str):
        return pattern
    msg = f"{pattern!r} matches bytes, but names of topics are strings"
    raise BadOptionError(msg, at=at, fix='compile the pattern from a str: re.compile("orders-.*")')


def pattern_name(pattern: re.Pattern[Any]) -> str:
    """Return the name of a source that reads by a pattern: what a name may contain of it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(pattern.pattern)).strip("-.") or "pattern"


def reading_start(options: Consumed[Any, Any], *, at: Origin) -> str | None:
    """Return where reading begins, as the setting is written; None if not given.

    Raises:
        BadOptionError: If it is not a valid place to begin.
    """
    reset = options.auto_offset_reset
    words = get_args(ResetWord)
    if reset is None or reset in words:
        return reset  # pyright: ignore[reportReturnType] - one of the words
    if isinstance(reset, AutoOffsetReset):
        if reset.strategy == "by_duration":
            milliseconds("AutoOffsetReset", "duration", reset.duration, at=at)
            return str(reset)
        if reset.duration is None and reset.strategy in words:
            return str(reset)
        told = f"{reset.strategy} with duration {reset.duration}"
    else:
        told = repr(reset)
    msg = f"{told} is not a place where reading can begin"
    raise BadOptionError(
        msg,
        at=at,
        why="it says where to begin a partition for which nothing is committed",
        fix=f"use one of {', '.join(words)}, or AutoOffsetReset.by_duration(timedelta(...))",
        fields={"option": "auto_offset_reset", "value": reset},
    )


def checked_extractor(options: Consumed[Any, Any], *, at: Origin) -> object:
    """Return the function that gives the timestamp of each record; None for its own.

    Raises:
        FunctionError: If it cannot be called with a record and the partition's time.
    """
    extractor = options.timestamp_extractor
    if isinstance(extractor, type) and issubclass(extractor, get_args(BuiltInExtractor)):
        extractor = extractor()
    if isinstance(extractor, FailOnInvalidTimestamp):
        return None  # the default
    if extractor is None or isinstance(extractor, BuiltInExtractor):
        return extractor
    arguments = ("record", "partition_time")
    check_function(extractor, arguments, role="timestamp extractor", verb="stream", at=at)
    return extractor


class EventTime(TypedDict):
    watermark: WatermarkStrategy | None
    late: LatePolicy


def event_time_options(options: Consumed[Any, Any], *, at: Origin) -> EventTime:
    """Return the options about event time.

    Raises:
        BadOptionError: If one of them has another type.
    """
    for option, wanted in (("watermark", WatermarkStrategy), ("late", LatePolicy)):
        given = getattr(options, option)
        if given is not None and not isinstance(given, wanted):
            msg = f"Consumed cannot have {option}={given!r:.60}"
            fix = f"pass a {wanted.__name__}"
            raise BadOptionError(msg, at=at, fix=fix, fields={"option": option, "value": given})
    return EventTime(watermark=options.watermark, late=options.late)
