"""Timers against a dict of timers: each fires once, in its order, over any crash pattern."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from tests.unit.testing.test_timers import STREAM, WATERMARK, World

KEYS = ["a", "b", "c", "d"]
commands = st.one_of(
    st.tuples(
        st.just("send"),
        st.sampled_from(KEYS),
        st.one_of(
            st.builds("event {} {}".format, st.sampled_from("xy"), st.integers(0, 60)),
            st.builds("clock {} {}".format, st.sampled_from("xy"), st.integers(0, 60)),
            st.builds("delete {}".format, st.sampled_from("xy")),
        ),
        st.integers(0, 60),
    ),
    st.tuples(st.just("clock"), st.integers(0, 30)),
    st.tuples(st.just("watermark"), st.integers(0, 60)),
    st.tuples(st.just("crash"), st.booleans()),
)


class Model:
    """Timers in a dict; time is one number of each kind."""

    def __init__(self) -> None:
        self.timers: dict[tuple[str, str, str], int] = {}
        self.counts: dict[str, int] = {}
        self.times = {"event-time": -1, "processing-time": 0}
        self.rows: list[tuple[str, str, int]] = []

    def obey(self, key: str, value: str) -> None:
        match value.split():
            case ["event", name, at]:
                self.timers["event-time", key, name] = int(at)
            case ["clock", name, span]:
                now = self.times["processing-time"]
                self.timers["processing-time", key, name] = now + int(span)
            case [_, name]:
                self.timers.pop(("event-time", key, name), None)
                self.timers.pop(("processing-time", key, name), None)
            case _:
                raise AssertionError(value)

    def fire(self, domain: str) -> None:
        due = sorted(
            (time, key, name)
            for (kind, key, name), time in self.timers.items()
            if kind == domain and time <= self.times[domain]
        )
        for time, key, name in due:
            del self.timers[domain, key, name]
            self.counts[key] = self.counts.get(key, 0) + 1
            self.rows.append((key, f"{domain} {name} {self.counts[key]}", time))


def _pipe_together(world: World, model: Model, records: list[Any]) -> None:
    if records:
        with world.driver.epoch():
            for _, key, value, at in records:
                world.send(key, value, at)
        for _, key, value, at in records:
            model.obey(key, value)
            model.times["event-time"] = max(model.times["event-time"], at)


def _move(world: World, model: Model, step: Any) -> None:
    match step:
        case ("clock", span):
            world.driver.advance_wall_clock_time(span)
            model.times["processing-time"] += span
        case ("watermark", to):
            world.driver.advance_watermark(to)
            model.times["event-time"] = max(model.times["event-time"], to)
        case ("crash", lose):
            world.driver.crash(lose_state=lose)
        case _:
            pass


@given(
    st.lists(st.lists(commands, min_size=1, max_size=4), max_size=10),
    st.sampled_from([(1, 1), (8, 1), (8, 3)]),
    st.booleans(),
)
def test_each_timer_fires_once_in_its_order_over_any_crash_pattern(epochs, groups, crashes):
    """By watermark and by the clock, with and without records, and with lost disks."""
    model = Model()
    key_groups, lanes = groups
    options = {"key_groups": key_groups, "lanes": lanes, "crash_after_every_record": crashes}
    world = World(settings=WATERMARK, **options)
    for steps in epochs:
        _pipe_together(world, model, [step for step in steps if step[0] == "send"])
        for step in steps:
            _move(world, model, step)
            model.fire("event-time")
            model.fire("processing-time")
    fired = world.fired()
    assert sorted(fired) == sorted(model.rows)
    for key in KEYS:
        assert [row for row in fired if row[0] == key] == [
            row for row in model.rows if row[0] == key
        ]
    if lanes == 1:  # rows of different lanes come as they like, those of one in order of time
        assert [time for *_, time in fired] == [time for *_, time in model.rows]
    if key_groups == 1:
        assert fired == model.rows


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(KEYS),
                st.builds("event {} {}".format, st.sampled_from("xy"), st.integers(0, 60)),
                st.integers(0, 60),
            ),
            min_size=1,
            max_size=4,
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_by_stream_time_each_timer_fires_once_behind_the_record_that_brings_the_time(
    epochs, crashes
):
    """However records are grouped, and over any crash."""
    model = Model()
    world = World(settings=STREAM, crash_after_every_record=crashes)
    for records in epochs:
        with world.driver.epoch():
            for record in records:
                world.send(*record)
        for key, value, at in records:
            model.times["event-time"] = max(model.times["event-time"], at)
            model.obey(key, value)
            model.fire("event-time")
    assert world.fired() == model.rows
