"""One application whose stores are asked while it is killed, restarted and released anew."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.runtime.record.epoch_record import epochs_topic
from mustela.state.directories import memory_directory
from mustela_dev.broker.probe import free_port
from tests.faults.feed import Feeder, read_all
from tests.faults.kills import DRIVER_POINTS, LANE_POINTS, SOURCE_POINTS
from tests.faults.ledger import Line
from tests.faults.process import ROOT, ChildApp, ChildEndedError
from tests.faults.reads.app import LOOKS
from tests.faults.reads.book import book_of
from tests.faults.reads.clients import Clients
from tests.faults.reads.expiry import FRESH, wrongly_kept
from tests.faults.reads.judge import Judge
from tests.faults.reads.program import KEY_GROUPS, PARTITIONS, RELEASES, Program, draw, maker
from tests.faults.reads.served import PROGRAM
from tests.faults.watch import Watcher
from tests.patience import looks

__all__ = ["MOVES", "Reading", "play"]

TOKEN = "queries-of-the-campaign-0123456789"
EPOCHS = 4
"""So many epochs a life has at least."""
ANSWERS = 12
"""So many answers clients get of a life at least."""
POINTS = (*DRIVER_POINTS, *SOURCE_POINTS, *LANE_POINTS[:2])
POINT_S = 5.0
LOOK_S = 0.4
PAUSE_S = 0.15


class Reading:
    """An application, its replica, its feeder and its clients.

    Args:
        seed: What all is drawn from.
        servers: The broker.
        directory: For state, logs and markers.
        environment: Variables besides the usual ones.
        spark: A session of Spark that reads data frames, too.
    """

    def __init__(
        self,
        seed: int,
        servers: str,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        spark: Any = None,
    ) -> None:
        self.random = random.Random(f"reading-{seed}")
        self.seed = seed
        self.release = 0
        self.name = f"reads-{seed}-{directory.name}"
        self._servers = servers
        self._directory = directory
        self._children: list[ChildApp] = []
        self._replica: subprocess.Popen[bytes] | None = None
        self._output = (directory / "replica.txt").open("ab")
        self.lanes = self.random.choice((1, 2, 3))
        self.last = draw(seed, RELEASES - 1)
        ports = {"app": free_port(), "replica": free_port()}
        self._listen = {place: f"127.0.0.1:{port}" for place, port in ports.items()}
        self.environment = {
            "FAULTS_PREFIX": self.name,
            "FAULTS_SPARK": '{"spark.master": "local[2]", "spark.driver.memory": "512m",'
            f' "spark.local.dir": "{directory / "spark"}"}}',
            "MUSTELA__APPLICATION_ID": self.name,
            "MUSTELA__BOOTSTRAP_SERVERS": servers,
            "MUSTELA__KEY_GROUPS": str(KEY_GROUPS),
            "MUSTELA__COMMIT_INTERVAL": "100ms",
            "MUSTELA__COMMIT_TIMEOUT": "60s",
            "MUSTELA__STATE__BACKEND": self.random.choice(("lmdb", "lmdb", "memory")),
            "MUSTELA__ADMIN__ENABLED": "true",
            "MUSTELA__ADMIN__QUERY_TOKEN": TOKEN,
            "MUSTELA__ADMIN__REQUEST_TIMEOUT": "20s",
            **(environment or {}),
        }
        self._admin = KafkaAdmin({"bootstrap.servers": servers})
        kept = {"retention.ms": "-1"}
        epochs = TopicSpec(
            name=epochs_topic(self.name),
            partitions=1,
            config={**kept, "cleanup.policy": "compact", "segment.bytes": str(50 << 20)},
        )
        topics = [f"{self.name}.{short}" for short in self.last.topics]
        specs = [TopicSpec(name=name, partitions=PARTITIONS, config=kept) for name in topics]
        self._admin.create([*specs, epochs])
        make = maker(self.last.topics)
        source = f"{self.name}.{self.last.topics[0]}"
        self._feeder = Feeder(servers, source, make, seed=seed, pause_s=PAUSE_S)
        self._watcher = Watcher(servers, self.name, {})
        token = directory / "token"
        token.write_text(TOKEN, encoding="utf-8")
        self.clients = Clients(
            {place: f"http://{at}" for place, at in self._listen.items()},
            token,
            self.last.shapes,
            frozenset(draw(seed, 0).shapes),
            seed=seed,
            spark=spark,
        )

    def __enter__(self) -> Reading:
        """Begin to feed and to ask."""
        self._watcher.start()
        self._feeder.start()
        self.start()
        self.start_replica()
        self.clients.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._feeder.stop()
        self.clients.stop()
        for child in self._children:
            child.kill()
        self.kill_replica()
        self._output.close()
        self._watcher.stop()
        self._admin.close()

    @property
    def program(self) -> Program:
        """The program that runs now."""
        return draw(self.seed, self.release)

    @property
    def child(self) -> ChildApp:
        """The application's process."""
        return self._children[-1]

    def _variables(self, place: str) -> dict[str, str]:
        return {
            **self.environment,
            PROGRAM: f"{self.seed}:{self.release}",
            "MUSTELA__ADMIN__LISTEN": self._listen[place],
            "MUSTELA__STATE_DIR": str(self._directory / f"state-{place}"),
            "MUSTELA__LANES": str(self.lanes),
        }

    def start(self) -> None:
        """Start the application."""
        directory = self._directory / f"run-{len(self._children)}"
        module, variables = "tests.faults.reads.app", self._variables("app")
        self._children.append(ChildApp(self.name, directory, variables, point="*", module=module))

    def start_replica(self) -> None:
        """Start the replica."""
        self._replica = subprocess.Popen(
            [sys.executable, "-m", "mustela.cli.main", "serve", "tests.faults.reads.replica:app"],
            cwd=ROOT,
            env={**os.environ, **self._variables("replica")},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def kill_replica(self) -> None:
        """Kill the replica, if it runs."""
        if self._replica is not None:
            self._replica.kill()
            self._replica.wait()

    def await_answers(self, *places: str) -> None:
        """Wait until this life has committed some epochs, and clients were told of them.

        Raises:
            ChildEndedError: If it ends first.
        """
        before = {place: self.clients.count(place) for place in places}
        told = self._told_inside()

        def reached() -> bool:
            counts = [self.clients.count(place) - count for place, count in before.items()]
            inside = self._told_inside() - told
            is_told = min(counts) >= ANSWERS and inside >= ANSWERS
            return self.child.epochs() >= EPOCHS and is_told

        what = f"{ANSWERS} answers of {places}"
        self.child.wait_for(what, reached)

    def await_all_stores(self) -> None:
        """Wait until each client has had an answer of each store that it can ask for.

        Raises:
            ChildEndedError: If one has none: what it would have been told is not known.
        """
        clients = self.clients
        try:
            self.child.wait_for(
                "answers of all stores", lambda: bool(clients.errors) or not clients.unasked()
            )
        except ChildEndedError as error:
            msg = f"there was no answer of these stores: {clients.unasked()}; {error}"
            raise ChildEndedError(msg) from None

    def _told_inside(self) -> int:
        file = self.child.directory / LOOKS
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def kill(self) -> str:
        """Kill the application with SIGKILL, in a phase of an epoch if it comes there soon."""
        point = self.random.choice((*POINTS, "", ""))
        if point:
            wish, marker = (self.child.directory / name for name in (f"want-{point}", point))
            wish.touch()
            for came in looks(marker.exists, POINT_S):
                if came:
                    break
            else:
                point = ""
        time.sleep(LOOK_S * self.random.random())  # clients go on while it stands still
        self.child.kill()
        if self.child.returncode != -signal.SIGKILL:
            msg = f"the application ended with {self.child.returncode}: {self.child.text()}"
            raise ChildEndedError(msg)
        return point or "any moment"

    def end(self) -> str:
        """End the application, mostly by SIGKILL."""
        if self.random.random() < 0.75:
            return self.kill()
        code = self.child.stop()
        if code:
            msg = f"the application ended with {code}: {self.child.text()}"
            raise ChildEndedError(msg)
        return "SIGTERM"

    def lose_state(self) -> int:
        """Delete the state of some key groups, on disk or tmpfs; return of how many."""
        places = self._directory / "state-app", memory_directory(self.name)
        found = (path for place in places for path in place.glob("*/*/[0-9]*"))
        groups = sorted(path for path in found if path.is_dir())
        assert groups, f"there is no state in {places}"
        lost = [path for path in groups if self.random.random() < 0.6] or groups
        for path in lost:
            shutil.rmtree(path)
        return len(lost)

    def judge(self) -> Judge:
        """Stop all, read what was committed, and judge what clients were told."""
        self._feeder.stop()
        self.child.kill()
        self.kill_replica()
        self.clients.stop()
        self._watcher.read_to_end()
        records = self._watcher.seen.records
        program = self.program
        book = book_of(self._servers, self.name, program, records)
        judge = Judge(book, program.shapes)
        if FRESH in program.shapes:
            topic = f"{self.name}.{FRESH}"
            rows = read_all(self._servers, topic, PARTITIONS)
            judge.violations += wrongly_kept(book, records, topic, rows)
        for child in self._children:
            events = looks_of(child)
            judge.take(event for event in events if event["event"] == "look")
            judge.violations += [e["text"] for e in events if e["event"] == "misread"]
        judge.take(self.clients.looks)
        judge.violations += self.clients.errors + self._watcher.seen.violations
        return judge

    @property
    def epochs(self) -> int:
        """How many epochs were committed."""
        records = self._watcher.seen.records
        return records[-1].epoch if records else 0

    @property
    def records(self) -> int:
        """How many records were sent."""
        return self._feeder.made


def _kill(reading: Reading) -> str:
    how = reading.end() if reading.random.random() < 0.2 else reading.kill()
    reading.start()
    return how


def _lanes(reading: Reading) -> str:
    how = reading.end()
    reading.lanes = reading.random.choice([n for n in (1, 2, 3, 4) if n != reading.lanes])
    reading.start()
    return f"{how}, {reading.lanes} lanes"


def _release(reading: Reading) -> str:
    """Another release, with one store more; its replica is started when it runs."""
    how = reading.end()
    reading.release += 1
    reading.start()
    reading.child.wait_for_epochs(1)
    reading.kill_replica()
    reading.start_replica()
    return f"{how}, with {reading.program.stores[-1]}"


def _lose_state(reading: Reading) -> str:
    """Delete the state of some key groups: it is restored while clients ask."""
    how = reading.end()
    lost = reading.lose_state()
    reading.start()
    return f"{how}, {lost} key groups"


def _kill_replica(reading: Reading) -> str:
    reading.kill_replica()
    reading.start_replica()
    return "SIGKILL"


MOVES: dict[str, Callable[[Reading], str]] = {
    "kill": _kill,
    "lanes": _lanes,
    "release": _release,
    "lose-state": _lose_state,
    "kill-replica": _kill_replica,
}
"""What is done to an application while its stores are asked; each says how it went."""


def looks_of(child: ChildApp) -> list[dict[str, Any]]:
    """Return what the readers of a process saw, without a line that was cut."""
    file = child.directory / LOOKS
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def plan(seed: int) -> list[str]:
    """Return the moves of a seed: other lanes, a release, and one or two more."""
    rng = random.Random(f"moves-{seed}")
    moves = ["lanes", "release", rng.choice(("release", "kill", "lose-state"))]
    if rng.random() < 0.5:
        moves.append("kill-replica")
    rng.shuffle(moves)
    return moves


def play(
    seed: int,
    servers: str,
    directory: Path,
    *,
    moves: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    spark: Any = None,
) -> Line:
    """Play a seed and say what came of it."""
    started = time.monotonic()
    done: Counter[str] = Counter()
    directory.mkdir(parents=True, exist_ok=True)
    reading = Reading(seed, servers, directory, environment, spark)
    program, violations = reading.last, list[str]()
    answers: Counter[str] = Counter()
    with reading:
        try:
            reading.await_answers("app", "replica")
            for move in moves or plan(seed):
                how = MOVES[move](reading)
                done[move] += 1
                print(f"    {move}: {how}", flush=True)
                reading.await_answers("app", "replica")
            reading.await_all_stores()
            judge = reading.judge()
            violations, answers = judge.violations, judge.answers
        except AssertionError as error:
            violations = [str(error), *reading.clients.errors]
    found = [text[:4000].replace(f"{ROOT}/", "") for text in violations]
    settings = {
        "stores": " ".join(f"{name} ({way})" for name, way in program.stores),
        "backend": reading.environment["MUSTELA__STATE__BACKEND"],
    }
    return Line(
        seed=seed,
        slice=0,
        kind="readers",
        settings=settings,
        faults=dict(done),
        answers=dict(answers),
        epochs=reading.epochs,
        records=reading.records,
        seconds=round(time.monotonic() - started),
        violations=found,
    )
