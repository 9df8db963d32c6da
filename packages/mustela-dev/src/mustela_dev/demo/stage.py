"""The demonstration from start to end: broker, input, run, kills, checks, cleanup."""

from __future__ import annotations

import contextlib
import importlib.resources
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mustela.cli.clients import open_admin, open_sink
from mustela.clock import SystemClock
from mustela.errors import InvariantError
from mustela_dev.broker.process import BrokerOptions, DevelopmentBroker
from mustela_dev.broker.scratch import new_scratch
from mustela_dev.commands.jars import jar_request
from mustela_dev.demo.checks import Epoch, Findings, check_run, final_counts
from mustela_dev.demo.corpus import Corpus, read_corpus
from mustela_dev.demo.feeder import Feeder
from mustela_dev.demo.kept import write_kept
from mustela_dev.demo.kills import KillPlan
from mustela_dev.demo.process import AppProcess
from mustela_dev.demo.report import (
    COMMONEST,
    DemoOutcome,
    Screen,
    State,
    mustela_command,
    next_lines,
)
from mustela_dev.demo.watch import EpochWatch, read_counts, read_side

__all__ = ["DemoOptions", "DemoStalledError", "run_demo"]

APPLICATION_ID = "wordcount"
LINES, COUNTS, COPY = "lines", "counts", "lines-copy"
PARTITIONS = 4
BROKER_HEAP_MB = 256
POLL_S = 0.1
STALL_S = 180.0
SOCKET_DIRECTORY_MAX = 60
EPOCHS_MIN = 20


