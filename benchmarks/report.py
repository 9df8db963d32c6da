"""Draws docs/benchmarks.md from the result files: every row, losses included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.registry import cannot
from benchmarks.workloads import WORKLOADS

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

_NAMES = {
    "mustela": "Mustela",
    "kafka_streams": "Kafka Streams",
    "quix": "Quix Streams",
    "pyspark": "plain PySpark",
}
_GUARANTEES = {"eos": "exactly once", "alo": "at least once"}
_SUBJECT, _RIVAL = "mustela", "kafka_streams"

_INTRODUCTION = """\
# Benchmarks

Drawn by `python -m benchmarks report` from `benchmarks/results/`; do not edit. To measure again:
`./dev bench run all` (hours), or one workload: `./dev bench run word_count`.

Each table is one run of one workload: the same records in one topic of one broker, read by every
peer in turn (A B C C B A …), one at a time. The output of every run is read back and held against
an oracle that shares no code with any peer; a run whose output is wrong, or that fails, has no
number and is listed as such. Numbers are medians, with the smallest and the largest in brackets.
Where the result file names a warm-up, each peer worked off a small topic first, without a number:
the broker's code is compiled while it runs, and the first run would pay for that.

## How it is measured

- **records/s**: input records worked off and committed, over the part of the run between the first
  sight of 20 % and the first sight of 95 %, so that neither start-up nor the end counts. Where a
  peer sends records through a repartition topic, the share of them that has been read from there
  counts. A run that commits in fewer than five steps is taken as a whole, from the moment the
  program says that it processes.
- **CPU-s/M**: CPU seconds per million input records over the same part of the run, of the
  program's whole process tree (children that ended included), of the broker, and of both.
- **peak PSS**: the largest sum of proportional set sizes over the process tree, looked at ten
  times a second at most, less often where looking would cost more than a twentieth of the time.
- **closed windows**: windows and results without a partner come out when event time has passed
  them, so inputs end with records long after all others. Behind left and outer joins these are
  sent when the numbers are taken, because Kafka Streams looks for results without a partner at
  most once a second, when a record arrives. Late records are late by less than the grace: every
  peer must give the same rows, and each exactly once. The state of these joins is what is left
  behind that.
- **latency**: a generator in a process of its own sends at a fixed rate and stamps the time at
  which a record was meant to be sent; a read_committed consumer on the same machine notes when the
  stamped output arrives. Percentiles over the merged runs, after a warm-up. In counting workloads
  one record in ten carries a stamp, as a word or key of its own.
- **CPU and PSS at the fixed load**, and **idle**, afterwards, with no input at all: percent of one
  core.
- **start**: from the start of the process to its own first line, to its engine being there, to its
  saying that it processes, to its first visible output of the catch-up run.
- **restart**: inside the process, from closed to the first output; closing is shown beside it.
- **restore**: from the first to the last thing the program says of its restore; where it says
  nothing, how much longer a start to the first output takes without local state than with it.
  Megabytes are those of the keys and values in the store.

## The peers

All commit at the same interval, read with `auto.offset.reset=earliest`, write the same bytes and
use the clients' own settings unless said here.

- **Mustela**: its defaults, two cores of Spark, Python lambdas throughout; compiled as an installed
  package is, and with the archive of classes that the first stop of an application leaves.
- **Kafka Streams** 4.1.2, Java: two stream threads, `exactly_once_v2` or `at_least_once`, cache of
  10 MB, topology optimisation on, RocksDB, static membership, heap of 1 GB.
- **Quix Streams** 3.28: exactly once, two processes where there are two partitions, RocksDB.
  It has no cache: each update is written. Windows end by the time of their partition. It is given
  the first tenth of the records, and at least 100,000: all of them would take it longer than all
  others together.
- **plain PySpark**, Structured Streaming: native expressions, no Python per record, RocksDB with
  changelog checkpoints, two shuffle partitions, heap of 2 GB. Its Kafka sink is at-least-once only.
  A full topic is read in 25 steps.
