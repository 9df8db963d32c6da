"""Timers, schedules and parked calls side by side: each effective once, wherever it crashes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from hypothesis import given, strategies as st

from mustela import Record, Stores, StreamsBuilder, TopologyTestDriver
from mustela.calls import AsyncOptions
from mustela.processors import ContextualProcessor, Tick, Timer
from mustela.state.memory import MemoryEnvironment
from mustela.stores import StoreBuilder
from mustela.testing import driver
from mustela.testing.cluster import MemoryCluster

BEAT_MS = 5_000
FAR_MS = 10_000_000
CAPACITY = 2
KEYS = "abcd"


class Alarm(ContextualProcessor[str, str, str, str]):
    """Sets a timer of each kind for each record, and numbers those of a key as they fire."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        store = Stores.persistent_key_value_store("fires")
        return [Stores.key_value_store_builder(store, key=str, value=int)]

    def process(self, record: Record[str, str]) -> None:
        number, _, delay = record.value.partition(" ")
        if number == "last":
            return
        now = self.context.current_processing_time() + int(delay)
        self.context.register_processing_time_timer(now, name=f"clock-{number}")
        due = record.timestamp + int(delay)
        self.context.register_event_time_timer(due, name=f"event-{number}")

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        fires = context.state_store("fires")
        number = (fires.get(timer.key) or 0) + 1
        fires.put(timer.key, number)
        context.forward(timer.with_value(f"{timer.name} {number}"))


def told(tick: Tick) -> list[tuple[str, int]]:
    return [(tick.name, tick.number)]


def build() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(Alarm, name="alarm").to("fired", key=str, value=str)
    rules = AsyncOptions(capacity=CAPACITY)
    answers = stream.map_values_async(str.upper, rules, value=str, name="call")
    answers.to("answers", key=str, value=str)
    answers.group_by_key(key=str, value=str).count(store="answered")
    every = timedelta(milliseconds=BEAT_MS)
    beats = builder.scheduled("beat", told, every=every, key=str, value=int)
    beats.to("beats")
    beats.group_by_key().count(store="counted")
    return builder


class CrashError(Exception):
    """The application dies here."""


@dataclass(frozen=True)
class Crash:
    """Where it dies, and what becomes of it.

    Attributes:
        place: ``pending``: within the job, when some key groups have written and others have not;
            ``before`` or ``behind`` the commit.
        writes: With ``pending``: behind so many key groups.
        restarts: Whether the process dies, or only the job, which is tried again.
        loses_state: Whether local state is lost with the process.
    """

    place: str
    writes: int
    restarts: bool
    loses_state: bool

    @contextmanager
    def armed(self) -> Generator[None]:
        left = [self.writes]
        write, run, commit = MemoryEnvironment.write_pending, driver.run_job, MemoryCluster.commit

        def dying_write(environment: Any, *facts: Any) -> None:
            if not left[0]:
                raise CrashError
            left[0] -= 1
            write(environment, *facts)

        def dying_job(*facts: Any, **more: Any) -> None:
            run(*facts, **more)
            raise CrashError

        def dying_commit(cluster: Any, result: Any) -> None:
            commit(cluster, result)
            raise CrashError

        match self.place:
            case "pending":
                dying = patch.object(MemoryEnvironment, "write_pending", dying_write)
            case "before":
                dying = patch.object(driver, "run_job", dying_job)
            case _:
                dying = patch.object(MemoryCluster, "commit", dying_commit)
        with dying:
            yield


CRASHES = st.one_of(
    st.none(),
    st.builds(
        Crash,
        st.sampled_from(["pending", "before", "behind"]),
        st.integers(0, 6),
        st.booleans(),
        st.booleans(),
    ),
)
ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 60_000), st.integers(1, 20_000)),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(
    st.tuples(
        st.one_of(
            st.tuples(st.just("send"), ROWS),
            st.tuples(st.just("wait"), st.integers(1, 15_000)),
            st.tuples(st.just("answer"), st.integers(0, 2)),
        ),
        CRASHES,
    ),
    max_size=12,
)


