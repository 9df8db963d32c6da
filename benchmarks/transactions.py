"""Transactions per second with one lane and with two: ``python -m benchmarks.transactions``.

Each record moves money between two accounts of one customer; one record in a hundred pays one of
a hundred shops instead, whose accounts are thus shared. The topic is full before the application
starts. ``--work`` lets each transaction hash so many times too, as one that checks a signature
would: what is parallel is then more, beside what is not.

What the application writes is compared, row by row, with a plain program that runs all transfers
in a row; a run whose output differs has no number. Rates are those behind the first epochs, in
which workers and consumers begin.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kafka import Topics
from benchmarks.records import Record
from mustela import App, Stores, StreamsBuilder
from mustela.runtime.events import AppState, EpochDone, Event, StateChanged
from mustela.stores import Refusal, Transaction
from mustela_dev import DevelopmentBroker

CUSTOMERS = 200_000
SHOPS = 100
SHARED = 0.01
FIRST_BALANCE = 100
WORK = int(os.environ.get("BENCH_WORK", "0"))
_INPUT = "transfers"
_SEED = 20_260
_WARM_UP_EPOCHS = 5
_TIMEOUT_S = 240.0


def transfers(count: int, shared: float = SHARED) -> Iterator[Record]:
    """Make transfers: an id, and the two accounts with an amount."""
    source = random.Random(f"transfers-{_SEED}")
    for number in range(count):
        customer, amount = source.randrange(CUSTOMERS), source.randrange(1, 60)
        sides = [f"c{customer}-1", f"c{customer}-2"]
        if source.random() < shared:
            sides[1] = f"shop{source.randrange(SHOPS)}"
        elif source.random() < 0.5:
            sides.reverse()
        yield f"t{number}".encode(), f"{sides[0]} {sides[1]} {amount}".encode()


def accounts_of(_id: str, transfer: str) -> list[str]:
    """Return the keys of a transfer."""
    return transfer.split()[:2]


def move(_id: str, transfer: str, tx: Transaction) -> str:
    """Move money; return both balances."""
    digest = transfer.encode()
    for _ in range(WORK):
        digest = sha256(digest).digest()
    source, target, amount = transfer.split()
    accounts = tx.store("accounts")
    balance = accounts.get(source, FIRST_BALANCE) - int(amount)
    if balance < 0:
        tx.abort("too little money")
    other = accounts.get(target, FIRST_BALANCE) + int(amount)
    accounts.put(source, balance)
    accounts.put(target, other)
    return f"{balance} {other}"


def reason(refusal: Refusal[str]) -> str:
    """Return why a transfer was refused."""
    return refusal.reason


def build(builder: StreamsBuilder) -> None:
    """Write the topology."""
    accounts = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("accounts"), key=str, value=int
    )
    stream = builder.stream(_INPUT, key=str, value=str)
    moved = stream.transact(keys=accounts_of, fn=move, stores=accounts, name="move")
    moved.to(os.environ["BENCH_OUTPUT"], value=str, name="moved")
    refused = moved.refused().map_values(reason)
    refused.to(os.environ["BENCH_OUTPUT"], value=str, name="refused")


def expected(rows: Iterable[Record]) -> Counter[tuple[bytes | None, bytes | None]]:
    """Run all transfers in a row, and return what each must say."""
    accounts: dict[bytes, int] = {}
    told: Counter[tuple[bytes | None, bytes | None]] = Counter()
    for key, value in rows:
        source, target, amount = value.split()
        balance = accounts.get(source, FIRST_BALANCE) - int(amount)
        if balance < 0:
            told[key, b"too little money"] += 1
            continue
        accounts[source] = balance
        accounts[target] = accounts.get(target, FIRST_BALANCE) + int(amount)
        told[key, f"{balance} {accounts[target]}".encode()] += 1
    return told


@dataclass(frozen=True, slots=True)
class Epoch:
    """What the application says of an epoch: when, how many records, what its tasks took."""

    at: float
    records: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])


class _Reporter:
    """Prints a JSON line for each epoch."""

    def on_event(self, event: Event) -> None:
        """Say when an epoch is committed, and that the application failed."""
        if isinstance(event, EpochDone):
            seconds: dict[str, float] = {}
            longest: dict[int, float] = {}
            for report in event.reports:
                took = report.seconds.get("lane", report.seconds.get("source", 0.0))
                took -= report.seconds.get("wait", 0.0)
                seconds[f"stage {report.stage} task {report.task}"] = took
                longest[report.stage] = max(longest.get(report.stage, 0.0), took)
            seconds["job around its tasks"] = event.job_seconds - sum(longest.values())
            seconds["commit"] = event.seconds - event.job_seconds
            print(json.dumps([time.monotonic(), event.records, seconds]), flush=True)
        elif isinstance(event, StateChanged) and event.state is AppState.FAILED:
            print("null", flush=True)

    def on_error(self, error: BaseException) -> None:
        """Say that something is tried again."""
        print(error, file=sys.stderr, flush=True)


def run_app() -> None:
    """Run the application until standard input ends."""
    app = App(spark={"spark.master": os.environ["BENCH_MASTER"]})
    app.topology(build)
    app.add_listener(_Reporter())
    with app:
        sys.stdin.read()
    if app.error is not None:
        raise app.error


def trial(environment: dict[str, str], records: int) -> dict[str, Any]:
    """Run the application until all records are done; return rate and times."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.transactions", "--app"],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    epochs: list[Epoch] = []
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        for line in child.stdout:
            said = json.loads(line)
            if said is None or time.monotonic() > deadline:
                break
            epochs.append(Epoch(*said))
            if sum(epoch.records for epoch in epochs) >= records:
                break
    finally:
        child.stdin.close()
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
    return numbers([epoch for epoch in epochs if epoch.records], records)