"""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the main tables."""

    title: str
    show: Callable[[Row], str]


def _at(row: Row, path: str) -> Any:
    found: Any = row
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def number(value: float) -> str:
    """As many digits as say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _spread(path: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        found = _at(row, path)
        if found is None:
            return "-"
        middle, low, high = (number(found[name]) for name in ("median", "min", "max"))
        return middle if low == high else f"{middle} ({low} to {high})"

    return show


def _median(*paths: str) -> Callable[[Row], str]:
    def show(row: Row) -> str:
        found = [_at(row, f"{path}.median") for path in paths]
        if all(value is None for value in found):
            return "-"
        return " / ".join("-" if value is None else number(value) for value in found)

    return show


def _latency(row: Row) -> str:
    found = row.get("latency_ms")
    return "-" if found is None else " / ".join(number(found[name]) for name in found)


_THROUGHPUT = (
    Column(title="records/s", show=_spread("records_per_s")),
    Column(title="CPU-s/M", show=_spread("cpu_s_per_million")),
    Column(title="broker CPU-s/M", show=_spread("broker_cpu_s_per_million")),
    Column(title="both", show=_spread("total_cpu_s_per_million")),
    Column(title="peak PSS, MB", show=_spread("peak_pss_mb")),
    Column(title="state, MB", show=_spread("state_mb")),
)
_LOAD = (
    Column(title="p50 / p95 / p99, ms", show=_latency),
    Column(
        title="CPU %, broker %",
        show=_median("fixed_load.cpu_percent", "fixed_load.broker_cpu_percent"),
    ),
    Column(title="PSS, MB", show=_median("fixed_load.peak_pss_mb")),
    Column(title="idle CPU %", show=_median("idle_cpu_percent")),
    Column(
        title="restart: close / first output, s",
        show=_median("restart.close_s", "restart.first_output_s"),
    ),
)
_START = (
    Column(
        title="main / engine / processing / first output, s",
        show=_median("start_s.main", "start_s.session", "start_s.running", "start_s.first_output"),
    ),
    Column(title="CPU of the whole run, s", show=_median("run_cpu_s")),
    Column(title="input records", show=lambda row: f"{row.get('records', 0):,}"),
    Column(title="output records", show=_median("output_records")),
)
_RESTORE = (
    Column(title="restore, MB/s", show=_spread("restore.mb_per_s")),
    Column(title="restore, s", show=_spread("restore.seconds")),
    Column(title="start with state, s", show=_spread("restore.start_with_state_s")),
    Column(title="start without, s", show=_spread("restore.start_without_state_s")),
    Column(title="state, MB", show=_spread("restore.state_mb")),
)
_TABLES = (
    ("", "records_per_s", _THROUGHPUT),
    ("At the fixed load", "latency_ms", _LOAD),
    ("Start", "start_s", _START),
    ("Restore", "restore", _RESTORE),
)


def write_report(results: Path) -> str:
    """Write the page from all result files of a folder.

    Returns:
        Where it was written, in words.
    """
    documents = [json.loads(file.read_text()) for file in sorted(results.glob("*.json"))]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(documents))
    return f"{PAGE.name}: {len(documents)} workloads"


def render(documents: list[dict[str, Any]]) -> str:
    """The page's text."""
    known = list(WORKLOADS)

    def place(document: dict[str, Any]) -> tuple[int, str]:
        name = str(document["workload"]["name"])
        stem = name.partition("_p")[0] if name not in WORKLOADS else name
        return (known.index(stem) if stem in known else len(known), name)

    parts = [_INTRODUCTION, "\n".join(_abilities())]
    if not documents:
        parts.append("No results have been recorded yet.\n")
    parts += ["\n".join(_section(document)) for document in sorted(documents, key=place)]
    return "\n".join(parts)


