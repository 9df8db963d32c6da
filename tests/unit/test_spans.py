"""Spans of time: one check, and the same words, wherever a user gives one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mustela import (
    Consumed,
    Joined,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from mustela.api.calls import AsyncOptions, CircuitBreaker, RateLimit, RequestReply, Retry
from mustela.api.options import AutoOffsetReset
from mustela.api.schedule import CatchUp
from mustela.api.suppression import BufferConfig, Suppressed
from mustela.api.timers import interval_ms
from mustela.api.watermarks import WatermarkStrategy
from mustela.errors import UsageError
from mustela.serdes.windowed import WindowedSerde
from mustela.spans import Sign, span_ms

SECOND = timedelta(seconds=1)
NONE = timedelta(0)


def lines() -> Any:
    return StreamsBuilder().stream("lines", key=str, value=str)


def joined_late(grace: Any) -> object:
    builder = StreamsBuilder()
    history = Stores.persistent_versioned_key_value_store("rows", history_retention=SECOND)
    rows = builder.table("rows", materialized=Materialized(supplier=history), key=str, value=str)
    stream = builder.stream("lines", key=str, value=str)
    return stream.join(rows, lambda line, row: line + row, joined=Joined(grace=grace))


def advanced(span: Any) -> None:
    with TopologyTestDriver(lines()._registry.topology()) as driver:
        driver.advance_wall_clock_time(span)


PLACES: dict[str, tuple[Callable[[Any], object], Sign]] = {
    "TimeWindows.size": (lambda span: TimeWindows(size=span, grace=NONE), "positive"),
    "TimeWindows.grace": (lambda span: TimeWindows(size=SECOND, grace=span), "not_negative"),
    "SlidingWindows.time_difference": (
        lambda span: SlidingWindows(time_difference=span, grace=NONE),
        "not_negative",
    ),
    "SessionWindows.inactivity_gap": (
        lambda span: SessionWindows(inactivity_gap=span, grace=NONE),
        "positive",
    ),
    "JoinWindows.before": (lambda span: JoinWindows(before=span, after=SECOND, grace=NONE), "any"),
    "JoinWindows.grace": (
        lambda span: JoinWindows(before=NONE, after=NONE, grace=span),
        "not_negative",
    ),
    "Materialized.ttl": (
        lambda span: lines().to_table(Materialized(store="s", ttl=span)),
        "positive",
    ),
    "with_ttl.ttl": (
        lambda span: Stores.key_value_store_builder(
            Stores.persistent_key_value_store("s"), key=str, value=str
        ).with_ttl(span),
        "positive",
    ),
    "distinct.within": (lambda span: lines().distinct(within=span), "positive"),
    "distinct.grace": (lambda span: lines().distinct(within=SECOND, grace=span), "not_negative"),
    "join.grace": (joined_late, "not_negative"),
    "until_time_limit.time_to_wait": (
        lambda span: Suppressed.until_time_limit(span, BufferConfig.unbounded()),
        "not_negative",
    ),
    "scheduled.every": (
        lambda span: StreamsBuilder().scheduled("beat", lambda _tick: [], every=span),
        "positive",
    ),
    "scheduled.offset": (
        lambda span: StreamsBuilder().scheduled(
            "beat", lambda _tick: [], every=2 * SECOND, offset=span
        ),
        "not_negative",
    ),
    "CatchUp.tolerance": (lambda span: CatchUp.none(tolerance=span), "not_negative"),
    "AutoOffsetReset.duration": (
        lambda span: StreamsBuilder().stream(
            "lines", Consumed(auto_offset_reset=AutoOffsetReset.by_duration(span))
        ),
        "not_negative",
    ),
    "WatermarkStrategy.out_of_orderness": (
        lambda span: WatermarkStrategy.bounded(span),
        "not_negative",
    ),
    "WatermarkStrategy.idleness": (
        lambda span: WatermarkStrategy.monotonic(idleness=span),
        "not_negative",
    ),
    "Retry.initial": (lambda span: Retry(initial=span), "not_negative"),
    "RateLimit.per": (lambda span: RateLimit(calls=1, per=span), "positive"),
    "CircuitBreaker.open_for": (lambda span: CircuitBreaker(open_for=span), "positive"),
    "AsyncOptions.timeout": (lambda span: AsyncOptions(timeout=span), "positive"),
    "AsyncOptions.wait": (lambda span: AsyncOptions(wait=span), "not_negative"),
    "RequestReply.timeout": (lambda span: RequestReply(topic="t", timeout=span), "positive"),
    "WindowedSerde.window_size": (
        lambda span: WindowedSerde(str, window_size=span),
        "not_negative",
    ),
    "schedule.interval": (interval_ms, "positive"),
    "advance_wall_clock_time.span": (advanced, "not_negative"),
}


def words(told: str, sign: Sign) -> dict[str, tuple[object, str]]:
    """Return by its kind what is no such span, and what is said of it."""
    owner, option = told.split(".")
    cannot = f"{owner} cannot have {option}={{!r}}: "
    wrong: dict[str, tuple[object, str]] = {
        "text": ("5s", " as its " + option + ", not '5s'"),
        "fraction": (timedelta(microseconds=1_500), cannot + "times are whole milliseconds"),
    }
    if sign != "any":
        wrong["negative"] = (-SECOND, cannot + "it is negative")
    if sign == "positive":
        wrong["zero"] = (NONE, cannot + "it must be longer than zero")
    return wrong


@pytest.mark.parametrize(
    ("give", "span", "says"),
    [
        pytest.param(give, span, says.format(span), id=f"{told}-{kind}")
        for told, (give, sign) in PLACES.items()
        for kind, (span, says) in words(told, sign).items()
    ],
)
def test_what_is_no_span_is_refused_in_the_same_words(
    give: Callable[[Any], object], span: object, says: str
) -> None:
    """Wherever it is given: what it was given to, what that calls it, and what to write."""
    with pytest.raises(UsageError) as caught:
        give(span)
    assert says in caught.value.what
    assert caught.value.fix is not None


@pytest.mark.parametrize("give", [give for give, _ in PLACES.values()], ids=list(PLACES))
def test_a_span_is_taken(give: Callable[[Any], object]) -> None:
    """A second will do everywhere."""
    give(SECOND)


def test_an_option_is_refused_at_the_users_line() -> None:
    """Whether it is one of a step or stands alone."""
    for wrong in (lambda: Retry(initial=5), lambda: WatermarkStrategy.bounded(5)):  # type: ignore[arg-type]
        with pytest.raises(UsageError) as caught:
            wrong()  # pyright: ignore
        assert caught.value.at is not None
        assert caught.value.at.file == __file__
        assert caught.value.why == "a bare number does not say its unit"
        assert "timedelta(milliseconds=5)" in str(caught.value.fix)


def test_the_fix_of_a_fraction_is_the_whole_below_it() -> None:
    """Or the least there is; a negative span keeps its sign."""
    for micros, fix in ((1_500, 1), (400, 1), (-1_500, -2)):
        with pytest.raises(UsageError) as caught:
            span_ms("X", "y", timedelta(microseconds=micros), error=UsageError, sign="any")
        assert caught.value.fix == f"write y=timedelta(milliseconds={fix})"
    assert span_ms("X", "y", -SECOND, error=UsageError, sign="any") == -1_000
    assert span_ms("X", "y", 7, error=UsageError, or_number=True) == 7
