"""The programs that run in the simulation, each with the versions that releases go through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mustela import StreamsBuilder
from mustela.plan.plan import Plan
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from tests.simulation import topologies
from tests.simulation.oracle import (
    CountOracle,
    EachOracle,
    HistogramOracle,
    JoinOracle,
    LastOracle,
    Oracle,
    RenamedOracle,
    WindowOracle,
)
from tests.simulation.oracle_streams import (
    BranchOracle,
    GlobalOracle,
    PairsOracle,
    TwiceOracle,
    VersionedOracle,
)
from tests.simulation.oracle_tables import (
    CallOracle,
    HeldBackOracle,
    SessionOracle,
    Table,
    TableOracle,
    TickOracle,
    TimerOracle,
)
from tests.simulation.topologies import GAP_MS, GRACE_MS, JOIN_MS, WAIT_MS, WINDOW_MS

__all__ = ["GROWN", "KEYS", "PROGRAMS", "Program", "planned"]

GROWN = 9
"""The version that every program has: it reads one more topic, into one more store."""

KEYS = [f"k{n}".encode() for n in range(6)]
"""The keys of all records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program with its versions.

    Attributes:
        name: Its name.
        sources: Its source topics.
        build: Writes version ``n``; version 0 is the one that runs in the end.
        oracle: Makes what says which rows each epoch must write, whatever the version.
        versions: How many versions there are, beside the one that all programs have.
        releases: Versions that are drawn by default.
        stuck: With which codes version 0 may stop for good after another version ran.
        timed: Whether records can come too late.
        restless: Whether it commits although nothing comes.
        global_: Source topics of global tables.
        tables: Source topics in which a record may be a deletion.
        settings: Settings of its own.
    """

    @property
    def is_loose(self) -> bool:
        """Whether rows may be there more than once."""
        return self.settings.get("processing_guarantee") == "at_least_once"

    name: str
    sources: tuple[str, ...]
    build: Callable[[StreamsBuilder, int], None]
    oracle: Callable[[], Oracle]
    versions: int = 1
    releases: tuple[int, ...] = ()
    stuck: Mapping[int, frozenset[str]] = field(default_factory=dict)
    timed: bool = False
    restless: bool = False
    global_: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def _words() -> Oracle:
    return CountOracle(lambda entry: [entry.value or b""])


def _outer(left: Table, right: Table) -> Table:
    return {
        key: left.get(key, b"") + b"+" + right.get(key, b"") for key in left.keys() | right.keys()
    }


def _own(_left: Table, _right: Table, _side: int, key: bytes) -> list[bytes]:
    return [key]


def _referred(value: bytes) -> bytes:
    return b"k" + value[1:]


def _by_reference(left: Table, right: Table) -> Table:
    return {
        key: value + b"+" + right[_referred(value)]
        for key, value in left.items()
        if _referred(value) in right
    }


def _referring(left: Table, _right: Table, side: int, key: bytes) -> list[bytes]:
    return [key] if side == 0 else [k for k, value in left.items() if _referred(value) == key]


def _one(name: str, oracle: Callable[[], Oracle], **more: Any) -> Program:
    build = getattr(topologies, more.pop("build", name))
    return Program(name=name, sources=("in",), build=build, oracle=oracle, **more)


def _pair(name: str, oracle: Callable[[], Oracle], **more: Any) -> Program:
    build = getattr(topologies, more.pop("build", name))
    return Program(name=name, sources=("in", "side"), build=build, oracle=oracle, **more)


_LOOSE = {"processing_guarantee": "at_least_once"}
_SLEPT = frozenset({"STORE_SLEPT"})
_INCOMPLETE = frozenset({"CHANGELOG_INCOMPLETE"})

PROGRAMS = {
    program.name: program
    for program in (
        _one(
            "count",
            RenamedOracle,
            versions=5,
            releases=(2, 3, 3, 4),
            stuck={1: _INCOMPLETE, 2: _SLEPT},
        ),
        _pair("two", CountOracle, versions=2, releases=(1,)),
        _one("words", _words),
        _one("each", EachOracle, build="count", settings={"emit": "every"}),
        _one("loose", CountOracle, build="count", settings=_LOOSE),
        _one("loose_words", _words, build="words", settings=_LOOSE),
        _one(
            "loose_final",
            lambda: WindowOracle(WINDOW_MS, GRACE_MS, final=True),
            build="final",
            timed=True,
            settings=_LOOSE,
        ),
        _one("histogram", HistogramOracle),
        _one("twice", TwiceOracle),
        _one("branches", BranchOracle),
        _one(
            "windows",
            lambda: WindowOracle(WINDOW_MS, GRACE_MS, final=False),
            versions=2,
            releases=(1,),
            timed=True,
        ),
        _one(
            "final",
            lambda: WindowOracle(WINDOW_MS, GRACE_MS, final=True),
            versions=2,
            releases=(1,),
            timed=True,
        ),
        _one(
            "sessions",
            lambda: SessionOracle(GAP_MS, GRACE_MS, final=False),
            versions=2,
            releases=(1,),
            timed=True,
        ),
        _one("settled", lambda: SessionOracle(GAP_MS, GRACE_MS, final=True), timed=True),
        _one("indexed", LastOracle),
        _one("held_back", lambda: HeldBackOracle(WAIT_MS), timed=True),
        _one("timers", lambda: TimerOracle(WAIT_MS), timed=True),
        _one("ticks", TickOracle, restless=True),
        _one("calls", CallOracle),
        _pair("join", JoinOracle, tables=("side",)),
        _pair("global", GlobalOracle, build="global_", global_=("side",)),
        _pair("pairs", lambda: PairsOracle(JOIN_MS, GRACE_MS), timed=True),
        _pair("alone", lambda: PairsOracle(JOIN_MS, GRACE_MS, alone=(0, 1)), timed=True),
        _pair("versioned", lambda: VersionedOracle(WAIT_MS), timed=True, tables=("side",)),
        _pair("tables", lambda: TableOracle(_outer, _own), tables=("in", "side")),
        _pair("foreign", lambda: TableOracle(_by_reference, _referring), tables=("in", "side")),
    )
}
"""Every program by name."""


@cache
def planned(name: str, version: int) -> Plan:
    """Return the plan of a version of a program."""
    builder = StreamsBuilder()
    program = PROGRAMS[name]
    program.build(builder, 0 if version == GROWN else version)
    if version == GROWN:
        topologies.grow(builder)
    return plan(builder.build(), options=PlanOptions(emit=program.settings.get("emit", "barrier")))