class World:
    """The application under test, and a model of what is true of it in plain Python."""

    def __init__(self, driver: TopologyTestDriver, *, by_watermark: bool) -> None:
        self.driver = driver
        self.by_watermark = by_watermark
        self.topic = driver.create_input_topic("in", key=str, value=str)
        self.now = 0
        self.watermark = -1
        self.sent: dict[str, list[str]] = defaultdict(list)
        self.due: dict[str, tuple[str, int]] = {}
        self.fired: dict[str, list[str]] = defaultdict(list)
        self.answers: dict[str, list[str]] = defaultdict(list)
        self.beats: list[tuple[int, int]] = []
        self._outputs = {
            name: driver.create_output_topic(name, key=str, value=str)
            for name in ("fired", "answers")
        }
        self._beats = driver.create_output_topic("beats", key=str, value=int)

    def send(self, rows: list[tuple[str, int, int]], crash: Crash | None) -> None:
        """Send records in one epoch; those that no commit has read are there behind a crash."""
        records: list[tuple[str, str, int]] = []
        for key, time, delay in rows:
            number = len(self.due) // 2
            self.due[f"clock-{number}"] = key, self.now + delay
            self.due[f"event-{number}"] = key, time + delay
            self.sent[key].append(f"{number} {delay}")
            records.append((key, f"{number} {delay}", time))
        again = self.survives(lambda: self._pipe(records), crash)
        if again and crash is not None and crash.place != "behind":
            self._pipe(records)

    def _pipe(self, records: list[tuple[str, str, int]]) -> None:
        with self.driver.epoch():
            for key, value, time in records:
                self.topic.pipe_input(key, value, timestamp=time)

    def wait(self, span: int, crash: Crash | None) -> None:
        self.now += span
        self.survives(lambda: self.driver.advance_wall_clock_time(span), crash)

    def answer(self, which: int, crash: Crash | None) -> None:
        calls = self.driver.held_calls()[which : which + 1]
        self.survives(lambda: self.driver.complete_calls(calls), crash)

    def survives(self, act: Any, crash: Crash | None) -> bool:
        """Do something, and go on behind a crash; return whether there was one."""
        if crash is None:
            act()
            return False
        try:
            with crash.armed():
                act()
        except CrashError:
            if crash.restarts:
                self.driver.crash(lose_state=crash.loses_state)
            self.driver.advance_wall_clock_time(0)
            return True
        return False

    def look(self) -> None:
        """Read what has come out, and compare it with what is true now."""
        for record in self._outputs["answers"].read_records_to_list():
            self.answers[record.key].append(record.value)
        for record in self._outputs["fired"].read_records_to_list():
            self.fired[record.key].append(record.value)
            assert record.timestamp == self.due[record.value.split()[0]][1]
        for beat in self._beats.read_records_to_list():
            self.beats.append((beat.value, beat.timestamp))
        count = self.now // BEAT_MS
        assert self.beats == [(n, n * BEAT_MS) for n in range(1, count + 1)]
        for key, sent in self.sent.items():
            wanted = [value.upper() for value in sent]
            assert self.answers[key] == wanted[: len(self.answers[key])]
        waiting = [key for key, sent in self.sent.items() if len(self.answers[key]) < len(sent)]
        assert len(self.driver.held_calls()) == min(CAPACITY, len(waiting))
        watermark = self.driver.watermark
        assert (-1 if watermark is None else watermark) >= self.watermark
        self.watermark = -1 if watermark is None else watermark
        self._look_at_timers()

    def _look_at_timers(self) -> None:
        fired: Counter[str] = Counter()
        for key, told in self.fired.items():
            names, numbers = zip(*(one.split() for one in told), strict=True)
            assert list(map(int, numbers)) == list(range(1, len(numbers) + 1)), key
            assert all(self.due[name][0] == key for name in names)
            fired.update(names)
        times = {name: due for name, (_, due) in self.due.items()}
        wanted = {n for n, due in times.items() if n.startswith("clock") and due <= self.now}
        if self.by_watermark:
            wanted |= {
                n for n, due in times.items() if n.startswith("event") and due <= self.watermark
            }
            assert fired == dict.fromkeys(wanted, 1)
        else:
            assert set(fired) >= wanted
            assert not fired or max(fired.values()) == 1

    def end(self) -> None:
        """Let everything happen that is still to come."""
        while self.driver.complete_calls():
            pass
        self.wait(100_000, None)
        for key in KEYS:  # brings event time far ahead, also that of each key group
            self.topic.pipe_input(key, "last 0", timestamp=FAR_MS)
            self.sent[key].append("last 0")
        if self.by_watermark:
            self.driver.advance_watermark(FAR_MS)
        while self.driver.complete_calls():
            pass
        self.look()
        assert sum(map(len, self.fired.values())) == len(self.due)
        assert {key: len(self.answers[key]) for key in KEYS} == {
            key: len(self.sent[key]) for key in KEYS
        }
        answered = self.driver.get_key_value_store("answered")
        assert {key: answered[key] for key in KEYS} == {key: len(self.sent[key]) for key in KEYS}
        assert self.driver.get_key_value_store("counted")["beat"] == len(self.beats)


@given(STEPS, st.sampled_from([1, 8]), st.integers(1, 3), st.booleans())
def test_whatever_crashes_each_is_effective_once(
    steps: list[tuple[tuple[str, Any], Crash | None]],
    key_groups: int,
    lanes: int,
    by_watermark: bool,
) -> None:
    """Timers at their time, ticks one by one, answers in the order of their keys; states agree."""
    choices: Any = {"settings": {"event_time": "watermark" if by_watermark else "stream-time"}}
    with TopologyTestDriver(
        build(),
        initial_wall_clock=0,
        key_groups=key_groups,
        lanes=lanes,
        hold_calls=True,
        **choices,
    ) as running:
        world = World(running, by_watermark=by_watermark)
        for (what, fact), crash in steps:
            getattr(world, what)(fact, crash)
            world.look()
        world.end()
