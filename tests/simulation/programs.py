"""The programs that run in the simulation, each with the versions that releases go through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

from mustela import BufferConfig, Materialized, StreamsBuilder, Suppressed, TimeWindows
from mustela.plan.plan import Plan
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from tests.simulation.broker import BASE_MS
from tests.simulation.oracle import (
    CountOracle,
    HistogramOracle,
    JoinOracle,
    Oracle,
    WindowOracle,
)

__all__ = ["PROGRAMS", "Program", "planned"]

WINDOW_MS = 2_000
GRACE_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program with its versions.

    Attributes:
        name: Its name.
        sources: Its source topics.
        build: Writes version ``n``; version 0 is the one that runs in the end.
        oracle: Makes what says which rows each epoch must write, whatever the version.
        versions: How many versions there are.
        timed: Whether records can come too late.
        settings: Settings of its own.
    """

    name: str
    sources: tuple[str, ...]
    build: Callable[[StreamsBuilder, int], None]
    oracle: Callable[[], Oracle]
    versions: int = 1
    timed: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def _count(builder: StreamsBuilder, version: int) -> None:
    """Version 1 does not log its store, version 2 calls it something else."""
    records = builder.stream("in", key=str, value=str).group_by_key()
    if version == 1:
        counts = records.count(materialized=Materialized(store="counts", logged=False))
    else:
        counts = records.count(store="renamed" if version == 2 else "counts")
    counts.to_stream().to("out", key=str, value=int)


def _two(builder: StreamsBuilder, version: int) -> None:
    """Version 1 reads only one of the topics."""
    records = builder.stream("in", key=str, value=str)
    if version == 0:
        records = records.merge(builder.stream("side", key=str, value=str))
    records.group_by_key().count(store="counts").to_stream().to("out", key=str, value=int)


def _words(builder: StreamsBuilder, version: int) -> None:
    records = builder.stream("in", key=str, value=str)
    words = records.group_by(lambda _key, value: value)
    words.count(store="words").to_stream().to("out", key=str, value=int)


def _histogram(builder: StreamsBuilder, version: int) -> None:
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    bars = counts.group_by(lambda key, count: (str(count), key), key=str, value=str)
    bars.count(store="bars").to_stream().to("out", key=str, value=int)


def _windows(builder: StreamsBuilder, version: int) -> None:
    """Version 1 has windows of another size."""
    size = timedelta(milliseconds=WINDOW_MS * (1 + version))
    windows = TimeWindows(size=size, grace=timedelta(milliseconds=GRACE_MS))
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    counts.count(store="windows").to_stream().map(_flat).to("out", key=str, value=int)


def _final(builder: StreamsBuilder, version: int) -> None:
    """Version 1 has windows of another size."""
    size = timedelta(milliseconds=WINDOW_MS * (1 + version))
    windows = TimeWindows(size=size, grace=timedelta(milliseconds=GRACE_MS))
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    closed = Suppressed.until_window_closes(BufferConfig.unbounded(), name="closed")
    finals = counts.count(store="windows").suppress(closed)
    finals.to_stream().map(_flat).to("out", key=str, value=int)


def _flat(window: Any, count: int) -> tuple[str, int]:
    return f"{window.key}@{window.start - BASE_MS}", count


def _join(builder: StreamsBuilder, version: int) -> None:
    table = builder.table("side", key=str, value=str, store="side")
    records = builder.stream("in", key=str, value=str)
    joined = records.join(table, lambda value, row: f"{value}+{row}", name="joined")
    joined.to("out", key=str, value=str)


PROGRAMS = {
    program.name: program
    for program in (
        Program(name="count", sources=("in",), build=_count, oracle=CountOracle, versions=3),
        Program(name="two", sources=("in", "side"), build=_two, oracle=CountOracle, versions=2),
        Program(
            name="words",
            sources=("in",),
            build=_words,
            oracle=lambda: CountOracle(lambda entry: [entry.value or b""]),
        ),
        Program(name="histogram", sources=("in",), build=_histogram, oracle=HistogramOracle),
        Program(
            name="windows",
            sources=("in",),
            build=_windows,
            oracle=lambda: WindowOracle(WINDOW_MS, GRACE_MS, final=False),
            versions=2,
            timed=True,
        ),
        Program(
            name="final",
            sources=("in",),
            build=_final,
            oracle=lambda: WindowOracle(WINDOW_MS, GRACE_MS, final=True),
            versions=2,
            timed=True,
        ),
        Program(name="join", sources=("in", "side"), build=_join, oracle=JoinOracle),
    )
}
"""Every program by name."""


@cache
def planned(name: str, version: int) -> Plan:
    """Return the plan of a version of a program."""
    builder = StreamsBuilder()
    PROGRAMS[name].build(builder, version)
    return plan(builder.build(), options=PlanOptions())
