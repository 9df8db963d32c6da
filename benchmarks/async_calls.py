"""How fast records go through calls to the outside: ``python -m benchmarks.async_calls``.

A running application asks an HTTP service, a process of its own, that answers after 50 ms. Records
of keys of their own are sent all at once. Measured are the seconds from the first send to the last
committed output that a read_committed consumer sees, and the epochs meanwhile: their number, the
longest time from an epoch's start to the end of its commit, and, while calls are being made, the
longest time from one commit to the next. The output is compared with what each record must give,
once; a run whose output differs has no number.

Then some calls are answered only after seconds, while records of other keys come one by one: the
longest time from one commit to the next then, beside the same without such calls, says whether the
commits wait for calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from benchmarks.kafka import QUIET, Topics
from mustela import App, StreamsBuilder
from mustela.calls import AsyncCall, AsyncOptions
from mustela.runtime.events import AppState, EpochDone, Event
from mustela_dev import DevelopmentBroker

_TIMEOUT_S = 60.0
_WARM_UP_RECORDS = 200
_HELD_S = 3.0
_HELD_RECORDS = 50
_TRICKLE_S = 0.02


async def serve(delay_s: float) -> None:
    """Answer every request after a while with its path, and say how many came when told to end."""
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        head = await reader.readuntil(b"\r\n\r\n")
        asked += 1
        path = head.split(b" ", 2)[1].strip(b"/")
        await asyncio.sleep(_HELD_S if path.startswith(b"held") else delay_s)
        body = path.upper()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(asked, flush=True)


def asking(port: int) -> Any:
    """Return a coroutine function that asks the service."""

    async def ask(word: str, call: AsyncCall) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /{word} HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {call.idempotency_key}\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.read()
        writer.close()
        return answer.partition(b"\r\n\r\n")[2].decode()

    return ask


class Epochs:
    """Keeps what the application tells of its epochs."""

    def __init__(self) -> None:
        self.done: list[tuple[float, EpochDone]] = []

    def on_event(self, event: Event) -> None:
        """Keep an epoch."""
        if isinstance(event, EpochDone):
            self.done.append((time.monotonic(), event))

    def on_error(self, error: BaseException) -> None:
        """Say that something is tried again."""
        print(error, file=sys.stderr, flush=True)

    def longest_pause(self, since: float, until: float) -> float:
        """Return the longest time between two commits of a span."""
        ends = [since, *(end for end, _ in self.done if since < end < until), until]
        return max(after - before for before, after in pairwise(ends))


class Trial:
    """One application with its topics.

    Args:
        servers: The broker.
        folder: For state.
        given: The command line.
        number: Which run it is.
    """

    def __init__(self, servers: str, folder: Path, given: argparse.Namespace, number: int) -> None:
        self._given = given
        self._sent = 0
        self._name = f"calls-{number}"
        self._topics = [f"{self._name}.in", f"{self._name}.out"]
        Topics(servers).create(self._topics, 2)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, **QUIET})
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self._name,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
                **QUIET,
            }
        )
        self._consumer.subscribe(self._topics[1:])
        self._settings = {
            "application_id": self._name,
            "bootstrap_servers": servers,
            "state_dir": folder / self._name,
            "spark": {"spark.master": f"local[{given.cores}]"},
        }

    def run(self, port: int) -> dict[str, Any]:
        """Run once; return the numbers, or what was wrong."""

        def build(builder: StreamsBuilder) -> None:
            words = builder.stream(self._topics[0], key=str, value=str)
            rules = AsyncOptions(capacity=self._given.capacity)
            found = words.map_values_async(asking(port), rules, value=str, name="ask")
            found.to(self._topics[1], key=str, value=str)

        app, epochs = App(**self._settings), Epochs()
        app.topology(build)
        app.add_listener(epochs)
        with app:
            while app.state is not AppState.RUNNING:
                time.sleep(0.05)
            self._send("warm", _WARM_UP_RECORDS)
            self._receive("warm", _WARM_UP_RECORDS)
            time.sleep(1.0)
            before = len(epochs.done)
            started = time.monotonic()
            self._send("r", self._given.records)
            fault = self._receive("r", self._given.records)
            seconds = time.monotonic() - started
            pauses = {what: self._pause(epochs, what) for what in ("free", "held")}
        self._consumer.close()
        mine = [epoch for end, epoch in epochs.done[before:] if end <= started + seconds]
        if fault:
            return {"fault": fault}
        return {
            "seconds": round(seconds, 3),
            "epochs": len(mine),
            "longest_epoch_s": round(max(epoch.seconds for epoch in mine), 3),
            "longest_job_s": round(max(epoch.job_seconds for epoch in mine), 3),
            "longest_commit_s": round(max(e.seconds - e.job_seconds for e in mine), 3),
            "longest_time_between_commits_s": round(
                epochs.longest_pause(started, started + seconds), 3
            ),
            **{f"longest_time_between_commits_{n}_s": round(s, 3) for n, s in pauses.items()},
            "records_sent": self._sent,
            "parked": sum(epoch.counters.get("parked:ask", 0) for epoch in mine),
        }

    def _pause(self, epochs: Epochs, what: str) -> float:
        """Send records one by one, with calls that are held or without, and see how commits go."""
        held = _HELD_RECORDS if what == "held" else 0
        self._send("held", held)
        started, count = time.monotonic(), 0
        while (now := time.monotonic()) < started + _HELD_S / 2:
            self._producer.produce(self._topics[0], key=f"{what}-{count}", value=f"one-{count}")
            self._producer.flush(_TIMEOUT_S)
            count += 1
            self._sent += 1
            time.sleep(_TRICKLE_S)
        longest = epochs.longest_pause(started, now)
        got, deadline = 0, time.monotonic() + _TIMEOUT_S
        while got < count + held and time.monotonic() < deadline:
            got += len(self._consumer.consume(500, 0.1))
        assert got == count + held, f"{got} answers to {count + held} records"
        return longest

    def _send(self, what: str, count: int) -> None:
        for number in range(count):
            self._producer.produce(self._topics[0], key=f"{what}{number}", value=f"{what}-{number}")
        self._producer.flush(_TIMEOUT_S)
        self._sent += count

    def _receive(self, what: str, count: int) -> str | None:
        """Read until all outputs are there; return what is wrong with them."""
        wanted = Counter(
            (f"{what}{n}".encode(), f"{what}-{n}".upper().encode()) for n in range(count)
        )
        got: Counter[tuple[Any, Any]] = Counter()
        deadline = time.monotonic() + _TIMEOUT_S
        while got.total() < count and time.monotonic() < deadline:
            for message in self._consumer.consume(500, 0.01):
                if message.error() is None:
                    got[message.key(), message.value()] += 1
        for message in self._consumer.consume(500, 0.3 if what == "warm" else 0.0):
            got[message.key(), message.value()] += 1
        if got == wanted:
            return None
        return f"{(wanted - got).total()} outputs missing, {(got - wanted).total()} too many"


def main() -> int:
    """Run all trials, print a JSON document; 1 when some output was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.async_calls", description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--delay-ms", type=int, default=50)
    parser.add_argument("--capacity", type=int, default=100, help="calls at once in a process")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.delay_ms / 1000))
        return 0
    serving = [sys.executable, "-m", "benchmarks.async_calls", "--serve"]
    serving += ["--delay-ms", str(given.delay_ms)]
    child = subprocess.Popen(serving, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    runs: list[dict[str, Any]] = []
    try:
        port = int(child.stdout.readline())
        with tempfile.TemporaryDirectory(prefix="mustela-bench-") as name:
            folder = Path(name)
            with DevelopmentBroker(folder / "broker", heap_mb=512) as broker:
                for number in range(given.runs):
                    runs.append(Trial(broker.bootstrap_servers, folder, given, number).run(port))
                    print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
        child.stdin.close()
        asked = int(child.stdout.readline())
    finally:
        child.kill()
        child.wait()
    print(json.dumps({**vars(given), "runs": runs, "calls": asked}, indent=2))
    return int(any("fault" in run for run in runs))


if __name__ == "__main__":
    sys.exit(main())
