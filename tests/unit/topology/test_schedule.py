"""When a schedule ticks, and which missed ticks are caught up on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from mustela.api.errors import BadOptionError
from mustela.api.schedule import CatchUp, CronSchedule, EverySchedule, Schedule

BERLIN = "Europe/Berlin"
ZONES = ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo"]
EXPRESSIONS = [
    "* * * * *",
    "*/15 * * * *",
    "30 2 * * *",
    "0,30 1-3 * * *",
    "0 0 * * *",
    "0 6 * * MON-FRI",
    "0 12 L * *",
    "15 30 2 * * *",
    "*/20 */30 1,2,3 * * *",
]
# Two years in which clocks change, in milliseconds.
MOMENTS = st.integers(1_672_500_000_000, 1_735_700_000_000)


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def told(ticks: list[int], zone: str) -> list[str]:
    return [datetime.fromtimestamp(t / 1_000, ZoneInfo(zone)).isoformat() for t in ticks]


def first(schedule: Schedule, behind: int, count: int) -> list[int]:
    return list(islice(schedule.between(behind, 2**50), count))


@given(st.integers(1, 10**7), st.data(), st.integers(0, 10**13), st.integers(0, 10**8))
def test_an_interval_ticks_at_its_multiples(
    every: int, data: st.DataObject, behind: int, span: int
) -> None:
    """Ticks hang on the clock alone, and not on when the application was started."""
    offset = data.draw(st.integers(0, every - 1))
    schedule = EverySchedule(every_ms=every, offset_ms=offset)
    until = behind + min(span, 50 * every)
    ticks = list(schedule.between(behind, until))

    assert all((tick - offset) % every == 0 and behind < tick <= until for tick in ticks)
    assert len(ticks) == (until - offset) // every - (behind - offset) // every
    assert schedule.last(behind, until) == (ticks[-1] if ticks else None)
    following = schedule.after(until)
    assert following is not None
    assert until < following <= until + every


def test_a_fixed_time_that_is_left_out_comes_at_the_end_of_the_gap() -> None:
    """Clocks are put forward at 2:00: a tick at 2:30 comes at 3:00, and only once."""
    half_past_two = CronSchedule(expression="30 2 * * *", time_zone=BERLIN)

    assert told(first(half_past_two, at("2024-03-30T12:00"), 2), BERLIN) == [
        "2024-03-31T03:00:00+02:00",
        "2024-04-01T02:30:00+02:00",
    ]


def test_a_fixed_time_that_comes_twice_ticks_once() -> None:
    """Clocks are put back at 3:00: 2:30 comes twice, and the tick with the first of them."""
    half_past_two = CronSchedule(expression="30 2 * * *", time_zone=BERLIN)

    assert told(first(half_past_two, at("2024-10-26T12:00"), 2), BERLIN) == [
        "2024-10-27T02:30:00+02:00",
        "2024-10-28T02:30:00+01:00",
    ]


def test_a_schedule_begun_in_the_second_of_two_hours_does_not_tick_in_the_past() -> None:
    """The fixed time has passed in the first of the two hours."""
    begun = at("2024-10-27T01:10")  # 2:10 in Berlin, for the second time
    half_past_two = CronSchedule(expression="30 2 * * *", time_zone=BERLIN)

    assert told(first(half_past_two, begun, 1), BERLIN) == ["2024-10-28T02:30:00+01:00"]


def test_each_quarter_of_an_hour_ticks_in_both_of_two_hours() -> None:
    """A schedule without a fixed hour goes on by the clock: eight ticks in two hours."""
    quarters = CronSchedule(expression="*/15 * * * *", time_zone=BERLIN)
    ticks = list(quarters.between(at("2024-10-27T00:00"), at("2024-10-27T02:00")))

    assert len(ticks) == 8
    assert {later - earlier for earlier, later in pairwise(ticks)} == {900_000}


def test_six_fields_begin_with_the_seconds() -> None:
    """Five fields tick at second 0."""
    assert told(first(CronSchedule(expression="10 */2 * * * *"), 0, 2), "UTC") == [
        "1970-01-01T00:00:10+00:00",
        "1970-01-01T00:02:10+00:00",
    ]


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), MOMENTS, st.integers(1, 6))
def test_it_makes_no_difference_where_a_schedule_is_taken_up(
    expression: str, zone: str, behind: int, count: int
) -> None:
    """An application that starts again asks from the last tick on, and gets those it would have."""
    schedule = CronSchedule(expression=expression, time_zone=zone)
    ticks = first(schedule, behind, count)

    taken_up = [behind]
    for _ in ticks:
        following = schedule.after(taken_up[-1])
        assert following is not None
        taken_up.append(following)
    assert taken_up[1:] == ticks
    assert ticks == sorted(set(ticks))


@given(
    st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), MOMENTS, st.integers(0, 3 * 86_400_000)
)
def test_the_last_tick_is_the_last_of_all(
    expression: str, zone: str, behind: int, span: int
) -> None:
    """It is found from the end, without a look at those before."""
    schedule = CronSchedule(expression=expression, time_zone=zone)
    until = behind + span
    if expression.startswith("*/20"):
        behind = max(behind, until - 7_200_000)
    ticks = list(schedule.between(behind, until))

    assert schedule.last(behind, until) == (ticks[-1] if ticks else None)


@given(
    st.sampled_from([CatchUp.all(ticks_max=3), CatchUp.last(), CatchUp.none(), CatchUp.all()]),
    st.lists(st.integers(0, 300_000), min_size=1, max_size=8),
)
def test_a_tick_is_chosen_at_most_once_and_by_all_never_lost(
    catch_up: CatchUp, pauses: list[int]
) -> None:
    """However the looks lie in time."""
    schedule = EverySchedule(every_ms=20_000)
    handled = now = 5_000
    chosen: list[int] = []
    for pause in pauses:
        now += pause
        ticks, handled = catch_up.choose(schedule, handled, now)
        assert all(tick <= now for tick in ticks)
        assert catch_up.kind == "all" or len(ticks) <= 1
        chosen += ticks

    assert chosen == sorted(set(chosen))
    if catch_up.kind == "all":
        while more := catch_up.choose(schedule, handled, now)[0]:
            chosen += more
            handled = more[-1]
        assert chosen == list(schedule.between(5_000, now))


def test_a_tick_that_is_a_little_late_is_not_missed() -> None:
    """An epoch always begins somewhat behind the tick."""
    schedule = EverySchedule(every_ms=60_000)
    strict = CatchUp.none(tolerance=timedelta(seconds=5))

    assert strict.choose(schedule, 0, 65_000) == ([60_000], 60_000)
    assert strict.choose(schedule, 0, 65_001) == ([], 60_000)
    assert strict.choose(schedule, 0, 59_999) == ([], 0)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_an_epoch_catches_up_on_a_positive_number(wrong: object) -> None:
    """The limit is a whole number."""
    with pytest.raises(BadOptionError, match="cannot catch up"):
        CatchUp.all(ticks_max=wrong)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_tolerance_is_not_negative() -> None:
    """A tick is never handled before its time."""
    with pytest.raises(BadOptionError, match="it is negative"):
        CatchUp.none(tolerance=timedelta(seconds=-1))


def test_schedules_say_what_they_are() -> None:
    """In `describe` and in errors."""
    assert EverySchedule(every_ms=90_000, offset_ms=500).told == "every 90s + 500ms"
    assert (
        CronSchedule(expression="0 6 * * *", time_zone=BERLIN).told == f"cron 0 6 * * *, {BERLIN}"
    )
    assert CronSchedule(expression="0 6 * * *").zone is UTC
