"""Two trees of Mustela's sources side by side: ``python -m benchmarks.paired OTHER WORKLOAD``.

The same program works off the same topic on the same broker, with the sources of this tree and with
those of another one (a git worktree of an older commit), in turns: forwards, backwards, and so on.
Each output is held against the oracle before the run has a number. What is compared is processor
time, of driver, JVM and workers, because that of the clock says more of what else the machine does;
what is reported is the ratio of this tree's run to the other's, turn by turn. The driver's is its
own process alone. With ``--set commit.writers=lanes`` this tree runs with a setting, and the other,
which may be the same tree, without it.

``--load`` takes the fixed load too: processor time at a thousand records a second, and at rest.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.in_turns import Numbers, Turns, in_turns, medians, ratios_of
from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.peers.registry import Contestant
from benchmarks.trial import FixedLoad, LoadPlan, bench_of_its_own
from benchmarks.workloads import WORKLOADS

_RESULTS = Path(__file__).parent / "results" / "paired.jsonl"
ROOT = Path(__file__).parent.parent
_CATCH_UP = (
    "run_cpu_s",
    "cpu_s_per_million",
    "broker_cpu_s_per_million",
    "driver_cpu_s_per_million",
    "records_per_s",
    "peak_pss_mb",
)
_LOAD = ("fixed_load.cpu_percent", "fixed_load.broker_cpu_percent", "idle_cpu_percent")


@dataclass(slots=True)
class _Tree(MustelaPeer):
    """Mustela as it is in some tree; the programs are those of this one."""

    sources: Path = field(default=ROOT)
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    def environment(self) -> Mapping[str, str]:
        path = os.pathsep.join([str(self.sources / "src"), str(ROOT)])
        return {**MustelaPeer.environment(self), "PYTHONPATH": path, **self.settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Contestant):
    """One of the two."""

    sources: Path
    settings: tuple[tuple[str, str], ...] = ()

    def build(self, assignment: Assignment) -> Peer:
        return _Tree(assignment, sources=self.sources, settings=dict(self.settings))


def compare(given: argparse.Namespace) -> dict[str, object]:
    """Run both in turns; return the numbers of each turn, and the medians of their ratios."""
    workload = WORKLOADS[given.workload]
    if given.partitions:
        workload = workload.on(given.partitions)
    sides = [
        Side(peer=name, guarantee=given.guarantee, sources=tree, settings=settings)
        for name, tree, settings in (
            ("this", ROOT, tuple(map(variable, given.set))),
            ("other", given.other.resolve(), ()),
        )
    ]
    what = Turns(
        turns=given.turns,
        records=given.records,
        caught_up=lambda seen: {what: round(seen[what], 3) for what in _CATCH_UP},
        loaded=_under_load if given.load else None,
    )
    with bench_of_its_own("paired", LoadPlan(warm_up_s=5, measure_s=20, idle_s=15)) as bench:
        turns = in_turns(bench, workload, sides, what)
    ratios = ratios_of(turns["this"], turns["other"])
    return {
        "workload": workload.name,
        "guarantee": given.guarantee,
        "records": given.records,
        "against": given.label,
        "settings": given.set,
        "median_ratio": medians(ratios),
        "ratios": ratios,
        **turns,
    }


def variable(told: str) -> tuple[str, str]:
    """Return the variable of the environment that makes a setting, told as NAME=VALUE."""
    name, _, value = told.partition("=")
    return f"MUSTELA__{name.replace('.', '__').upper()}", value


def _under_load(_side: Contestant, _todo: Assignment, held: FixedLoad) -> Numbers:
    return {what: round(held.numbers[what], 3) for what in _LOAD}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a tree of the repository at another commit")
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--label", default="", help="what the results call the other tree")
    parser.add_argument("--set", action="append", default=[], help="of this one: NAME=VALUE")
    parser.add_argument("--turns", type=int, default=4, help="of each; one more does not count")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--guarantee", choices=("eos", "alo"), default="eos")
    parser.add_argument("--load", action="store_true", help="with a fixed load, and at rest")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    given = parser.parse_args()
    found = compare(given)
    with given.out.open("a") as file:
        file.write(json.dumps({"processors": os.cpu_count(), **found}) + "\n")
    print(json.dumps(found["median_ratio"]))


if __name__ == "__main__":
    main()
