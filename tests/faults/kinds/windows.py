"""Windows and sessions, each told once when it is over, and tables that are held back."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from mustela import (
    Consumed,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windowed,
)
from mustela.plan.keygroups import key_group
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.windows import BufferConfig, EmitStrategy, LatePolicy
from tests.faults.kinds.counting import add_link, link
from tests.faults.kinds.joins import KEYS
from tests.faults.kinds.kind import (
    Expected,
    KeyValue,
    Kind,
    Merged,
    Rows,
    Sent,
    changes,
    number,
    text,
)
from tests.faults.kinds.moments import PATIENT, moment
from tests.faults.watch import Row

SIZE_MS, GRACE_MS = 500, 450
LATE = 0.02
LATE_MS = 4_000
WINDOWED = Suppressed.until_window_closes(BufferConfig.unbounded())


def span(milliseconds: int) -> timedelta:
    """Return a span of time."""
    return timedelta(milliseconds=milliseconds)


def shown(window: Windowed[str], _value: object) -> str:
    """Return a window's key as text."""
    return f"{window.key}@{window.start}-{window.end}"


def tumbling(builder: StreamsBuilder, prefix: str) -> None:
    """Count by windows: each change, and the last one of each window; late records are letters."""
    late: Consumed[str, str] = Consumed(key=str, value=str, late=LatePolicy.DEAD_LETTER)
    stream = builder.stream(f"{prefix}.in", consumed=late)
    sizes = TimeWindows(size=span(SIZE_MS), grace=span(GRACE_MS))
    counts = stream.group_by_key().windowed_by(sizes).count(store="sizes")
    counts.to_stream(shown).to(f"{prefix}.changes", key=str, value=int, name="changes-out")
    last = counts.suppress(WINDOWED, name="last")
    last.to_stream(shown).to(f"{prefix}.out", key=str, value=int, name="last-out")


def timed(rng: random.Random, number: int) -> Sent:
    """Make a numbered record."""
    return Sent(f"k{rng.randrange(KEYS)}", f"n{number}", timestamp=moment(rng, number))


def sometimes_late(rng: random.Random, number: int) -> Sent:
    """Make a numbered record; one in fifty comes long after its time."""
    sent = timed(rng, number)
    late = rng.random() < LATE and number * 10 > LATE_MS
    time = (sent.timestamp or 0) - (LATE_MS if late else 0)
    return sent._replace(timestamp=time)


def window_key(key: bytes | None, start: int, end: int) -> bytes:
    """Return what `shown` makes of a window."""
    return f"{text(key)}@{start}-{end}".encode()


class TumblingModel:
    """Counts of windows; a record whose window is over by its own moment is a letter."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._counts: Counter[tuple[bytes | None, int]] = Counter()

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        letters: Counter[KeyValue] = Counter()
        touched: set[tuple[bytes | None, int]] = set()
        for row, now in self._merged.judged(rows, record.watermark):
            start = row.timestamp - row.timestamp % SIZE_MS
            if start + SIZE_MS + GRACE_MS <= now:
                letters[row.key, row.value] += 1
                continue
            self._counts[row.key, start] += 1
            touched.add((row.key, start))
        told = Counter(self._told(*window) for window in touched)
        horizon = record.watermark - SIZE_MS - GRACE_MS
        over = [window for window in self._counts if window[1] <= horizon]
        last = Counter(self._told(*window) for window in over)
        for window in over:
            del self._counts[window]
        return {"out": last, "changes": told, "dead-letters": letters}

    def _told(self, key: bytes | None, start: int) -> KeyValue:
        return window_key(key, start, start + SIZE_MS), number(self._counts[key, start])


ADVANCE_MS = 250


def add_to_chain(_key: str, value: str, chain: str) -> str:
    """Add a value to a chain."""
    return add_link(chain or None, value)


def hopping(builder: StreamsBuilder, prefix: str) -> None:
    """Chain values by windows that overlap, and tell each once."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    sizes = TimeWindows(size=span(SIZE_MS), advance=span(ADVANCE_MS), grace=span(GRACE_MS))
    windows = stream.group_by_key().windowed_by(sizes)
    closing = windows.emit_strategy(EmitStrategy.on_window_close())
    chains = closing.aggregate(str, add_to_chain, value=str, store="chains")
    chains.to_stream(shown).to(f"{prefix}.out", key=str, value=str)


