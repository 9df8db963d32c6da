"""From the runs' numbers to the result file: medians with minimum and maximum, latencies merged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import percentiles, spread
from benchmarks.peers.registry import Contestant
from benchmarks.trial import CatchUp, FixedLoad

RESULTS = Path(__file__).parent / "results"
_LATENCY_SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

Json = dict[str, object]


@dataclass(slots=True)
class Row:
    """All runs of one contestant on one workload."""

    numbers: dict[str, list[float]] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    runs: list[Json] = field(default_factory=list)
    records: int = 0

    def add_catch_up(self, measured: CatchUp, records: int) -> None:
        """Take in a catch-up run over so many records."""
        self.records = records
        self._add("catch_up", measured.numbers())
        self.methods.append(measured.window.method)

    def add_fixed_load(self, measured: FixedLoad) -> None:
        """Take in a fixed-load run."""
        shown = dict(zip(_LATENCY_SHARES, _tail(measured.latencies_ms), strict=True))
        self._add("fixed_load", measured.numbers, {"latency_ms": shown})
        self.latencies_ms.extend(measured.latencies_ms)

    def add_numbers(self, kind: str, numbers: dict[str, float]) -> None:
        """Take in numbers of another kind of run."""
        self._add(kind, numbers)

    def add_fault(self, fault: str) -> None:
        """Take in a run that failed or whose output was wrong: it has no number."""
        self.faults.append(fault)
        self.runs.append({"fault": fault})

    def _add(self, kind: str, numbers: dict[str, float], more: Json | None = None) -> None:
        for name, value in numbers.items():
            self.numbers.setdefault(name, []).append(value)
        rounded = {name: round(value, 4) for name, value in numbers.items()}
        self.runs.append({"kind": kind, **rounded, **(more or {})})

    def summary(self) -> Json:
        """The row as the result file holds it; names with a dot become groups."""
        out: Json = {}
        for name, values in self.numbers.items():
            place = out
            *groups, last = name.split(".")
            for group in groups:
                inner = place.setdefault(group, {})
                assert isinstance(inner, dict), "a group and a number share a name"
                place = inner
            place[last] = spread(values)
        if self.latencies_ms:
            out["latency_ms"] = dict(zip(_LATENCY_SHARES, _tail(self.latencies_ms), strict=True))
        if self.records:
            out["records"] = self.records
        if self.methods:
            out["window"] = "/".join(sorted(set(self.methods)))
        if self.faults:
            out["faults"] = self.faults
        return out


def _tail(latencies_ms: list[float]) -> list[float]:
    shares = list(_LATENCY_SHARES.values())
    return [round(value, 2) for value in percentiles(latencies_ms, shares)]


@dataclass(slots=True, kw_only=True)
class Results:
    """One workload's results, in the making."""

    machine: Json
    workload: Json
    rows: dict[Contestant, Row] = field(default_factory=dict)

    def row(self, contestant: Contestant) -> Row:
        """A contestant's row, made when first asked for."""
        return self.rows.setdefault(contestant, Row())

    def document(self) -> Json:
        """What is written: machine, workload, then peer by peer and guarantee by guarantee."""
        peers: dict[str, dict[str, Json]] = {}
        for contestant, row in self.rows.items():
            peers.setdefault(contestant.peer, {})[contestant.guarantee] = row.summary()
        return {"machine": self.machine, "workload": self.workload, "peers": peers}

    def write(self, folder: Path) -> Path:
        """Write the result file, and beside it each single run."""
        name = str(self.workload["name"])
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.json"
        file.write_text(json.dumps(self.document(), indent=2) + "\n")
        runs = folder / "runs"
        runs.mkdir(exist_ok=True)
        lines = [
            json.dumps({"peer": contestant.peer, "guarantee": contestant.guarantee, **run})
            for contestant, row in self.rows.items()
            for run in row.runs
        ]
        (runs / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        return file