def numbers(epochs: list[Epoch], records: int) -> dict[str, Any]:
    """Return the rate of the steady epochs, and what each task took for a transaction."""
    done = sum(epoch.records for epoch in epochs)
    if done < records or len(epochs) < _WARM_UP_EPOCHS + 2:
        return {"fault": f"{done} of {records} records in {len(epochs)} epochs"}
    steady = epochs[_WARM_UP_EPOCHS:]
    span = steady[-1].at - epochs[_WARM_UP_EPOCHS - 1].at
    mine = sum(epoch.records for epoch in steady)
    parts: Counter[str] = Counter()
    for epoch in steady:
        parts.update(epoch.seconds)
    return {
        "transactions_per_s": round(mine / span),
        "epochs": len(steady),
        "transactions_per_epoch": round(mine / len(steady)),
        "us_per_transaction": {name: round(s / mine * 1e6, 1) for name, s in sorted(parts.items())},
    }


class Bench:
    """A broker with a full topic, and what must come out.

    Args:
        broker: The broker.
        folder: For state.
        records: How many transfers.
        shared: Which part of them shares an account with others.
        settings: Variables of the application.
    """

    def __init__(
        self,
        broker: DevelopmentBroker,
        folder: Path,
        records: int,
        shared: float,
        settings: dict[str, str],
    ) -> None:
        self._settings = settings
        self._servers = broker.bootstrap_servers
        self._folder = folder
        self._records = records
        self._topics = Topics(self._servers)
        rows = list(transfers(records, shared))
        self._topics.fill(_INPUT, 1, rows, lambda _row: None)
        self._expected = expected(rows)

    def run(self, lanes: int, cores: int, number: int) -> dict[str, Any]:
        """Run once, and compare the output."""
        name = f"transfers-{lanes}-{cores}-{number}"
        output = f"{name}.out"
        self._topics.create([output], 1)
        result = trial(
            {
                "BENCH_OUTPUT": output,
                "BENCH_MASTER": f"local[{cores}]",
                "MUSTELA__APPLICATION_ID": name,
                "MUSTELA__BOOTSTRAP_SERVERS": self._servers,
                "MUSTELA__STATE_DIR": str(self._folder / name),
                "MUSTELA__LANES": str(lanes),
                **self._settings,
            },
            self._records,
        )
        got = Counter((key, value) for _, key, value in self._topics.read([output], output))
        self._topics.delete_of(name)
        self._topics.delete([output])
        if got != self._expected:
            missing, extra = self._expected - got, got - self._expected
            return {"fault": f"{missing.total()} rows missing, {extra.total()} too many", **result}
        return result


def main() -> int:
    """Run all trials, print a JSON document; 1 when some output was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__)
    parser.add_argument("--app", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3, help="of each number of lanes")
    parser.add_argument("--shared", type=float, default=SHARED, help="part of the transfers")
    parser.add_argument("--work", type=int, default=0, help="hashes in each transaction")
    parser.add_argument("--commit-ms", type=int, default=2_000)
    parser.add_argument("--ways", default="1/1,1/2,2/2", help="lanes/cores, comma separated")
    given = parser.parse_args()
    if given.app:
        run_app()
        return 0
    # A plain end would leave the broker; an exception ends all in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ways = [tuple(map(int, way.split("/"))) for way in given.ways.split(",")]
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="mustela-bench-") as name:
        folder = Path(name)
        with DevelopmentBroker(folder / "broker", heap_mb=1_024) as broker:
            settings = {
                "MUSTELA__COMMIT_INTERVAL": f"{given.commit_ms}ms",
                "BENCH_WORK": str(given.work),
            }
            bench = Bench(broker, folder, given.records, given.shared, settings)
            for number in range(given.runs):
                for lanes, cores in ways if number % 2 == 0 else reversed(ways):
                    label = f"{lanes} lanes, {cores} cores"
                    found.setdefault(label, []).append(bench.run(lanes, cores, number))
                    print(label, json.dumps(found[label][-1]), file=sys.stderr, flush=True)
    rates = {
        label: median(run.get("transactions_per_s", 0) for run in runs)
        for label, runs in found.items()
    }
    print(json.dumps({**vars(given), "median_rates": rates, "runs": found}, indent=2))
    return int(any("fault" in run for runs in found.values() for run in runs))


if __name__ == "__main__":
    sys.exit(main())