class HoppingModel:
    """Chains of windows, each told once."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._chains: dict[tuple[bytes | None, int], str] = {}

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        for row, now in self._merged.judged(rows, record.watermark):
            last = row.timestamp - row.timestamp % ADVANCE_MS
            for start in range(last, row.timestamp - SIZE_MS, -ADVANCE_MS):
                if start + SIZE_MS + GRACE_MS > now:
                    window = row.key, start
                    self._chains[window] = add_link(self._chains.get(window), text(row.value))
        horizon = record.watermark - SIZE_MS - GRACE_MS
        over = {window: chain for window, chain in self._chains.items() if window[1] <= horizon}
        for window in over:
            del self._chains[window]
        return {
            "out": Counter(
                (window_key(key, start, start + SIZE_MS), chain.encode())
                for (key, start), chain in over.items()
            )
        }


NEAR_MS = 300


def sliding(builder: StreamsBuilder, prefix: str) -> None:
    """Count the records that lie near each other, and tell each window once."""
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    near = SlidingWindows(time_difference=span(NEAR_MS), grace=span(GRACE_MS))
    windows = stream.group_by_key().windowed_by(near)
    counts = windows.emit_strategy(EmitStrategy.on_window_close()).count(store="near")
    counts.to_stream(shown).to(f"{prefix}.out", key=str, value=int)


class SlidingModel:
    """The windows of all records: one that each ends, and one that begins behind each.

    No record comes so late that it misses one, for its grace is longer than any lies behind.
    """

    def __init__(self) -> None:
        self._times: dict[bytes | None, list[int]] = defaultdict(list)
        self._told_until = -1

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        for row in rows:
            self._times[row.key].append(row.timestamp)
        first, until = self._told_until, record.watermark - NEAR_MS - GRACE_MS - 1
        self._told_until = max(first, until)
        told: Counter[KeyValue] = Counter()
        for key, times in self._times.items():
            starts = {time - NEAR_MS for time in times} | {time + 1 for time in times}
            for start in starts:
                count = sum(start <= time <= start + NEAR_MS for time in times)
                if count and first < start <= until:
                    told[window_key(key, start, start + NEAR_MS), number(count)] += 1
            kept = until - 3 * NEAR_MS
            self._times[key] = [time for time in times if time > kept]
        return {"out": told}


GAP_MS = 200


def join_lists(_key: str, one: str, other: str) -> str:
    """Put two sessions together."""
    return " ".join(sorted(f"{one} {other}".split()))


def add_to_list(_key: str, value: str, values: str) -> str:
    """Add a value to a session."""
    return " ".join(sorted([*values.split(), value]))


def sessions(builder: StreamsBuilder, prefix: str) -> None:
    """Gather what lies close together: each change, and once when it is over."""
    grouped = builder.stream(f"{prefix}.in", key=str, value=str).group_by_key()
    gaps = grouped.windowed_by(SessionWindows(inactivity_gap=span(GAP_MS), grace=span(GRACE_MS)))
    lists = gaps.aggregate(str, add_to_list, merger=join_lists, value=str, store="lists")
    lists.to_stream(shown).to(f"{prefix}.changes", key=str, value=str, name="changes-out")
    closing = gaps.emit_strategy(EmitStrategy.on_window_close())
    last = closing.aggregate(str, add_to_list, merger=join_lists, value=str, store="last")
    last.to_stream(shown).to(f"{prefix}.out", key=str, value=str, name="last-out")


@dataclass(slots=True)
class _Session:
    start: int
    end: int
    values: list[str]

    def row(self, key: bytes | None) -> tuple[bytes, bytes]:
        """Return key and value as they are told."""
        return window_key(key, self.start, self.end), " ".join(sorted(self.values)).encode()


class SessionsModel:
    """The sessions of each key; none is late, for no record lies behind further than the grace."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._open: dict[bytes | None, list[_Session]] = defaultdict(list)

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        before = self._rows()
        for row in self._merged.order(rows):
            self._take(row)
        after = self._rows()
        gone = before.keys() - after.keys()
        touched = {key for key, row in after.items() if before.get(key) != row} | gone
        over: Counter[KeyValue] = Counter()
        for key, mine in self._open.items():
            horizon = record.watermark - GAP_MS - GRACE_MS
            over.update(session.row(key) for session in mine if session.end < horizon)
            self._open[key] = [session for session in mine if session.end >= horizon]
        return {"out": over, "changes": changes(before, after, touched)}

    def _rows(self) -> dict[bytes | None, bytes | None]:
        pairs = [session.row(key) for key, mine in self._open.items() for session in mine]
        return dict(pairs)

    def _take(self, row: Row) -> None:
        time, mine = row.timestamp, self._open[row.key]
        near = [s for s in mine if s.start - GAP_MS <= time <= s.end + GAP_MS]
        values = [value for session in near for value in session.values]
        start, end = (f([time, *moments]) for f, moments in self._bounds(near))
        rest = [session for session in mine if session not in near]
        self._open[row.key] = [*rest, _Session(start, end, [*values, text(row.value)])]

    @staticmethod
    def _bounds(near: list[_Session]) -> list[tuple[Callable[[list[int]], int], list[int]]]:
        return [(min, [s.start for s in near]), (max, [s.end for s in near])]


