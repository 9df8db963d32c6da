"""What a cluster costs, and what second homes cost and save: ``python -m benchmarks.cluster``.

Word count runs on the hosts of the tests' rig, twice: with a second home for each key group, and
without. Each time a large state is built first. Then small epochs follow each other: what they
cost, and how often a lane is away from home. Then an executor is killed between two epochs and the
host of another one is cut off: how long it takes until a line that comes just then is counted.
With ``--added`` it tells how soon an executor that comes later has lanes.
With ``--load`` and numbers of executors it tells the processor time of a line in large epochs, of
word count and of lines of 1 KB that are copied.
All hosts share the cores of one machine, so only ratios say something. Needs root.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.process_tree import read_all
from tests.cluster.program import Program
from tests.cluster.rig import Cluster, Host
from tests.cluster.test_homes import GROUPS, counted
from tests.cluster.test_state import home_on
from tests.cluster.word_count import TOPICS, Lines, counting
from tests.patience import looks

LINES, VOCABULARY = 1_500_000, 66_000
WORDS, EPOCHS, BATCH = 5, 30, 50
KILOBYTE = 1_000
LIGHTER = {"word_count": 1, "stateless": 4}
"""By how much fewer lines there are of a kind of work."""

COPYING = {
    "copying.py": """
from mustela import App, StreamsBuilder

app = App(application_id="copying")

@app.topology
def build(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=bytes)
    lines.filter(lambda _key, line: line != b"").to("counts")
