"""State of several times the memory: ``python -m benchmarks.limited``.

An application runs in a control group of its own, which limits all of its memory together: driver,
JVM, Python workers, and the pages of state files that the kernel keeps for them. First every key
gets a value of one kilobyte, until the state is several times the limit; then keys are updated at
random, so that most of what is read is not in memory. At the end every key must have the newest
version. Needs Linux and the right to make control groups.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.kafka import QUIET, Topics
from benchmarks.measure import disk_bytes
from benchmarks.process_tree import ProcessTree
from benchmarks.records import Record
from mustela import App, StreamsBuilder
from mustela_dev import DevelopmentBroker

_INPUT, _OUTPUT, _APP = "limited-in", "limited-out", "limited"
_PARTITIONS = 6
_MEGA = 1_000_000
_VALUE_BYTES = 1_000
_VERSION_DIGITS = 10
_SILENCE_S = 120.0
_POLL_S = 0.2
_GROUPS = Path("/sys/fs/cgroup")


class Limit:
    """A control group of version 1 or 2 that limits memory.

    Args:
        name: Its name.
        limit_bytes: The limit.
    """

    def __init__(self, name: str, limit_bytes: int) -> None:
        first = _GROUPS / "memory"
        self._path = (first if first.is_dir() else _GROUPS) / name
        limit, self._peak = (
            ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
            if first.is_dir()
            else ("memory.max", "memory.peak")
        )
        self._path.mkdir()
        (self._path / limit).write_text(str(limit_bytes))

    def join(self) -> None:
        """Put this process into the group; what it starts follows."""
        (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def peak_bytes(self) -> int:
        """The most memory that the group had."""
        return int((self._path / self._peak).read_text())

    def remove(self) -> None:
        """Remove the group; its processes must have ended."""
        for _ in range(50):
            try:
                self._path.rmdir()
            except OSError:
                time.sleep(_POLL_S)
            else:
                return


def newest(_before: str, now: str) -> str:
    """Keep the newest value."""
    return now


def version(value: str) -> int:
    """Return the version that a value begins with."""
    return int(value[:_VERSION_DIGITS])


def build(builder: StreamsBuilder) -> None:
    """Keep a kilobyte for every key, and say which version it is."""
    rows = builder.stream(_INPUT, key=str, value=str).group_by_key().reduce(newest, store="rows")
    rows.to_stream().map_values(version, name="version").to(_OUTPUT, key=str, value=int)


def run_app(bootstrap: str, state_dir: str) -> None:
    """Run the application until standard input ends."""
    app = App(_APP, bootstrap_servers=bootstrap, state_dir=state_dir)
    app.topology(build)
    app.start()
    sys.stdin.read()
    app.close(timedelta(seconds=120))
    if app.error is not None:
        raise app.error


class Filler:
    """Makes records and remembers each key's newest version."""

    def __init__(self, keys: int) -> None:
        self._source = random.Random("limited")
        self._filler = "".join(self._source.choices("0123456789abcdef", k=4 * _VALUE_BYTES))
        self.newest = [0] * keys
        self.sent = 0

    def all_keys(self) -> Iterator[Record]:
        """Every key once, in random order."""
        order = list(range(len(self.newest)))
        self._source.shuffle(order)
        return (self._record(number) for number in order)

    def updates(self, count: int) -> Iterator[Record]:
        """Keys at random."""
        return (self._record(self._source.randrange(len(self.newest))) for _ in range(count))

    def _record(self, number: int) -> Record:
        self.sent += 1
        self.newest[number] = self.sent
        start = self._source.randrange(3 * _VALUE_BYTES)
        text = self._filler[start : start + _VALUE_BYTES - _VERSION_DIGITS]
        return b"key-%09d" % number, f"{self.sent:0{_VERSION_DIGITS}d}{text}".encode()


class Watch:
    """Looks at the memory of a process tree until `stop`."""

    def __init__(self, pid: int) -> None:
        self._tree = ProcessTree(pid)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_pss_bytes = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(1.0):
            self._tree.update()
            self.peak_pss_bytes = max(self.peak_pss_bytes, self._tree.pss_bytes())

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join()