HELD_MS = 700
FEW_MAX = 2
FEW = BufferConfig.max_records(FEW_MAX).emit_early_when_full()


def suppressed(builder: StreamsBuilder, prefix: str) -> None:
    """Chain values, and tell of a key's chain only so often."""
    chains = builder.stream(f"{prefix}.in", key=str, value=str).group_by_key()
    held = Suppressed.until_time_limit(span(HELD_MS), BufferConfig.unbounded())
    table = chains.reduce(link, store="chains")
    table.suppress(held, name="held").to_stream().to(f"{prefix}.out", key=str, value=str)
    few = Suppressed.until_time_limit(span(HELD_MS), FEW)
    early = table.suppress(few, name="few").to_stream(name="early")
    early.to(f"{prefix}.early", key=str, value=str, name="early-out")


class SuppressedModel:
    """Chains; what is held back goes on with its last value, so long after its first change."""

    def __init__(self) -> None:
        self._merged = Merged()
        self._chains: dict[bytes | None, str] = {}
        self._times: dict[bytes | None, int] = defaultdict(lambda: -1)
        self._held: dict[bytes | None, int] = {}
        self._few: dict[int, dict[bytes | None, tuple[int, str]]] = defaultdict(dict)

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        rows = self._merged.order(rows)
        for row in rows:
            self._chains[row.key] = add_link(self._chains.get(row.key), text(row.value))
            self._times[row.key] = max(self._times[row.key], row.timestamp)
        for key in {row.key for row in rows}:
            self._held.setdefault(key, self._times[key])
        due = [key for key, time in self._held.items() if time + HELD_MS <= record.watermark]
        for key in due:
            del self._held[key]
        return {
            "out": Counter((key, self._chains[key].encode()) for key in due),
            "early": self._early(rows, record),
        }

    def _early(self, rows: list[Row], record: EpochRecord) -> Counter[KeyValue]:
        """Hold at most so many changes of a key group back; the oldest go on before their time."""
        told: Counter[KeyValue] = Counter()
        # A table tells of its keys in the order of their last changes.
        changed = dict.fromkeys(row.key for row in reversed(rows))
        for key in reversed(changed):
            group = key_group(key or b"", record.key_groups)
            held = self._few[group]
            time = held[key][0] if key in held else self._times[key]
            held[key] = time, self._chains[key]
            if len(held) > FEW_MAX:
                oldest = min(held, key=lambda name: (held[name][0], name or b""))
                told[oldest, held.pop(oldest)[1].encode()] += 1
        for held in self._few.values():
            due = [key for key, (time, _) in held.items() if time + HELD_MS <= record.watermark]
            told.update((key, held.pop(key)[1].encode()) for key in due)
        return told


KINDS = {
    "tumbling": Kind(
        build=tumbling,
        make=sometimes_late,
        model=TumblingModel,
        outputs=("out", "changes", "dead-letters"),
        environment=PATIENT,
    ),
    "hopping": Kind(build=hopping, make=timed, model=HoppingModel, environment=PATIENT),
    "sliding": Kind(build=sliding, make=timed, model=SlidingModel, environment=PATIENT),
    "sessions": Kind(
        build=sessions,
        make=timed,
        model=SessionsModel,
        outputs=("out", "changes"),
        environment=PATIENT,
    ),
    "suppressed": Kind(
        build=suppressed,
        make=timed,
        model=SuppressedModel,
        outputs=("out", "early"),
        environment=PATIENT,
    ),
}
