"""Looks after the workers of a job that takes long: says what they are at, and ends them.

A function of the user's that hangs would hold its epoch, and the end of the application, for ever.
The driver cannot take it back, but it can say which step, record and line it is, and kill the
worker: the job fails then, nothing of the epoch is committed, and the next one runs it again.
"""

from __future__ import annotations

import linecache
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from mustela.errors import Origin
from mustela.plan.epoch import EpochOrder, Program
from mustela.runtime.status.snapshot import WorkerView
from mustela.spark.busy import (
    ASK,
    Activity,
    Doing,
    busy_root,
    read_notes,
    words_of,
    words_size,
)
from mustela.topology.node import Node

__all__ = ["Limits", "Stuck", "WorkerWatch", "user_line"]

_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_RECORD: Final = re.compile(r"^record: (.+)$", re.MULTILINE)
_THREADS: Final = re.compile(r"^(?=(?:Current thread|Thread) 0x)", re.MULTILINE)
_PACKAGE: Final = f"{Path(__file__).parent.parent}/"
_TASK: Final = f"{_PACKAGE}spark/worker.py"
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "<frozen", "/lib/python3")
_ANSWER_S: Final = 1.0
_STEP_S: Final = 0.02
_LOOKS: Final = 10
_PERIOD: Final = (0.05, 1.0)
_RANGES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a worker may be at one step with one batch.

    Attributes:
        warn_s: Seconds after which it is said.
        kill_s: Seconds after which the worker is killed; None lets it go on.
    """

    warn_s: float = 30.0
    kill_s: float | None = None

    @property
    def period_s(self) -> float:
        """How often to look."""
        shortest = min(self.warn_s, self.kill_s or self.warn_s)
        return min(max(shortest / _LOOKS, _PERIOD[0]), _PERIOD[1])


class Stuck(NamedTuple):
    """A worker that is, or was, at something.

    Attributes:
        pid: The process.
        doing: What it is at.
        text: The same for people.
        step: The step's name, or nothing.
        record: Which record it has, if it could tell.
        words: Where in Python it is, as the worker wrote it.
    """

    pid: int
    doing: Doing
    text: str
    step: str
    record: str
    words: str


@dataclass(slots=True)
class WorkerWatch:
    """Looks after the workers of one program on this host.

    Args:
        program: What they run.
        limits: How long they may take.
        say: Is told of what takes long.
        now: The monotonic clock of the host, in seconds.
    """

    program: Program
    limits: Limits
    say: Callable[[str], None]
    now: Callable[[], float] = time.perf_counter
    overdue: Stuck | None = None
    _killing: bool = False
    _began: float = 0.0
    _running: list[EpochOrder] = field(default_factory=list[EpochOrder])
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _told: dict[tuple[int, float], float] = field(default_factory=dict[tuple[int, float], float])

    @property
    def _root(self) -> Path | None:
        return busy_root(self.program.spool_dir)

    @contextmanager
    def over(self, order: EpochOrder) -> Generator[None]:
        """Look after the workers while the block waits for the job of an epoch."""
        with self._changed:
            if self._thread is None and self._root is not None:
                self._thread = threading.Thread(
                    target=self._look_after, name="mustela-watch", daemon=True
                )
                self._thread.start()
            self._began = self.now() if not self._running else self._began
            self._running.append(order)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(order)

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    def _look_after(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._running or self._closed.is_set())
            self._closed.wait(self.limits.period_s)
            if self._running:
                with suppress(Exception):  # a listener's fault must not end the watch
                    self.look()

    def look(self) -> None:
        """Look once: say what takes long, and kill what takes too long."""
        root = self._root
        if root is None:
            return
        for pid, (doing, lives) in read_notes(root).items():
            if lives and self._killing:
                _kill(pid)
            if not lives or not doing.is_users:
                continue
            busy_s = self.now() - doing.since
            limit = self.limits.kill_s
            if limit is not None and busy_s >= limit:
                self.overdue = self._ask(root, pid, doing)
                _kill(pid)
            elif busy_s >= self._told.get((pid, doing.since), self.limits.warn_s):
                self._told[pid, doing.since] = busy_s * 2
                self.say(self._ask(root, pid, doing).text)

    def kill(self) -> None:
        """Kill the workers, now and whenever there are new ones: the job that runs fails."""
        self._killing = True
        self.look()

    def take_dead(self) -> list[Stuck]:
        """Return what workers of this job were at when they died, once for each."""
        root = self._root
        found: list[Stuck] = []
        for pid, (doing, lives) in read_notes(root).items() if root is not None else ():
            if lives or root is None:
                continue
            if doing.kind != Activity.REST and doing.since >= self._began:
                found.append(self._stuck(pid, doing, words_of(root, pid), "was at"))
            (root / str(pid)).unlink(missing_ok=True)
        return found

    def views(self, *, stacks: bool) -> list[WorkerView]:
        """Return what each living worker is at.

        Args:
            stacks: Whether each is asked where in Python it is.
        """
        root = self._root
        if root is None:
            return []
        notes = sorted(read_notes(root).items())
        living = {pid: doing for pid, (doing, lives) in notes if lives}
        words = self._words(root, list(living)) if stacks else {}
        return [self._view(pid, doing, words.get(pid, "")) for pid, doing in living.items()]

    def _view(self, pid: int, doing: Doing, words: str) -> WorkerView:
        node, rests = self._step(doing), doing.kind == Activity.REST
        record = _RECORD.findall(words)
        return WorkerView(
            pid=pid,
            activity=Activity(doing.kind).name.lower(),
            stage=-1 if rests else doing.stage,
            lane=-1 if rests else doing.task,
            step="" if node is None else node.name,
            seconds=max(0.0, self.now() - doing.since),
            record=record[-1] if record else "",
            stack=words,
        )

    def _words(self, root: Path, pids: Sequence[int]) -> dict[int, str]:
        """Ask workers where they are, all at once; return what each said."""
        starts = {pid: words_size(root, pid) for pid in pids}
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, ASK)
        deadline = self.now() + _ANSWER_S
        sizes = starts
        while self.now() < deadline:
            self._closed.wait(_STEP_S)
            sizes, before = {pid: words_size(root, pid) for pid in pids}, sizes
            if all(sizes[pid] == before[pid] > starts[pid] for pid in pids):
                break
        return {pid: words_of(root, pid, starts[pid]) for pid in pids}

    def _ask(self, root: Path, pid: int, doing: Doing) -> Stuck:
        """Ask a worker where it is."""
        words = self._words(root, [pid])[pid]
        seconds = int(self.now() - doing.since)
        return self._stuck(pid, doing, words, f"has been for {seconds} s at")

    def _stuck(self, pid: int, doing: Doing, words: str, verb: str) -> Stuck:
        told = _RECORD.findall(words)
        record = told[-1] if told else ""
        parts = [f"a worker {verb} {self._what(doing)}"]
        if record:
            parts.append(f"now with {record}")
        line = user_line(words)
        if line is not None:
            parts.append(f"in {line}")
        step = self._step(doing)
        name = "" if step is None else step.name
        return Stuck(pid, doing, ", ".join(parts), name, record, words)

    def _step(self, doing: Doing) -> Node | None:
        stages = self.program.plan.stages
        if doing.kind != Activity.STEP or not 0 <= doing.stage < len(stages):
            return None
        steps = stages[doing.stage].steps
        return steps[doing.step].node if 0 <= doing.step < len(steps) else None

    def _what(self, doing: Doing) -> str:
        """Name step and batch."""
        plan = self.program.plan
        node = self._step(doing)
        if node is not None:
            at = "" if node.origin is None else f" ({node.origin})"
            what = f"step {node.name!r}{at}"
        elif doing.kind == Activity.DECODE:
            what = "decoding"
        else:
            what = "reading or writing"
        if 0 <= doing.topic < len(plan.topics):
            where = f"{plan.topics[doing.topic]}-{doing.partition}"
            return f"{what} with offsets {doing.first} to {doing.last} of {where}"
        return f"{what} in lane {doing.task} with {self._ranges()}"

    def _ranges(self) -> str:
        order = min(self._running, key=lambda order: order.token, default=None)
        if order is None:
            return "one epoch"
        parts = [
            f"offsets {part.start} to {part.end - 1} of "
            f"{self.program.plan.topics[part.topic_index]}-{part.partition}"
            for ranges in order.ranges
            for part in ranges
        ]
        more = [f"{len(parts) - _RANGES_SHOWN} more"] if len(parts) > _RANGES_SHOWN else []
        return ", ".join([*parts[:_RANGES_SHOWN], *more]) or "no records"


def user_line(words: str) -> Origin | None:
    """Return the user's line that a stack leads to, the innermost one; else the innermost line.

    Args:
        words: The stacks of a worker's threads, as the fault handler writes them.
    """
    for thread in _THREADS.split(words):
        frames = [Origin(file, int(line), name) for file, line, name in _FRAME.findall(thread)]
        if not any(frame.file == _TASK for frame in frames):
            continue
        own = (frame for frame in frames if not _is_library(frame.file))
        found = next(own, frames[0])
        code = linecache.getline(found.file, found.line).strip()
        return Origin(found.file, found.line, code or found.code)
    return None


def _is_library(file: str) -> bool:
    return file.startswith(_PACKAGE) or any(part in file for part in _LIBRARIES)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
