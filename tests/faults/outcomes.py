"""What must have come out in the end, where it comes in later epochs than what it comes from.

Answers of a service, replies, timers and ticks: which epoch they are in is nobody's to foresee, but
each is there once, and those of a key are in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from tests.faults.apps import EVENT_DELAY_MS
from tests.faults.watch import Row, Seen

__all__ = ["OUTCOMES", "Outcome"]

Inputs = Mapping[int, list[Row]]
Rows = Mapping[str, list[Row]]
T = TypeVar("T")
SHOWN_MAX = 4
TICKS_MIN = 20
LENGTHS_MS = {"beat": 200, "second": 1_000}


class Outcome(Protocol):
    """Says what is still to come, and what is wrong with what came."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        """Return how many rows are still to come, by topic without prefix."""
        ...

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        """Return what is wrong, in words."""
        ...


class Answers:
    """Each record has one answer, and those of a key are in the order of its records."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        return sum(map(len, inputs.values())) - len(rows["out"])

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        wanted: dict[str, list[str]] = defaultdict(list)
        for row in every(inputs):
            wanted[text(row.key)].append(text(row.value).partition("?")[0].upper())
        got: dict[str, list[str]] = defaultdict(list)
        for row in rows["out"]:
            got[text(row.key)].append(text(row.value))
        return [
            f"key {key}: {got[key][:SHOWN_MAX]}... is not {wanted[key][:SHOWN_MAX]}..., "
            f"{len(got[key])} answers to {len(wanted[key])} records"
            for key in sorted(wanted.keys() | got.keys())
            if got[key] != wanted[key]
        ]


class Replies:
    """Each record has asked once, and goes on once with the reply to what it asked."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        return sum(map(len, inputs.values())) - len(rows["out"])

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        asked = Counter(text(row.value) for row in every(inputs))
        wanted = Counter(
            (text(row.key), f"{text(row.value)}={text(row.value).upper()}") for row in every(inputs)
        )
        got = Counter((text(row.key), text(row.value)) for row in rows["out"])
        requests = Counter(text(row.value) for row in rows["requests"])
        return [
            *differences("requests", asked, requests),
            *differences("joined with replies", wanted, got),
        ]


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


OUTCOMES: dict[str, Outcome] = {
    "asking": Answers(),
    "replies": Replies(),
    "timers": Fired(),
    "ticks": Ticks(),
}


def every(inputs: Inputs) -> Iterable[Row]:
    """Return the records of all partitions."""
    return (row for rows in inputs.values() for row in rows)


def text(value: bytes | None) -> str:
    """Decode what is there."""
    return (value or b"").decode()


def differences(what: str, wanted: Counter[T], got: Counter[T]) -> list[str]:
    """Return in words how what came differs from what should."""
    missing, extra = wanted - got, got - wanted
    if not missing and not extra:
        return []
    return [
        f"{what}: {missing.total()} missing, {extra.total()} too many; "
        f"missing {list(missing)[:SHOWN_MAX]}, too many {list(extra)[:SHOWN_MAX]}"
    ]