def _abilities() -> Iterator[str]:
    """Which peers can do the job of which workload, and why the others cannot."""
    yield "## The workloads"
    yield ""
    yield f"| | what | {' | '.join(_NAMES.values())} |"
    yield f"|---|---|{'---|' * len(_NAMES)}"
    reasons: list[str] = []
    for workload in WORKLOADS.values():
        cells: list[str] = []
        for peer in _NAMES:
            reason = cannot(peer, workload.program)
            if reason is None:
                cells.append("yes")
                continue
            if reason not in reasons:
                reasons.append(reason)
            cells.append(f"no ({reasons.index(reason) + 1})")
        yield f"| {workload.name} | {workload.title} | {' | '.join(cells)} |"
    yield ""
    yield "Why not:"
    yield ""
    for number, reason in enumerate(reasons, 1):
        yield f"{number}. {reason[:1].upper()}{reason[1:]}."
    yield ""


def _section(document: dict[str, Any]) -> Iterator[str]:
    about, machine = document["workload"], document["machine"]
    title = str(about["title"])
    yield f"## {about['name']}"
    yield ""
    yield (
        f"{title[:1].upper()}{title[1:]}. {about['records']:,} records on {about['partitions']} "
        f"partitions, seed {about['seed']}, commit interval {about['commit_ms']} ms, "
        f"{about['runs']} runs of each at most, and {about.get('latency_runs', 0)} at a fixed load "
        f"of {about['load_per_s']:,} records/s."
    )
    yield (
        f"Machine: {machine['cpus']} CPUs ({machine['cpu_model']}), {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, load {machine['load_before']} before the run; broker and "
        "generator on the same CPUs."
    )
    yield ""
    rows = [
        (peer, guarantee, row)
        for peer, guarantees in document["peers"].items()
        for guarantee, row in guarantees.items()
    ]
    for title, needed, columns in _TABLES:
        shown = [entry for entry in rows if needed in entry[2]]
        if shown:
            yield from _table(title, shown, columns)
    yield from _ratios(document["peers"])
    yield from _faults(rows)


def _table(
    title: str, rows: list[tuple[str, str, Row]], columns: tuple[Column, ...]
) -> Iterator[str]:
    if title:
        yield f"{title}:"
        yield ""
    yield f"| | {' | '.join(column.title for column in columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for peer, guarantee, row in rows:
        cells = " | ".join(column.show(row) for column in columns)
        mark = " *" if row.get("window", "window") != "window" else ""
        yield f"| {_NAMES.get(peer, peer)}, {_GUARANTEES[guarantee]}{mark} | {cells} |"
    yield ""
    if any(row.get("window", "window") != "window" for _, _, row in rows) and not title:
        yield "\\* some or all runs taken as a whole: too few steps for a window."
        yield ""


def _ratios(peers: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    """Mustela against Kafka Streams, said in words, whoever is ahead."""
    for guarantee, row in peers.get(_SUBJECT, {}).items():
        rival = peers.get(_RIVAL, {}).get(guarantee)
        if rival is None:
            continue
        said = [
            f"{what} {_at(row, path) / _at(rival, path):.2f} times"
            for what, path in (
                ("records/s", "records_per_s.median"),
                ("CPU per record", "cpu_s_per_million.median"),
                ("CPU per record with the broker's", "total_cpu_s_per_million.median"),
                ("p95", "latency_ms.p95"),
                ("restore", "restore.mb_per_s.median"),
                ("state on disk", "state_mb.median"),
            )
            if _at(row, path) is not None and _at(rival, path)
        ]
        if said:
            yield f"Mustela as a multiple of Kafka Streams, {_GUARANTEES[guarantee]}: "
            yield f"{', '.join(said)}."
            yield ""


def _faults(rows: list[tuple[str, str, Row]]) -> Iterator[str]:
    for peer, guarantee, row in rows:
        for fault in row.get("faults", []):
            yield f"- {_NAMES.get(peer, peer)}, {_GUARANTEES[guarantee]}, no number: {fault}"
    if any(row.get("faults") for _, _, row in rows):
        yield ""
