"""What is checked when a scheduled source is written."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mustela import StreamsBuilder, Suppressed
from mustela.api.errors import (
    BadNameError,
    BadOptionError,
    DuplicateNameError,
    DuplicateStoreError,
    FunctionError,
    StoreAccessError,
    UnknownStoreError,
)
from mustela.api.schedule import CatchUp, CronSchedule, EverySchedule
from mustela.api.scheduled import TickStoreError
from mustela.processors import Tick
from mustela.topology.scheduled import ScheduledSourceNode
from mustela.windows import BufferConfig

MINUTE = timedelta(minutes=1)


def nothing(_tick: Tick) -> None:
    return None


def node(**options: Any) -> ScheduledSourceNode:
    builder = StreamsBuilder()
    builder.scheduled("beat", nothing, **options)
    found = builder.build()["beat"]
    assert isinstance(found, ScheduledSourceNode)
    return found


def test_options_become_a_schedule() -> None:
    """An interval with an offset, or an expression with a time zone."""
    assert node(every=MINUTE, offset=timedelta(seconds=5)).schedule == EverySchedule(
        every_ms=60_000, offset_ms=5_000
    )
    for zone in ("Europe/Berlin", ZoneInfo("Europe/Berlin")):
        assert node(cron=" 0  6 * * MON ", time_zone=zone).schedule == CronSchedule(
            expression="0 6 * * MON", time_zone="Europe/Berlin"
        )
    assert node(cron="0 6 * * *", time_zone=UTC).schedule == CronSchedule(expression="0 6 * * *")


def test_a_word_stands_for_a_way_to_catch_up() -> None:
    """All ticks, if nothing is said."""
    assert node(every=MINUTE).catch_up == CatchUp.all()
    assert node(every=MINUTE, catch_up="last").catch_up == CatchUp.last()
    own = CatchUp.none(tolerance=timedelta(seconds=1))
    assert node(every=MINUTE, catch_up=own).catch_up == own


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "neither every nor cron"),
        ({"every": MINUTE, "cron": "* * * * *"}, "both every and cron"),
        ({"every": 60}, "needs a timedelta as its every, not 60"),
        ({"every": timedelta(0)}, "longer than zero"),
        ({"every": timedelta(microseconds=1_500)}, "whole milliseconds"),
        ({"every": MINUTE, "offset": MINUTE}, "offset"),
        ({"every": MINUTE, "offset": -MINUTE}, "offset"),
        ({"every": MINUTE, "time_zone": "UTC"}, "time zone"),
        ({"cron": "* * * * *", "offset": MINUTE}, "offset"),
        ({"cron": "60 * * * *"}, "Bad minute"),
        ({"cron": "every day"}, "Wrong number of fields"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": 5}, "cron=5"),
        ({"cron": "* * * * *", "time_zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"cron": "* * * * *", "time_zone": "../etc"}, "time zone"),
        ({"cron": "* * * * *", "time_zone": 3}, "time zone 3"),
        ({"every": MINUTE, "catch_up": "some"}, "some"),
        ({"every": MINUTE, "stores": "counts"}, "stores='counts'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    """When the topology is written, with the user's line."""
    with pytest.raises(BadOptionError) as caught:
        StreamsBuilder().scheduled("beat", nothing, **options)
    assert says in str(caught.value)
    assert caught.value.at is not None
    assert caught.value.at.file == __file__


def test_a_function_that_takes_no_tick_is_refused() -> None:
    """It would fail at the first tick."""
    with pytest.raises(FunctionError, match="tick"):
        StreamsBuilder().scheduled("beat", lambda: [], every=MINUTE)  # type: ignore # pyright: ignore


def test_names_are_those_of_steps() -> None:
    """A name is kept by its state, so it is given, follows the rule and is no other step's."""
    builder = StreamsBuilder()
    builder.stream("clicks")
    with pytest.raises(DuplicateNameError):
        builder.scheduled("clicks", nothing, every=MINUTE)
    with pytest.raises(BadNameError):
        builder.scheduled("each minute", nothing, every=MINUTE)
    with pytest.raises(BadNameError):
        builder.scheduled("x" * 192, nothing, every=MINUTE)
    builder.scheduled("x" * 191, nothing, every=MINUTE)
    builder.stream("words", key=str, value=str).group_by_key().count(store="beat-schedule")
    with pytest.raises(DuplicateStoreError):
        builder.scheduled("beat", nothing, every=MINUTE)


def test_a_store_that_is_read_must_exist() -> None:
    """Whether it does is known when the topology is built: it may be written behind the source."""
    builder = StreamsBuilder()
    builder.scheduled("report", nothing, every=MINUTE, stores=("counts",))
    with pytest.raises(UnknownStoreError, match="'counts'") as caught:
        builder.build()
    assert caught.value.fields == {"step": "report", "store": "counts"}

    builder.stream("words", key=str, value=str).group_by_key().count(store="counts")
    assert builder.build()["report"].reads_any == ("counts",)


def test_a_store_that_is_read_must_be_readable() -> None:
    """Copies of global tables have no key groups, and buffers have rows for their step alone."""
    builder = StreamsBuilder()
    builder.global_table("lands", key=str, value=str, store="lands")
    builder.scheduled("report", nothing, every=MINUTE, stores=("lands",))
    with pytest.raises(StoreAccessError, match="'lands'") as caught:
        builder.build()
    assert "'lands'" in str(caught.value.fix)

    builder = StreamsBuilder()
    table = builder.table("prices", key=str, value=int, store="prices")
    table.suppress(Suppressed.until_time_limit(MINUTE, BufferConfig.unbounded()), name="held")
    builder.scheduled("report", nothing, every=MINUTE, stores=("prices", "held"))
    with pytest.raises(StoreAccessError, match="'held'"):
        builder.build()


def test_a_tick_opens_only_declared_stores() -> None:
    """The error says how to declare it."""
    tick = Tick(name="report", timestamp=0, number=1, stores={"counts": lambda: "opened"})

    assert tick.store("counts") == "opened"
    with pytest.raises(TickStoreError, match="'prices'") as caught:
        tick.store("prices")
    assert 'stores=("prices",)' in str(caught.value)


def test_a_mended_schedule_keeps_its_state() -> None:
    """When a source ticks does not change the topology's shape; its name does."""
    assert fingerprint("beat", every=MINUTE) == fingerprint("beat", cron="* * * * *")
    assert fingerprint("beat", every=MINUTE) != fingerprint("pulse", every=MINUTE)


def fingerprint(name: str, **options: Any) -> str:
    builder = StreamsBuilder()
    builder.scheduled(name, nothing, **options)
    return builder.build().fingerprint
