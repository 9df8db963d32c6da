"""One application under kills: fed, watched, killed, started again, and checked at the end."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.connectors.kafka.client import servers_of
from mustela.runtime.record.epoch_record import epochs_topic
from tests.faults.around import AROUND
from tests.faults.feed import Feeder, read_all
from tests.faults.kinds.kind import Inputs
from tests.faults.kinds.registry import KINDS
from tests.faults.oracle import check_epochs, check_order
from tests.faults.process import ChildApp, ChildEndedError
from tests.faults.reach import Servers, reaching
from tests.faults.reading import ReadModel
from tests.faults.watch import Row, Watcher, ends_of
from tests.patience import PATIENCE_S

PARTITIONS = 2
EPOCH_RECORDS = 1_000
WRITTEN_AT_ONCE = 2_000
SETTLE_S = 1.0
"""Inputs are written all the time, and a log that was cut may not settle at all."""


@dataclass(slots=True)
class Result:
    """What a campaign found.

    Attributes:
        kills: Kills done.
        points: Where.
        epochs: Epochs committed.
        rows: Output rows seen.
        records: Input records.
        violations: What is wrong.
        reads: So many epochs were read inside of the application and compared with the model.
    """

    kills: int = 0
    points: list[str] = field(default_factory=list)
    epochs: int = 0
    rows: int = 0
    records: int = 0
    reads: int = 0
    violations: list[str] = field(default_factory=list)


class Campaign:
    """An application, its topics, its feeder and its watcher.

    Args:
        kind: Which application of `tests.faults.kinds`.
        servers: The broker.
        directory: For state, logs and markers.
        seed: For everything that is random.
        environment: Settings besides the usual ones.
        pause_s: The feeder's pause.
        records: So many records are there at the start, and no more come; 0 feeds at a pace.
    """

    def __init__(
        self,
        kind: str,
        servers: Servers,
        directory: Path,
        *,
        seed: int,
        environment: dict[str, str] | None = None,
        pause_s: float = 0.1,
        records: int = 0,
    ) -> None:
        self.kind = kind
        self.facts = KINDS[kind]
        self._records = records
        self.servers = servers_of(reaching(servers))
        self._reached = servers
        self.application_id = f"faults-{kind.replace('_', '-')}-{seed}-{directory.name}"
        self.state_dir = directory / "state"
        self.random = random.Random(seed)
        self.result = Result()
        self.child: ChildApp | None = None
        self.alone: list[ChildApp] = []
        self.repeats = 0
        self.wrapper: list[str] = []
        self.mounts: list[Path] = []
        self.widened: dict[str, int] = {}
        self._kept: dict[tuple[str, int], list[Row]] = {}
        self._resumed: dict[tuple[str, int], int] = {}
        self.more_records = self.hung = 0
        self._moves = 0
        self._children: list[ChildApp] = []
        self.directory = directory
        self._runs = 0
        self.prefix = self.application_id
        around = AROUND.get(kind)
        self._around = around and around(servers, self.prefix, seed)
        self.settings = {
            "FAULTS_PREFIX": self.prefix,
            "MUSTELA__APPLICATION_ID": self.application_id,
            "MUSTELA__BOOTSTRAP_SERVERS": self.servers,
            "MUSTELA__STATE_DIR": str(self.state_dir),
            "MUSTELA__KEY_GROUPS": "8",
            "MUSTELA__COMMIT_INTERVAL": "50ms",
            "MUSTELA__COMMIT_TIMEOUT": "60s",
            "MUSTELA__EPOCH__MAX_RECORDS": str(EPOCH_RECORDS),
            "MUSTELA__PROCESSING_HANDLER": "fail",
            "MUSTELA__TOPICS__REFRESH": "500ms",
            "FAULTS_SPARK": '{"spark.master": "local[2]", "spark.driver.memory": "512m",'
            f' "spark.local.dir": "{directory / "spark"}"}}',
            **self.facts.environment,
            **(self._around.environment if self._around else {}),
            **(environment or {}),
        }
        self.guarantee = self.settings.get("MUSTELA__PROCESSING_GUARANTEE", "exactly_once")
        self.admin = KafkaAdmin(reaching(servers))
        self.outputs = {short: f"{self.prefix}.{short}" for short in self.facts.outputs}
        if "dead-letters" in self.outputs:
            self.outputs["dead-letters"] = f"{self.application_id}-dead-letters"
        self.input = f"{self.prefix}.in"
        self._make_topics()
        self.feeder = Feeder(servers, self.input, self.facts.make, seed=seed, pause_s=pause_s)
        self.watcher = Watcher(
            servers, self.application_id, dict.fromkeys(self.outputs.values(), PARTITIONS)
        )

    def _make_topics(self) -> None:
        facts = self.facts
        read = {"in", *facts.inputs, *facts.global_inputs, *facts.more_inputs}
        topics = [*(f"{self.prefix}.{short}" for short in sorted(read)), *self.outputs.values()]
        # Event times of some kinds lie in the past, and may not be deleted for it.
        kept = {"retention.ms": "-1"}
        specs = [TopicSpec(name=topic, partitions=PARTITIONS, config=kept) for topic in topics]
        compacted = {"cleanup.policy": "compact", "segment.bytes": str(50 << 20)}
        epochs = TopicSpec(
            name=epochs_topic(self.application_id),
            partitions=1,
            config={**compacted, "retention.ms": "-1"},
        )
        self.admin.create([*specs, epochs])

    def __enter__(self) -> Campaign:
        """Begin to feed and to watch."""
        self.watcher.start()
        if self._around is not None:
            self._around.start()
        if not self.facts.inputs:
            return self
        if self._records:
            for start in range(0, self._records, WRITTEN_AT_ONCE):
                self.feeder.write(min(WRITTEN_AT_ONCE, self._records - start))
        else:
            self.feeder.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for child in (*self.alone, *([] if self.child is None else [self.child])):
            child.kill()
        self.feeder.stop()
        if self._around is not None:
            self._around.stop()
        self.watcher.stop()
        self.admin.close()
        for place in reversed(self.mounts):
            subprocess.run(["umount", "-l", str(place)], check=False)

    def start(self, point: str = "", **environment: str) -> ChildApp:
        """Start a run of the application."""
        self._runs += 1
        directory = self.directory / f"run-{self._runs:03d}"
        variables = {**self.settings, **environment}
        self.child = self._child(directory, variables, point)
        self._children.append(self.child)
        return self.child

    def _child(self, directory: Path, variables: dict[str, str], point: str) -> ChildApp:
        """Start a run, here."""
        return ChildApp(self.kind, directory, variables, point=point, wrapper=self.wrapper)

    def kill_at(self, point: str, **environment: str) -> None:
        """Start, wait until some process comes to the point, and kill everything.

        Without damage to local state before it, the run must not have restored anything.
        """
        whole = not self.is_damaged
        child = self.start(point, **environment)
        child.wait_for_point()
        self._killed(child, point)
        if whole and not point.startswith("in-recovery"):
            self.check_restored(child)
        self.is_damaged = point.startswith("in-recovery")

    has_standbys = False
    """Whether several runs read at a time."""

    is_damaged = False
    """Whether local state was tampered with, or its restore was cut, since it was whole."""

    def kill_after(self, epochs: int, seconds: float) -> None:
        """Start, wait for epochs, then for a random time, and kill everything."""
        child = self.start()
        child.wait_for_epochs(epochs)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        else:
            msg = f"the application ended by itself\n{child.events()[-3:]}\n{child.text()}"
            raise ChildEndedError(msg)
        self._killed(child, "random")
        if not self.is_damaged:
            self.check_restored(child)
        self.is_damaged = False

    def _killed(self, child: ChildApp, point: str) -> None:
        # The driver and its JVM at least; before the first job there are no workers.
        if child.kill() < 2:
            self.result.violations.append(f"{point}: only one process was killed")
        self.result.kills += 1
        self.result.points.append(point)

    def check_restored(self, child: ChildApp) -> None:
        """Note if a run has restored anything, though nothing was lost."""
        # What a dead application has left in memory is deleted by any other one that starts.
        in_memory = self.settings.get("MUSTELA__STATE__BACKEND") == "memory"
        count = child.restored()
        if count and not in_memory:
            where = child.directory.name
            self.result.violations.append(f"{where}: {count} records were restored after a kill")

    @property
    def has_state(self) -> bool:
        """Whether an epoch has left anything on disk."""
        records = self.watcher.seen.records
        done = bool(records) and records[-1].epoch > 0  # the claim of a start comes before them
        return done and any(True for _ in self._groups())

    def _groups(self) -> Iterator[Path]:
        return self.state_dir.glob("*/*/[0-9]*")

    def lose_state(self, share: float = 1.0) -> int:
        """Delete the local state of some key groups; return of how many."""
        self.is_damaged = True
        count = 0
        for path in sorted(self._groups()):
            if path.is_dir() and self.random.random() < share:
                shutil.rmtree(path)
                count += 1
        return count

    def move_state(self) -> None:
        """Let later runs have another state directory, as on another host; there are two."""
        self._moves += 1
        self.is_damaged = True
        self.state_dir = self.directory / ("state" if self._moves % 2 == 0 else "elsewhere")
        self.settings["MUSTELA__STATE_DIR"] = str(self.state_dir)

    def partitions(self, short: str) -> int:
        """Return how many partitions an input topic has by now."""
        return self.widened.get(short, PARTITIONS)

    def inputs(self) -> Inputs:
        """Read the committed input, after what was kept of it; see `keep_inputs`."""
        found: dict[tuple[str, int], list[Row]] = {}
        for short in (*self.facts.inputs, *self.facts.global_inputs):
            topic, count = f"{self.prefix}.{short}", self.partitions(short)
            for partition, rows in read_all(self._reached, topic, count, settle_s=SETTLE_S).items():
                base = self.watcher.bases.get((topic, partition), 0)
                first = self._resumed.get((short, partition), 0)
                found[short, partition] = [
                    *self._kept.get((short, partition), ()),
                    *(
                        row._replace(topic=short, offset=row.offset + base)
                        for row in rows
                        if row.offset + base >= first
                    ),
                ]
        return found

    def keep_inputs(self, *, anew: bool) -> None:
        """Keep what was read of the source, of which records will be lost; all of it was seen.

        Args:
            anew: Whether its offsets will begin at 0 again: later ones count on from here.
        """
        ends = ends_of(self.watcher.seen.records[-1])
        for (short, partition), rows in self.inputs().items():
            place = f"{self.prefix}.{short}", partition
            end = ends.get(place, 0)
            self._kept[short, partition] = [row for row in rows if row.offset < end]
            self._resumed[short, partition] = end
            self.watcher.jumping.add(place)
            if anew:
                self.watcher.bases[place] = end

    def resume_inputs(self) -> None:
        """Note where the application goes on in a source that lost records."""
        self.watcher.read_to_end()
        for (topic, partition), end in ends_of(self.watcher.seen.records[-1]).items():
            self._resumed[topic.removeprefix(f"{self.prefix}."), partition] = end
        self.watcher.jumping.clear()

    def waiting(self) -> str:
        """Return what the input holds, for who looks for what hangs."""
        places = [
            (f"{self.prefix}.{short}", partition)
            for short in self.facts.inputs
            for partition in range(self.partitions(short))
        ]
        stable, ends = self.admin.end_offsets(places), self.admin.high_watermarks(places)
        reached = ends_of(self.watcher.seen.records[-1]) if self.watcher.seen.records else {}
        return f"stable {stable}, written {ends}, read {reached}"

    def wait_caught_up(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all input was read, and all that follows was done; the feeder has stopped.

        Raises:
            AssertionError: If the application does not get there in time.
        """
        places = [
            (f"{self.prefix}.{short}", partition)
            for short in self.facts.inputs
            for partition in range(self.partitions(short))
        ]
        bases = self.watcher.bases
        ends = {
            (p.topic, p.partition): n + bases.get((p.topic, p.partition), 0)
            for p, n in self.admin.end_offsets(places).items()
        }
        inputs = self.inputs()
        deadline = time.monotonic() + timeout_s
        while True:
            records = self.watcher.seen.records
            reached = ends_of(records[-1]) if records else {}
            if records and ends.items() <= reached.items() and not self._left(inputs):
                return
            child = self.child
            ended = child is not None and child.returncode is not None
            if ended or time.monotonic() > deadline:
                said = [] if child is None else [*child.events()[-2:], child.text()]
                left = self._left(inputs)
                msg = f"not caught up with {ends}, but at {reached}, {left} rows to come: {said}"
                raise AssertionError(msg)
            time.sleep(0.05)

    def _left(self, inputs: Inputs) -> int:
        """Return how many rows are to come in later epochs than those that read the input."""
        outcome = self.facts.outcome
        return 0 if outcome is None else outcome.left(inputs, self._rows())

    def _rows(self) -> dict[str, list[Row]]:
        """Return what was seen, by topic without prefix."""
        rows = self.watcher.seen.rows
        return {short: list(rows[topic]) for short, topic in self.outputs.items()}

    def finish(self) -> Result:
        """Run to the end of the input, stop cleanly, and check everything."""
        result = self.result
        child = self.start() if self.child is None or not self.child.is_running else self.child
        try:
            child.wait_for("running", lambda: child.is_running)
            self.feeder.stop()
            self.wait_caught_up()
            code = child.stop()
            if code != 0:
                result.violations.append(f"a clean stop ended with {code}: {child.text()[-500:]}")
            self.watcher.read_to_end()
        except AssertionError as error:
            result.violations.append(str(error))
        else:
            if not self.is_damaged:
                self.check_restored(child)
            self._check(result)
        return result

    def _check(self, result: Result) -> None:
        seen, inputs = self.watcher.seen, self.inputs()
        result.records = sum(map(len, inputs.values()))
        result.rows = sum(map(len, seen.rows.values()))
        result.epochs = seen.records[-1].epoch
        out = seen.rows[self.outputs["out"]]
        result.violations.extend(seen.violations)
        loose = self.guarantee == "at_least_once"
        facts = self.facts
        if facts.outcome is not None:
            result.violations.extend(facts.outcome.violations(inputs, self._rows(), seen))
        if facts.model is not None:
            repeated_max = result.kills + self.repeats if loose else 0
            runs = [child.events() for child in self._children]
            model = ReadModel(facts.model(), facts, runs, beside=self.has_standbys)
            result.violations.extend(
                check_epochs(
                    model,
                    inputs,
                    seen,
                    self.outputs,
                    prefix=self.prefix,
                    repeated_max=repeated_max,
                    unfinished=facts.global_inputs,
                )
            )
            result.violations.extend(model.all_violations())
            result.reads = model.compared
        if facts.row_of is not None and not loose:
            result.violations.extend(check_order(inputs, out, facts.row_of))