@contextmanager
def limited_app(bootstrap: str, state_dir: Path, limit: Limit) -> Iterator[subprocess.Popen[bytes]]:
    """Run the application inside the limit."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.limited", "--app", bootstrap, str(state_dir)],
        stdin=subprocess.PIPE,
        preexec_fn=limit.join,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(180)


def worked_off(topics: Topics, process: subprocess.Popen[bytes], count: int) -> float:
    """Wait until so many records are committed; return how long that took.

    Raises:
        RuntimeError: If the application ends, or commits nothing for two minutes.
    """
    began = heard = time.monotonic()
    best = -1
    while True:
        done = sum(topics.committed(_APP, _INPUT).values())
        now = time.monotonic()
        if done >= count:
            return now - began
        if done > best:
            best, heard = done, now
        if process.poll() is not None or now - heard > _SILENCE_S:
            raise RuntimeError(f"{best} of {count} records, then nothing")
        time.sleep(_POLL_S)


def send(bootstrap: str, records: Iterable[Record]) -> None:
    """Send records to the input, each to the partition of its key."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **QUIET})
    for key, value in records:
        while True:
            try:
                producer.produce(_INPUT, value, key)
            except BufferError:
                producer.poll(_POLL_S)
            else:
                break
    if producer.flush(_SILENCE_S):
        raise RuntimeError("the broker did not take all records")


def wrong_keys(topics: Topics, filler: Filler) -> int:
    """How many keys do not have their newest version in the output."""
    found = [0] * len(filler.newest)
    for _, key, value in topics.read([_OUTPUT], _OUTPUT):
        if key is not None and value is not None:
            found[int(key[4:])] = int.from_bytes(value, "big")
    return sum(a != b for a, b in zip(found, filler.newest, strict=True))


def run(state_mb: int, limit_mb: int, updates: int) -> dict[str, float]:
    """Fill, update, verify; return the numbers."""
    filler = Filler(state_mb * _MEGA // _VALUE_BYTES)
    numbers: dict[str, float] = {"state_mb": state_mb, "limit_mb": limit_mb}
    with (
        tempfile.TemporaryDirectory() as place,
        DevelopmentBroker(Path(place) / "broker") as broker,
    ):
        topics = Topics(broker.bootstrap_servers)
        topics.create([_INPUT, _OUTPUT], _PARTITIONS)
        send(broker.bootstrap_servers, filler.all_keys())
        limit = Limit(f"mustela-{os.getpid()}", limit_mb * _MEGA)
        state = Path(place) / "state"
        try:
            with limited_app(broker.bootstrap_servers, state, limit) as process:
                watch = Watch(process.pid)
                seconds = worked_off(topics, process, filler.sent)
                numbers["fill_records_per_s"] = round(filler.sent / seconds)
                send(broker.bootstrap_servers, filler.updates(updates))
                seconds = worked_off(topics, process, filler.sent)
                numbers["update_records_per_s"] = round(updates / seconds)
                watch.stop()
                numbers["peak_pss_mb"] = round(watch.peak_pss_bytes / _MEGA)
                numbers["peak_group_mb"] = round(limit.peak_bytes() / _MEGA)
                numbers["state_on_disk_mb"] = round(disk_bytes(state) / _MEGA)
            numbers["exit"] = process.returncode
        finally:
            limit.remove()
        numbers["wrong_keys"] = wrong_keys(topics, filler)
    return numbers


def main() -> int:
    """Run the command line; 1 when a key is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limited", description=__doc__)
    parser.add_argument("--app", nargs=2, metavar=("BOOTSTRAP", "STATE"), help=argparse.SUPPRESS)
    parser.add_argument("--state-mb", type=int, default=2_400)
    parser.add_argument("--limit-mb", type=int, default=800)
    parser.add_argument("--updates", type=int, default=500_000)
    given = parser.parse_args()
    if given.app:
        run_app(*given.app)
        return 0
    numbers = run(given.state_mb, given.limit_mb, given.updates)
    print(json.dumps(numbers))
    return int(bool(numbers["wrong_keys"] or numbers["exit"]))


if __name__ == "__main__":
    sys.exit(main())