class DemoStalledError(InvariantError):
    """The application is running, but commits nothing."""

    code = "DEMO_STALLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demonstration.

    Attributes:
        lines: Lines of the input.
        lanes: Lanes of the application; None for its default.
        crash: Whether to kill the application three times.
        keep: Whether to leave the broker and the application running.
        quiet: Whether standard output is read by a program.
    """

    lines: int
    lanes: int | None = None
    crash: bool = False
    keep: bool = False
    quiet: bool = False


def run_demo(options: DemoOptions) -> tuple[DemoOutcome, list[str]]:
    """Run the demonstration.

    Returns:
        The outcome, and every fault.

    Raises:
        MustelaError: If a part of it could not run.
    """
    with contextlib.ExitStack() as stack:
        stage = _Stage(options, stack)
        outcome, faults = stage.run()
        if options.keep:
            stage.leave_up()
            stack.pop_all()
        return outcome, faults


class _Stage:
    """One run, and everything to clean up after it."""

    def __init__(self, options: DemoOptions, stack: contextlib.ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._clock = SystemClock()
        self._screen = Screen(quiet=options.quiet)
        self._pause = threading.Event()
        self._scratch = self._make_scratch()
        self._home = self._scratch / "app"
        self._broker = self._make_broker()
        self._app = AppProcess(
            f"{APPLICATION_ID}:app", self._home, self._scratch, tied=not options.keep
        )
        self._kills = KillPlan(options.lines, self._scratch)
        if not options.crash:
            self._kills.kills = ()
        self._command = mustela_command()

    def run(self) -> tuple[DemoOutcome, list[str]]:
        """Do everything except cleaning up."""
        pool = ThreadPoolExecutor(1)
        self._stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        reading = pool.submit(read_corpus, self._options.lines, partitions=PARTITIONS)
        self._screen.say("starting a Kafka broker")
        self._broker.start()
        self._write_program()
        self._create_topics()
        self._stack.callback(self._app.sweep)
        self._app.start(self._kills.environment(0))
        corpus = self._corpus(reading)
        watch = EpochWatch(APPLICATION_ID, LINES, self._broker.bootstrap_servers)
        self._stack.callback(watch.close)
        self._wait_until_ready(watch)
        with self._screen:
            seconds = self._feed_and_watch(corpus, watch)
        faults = self._stop_app()
        return self._check(corpus, watch, seconds, faults)

    def leave_up(self) -> None:
        """Print how to continue with what keeps running."""
        write_kept(self._scratch, self._app.mark)
        lines = next_lines(
            self._command, home=self._home, scratch=self._scratch, application_id=APPLICATION_ID
        )
        self._screen.next(lines)

    # -- before the run ---------------------------------------------------------------------------

    def _make_scratch(self) -> Path:
        if self._options.keep:
            place = Path(tempfile.mkdtemp(prefix="mustela-demo-"))
        else:
            # The next demonstration removes what a killed one left.
            place = new_scratch()
        self._stack.callback(shutil.rmtree, place, ignore_errors=True)
        return place

    def _make_broker(self) -> DevelopmentBroker:
        options = BrokerOptions(tied=not self._options.keep, jars=jar_request())
        broker = DevelopmentBroker(
            self._scratch / "broker", heap_mb=BROKER_HEAP_MB, options=options
        )
        # Its data is deleted right after, so it need not be consistent.
        self._stack.callback(broker.kill)
        return broker

    def _write_program(self) -> None:
        source = importlib.resources.files("mustela_dev.demo").joinpath(f"{APPLICATION_ID}.py")
        program = source.read_text(encoding="utf-8")
        self._home.mkdir()
        (self._home / f"{APPLICATION_ID}.py").write_text(program, encoding="utf-8")
        lines = [
            f"bootstrap_servers: {self._broker.bootstrap_servers}",
            f"state_dir: '{_quoted(self._scratch / 'state')}'",
        ]
        if self._options.lanes is not None:
            lines.append(f"lanes: {self._options.lanes}")
        sockets = self._scratch / "tmp"
        if len(str(sockets)) <= SOCKET_DIRECTORY_MAX:
            # Otherwise Java's own directory: the path of a socket must be short.
            lines += ["spark:", f"  spark.python.unix.domain.socket.dir: '{_quoted(sockets)}'"]
        (self._home / "mustela.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._screen.program(program, f"{self._command} run {APPLICATION_ID}:app")

    def _create_topics(self) -> None:
        from mustela.connectors.kafka.admin import TopicSpec

        config = {"retention.ms": "-1"}
        specs = [
            TopicSpec(name=name, partitions=PARTITIONS, replication_factor=1, config=config)
            for name in (LINES, COUNTS, COPY)
        ]
        with open_admin(self._broker.bootstrap_servers) as admin:
            admin.create(specs)

    def _corpus(self, reading: Future[Corpus]) -> Corpus:
        corpus = reading.result()
        self._screen.say(
            f"{len(corpus.lines):,} lines of Python's standard library, "
            f"{corpus.words:,} words, in {PARTITIONS} partitions"
        )
        return corpus

    # -- the run ----------------------------------------------------------------------------------

    def _wait_until_ready(self, watch: EpochWatch) -> None:
        """Wait until the application has claimed its incarnation: from then on it reads."""
        began = self._clock.monotonic()
        incarnation = watch.incarnation
        while watch.incarnation == incarnation:
            self._app.check_alive()
            self._refuse_stall(began)
            watch.poll()
            self._pause.wait(POLL_S)

    def _feed_and_watch(self, corpus: Corpus, watch: EpochWatch) -> float:
        feeder = Feeder(corpus, LINES, lambda: open_sink(self._broker.bootstrap_servers))
        self._stack.callback(feeder.stop)
        started = moved = self._clock.monotonic()
        feeder.window = self._kills.window
        feeder.start()
        total = len(corpus.lines)
        while watch.committed < total:
            self._pause.wait(POLL_S)
            before = watch.committed
            watch.poll()
            feeder.note_committed(watch.committed)
            if feeder.error is not None:
                raise feeder.error
            moved = self._clock.monotonic() if watch.committed > before else moved
            self._refuse_stall(moved)
            self._screen.update(self._state(corpus, watch, feeder))
            if self._kills.is_due(watch.committed):
                self._kill(watch, feeder)
                moved = self._clock.monotonic()
            elif watch.committed < total:
                self._app.check_alive()
        seconds = self._clock.monotonic() - started
        feeder.stop()
        self._screen.update(self._state(corpus, watch, feeder), last=True)
        return seconds

    def _kill(self, watch: EpochWatch, feeder: Feeder) -> None:
        count = self._app.kill()
        # Its last commits count.
        watch.poll()
        self._kills.note(on_their_way=feeder.sent - watch.committed)
        self._screen.say(
            f"killed the application with SIGKILL, {count} processes, at "
            f"{watch.committed / self._options.lines:.0%} of the input; starting it again"
        )
        feeder.window = self._kills.window
        self._app.start(self._kills.environment(watch.committed))

    def _state(self, corpus: Corpus, watch: EpochWatch, feeder: Feeder) -> State:
        return State(
            lines=watch.committed,
            total=len(corpus.lines),
            words=corpus.words_until(watch.ends),
            epochs=watch.epoch,
            lag=max(0, feeder.sent - watch.committed),
            lanes=watch.lanes,
            kills=self._kills.done,
        )

    def _refuse_stall(self, since: float) -> None:
        if self._clock.monotonic() - since > STALL_S:
            what = f"the application has committed nothing for {STALL_S:g} s"
            says = self._app.log_tail() or "nothing"
            raise DemoStalledError(what, evidence={"says": says}, fix="read its log")

    def _stop_app(self) -> list[str]:
        if self._options.keep:
            return []
        code = self._app.stop()
        return [] if code == 0 else [f"asked to stop, the application ended with {code}, not 0"]

    # -- after the run ----------------------------------------------------------------------------

    def _check(
        self, corpus: Corpus, watch: EpochWatch, seconds: float, faults: list[str]
    ) -> tuple[DemoOutcome, list[str]]:
        started = self._clock.monotonic()
        watch.poll()
        epochs, wrong = watch.epochs()
        counts = read_counts(COUNTS, self._broker.bootstrap_servers)
        side = read_side(COPY, self._broker.bootstrap_servers)
        found = check_run(corpus, epochs, counts, side)
        last = final_counts(counts)
        if not self._options.crash:
            assert self._kills.done == 0
        else:
            wrong += self._kills.wrong()
        faults = [*faults, *wrong, *self._told(found, watch.ends, corpus.ends(), epochs)]
        self._screen.words(Counter(last).most_common(COMMONEST))
        outcome = DemoOutcome(
            lines=len(corpus.lines),
            words=corpus.words,
            distinct=len(last),
            mismatches=found.mismatches,
            missing=found.missing,
            duplicates=found.duplicates,
            torn_epochs=found.torn_epochs,
            seconds=round(seconds, 3),
            lines_per_s=round(len(corpus.lines) / seconds, 1),
            epochs=len(epochs),
            kills=self._kills.done,
            replayed_epochs=self._kills.replayed + sum(epoch.attempt > 0 for epoch in epochs),
        )
        self._screen.outcome(outcome, faults, self._clock.monotonic() - started)
        return outcome, faults

    def _told(
        self,
        found: Findings,
        ends: Mapping[int, int],
        expected: Mapping[int, int],
        epochs: list[Epoch],
    ) -> list[str]:
        """Put every fault into words."""
        faults = list(found.examples)
        if found.faults > len(found.examples):
            faults.append(f"and {found.faults - len(found.examples)} more faults")
        if dict(ends) != dict(expected):
            faults.append(f"the last epoch ends at {dict(ends)}, the input at {dict(expected)}")
        if len(epochs) < EPOCHS_MIN:
            faults.append(f"only {len(epochs)} epochs, not {EPOCHS_MIN}")
        return faults


def _quoted(path: Path) -> str:
    """Return a path escaped for single quotes in YAML."""
    return os.fspath(path).replace("'", "''")
