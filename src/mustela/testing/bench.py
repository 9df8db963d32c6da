"""The speed of a topology in one process: its kernel, and nothing around it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from mustela.clock import Clock
from mustela.plan.epoch import TaskReport
from mustela.testing.cluster import JobResult
from mustela.testing.driver import TopologyTestDriver
from mustela.testing.row import BrokerRow

__all__ = ["Benched", "Input", "StepTime", "bench"]


class Input(NamedTuple):
    """A record to be processed; bytes are taken as they are, anything else is encoded.

    Attributes:
        topic: A source topic.
        key: Its key.
        value: Its value.
        timestamp: Milliseconds; None for the time of the start.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int | None = None


@dataclass(slots=True)
class StepTime:
    """What went through a step.

    Attributes:
        taken: Records that it took in.
        given: Records that it passed on, or wrote.
        cpu_s: Processor time in it, in seconds.
    """

    taken: int = 0
    given: int = 0
    cpu_s: float = 0.0


@dataclass(slots=True)
class Benched:
    """What was measured.

    Attributes:
        records: Records that the sources read.
        epochs: Epochs that they were cut into.
        seconds: Time that these took, in seconds.
        cpu_s: Processor time of this process meanwhile, in seconds.
        bytes_in: Bytes of the keys and values read.
        bytes_out: Bytes of the keys and values written to topics.
        bytes_logged: Bytes of the keys and values for changelogs.
        steps: By step, in the order of the program.
    """

    records: int = 0
    epochs: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_logged: int = 0
    steps: dict[str, StepTime] = field(default_factory=dict[str, StepTime])


class _Measured(TopologyTestDriver):
    """A driver that measures its epochs, and forgets what they wrote."""

    __test__ = False

    def __init__(self, subject: object, settings: Mapping[str, Any], *, lanes: int) -> None:
        super().__init__(subject, dict(settings), lanes=lanes)
        self.reports: list[TaskReport] = []
        self.bytes_out = self.bytes_logged = 0
        self._encoded: list[BrokerRow] = []
        self._options = replace(self._options, timer=time.process_time)

    def rows_of(self, inputs: Iterable[Input]) -> Iterator[BrokerRow]:
        """Encode records."""
        topics: dict[tuple[str, bool, bool], Any] = {}
        for name, key, value, timestamp in inputs:
            raw = isinstance(key, bytes), isinstance(value, bytes)
            topic = topics.get((name, *raw))
            if topic is None:
                said = [bytes if is_raw else None for is_raw in raw]
                topic = topics[name, *raw] = self.create_input_topic(
                    name, key=said[0], value=said[1]
                )
            topic.pipe_input(key, value, timestamp)
            yield self._encoded.pop()

    def run_epoch(self, rows: list[BrokerRow]) -> None:
        """Run an epoch of these records."""
        self._run_all(rows, grouped=True)

    def _pipe(self, rows: Sequence[BrokerRow]) -> None:
        self._encoded += rows

    def _commit(self, result: JobResult) -> list[BrokerRow]:
        self.reports += result.reports
        for changes in result.changes.values():
            for rows in changes.values():
                self.bytes_logged += sum(len(key) + len(row or b"") for key, row in rows)
        written = super()._commit(result)
        self.bytes_out += sum(map(_size, written))
        self._cluster.outputs.clear()
        return written


def bench(
    subject: object,
    inputs: Iterable[Input],
    *,
    clock: Clock,
    settings: Mapping[str, Any] | None = None,
    epoch_records: int = 10_000,
    lanes: int = 1,
) -> Benched:
    """Run records through a topology in this process, and measure that.

    Decoding, all steps, the exchanges between them and stores in memory are measured. Not measured
    are the broker and its network, Spark and its processes, the local database, and the commit.

    Args:
        subject: An application, a builder or a topology.
        inputs: The records; encoding them is not measured.
        clock: Monotonic time.
        settings: Settings over those of the application.
        epoch_records: How many records an epoch has.
        lanes: How many lanes; they run one after another.

    Example:
        >>> from mustela import StreamsBuilder
        >>> from mustela.clock import SystemClock
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> words.map_values(str.upper, name="loud").to("out", value=str)
        >>> found = bench(builder, [Input("words", "k", "v")] * 300, clock=SystemClock())
        >>> found.records, found.bytes_in, found.bytes_out, found.steps["loud"].taken
        (300, 600, 600, 300)
    """
    found = Benched()
    with _Measured(subject, settings or {}, lanes=lanes) as driver:
        rows = driver.rows_of(inputs)
        while batch := list(islice(rows, epoch_records)):
            found.records += len(batch)
            found.epochs += 1
            found.bytes_in += sum(map(_size, batch))
            wall, cpu = clock.monotonic(), time.process_time()
            driver.run_epoch(batch)
            found.seconds += clock.monotonic() - wall
            found.cpu_s += time.process_time() - cpu
        found.bytes_out, found.bytes_logged = driver.bytes_out, driver.bytes_logged
        for report in driver.reports:
            _add(found.steps, report)
    return found


def _add(steps: dict[str, StepTime], report: TaskReport) -> None:
    measured = report.measured
    for name in {**measured.taken, **measured.given, **measured.seconds}:
        step = steps.setdefault(name, StepTime())
        step.taken += measured.taken.get(name, 0)
        step.given += measured.given.get(name, 0)
        step.cpu_s += measured.seconds.get(name, 0.0)


def _size(row: BrokerRow) -> int:
    return len(row.key or b"") + len(row.value or b"")
