"""From the runs' numbers to the result file: medians with minimum and maximum, latencies merged."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import percentiles, spread
from benchmarks.peers.registry import CONTESTANTS, Contestant
from benchmarks.trial import CatchUp, FixedLoad

RESULTS = Path(__file__).parent / "results"
_LATENCY_SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

_COUNTED = {"runs": "catch_up", "latency_runs": "fixed_load"}
"""What the head of the result file says, and the kind of run that it counts."""
_MAY_DIFFER = ("load_before",)
_BESIDE_NUMBERS = ("kind", "records", "window")

Json = dict[str, object]


@dataclass(slots=True)
class Row:
    """All runs of one contestant on one workload; what it says of them is worked out from them.

    Attributes:
        runs: One document a run, as the file of runs holds them: kind, numbers, and what belongs
            to the kind.
    """

    runs: list[Json] = field(default_factory=list)

    def add_catch_up(self, measured: CatchUp, records: int) -> None:
        """Take in a catch-up run over so many records."""
        more = {"records": records, "window": measured.window.method}
        self._add("catch_up", measured.numbers(), more)

    def add_fixed_load(self, measured: FixedLoad) -> None:
        """Take in a fixed-load run."""
        shown = dict(zip(_LATENCY_SHARES, _tail(measured.latencies_ms), strict=True))
        tenths = Counter(round(value, 1) for value in measured.latencies_ms)
        counts = {str(value): count for value, count in sorted(tenths.items())}
        self._add("fixed_load", measured.numbers, {"latency_ms": shown, "latency_counts": counts})

    def add_numbers(self, kind: str, numbers: dict[str, float]) -> None:
        """Take in numbers of another kind of run."""
        self._add(kind, numbers, {})

    def add_fault(self, fault: str) -> None:
        """Take in a run that failed or whose output was wrong: it has no number."""
        self.runs.append({"fault": fault})

    @property
    def faults(self) -> list[str]:
        """What went wrong, run by run."""
        return [str(run["fault"]) for run in self.runs if "fault" in run]

    def count(self, kind: str) -> int:
        """How many runs of a kind have numbers."""
        return sum(run.get("kind") == kind for run in self.runs)

    def _add(self, kind: str, numbers: dict[str, float], more: Json) -> None:
        rounded = {name: round(value, 4) for name, value in numbers.items()}
        self.runs.append({"kind": kind, **rounded, **more})

    def summary(self) -> Json:
        """The row as the result file holds it; names with a dot become groups."""
        out: Json = {}
        for name, values in self._numbers().items():
            place = out
            *groups, last = name.split(".")
            for group in groups:
                inner = place.setdefault(group, {})
                assert isinstance(inner, dict), "a group and a number share a name"
                place = inner
            place[last] = spread(values)
        latencies = self._latencies_ms()
        if latencies:
            out["latency_ms"] = dict(zip(_LATENCY_SHARES, _tail(latencies), strict=True))
        for run in self.runs:
            if "records" in run:
                out["records"] = run["records"]
        methods = {str(run["window"]) for run in self.runs if "window" in run}
        if methods:
            out["window"] = "/".join(sorted(methods))
        if self.faults:
            out["faults"] = self.faults
        return out

    def _numbers(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for run in self.runs:
            for name, value in run.items():
                if name not in _BESIDE_NUMBERS and isinstance(value, int | float):
                    found.setdefault(name, []).append(value)
        return found

    def _latencies_ms(self) -> list[float]:
        merged: Counter[float] = Counter()
        for run in self.runs:
            counts = run.get("latency_counts", {})
            assert isinstance(counts, dict), "latencies are counted by value"
            merged.update({float(value): count for value, count in counts.items()})
        return list(merged.elements())


def _tail(latencies_ms: list[float]) -> list[float]:
    shares = list(_LATENCY_SHARES.values())
    return [round(value, 2) for value in percentiles(latencies_ms, shares)]


class OtherRunsError(Exception):
    """The runs in the folder are of another workload or machine: there is nothing to add to."""


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
        counts = {
            name: max((row.count(kind) for row in self.rows.values()), default=0)
            for name, kind in _COUNTED.items()
        }
        return {"machine": self.machine, "workload": {**self.workload, **counts}, "peers": peers}

    def add_runs_of(self, folder: Path) -> None:
        """Begin with the runs that an earlier call wrote, as if they were made by this one.

        Raises:
            OtherRunsError: If they are of other records, settings or another machine.
        """
        name = str(self.workload["name"])
        file = folder / f"{name}.json"
        if not file.exists():
            return
        earlier = json.loads(file.read_text())
        for part, mine in (("machine", self.machine), ("workload", self.workload)):
            for key, value in mine.items():
                theirs = earlier[part].get(key)
                if key not in _MAY_DIFFER and theirs != value:
                    raise OtherRunsError(f"{file}: {part} has {key} {theirs}, now it is {value}")
        self.machine = earlier["machine"]
        rows = {(one.peer, one.guarantee): one for one in CONTESTANTS}
        for line in (folder / "runs" / f"{name}.jsonl").read_text().splitlines():
            run = json.loads(line)
            self.row(rows[run.pop("peer"), run.pop("guarantee")]).runs.append(run)

    def write(self, folder: Path) -> Path:
        """Write the result file, and beside it each single run."""
        name = str(self.workload["name"])
        runs = folder / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"peer": contestant.peer, "guarantee": contestant.guarantee, **run})
            for contestant, row in self.rows.items()
            for run in row.runs
        ]
        (runs / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        file = folder / f"{name}.json"
        file.write_text(json.dumps(self.document(), indent=2) + "\n")
        return file
