"""What a release's figures were, kept, and whether today's are worse by more than the machine is.

Machines differ, and one machine differs from hour to hour. So what is compared is not seconds, but
the ratio to Kafka Streams in the same interleaved runs, and for the kernel the ratio to a plain
loop of Python timed beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mustela
from benchmarks.picture import RIVAL, SUBJECT
from benchmarks.results import RESULTS

RELEASES = "releases"
LAST = "last"
_WORSE = 0.05
"""A change of less is none that anybody would look for."""
_FEWEST_RUNS = 3
_DRAWS = 2_000
_TAIL = 0.025
_KERNEL = "kernel.jsonl"

_MEASURES = {
    "records/s": ("catch_up", "records_per_s", True),
    "CPU with broker's": ("catch_up", "total_cpu_s_per_million", False),
    "peak memory": ("catch_up", "peak_pss_mb", False),
    "p95": ("fixed_load", "latency_ms.p95", False),
    "CPU at the fixed load": ("fixed_load", "fixed_load.cpu_percent", False),
}
"""Kind of run, name of the number in it, and whether more is better."""

Runs = Sequence[Mapping[str, object]]


class NoSuchReleaseError(Exception):
    """Nothing is kept under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How much worse or better one figure has become.

    Attributes:
        workload: Which workload, or "kernel".
        measure: What was measured.
        factor: Today's figure in times of the kept one, turned so that above 1 is better.
        low: Lower end of the interval that holds it with 95 %.
        high: Its upper end.
        runs: The smallest number of runs of a side: with fewer than three there is no interval.
    """

    workload: str
    measure: str
    factor: float
    low: float
    high: float
    runs: int

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.runs < _FEWEST_RUNS:
            return "too few runs"
        if self.high < 1 - _WORSE:
            return "WORSE"
        if self.low > 1 + _WORSE:
            return "better"
        return "as before" if self.low > 1 - _WORSE and self.high < 1 + _WORSE else "not certain"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `against`."""
    parser.add_argument("release", help="a kept release, or 'last'")
    parser.add_argument("--results", type=Path, default=RESULTS, help="today's figures")


def run(given: argparse.Namespace) -> int:
    """Print each figure beside the kept one; 1 if one is worse, 2 if there is none to compare."""
    try:
        kept = kept_release(given.results, given.release)
    except NoSuchReleaseError as error:
        print(error)
        return 2
    changes = [*compare(kept, given.results), *compare_kernel(kept, given.results)]
    print(f"beside {kept.name}; above 1 is better, in brackets where it lies with 95 %:")
    for change in changes:
        print(
            f"{change.workload:14} {change.measure:22} {change.factor:5.2f} "
            f"({change.low:.2f} to {change.high:.2f}) {change.verdict}"
        )
    worse = [change for change in changes if change.verdict == "WORSE"]
    print(f"{len(changes)} figures, {len(worse)} worse by more than {_WORSE:.0%}")
    return 1 if worse else 0


def keep(results: Path) -> Path:
    """Keep today's figures as those of the current version."""
    place = results / RELEASES / mustela.__version__
    (place / "runs").mkdir(parents=True, exist_ok=True)
    for file in (results / "runs").glob("*.jsonl"):
        shutil.copyfile(file, place / "runs" / file.name)
    if (results / _KERNEL).exists():
        shutil.copyfile(results / _KERNEL, place / _KERNEL)
    return place


def kept_release(results: Path, name: str) -> Path:
    """The folder of a release's figures.

    Raises:
        NoSuchReleaseError: If none are kept under this name.
    """
    folders = {folder.name: folder for folder in (results / RELEASES).glob("*") if folder.is_dir()}
    if name == LAST and folders:
        return folders[max(folders, key=_version)]
    if name in folders:
        return folders[name]
    known = ", ".join(sorted(folders, key=_version)) or "none; `./dev bench keep` keeps today's"
    raise NoSuchReleaseError(f"no figures of release {name!r} are kept; there are: {known}")


def _version(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Numbers in order of size, and a pre-release before what has no suffix."""
    parts = name.replace("-", ".").split(".")
    return (*((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts),)


def compare(then: Path, now: Path) -> Iterator[Change]:
    """Each figure of each workload that both sides measured beside Kafka Streams."""
    for file in sorted((then / "runs").glob("*.jsonl")):
        today = now / "runs" / file.name
        if not today.exists():
            continue
        sides = [_runs(place) for place in (today, file)]
        for measure, (kind, name, more_is_better) in _MEASURES.items():
            samples = [
                _numbers(runs, peer, kind, name) for runs in sides for peer in (SUBJECT, RIVAL)
            ]
            if all(samples):
                yield _change(file.stem, measure, samples, more_is_better=more_is_better)


def compare_kernel(then: Path, now: Path) -> Iterator[Change]:
    """Each row of the kernel's benchmark that both sides have."""
    if not ((then / _KERNEL).exists() and (now / _KERNEL).exists()):
        return
    before, after = (_kernel_speeds(place / _KERNEL) for place in (then, now))
    for name in sorted(before.keys() & after.keys()):
        yield _change(
            "kernel", name, [after[name], [1.0], before[name], [1.0]], more_is_better=True
        )


def _runs(file: Path) -> Runs:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def _numbers(runs: Runs, peer: str, kind: str, name: str) -> list[float]:
    found: list[float] = []
    for run in runs:
        if (run.get("peer"), run.get("guarantee"), run.get("kind")) == (peer, "eos", kind):
            value: object = run.get(name)
            if name.startswith("latency_ms."):
                latencies = run.get("latency_ms", {})
                assert isinstance(latencies, dict), "a latency is a group of percentiles"
                value = latencies.get(name.rpartition(".")[2])
            if isinstance(value, int | float) and value > 0:
                found.append(float(value))
    return found


def _kernel_speeds(file: Path) -> dict[str, list[float]]:
    """Records a second in times of the plain loop's, all that the file holds for a row."""
    found: dict[str, list[float]] = {}
    for line in _runs(file):
        rates, loop = line.get("rates"), line.get("loop_s")
        if isinstance(rates, dict) and isinstance(loop, int | float):
            for name, rate in rates.items():
                found.setdefault(str(name), []).append(float(rate) * loop)
    return found


def _change(
    workload: str, measure: str, samples: Sequence[list[float]], *, more_is_better: bool
) -> Change:
    """Work out one change from four samples: mine and the rival's, now and then."""
    factor = _factor(samples, list, more_is_better=more_is_better)
    chance = random.Random(f"{workload}/{measure}")

    def drawn(values: list[float]) -> list[float]:
        return chance.choices(values, k=len(values))

    draws = sorted(_factor(samples, drawn, more_is_better=more_is_better) for _ in range(_DRAWS))
    return Change(
        workload=workload,
        measure=measure,
        factor=factor,
        low=draws[round(_TAIL * _DRAWS)],
        high=draws[round((1 - _TAIL) * _DRAWS) - 1],
        runs=min(len(values) for values in (samples[0], samples[2])),
    )


def _factor(
    samples: Sequence[list[float]],
    draw: Callable[[list[float]], list[float]],
    *,
    more_is_better: bool,
) -> float:
    mine, rival, mine_then, rival_then = (statistics.median(draw(values)) for values in samples)
    ratio = (mine / rival) / (mine_then / rival_then)
    return ratio if more_is_better else 1 / ratio
