"""What all peers have in common: a process that says what happens and obeys its standard input."""

from __future__ import annotations

import abc
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kafka import Topics
from benchmarks.measure import Progress
from benchmarks.process_tree import ProcessTree

_POLL_S = 0.1
_CLOSE_TIMEOUT_S = 60.0
_TERM_TIMEOUT_S = 10.0
_TAIL_LINES = 30
_WRITERS = 2
"""Stream threads, or processes, of a peer that writes to a repartition topic."""
_BETWEEN = ("repartition", "SUBSCRIPTION")
"""What the names of such topics have in them, those of Kafka Streams' foreign-key joins too."""


class PeerFailedError(Exception):
    """The peer ended by itself, or did not get done in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What one run of a peer is to do.

    Attributes:
        program: One of the programs that every peer knows.
        input_topic: Read from its beginning.
        output: Stem of the output topics' names.
        application_id: Fresh for each run: group, transactions and internal topics hang on it.
        guarantee: "eos" or "alo".
        partitions: Of the input.
        records: In the input and the sides when the run begins; 0 when they come while it runs.
        sides: Other topics that are read, and whose place is committed.
        commit_ms: The interval between commits, the same for all peers.
        state_dir: Local state and checkpoints; empty at the first start.
        log: File that takes the peer's standard error.
    """

    program: str
    bootstrap: str
    input_topic: str
    output: str
    application_id: str
    guarantee: str
    partitions: int
    records: int
    commit_ms: int
    state_dir: Path
    log: Path
    sides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something the peer said about itself."""

    name: str
    time: float
    fields: dict[str, object]


@dataclass(slots=True)
class Peer(abc.ABC):
    """One program under test, in a session of its own.

    The program prints events as JSON lines: `main` when its own code begins, `session` when its
    engine is made, `running` when it processes, `closed` when it has ended in good order. It reads
    commands from standard input: `restart` and `stop`.
    """

    assignment: Assignment
    events: list[Event] = field(default_factory=list)
    started_at: float = 0.0
    _process: subprocess.Popen[str] | None = None
    _reader: threading.Thread | None = None
    _tree: ProcessTree | None = None
    _between: list[str] = field(default_factory=list)

    name: str = field(default="", init=False)

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The command line that starts the program."""

    def environment(self) -> Mapping[str, str]:
        """Variables on top of the harness's own."""
        return {}

    def repartitions(self) -> bool:
        """Whether the program sends records through a topic of its own on their way."""
        return False

    def progress(self, topics: Topics) -> int:
        """How many input records are worked off and committed, all steps included.

        Where records go through a repartition topic, being read from the input is half the way:
        what counts is the share of them that has been read from that topic too.
        """
        todo = self.assignment
        read = sum(
            sum(topics.committed(todo.application_id, name).values())
            for name in (todo.input_topic, *todo.sides)
        )
        if read == 0 or not self.repartitions():
            return read
        sent = done = 0
        for name in self._repartition_topics(topics):
            places = topics.committed(todo.application_id, name)
            for partition, end in topics.end_offsets(name).items():
                # Each writer's last transaction may end in a mark that nobody has to read.
                slack = _WRITERS if todo.guarantee == "eos" else 0
                place = places.get(partition, 0)
                sent += end
                done += end if place >= end - slack else place
        return read * done // sent if sent else 0

    def _repartition_topics(self, topics: Topics) -> list[str]:
        if not self._between:
            self._between = [
                name
                for name in topics.names()
                if self.assignment.application_id in name
                and any(word in name for word in _BETWEEN)
                and "changelog" not in name
            ]
        return self._between

    def arguments(self) -> list[str]:
        """The options that every peer's program takes."""
        todo = self.assignment
        return [
            *("--program", todo.program),
            *("--bootstrap", todo.bootstrap),
            *("--app-id", todo.application_id),
            *("--input", todo.input_topic),
            *("--output", todo.output),
            *("--guarantee", todo.guarantee),
            *("--commit-ms", str(todo.commit_ms)),
            *("--state-dir", str(todo.state_dir)),
        ]

    @property
    def pid(self) -> int:
        """The root of the program's process tree."""
        assert self._process is not None, "start comes first"
        return self._process.pid

    def start(self) -> None:
        """Start the program; returns as soon as the process is there."""
        self.assignment.state_dir.mkdir(parents=True, exist_ok=True)
        self.started_at = time.time()
        with self.assignment.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self.environment()},
                cwd=self.assignment.state_dir,
                start_new_session=True,
            )
        self._tree = ProcessTree(self._process.pid)
        self._reader = threading.Thread(target=self._read_events, daemon=True)
        self._reader.start()

    def wait_until(
        self, topics: Topics, count: int, timeout_s: float, seen: Callable[[Progress], None]
    ) -> None:
        """Wait until so many input records are committed, looking ten times a second.

        Args:
            topics: To ask the broker.
            count: The committed records to wait for.
            timeout_s: Longest time without any progress.
            seen: Called with every look.

        Raises:
            PeerFailedError: If the peer ends, or makes no progress for `timeout_s`.
        """
        best = -1
        deadline = time.monotonic() + timeout_s
        while True:
            committed = self.progress(topics)
            seen(Progress(time=time.time(), committed=committed))
            self._follow()
            if committed >= count:
                return
            if committed > best:
                best, deadline = committed, time.monotonic() + timeout_s
            self._refuse_end()
            if time.monotonic() > deadline:
                raise PeerFailedError(
                    f"{self.name}: {committed} of {count} records committed, then nothing for "
                    f"{timeout_s:.0f} s\n{self._log_tail()}"
                )
            time.sleep(_POLL_S)

    def wait_for(self, event: str, timeout_s: float, *, after: float = 0.0) -> Event:
        """Wait until the peer has said something, later than a moment.

        Raises:
            PeerFailedError: If it ends before, or does not say it in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            found = self.event(event, after=after)
            if found is not None:
                return found
            self._follow()
            self._refuse_end()
            if time.monotonic() > deadline:
                raise PeerFailedError(
                    f"{self.name}: no {event!r} in {timeout_s:.0f} s\n{self._log_tail()}"
                )
            time.sleep(_POLL_S / 5)

    def event(self, name: str, *, after: float = 0.0) -> Event | None:
        """The first event of a name later than a moment, if there is one yet."""
        for event in list(self.events):
            if event.name == name and event.time >= after:
                return event
        return None

    def tell(self, command: str) -> None:
        """Give the program a command."""
        assert self._process is not None, "start comes first"
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End the program in good order if it can, else by force; nothing of it is left."""
        process = self._process
        if process is None:
            return
        self._follow()
        if process.poll() is None:
            with contextlib.suppress(OSError):
                self.tell("stop")
            if not _ended(process, _CLOSE_TIMEOUT_S):
                process.terminate()
            if not _ended(process, _TERM_TIMEOUT_S):
                process.kill()
        process.wait()
        self._end_leftovers()
        if self._reader is not None:
            self._reader.join(_TERM_TIMEOUT_S)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process = None

    def _end_leftovers(self) -> None:
        assert self._tree is not None, "start made it"
        deadline = time.monotonic() + _TERM_TIMEOUT_S
        while time.monotonic() < deadline:
            self._tree.update()
            if not self._tree.pids():
                return
            time.sleep(_POLL_S)
        for pid in self._tree.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _follow(self) -> None:
        if self._tree is not None:
            self._tree.update()

    def _refuse_end(self) -> None:
        assert self._process is not None, "start comes first"
        code = self._process.poll()
        if code is not None:
            raise PeerFailedError(f"{self.name} ended with {code}\n{self._log_tail()}")
        error = self.event("error")
        if error is not None:
            said = str(error.fields.get("error", "an error")).replace("\n", "; ")
            raise PeerFailedError(f"{self.name} reported {said}\n{self._log_tail()}")

    def _read_events(self) -> None:
        assert self._process is not None, "start comes first"
        assert self._process.stdout is not None, "a pipe was asked for"
        for line in self._process.stdout:
            event = parse_event(line)
            if event is not None:
                self.events.append(event)

    def _log_tail(self) -> str:
        try:
            lines = self.assignment.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_TAIL_LINES:])


def parse_event(line: str) -> Event | None:
    """An event, if that is what a line of output is."""
    if not line.startswith("{"):
        return None
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or "event" not in fields or "time" not in fields:
        return None
    return Event(name=str(fields.pop("event")), time=float(fields.pop("time")), fields=fields)


def _ended(process: subprocess.Popen[str], timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def program_path(name: str) -> Path:
    """A program file beside this one."""
    return Path(__file__).parent / name


def joined(paths: Sequence[Path]) -> str:
    """A class path."""
    return os.pathsep.join(str(path) for path in paths)
