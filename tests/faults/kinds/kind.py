"""What a kind of application is: what it does, what it is fed, and what must come out of it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from mustela import StreamsBuilder
from mustela.runtime.epoch_record import EpochRecord
from tests.faults.watch import Row, Seen

__all__ = [
    "SHOWN_MAX",
    "Build",
    "Expected",
    "Inputs",
    "Kind",
    "MakeRecord",
    "Merged",
    "Model",
    "Outcome",
    "Rows",
    "Sent",
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
Expected = dict[str, Counter[tuple[bytes | None, bytes | None]]]


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
        more_inputs: Topics that it reads and others write.
        outputs: The topics that it writes; ``dead-letters`` are the application's.
        has_state: Whether it has stores.
        row_of: Where the rows of a key come out in the order of its records, what a record becomes;
            None where it becomes nothing.
        environment: Settings that it needs.
    """

    build: Build
    make: MakeRecord
    model: Callable[[], Model] | None = None
    outcome: Outcome | None = None
    inputs: tuple[str, ...] = ("in",)
    more_inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out",)
    has_state: bool = True
    row_of: Callable[[Row], str | None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class Merged:
    """The merged order of partitions: the newest time of a record's partition comes first.

    Args:
        topics: The topics without prefix, in the order in which the application reads them.
    """

    def __init__(self, *topics: str) -> None:
        self._topics = topics or ("in",)
        self._newest: dict[tuple[str, int], int] = defaultdict(lambda: -1)

    def order(self, rows: list[Row]) -> list[Row]:
        """Return an epoch's rows in order."""
        return [row for *_, row in sorted(self._placed(rows), key=lambda placed: placed[:-1])]

    def _placed(self, rows: list[Row]) -> Iterable[tuple[int, int, int, int, Row]]:
        for row in rows:
            place = row.topic, row.partition
            self._newest[place] = max(self._newest[place], row.timestamp)
            index = self._topics.index(row.topic)
            yield self._newest[place], index, row.partition, row.offset, row


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
