"""A table of orders asked in all ways, in turns: ``python -m benchmarks.queries --part rows``."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.answers import RANGE_ROWS, Right, key_of, records
from benchmarks.peers.base import Assignment, PeerFailedError
from benchmarks.peers.kafka_streams_peer import KafkaStreamsPeer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.trial import Bench, WrongOutputError
from benchmarks.ways import Arrow, Frames, Inside, Instances, Pages, Plain, PostedSql, Way
from mustela.admin.access import Access, read_access
from mustela.spark.session import open_context
from mustela.spark_source import register
from mustela_dev.broker.probe import free_port

PARTITIONS = 6
_INSTANCES = 2
_START_S = 300.0
_POLL_S = 0.2
QUESTIONS = ("get", "range", "sums", "scan")
_TIMES: dict[str, dict[str, int]] = {
    "get": {"process": 2_000, "http, json": 300, "kafka streams": 300, "duckdb": 300},
    "range": {
        "process": 20,
        "http, json": 20,
        "http, arrow": 20,
        "kafka streams": 20,
        "duckdb": 20,
    },
}
"""How often a question is asked in a turn; it is three times where a question takes longer."""
_FEW = {"get": 3, "range": 3, "sums": 1, "scan": 1}


@dataclass(slots=True)
class _Shown(MustelaPeer):
    """Mustela with its admin server."""

    def environment(self) -> Mapping[str, str]:
        return {**MustelaPeer.environment(self), "MUSTELA__ADMIN__ENABLED": "true"}

    def access(self) -> Access:
        """Return where its admin server is."""
        todo = self.assignment
        found = read_access(todo.state_dir / "~admin" / f"{todo.application_id}.json")
        assert found is not None, "the admin server has not said where it is"
        return found


@dataclass(slots=True)
class _Instance(KafkaStreamsPeer):
    """One of several instances of Kafka Streams, which answers at a port."""

    port: int = 0

    def command(self) -> list[str]:
        java, *rest = KafkaStreamsPeer.command(self)
        # Without it, Java's server leaves each answer 40 ms in the socket.
        return [java, "-Dsun.net.httpserver.nodelay=true", *rest, "--port", str(self.port)]


def ask_all(bench: Bench, given: argparse.Namespace) -> dict[str, Any]:
    """Ask every question in every way, in turns.

    Returns:
        By question and way the median of the seconds, those of each turn, and what they are as
        multiples of Kafka Streams' and of DuckDB's.

    Raises:
        WrongOutputError: If an answer is not right.
    """
    bench.topics.fill("orders", PARTITIONS, records(given.rows), lambda _record: None)
    right, seconds = Right(given.rows), dict[str, dict[str, list[float]]]()
    with _ways(bench, given) as ways:
        for turn in range(given.turns + 1):  # the first one warms up, and does not count
            for question in QUESTIONS:
                able = [way for way in ways if way.knows(question)]
                for way in able if turn % 2 else reversed(able):
                    keys = _keys(question, way.name, given.rows, turn)
                    took = answered(way, question, keys, right)
                    print(turn, question, way.name, f"{took:.6f}", file=sys.stderr, flush=True)
                    if turn:
                        seconds.setdefault(question, {}).setdefault(way.name, []).append(took)
    return {question: compared(found) for question, found in seconds.items()}


def compared(found: dict[str, list[float]]) -> dict[str, Any]:
    """Return medians, and the medians of the ratios of turns, to Kafka Streams and to DuckDB."""

    def ratio(mine: list[float], other: str) -> float:
        pairs = zip(mine, found[other], strict=True)
        return float(f"{statistics.median(one / its for one, its in pairs):.3g}")

    return {
        name: {
            "seconds": float(f"{statistics.median(mine):.4g}"),
            "to_kafka_streams": ratio(mine, "kafka streams"),
            "to_duckdb": ratio(mine, "duckdb"),
            "turns": [float(f"{each:.4g}") for each in mine],
        }
        for name, mine in found.items()
    }


def _keys(question: str, way: str, rows: int, turn: int) -> list[str]:
    rng = random.Random(f"{question} {turn}")
    times = _TIMES.get(question, {}).get(way, _FEW[question])
    last = rows - (RANGE_ROWS if question == "range" else 1)
    return [key_of(rng.randint(0, last)) for _ in range(times)]


def answered(way: Way, question: str, keys: list[str], right: Right) -> float:
    """Return the median of the seconds of right answers."""
    found = way.ask(question, keys)
    known: dict[str, str] = {}
    for key, told in zip(keys, found.told, strict=True):
        if question in ("sums", "scan"):
            key = ""
        if key not in known:
            known[key] = getattr(right, question)(*([key] if key else []))
        if told != known[key]:
            raise WrongOutputError(f"{way.name}, {question} {key}: {told} and not {known[key]}")
    return statistics.median(found.seconds)


@contextmanager
def _ways(bench: Bench, given: argparse.Namespace) -> Generator[list[Way]]:
    """Give all ways, with what answers them."""
    with ExitStack() as stack:
        app = _Shown(_assignment(bench, "mustela", given.rows))
        stack.callback(app.stop)
        app.start()
        shared = _assignment(bench, "kafka_streams", given.rows)
        instances: list[_Instance] = []
        for number in range(_INSTANCES):
            folder = shared.state_dir.parent / str(number)
            folder.mkdir()
            own = replace(shared, state_dir=folder / "state", log=folder / "log")
            instances.append(_Instance(own, port=free_port(), threads=1))
            stack.callback(instances[-1].stop)
            instances[-1].start()
        for peer in (app, *instances):
            peer.wait_until(bench.topics, given.rows, _START_S, lambda _look: None)
        streams = Instances(instances[0].port)
        right = Right(given.rows).sums()
        _wait(streams, right)
        session = SparkSession(stack.enter_context(_context()))
        register(session)
        access, todo = app.access(), app.assignment
        yield [
            Inside("process", "process", app),
            Pages(access),
            Arrow(access),
            Inside("sql", "sql", app),
            PostedSql(access),
            Frames(session, todo.application_id, str(todo.state_dir)),
            streams,
            Plain(given.rows),
        ]


def _wait(streams: Instances, right: str) -> None:
    """Wait until both instances have their parts of the store, and all rows are in them."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        try:
            if streams.instances() == _INSTANCES and streams.ask("sums", [""]).told == [right]:
                return
        except (OSError, AssertionError):
            pass  # it starts, or a part of the store moves
        time.sleep(_POLL_S)
    raise PeerFailedError(f"no {_INSTANCES} instances of Kafka Streams with all rows")


@contextmanager
def _context() -> Generator[Any]:
    context: Any = open_context("queries", {"spark.master": "local[2]"})
    try:
        yield context
    finally:
        context.stop()


def _assignment(bench: Bench, peer: str, count: int) -> Assignment:
    application_id = f"bench-queries-{peer}"
    folder = bench.folder / application_id
    folder.mkdir(parents=True)
    return Assignment(
        program="orders",
        bootstrap=bench.bootstrap,
        input_topic="orders",
        output=f"{application_id}.out",
        application_id=application_id,
        guarantee="eos",
        partitions=PARTITIONS,
        records=count,
        commit_ms=bench.commit_ms,
        state_dir=folder / "state",
        log=folder / "log",
    )


def shown(found: dict[str, Any]) -> str:
    """Return the table of the results, for people."""
    lines: list[str] = []
    for question, ways in found.items():
        for name, told in ways.items():
            mine = {key: value for key, value in told.items() if key != "turns"}
            lines.append(f"{question:6} {name:14} {json.dumps(mine)}")
    return "\n".join(lines)
