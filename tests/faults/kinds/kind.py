"""What a kind of application is: what it does, what it is fed, and what must come out of it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from mustela import StreamsBuilder
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.stores import Snapshot
from tests.faults.watch import Row, Seen

__all__ = [
    "SHOWN_MAX",
    "Build",
    "Changes",
    "Expected",
    "Inputs",
    "KeyValue",
    "Kind",
    "MakeRecord",
    "Merged",
    "Model",
    "Outcome",
    "Rows",
    "Sent",
    "Table",
    "Wanted",
    "changes",
    "differences",
    "every",
    "number",
    "text",
]

T = TypeVar("T")
SHOWN_MAX = 4
Build = Callable[[StreamsBuilder, str], None]
Inputs = Mapping[tuple[str, int], list[Row]]
"""By topic without prefix, and partition, the committed input."""
Rows = Mapping[str, list[Row]]
"""By topic without prefix, the rows that were seen."""
KeyValue = tuple[bytes | None, bytes | None]
Table = dict[bytes | None, bytes | None]


class Changes(NamedTuple):
    """What an epoch tells of a table.

    Attributes:
        required: By key, rows that are other than before; None is a deletion.
        allowed: By key, rows that were touched and are what they were.
    """

    required: Table
    allowed: Table


Wanted = Counter[KeyValue] | list[KeyValue] | Changes
"""Rows in any order; rows that of each key come in this order; or changes of a table."""
Expected = dict[str, Any]
"""By topic without prefix, a `Wanted`."""


class Sent(NamedTuple):
    """A record of the input.

    Attributes:
        key: Its key.
        value: Its value; None deletes a row of a table.
        topic: Where it goes, without prefix.
        timestamp: Its time in milliseconds; None is when it is sent.
    """

    key: str
    value: str | None
    topic: str = "in"
    timestamp: int | None = None


MakeRecord = Callable[[random.Random, int], Sent]
"""Makes the record of a number."""


class Model(Protocol):
    """A fold over the input that says what each epoch writes."""

    def step(self, rows: list[Row], actual: Rows, record: EpochRecord) -> Expected:
        """Take an epoch's input; return what its rows must be, by topic without prefix."""
        ...


class Outcome(Protocol):
    """Says what is still to come, and what is wrong with what came."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        """Return how many rows are still to come."""
        ...

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        """Return what is wrong, in words."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An application under faults.

    Attributes:
        build: Builds its topology, given the prefix of its topics.
        make: Makes its input.
        model: What each epoch writes, where its input alone says so.
        outcome: What is there in the end, where no model says it epoch by epoch.
        inputs: The topics that are fed, without prefix.
        global_inputs: The topics of its global tables, which are fed, too.
        more_inputs: Topics that it reads and others write.
        outputs: The topics that it writes; ``dead-letters`` are the application's.
        has_state: Whether it has stores.
        row_of: Where the rows of a key come out in the order of its records, what a record becomes;
            None where it becomes nothing.
        environment: Settings that it needs.
        read: What a reader inside of the application reads of a snapshot; None for no reader.
        state: What that must be, by the model.
    """

    build: Build
    make: MakeRecord
    model: Callable[[], Model] | None = None
    outcome: Outcome | None = None
    inputs: tuple[str, ...] = ("in",)
    global_inputs: tuple[str, ...] = ()
    more_inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out",)
    has_state: bool = True
    row_of: Callable[[Row], str | None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    read: Callable[[Snapshot], Iterable[tuple[str, Any]]] | None = None
    state: Callable[[Any], Iterable[tuple[str, Any]]] | None = None


class Merged:
    """The merged order of partitions: the newest time of a record's partition comes first.

    Of topics, that whose name comes first.
    """

    def __init__(self) -> None:
        self.before = -1
        self._newest: dict[tuple[str, int], int] = defaultdict(lambda: -1)

    def order(self, rows: list[Row]) -> list[Row]:
        """Return an epoch's rows in order."""
        return [row for *_, row in sorted(self._placed(rows), key=lambda placed: placed[:-1])]

    def judged(self, rows: list[Row], watermark: int) -> list[tuple[Row, int]]:
        """Return an epoch's rows in order, and the time at which each is judged.

        Args:
            rows: The rows.
            watermark: Behind the epoch; where it was before is remembered.
        """
        before, self.before = self.before, watermark
        placed = sorted(self._placed(rows), key=lambda placed: placed[:-1])
        return [(row, max(before, min(time, watermark))) for time, *_, row in placed]

    def _placed(self, rows: list[Row]) -> Iterable[tuple[int, str, int, int, Row]]:
        for row in rows:
            place = row.topic, row.partition
            self._newest[place] = max(self._newest[place], row.timestamp)
            yield self._newest[place], *place, row.offset, row


def changes(before: Table, after: Table, touched: Iterable[bytes | None]) -> Changes:
    """Return what an epoch tells of a table; no row is the same as None."""
    keys = set(touched)
    required = {key: after.get(key) for key in keys if before.get(key) != after.get(key)}
    same = keys - required.keys()
    return Changes(required, {key: row for key in same if (row := after.get(key)) is not None})


def every(inputs: Inputs) -> Iterable[Row]:
    """Return the records of all partitions."""
    return (row for rows in inputs.values() for row in rows)


def text(value: bytes | None) -> str:
    """Decode a value that is there."""
    assert value is not None
    return value.decode()


def number(value: int) -> bytes:
    """Encode as Kafka's long."""
    return value.to_bytes(8, "big")


def differences(what: str, wanted: Counter[T], got: Counter[T]) -> list[str]:
    """Return in words how what came differs from what should."""
    missing, extra = wanted - got, got - wanted
    if not missing and not extra:
        return []
    return [
        f"{what}: {missing.total()} missing, {extra.total()} too many; "
        f"missing {list(missing)[:SHOWN_MAX]}, too many {list(extra)[:SHOWN_MAX]}"
    ]