"""
}
_LOOK_S = 0.02


def seconds_until_counted(lines: Lines, then: Callable[[], object]) -> float:
    """Do something at rest, send lines, and return how long it takes until all are counted."""
    until_done(lines)
    began = time.perf_counter()
    then()
    lines.send(BATCH)
    until_done(lines)
    return time.perf_counter() - began


def until_done(lines: Lines) -> None:
    """Wait until all lines that were sent are in an epoch that is committed."""
    while counted(lines)["records:lines"] < lines.sent:
        time.sleep(_LOOK_S)


def cpu_seconds(hosts: list[Host]) -> float:
    """Return the processor time of all processes that run on hosts."""
    known, own = read_all(), [pid for host in hosts for pid in host.processes()]
    return sum(known[pid].own + known[pid].children for pid in own if pid in known) / 100


def network_bytes(host: Host) -> int:
    """Return how many bytes have come to a host, and left it."""
    for line in Path(f"/proc/{host.pid}/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "eth0":
            came, left = (int(numbers.split()[at]) for at in (0, 8))
            return came + left
    what = f"{host.name} has no network"
    raise LookupError(what)


def measure(replicas: int, vocabulary: int, width: int) -> dict[str, Any]:
    """Return the figures with so many second homes, for so many words of a width."""
    with tempfile.TemporaryDirectory() as directory, Cluster(Path(directory)) as cluster:
        a, b = cluster.add_workers("a", "b")
        sets = (f"state.standby_replicas={replicas}", f"key_groups={GROUPS}")
        words = [word for one in sets for word in ("--set", one)]
        with counting(cluster, *words, vocabulary=vocabulary, width=width) as lines:
            lines.send_all()
            until_done(lines)
            assert not replicas or any(looks(lambda: _copied(a, b))), lines.program.log()
            hosts, since = [a, b, lines.program.host], len(lines.program.events("epoch"))
            before, began = cpu_seconds(hosts), time.perf_counter()
            usual = [seconds_until_counted(lines, lambda: None) for _ in range(EPOCHS)]
            row: dict[str, Any] = {
                "replicas": replicas,
                "rows": len(lines.expected),
                "megabytes": (width + 8) * len(lines.expected) // 1_000_000,
                "epoch_s": statistics.median(usual),
                "steady_s": time.perf_counter() - began,
                "cpu_s_per_epoch": (cpu_seconds(hosts) - before) / EPOCHS,
                "lanes": 4 * EPOCHS,
                "lanes_away": counted(lines, since)["lanes_away"],
            }
            since = len(lines.program.events("epoch"))
            row["killed_s"] = seconds_until_counted(lines, lambda: a.kill_program("Backend"))
            row |= {f"killed_{what}": n for what, n in _groups(counted(lines, since)).items()}
            back = looks(lambda: lines.send(BATCH) or _all(lines))
            assert any(back), lines.program.log()
            since = len(lines.program.events("epoch"))
            row["cut_off_s"] = seconds_until_counted(lines, b.partition)
            row |= {f"cut_off_{what}": n for what, n in _groups(counted(lines, since)).items()}
            return row


def measure_load(
    executors: int, work: str, lines_count: int, settings: Sequence[str] = (), warm: int = 0
) -> dict[str, Any]:
    """Return the processor time of a line with so many executors; with none it is ``local[2]``.

    Before that so many lines go through that are not counted: a JVM compiles what it does often.
    """
    with tempfile.TemporaryDirectory() as directory, Cluster(Path(directory)) as cluster:
        workers = cluster.add_workers(*(f"h{n}" for n in range(executors))) if executors else []
        master = None if executors else "local[2]"
        told = ("state.standby_replicas=0", *settings)
        sets = [word for one in told for word in ("--set", one)]
        running = _copying if work == "stateless" else _counting
        with running(cluster, master, sets) as lines:
            driver = lines.program.host
            for _ in range(2):  # what is compiled and cached is there, and all state is
                lines.send_all()
                until_done(lines)
            for done in range(0, warm, lines_count):
                lines.send_these(lines.random(min(lines_count, warm - done)))
                until_done(lines)
            sent = lines.random(lines_count)
            before, mine = cpu_seconds([driver, *workers]), cpu_seconds([driver])
            sent_bytes = network_bytes(driver)
            since, began = len(lines.program.events("epoch")), time.perf_counter()
            lines.send_these(sent)
            until_done(lines)
            took = time.perf_counter() - began
            spent = cpu_seconds([driver, *workers]) - before
            share = (cpu_seconds([driver]) - mine) / spent
            passed = network_bytes(driver) - sent_bytes
        return {
            "work": work,
            "executors": executors,
            "lines": lines_count,
            "warm_lines": warm,
            "cpu_us_per_line": 1e6 * spent / lines_count,
            "share_of_driver": share,
            "driver_bytes_per_line": passed / lines_count,
            "epochs": len(lines.program.events("epoch")) - since,
            "bytes_by_owners": counted(lines, since)["bytes_by_owners"],
            "seconds": took,
        }


def measure_added() -> dict[str, Any]:
    """Return how long it takes until an executor that comes later has lanes."""
    with tempfile.TemporaryDirectory() as directory, Cluster(Path(directory)) as cluster:
        cluster.add_workers("a")
        with _counting(cluster, None, ["--set", "state.standby_replicas=0"]) as lines:
            lines.send_all()
            until_done(lines)
            began = time.perf_counter()
            cluster.add_workers("b")
            there = time.perf_counter() - began
            while not _has_lanes(lines, 4):
                seconds_until_counted(lines, lambda: None)
            seconds_until_counted(lines, lambda: None)
            return {"worker_s": there, "lanes_s": time.perf_counter() - began}


def _has_lanes(lines: Lines, count: int) -> bool:
    told = [one["says"] for one in lines.program.events("said")]
    return any(f"there are {count} lanes from now on" in says for says in told)


@contextmanager
def _counting(cluster: Cluster, master: str | None, sets: list[str]) -> Generator[Lines]:
    """Count words; each has been counted as often as it was sent when the block ends."""
    with counting(cluster, *sets, vocabulary=VOCABULARY, master=master) as lines:
        yield lines


@contextmanager
def _copying(cluster: Cluster, master: str | None, sets: list[str]) -> Generator[Lines]:
    """Copy lines of 1 KB; each has been copied once when the block ends."""
    program = Program(cluster, cluster.add("driver"), COPYING, TOPICS)
    lines = Lines(program, vocabulary=10_000, width=KILOBYTE // WORDS)
    with program.running("copying:app", "--master", master or cluster.master, *sets):
        program.until_running()
        yield lines
        words = lines.expected.total()
        copied = (row.value or b"" for row in program.committed("counts"))
        found = Counter(word for line in copied for word in line.decode().split())
    assert found == lines.expected, f"{found.total()} words of {words}"


def _copied(*hosts: Host) -> bool:
    """Whether all hosts have all key groups."""
    return all(len(list(home_on(host).glob("*/0*/"))) == GROUPS for host in hosts)


def _all(lines: Lines) -> bool:
    """Whether all key groups are at home on two hosts again."""
    told = [one["says"] for one in lines.program.events("said")]
    lost = [n for n, says in enumerate(told) if "lost its" in says]
    return not lost or any("less to do" in says for says in told[lost[-1] :])


def _groups(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in ("groups_caught_up", "groups_restored")}


def main() -> None:
    """Print one line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, nargs="*", default=[1, 0])
    parser.add_argument("--words", type=int, default=VOCABULARY)
    parser.add_argument("--width", type=int, default=6, help="bytes of a word, at least")
    parser.add_argument("--load", type=int, nargs="*", help="numbers of executors; 0 is local[2]")
    parser.add_argument("--work", nargs="*", default=["word_count", "stateless"])
    parser.add_argument("--set", nargs="*", default=[], help="settings of a load")
    parser.add_argument("--lines", type=int, default=LINES, help="of a load")
    parser.add_argument("--warm", type=int, default=0, help="lines before those of a load")
    parser.add_argument("--added", action="store_true", help="an executor that comes later")
    given = parser.parse_args()
    if given.added:
        print(json.dumps(measure_added()), flush=True)
        return
    for work, executors in product(given.work, given.load or ()):
        count, warm = given.lines // LIGHTER[work], given.warm // LIGHTER[work]
        print(json.dumps(measure_load(executors, work, count, given.set, warm)), flush=True)
    if given.load is not None:
        return
    for replicas in given.replicas:
        print(json.dumps(measure(replicas, given.words, given.width)), flush=True)


if __name__ == "__main__":
    main()
