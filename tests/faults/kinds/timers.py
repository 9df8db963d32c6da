"""Timers, beats and ticks, each once and in its turn, and windows that end."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

from mustela import Record, Stores, StreamsBuilder, Suppressed, TimeWindows
from mustela.processors import ContextualProcessor, PunctuationType, Tick, Timer
from mustela.stores import StoreBuilder
from mustela.windows import BufferConfig
from tests.faults.kinds.kind import Inputs, Kind, Rows, differences, every, text
from tests.faults.kinds.outside import key_of_its_own
from tests.faults.watch import Seen

EVENT_DELAY_MS = 20


class Reminders(ContextualProcessor[str, str, str, str]):
    """Fires once by event time and once by the clock for each key, and counts its own beats.

    A timer tells how often its key has fired before, a beat its number in its key group.
    """

    @staticmethod
    def stores() -> list[StoreBuilder]:
        """Return what is counted."""
        counts = Stores.persistent_key_value_store("counts")
        return [Stores.key_value_store_builder(counts, key=str, value=int)]

    def init(self, context: Any) -> None:
        """Schedule the beat."""
        super().init(context)
        self.counts = context.state_store("counts")
        context.schedule(timedelta(milliseconds=250), PunctuationType.WALL_CLOCK_TIME, self.beat)

    def count(self, name: str) -> str:
        """Count one more."""
        number = self.counts.get(name, 0) + 1
        self.counts.put(name, number)
        return str(number)

    def beat(self, now: int) -> None:
        """Tell the number of the beat."""
        name = f"beat-{self.context.task_id}"
        self.context.forward(Record(name, self.count(name), now))

    def process(self, record: Record[str, str]) -> None:
        """Set both timers."""
        now = self.context.current_processing_time()
        self.context.register_processing_time_timer(now + 300, name="clock")
        self.context.register_event_time_timer(record.timestamp + EVENT_DELAY_MS, name="event")

    def on_timer(self, timer: Timer[str], context: Any) -> None:
        """Tell that a timer fired, and how often."""
        name = f"{timer.key} {timer.name}"
        context.forward(timer.with_value(self.count(name)).with_key(name))


def timers(builder: StreamsBuilder, prefix: str) -> None:
    """Set timers for each key, and beat by the clock."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.process(Reminders, name="remind").to(f"{prefix}.out", key=str, value=str)


class Fired:
    """Each timer once, at its time, and the beats of each key group one by one."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        told = {text(row.key) for row in rows["out"]}
        return sum(f"{text(row.key)} clock" not in told for row in every(inputs))

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        watermark = seen.records[-1].watermark
        due = {text(row.key): row.timestamp + EVENT_DELAY_MS for row in every(inputs)}
        wanted = Counter(f"{key} clock" for key in due)
        wanted.update(f"{key} event" for key, time in due.items() if time <= watermark)
        got: Counter[str] = Counter()
        beats: dict[str, list[int]] = defaultdict(list)
        found: list[str] = []
        for row in rows["out"]:
            name, number = text(row.key), int(text(row.value))
            if name.startswith("beat-"):
                beats[name].append(number)
                continue
            got[name] += 1
            if number != 1:
                found.append(f"{name} says that it fired {number} times")
            if name.endswith(" event") and row.timestamp != due.get(name.partition(" ")[0]):
                found.append(f"{name} fired with time {row.timestamp}")
        found += differences("timers", wanted, got)
        for name, numbers in sorted(beats.items()):
            if numbers != list(range(1, len(numbers) + 1)):
                found.append(f"{name}: not counted one by one, {len(numbers)} beats")
        return found


def told_tick(tick: Tick) -> list[tuple[str, str]]:
    """Say which tick it is, and what the store of all ticks before holds."""
    before = tick.store("ticks").get(tick.name)
    return [(tick.name, f"{tick.number} {tick.timestamp} {before.value if before else 0}")]


def ticks(builder: StreamsBuilder, prefix: str) -> None:
    """Tick by two schedules without any topic, and count the ticks."""
    fifth = timedelta(milliseconds=200)
    beats = builder.scheduled("beat", told_tick, every=fifth, key=str, value=str, stores=("ticks",))
    seconds = builder.scheduled(
        "second", told_tick, cron="* * * * * *", key=str, value=str, stores=("ticks",)
    )
    both = beats.merge(seconds, name="both")
    both.to(f"{prefix}.out")
    both.group_by_key().count(store="ticks").to_stream().to(f"{prefix}.counts", key=str, value=int)


def windows(builder: StreamsBuilder, prefix: str) -> None:
    """Count by windows of ten seconds, and say each count once, when its window is over."""
    stream = builder.stream([f"{prefix}.in", f"{prefix}.slow"], key=str, value=str)
    tens = TimeWindows(size=timedelta(seconds=10), grace=timedelta(0))
    counts = stream.group_by_key().windowed_by(tens).count(store="tens")
    last = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="last")
    told = last.to_stream(lambda window, _count: f"{window.key}@{window.start}")
    told.to(f"{prefix}.out", key=str, value=int)


TICKS_MIN = 20


LENGTHS_MS = {"beat": 200, "second": 1_000}


class Ticks:
    """The ticks of each schedule one by one, at their times, also those missed meanwhile."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        return max(0, TICKS_MIN - len(rows["out"]))

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        told: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for row in rows["out"]:
            number, time, before = map(int, text(row.value).split())
            told[text(row.key)].append((number, time, before))
        counts = {text(row.key): int.from_bytes(row.value or b"", "big") for row in rows["counts"]}
        found: list[str] = []
        for name, length in LENGTHS_MS.items():
            ticks = told[name]
            first = ticks[0][1] if ticks else 0
            wanted = [(n + 1, first + length * n) for n in range(len(ticks))]
            if [tick[:2] for tick in ticks] != wanted:
                found.append(f"{name}: not one tick after the other, {len(ticks)} ticks")
            if counts.get(name) != len(ticks):
                found.append(f"{name}: {len(ticks)} ticks, counted {counts.get(name)}")
            # A tick sees those of the epochs before its own, whole.
            least = {before: number for number, _, before in reversed(ticks)}
            found += [f"{name}: tick {n} saw {b}" for b, n in least.items() if n != b + 1]
        return found


KINDS = {
    "timers": Kind(build=timers, make=key_of_its_own, outcome=Fired()),
    "ticks": Kind(
        build=ticks, make=key_of_its_own, outcome=Ticks(), inputs=(), outputs=("out", "counts")
    ),
    "windows": Kind(build=windows, make=key_of_its_own, more_inputs=("slow",)),
}
