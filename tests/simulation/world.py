"""The simulated world: one cluster, some machines, processes on them, and one order of all events.

Processes run in threads of which one runs at a time. They hand over at calls of ports, by the
seed's choice, and time moves only here. So a seed always gives the same run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.broker import BASE_MS, Fenced, SimBroker
from tests.simulation.machine import Machine
from tests.simulation.script import Event, Script

__all__ = [
    "BASE_MS",
    "Killed",
    "Life",
    "SimWorld",
    "Violation",
    "WorkerKilled",
    "current_life",
    "current_world",
    "reach_worker",
]


CALL_MS = 1
SWITCH = 0.15
STEPS_MAX = 30_000
_TO_ONE = frozenset({"fail", "no_answer", "kill_worker", "kill_writer", "fail_writer", "kill"})
"""What happens to the process that is at the call of a port just then."""
CALM_AFTER = 50
"""Steps between the last event and the moment at which everything is put right."""


class Killed(BaseException):
    """The process is gone: raised in its thread from every call of a port."""


class WorkerKilled(BaseException):
    """A worker process is gone, with the task that it ran."""


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


@dataclass(eq=False, slots=True)
class Life:
    """One process of the application, from its start to its end.

    Attributes:
        slot: Which of the supervised instances it is.
        machine: Where it runs.
        version: Which version of the program.
        dead: It was killed.
        stopping: It was asked to stop.
        outcome: How it ended: ``stopped``, ``killed``, or the code of an error.
        wake_ms: It sleeps until then.
        met: How many failures it has met.
        running: Whether its start is over.
        paused: Whether time passed in which it could do nothing.
        began_ms: When it was started.
        told_epoch: The last epoch that it told of.
        no_answers: How many commits get no answer.
        dying_writers: How many lanes die while they write.
        failing_writers: How many rows of lanes get no answer.
        sent: What it wrote without a transaction, by topic and key.
        read_as: Whose log it was that it read, by topic, partition and first offset.
        rest: Rounds without anything to do, one after the other.
        stands_by: It waits at the start for as long as another one lives.
        frozen_ms: It stands still until then.
    """

    slot: int
    machine: Machine
    version: int
    dead: bool = False
    stopping: bool = False
    outcome: str = ""
    error: BaseException | None = None
    wake_ms: int = 0
    met: int = 0
    running: bool = False
    paused: bool = False
    began_ms: int = 0
    told_epoch: int = 0
    rest: int = 0
    stands_by: bool = False
    frozen_ms: int = 0
    sent: dict[tuple[str, bytes | None], list[bytes | None]] = field(default_factory=dict)
    read_as: dict[tuple[str, int, int], int] = field(default_factory=dict)
    failures: list[Event] = field(default_factory=list)
    worker_dies: bool = False
    no_answers: int = 0
    dying_writers: int = 0
    failing_writers: int = 0
    baton: Any = field(default_factory=threading.Lock)


_THREAD = threading.local()


def current_life() -> Life:
    """Return the process whose thread this is."""
    return _THREAD.life


def current_world() -> SimWorld:
    """Return the world of the process whose thread this is."""
    return _THREAD.world


def reach_worker(name: str) -> None:
    """A worker is at a point of the protocol: it may be its last one."""
    world, life = current_world(), current_life()
    world.at(life, name)
    if life.worker_dies:
        life.worker_dies = False
        life.met += 1
        raise WorkerKilled


@dataclass(eq=False, slots=True)
class _Slot:
    wanted: bool = False
    version: int = 0
    machine: int = 0
    life: Life | None = None
    restart_ms: int = 0
    stands_by: bool = False
    ends: list[str] = field(default_factory=list)


class SimWorld:
    """A world that plays one script.

    Args:
        script: What happens.
        live: Runs a process of the application in the calling thread.
    """

    def __init__(self, script: Script, live: Callable[[SimWorld, Life], None]) -> None:
        self.script = script
        self.random = Random(script.seed)
        self.ms = 0
        self.steps = 0
        self.broker = SimBroker(lambda: BASE_MS + self.ms)
        self.machines = [Machine(number, Random(script.seed + number)) for number in range(3)]
        self.slots = [_Slot(machine=number) for number in range(3)]
        self.is_calm = False
        self.calm_until = 0
        self.came_to_rest = False
        self.has_begun = False
        self.applied: set[str] = set()
        self.moved_ms = -1
        self.stale: tuple[int, dict[str, tuple[str, int]]] | None = None
        self.ends: list[str] = []
        self.happened: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.trace: list[str] = []
        self.apply: Callable[[Event], None] = lambda _event: None
        self.off: frozenset[str] = frozenset()
        self.may_stop: Callable[[str], bool] = lambda _code: False
        self.told: Callable[[Life, int], None] = lambda _life, _epoch: None
        self.on_end: Callable[[Life], None] = lambda _life: None
        self.on_reset: Callable[[], None] = lambda: None
        self.on_step: Callable[[], None] = lambda: None
        self.on_look: Callable[[], None] = lambda: None
        # Else instances are started when one ends: so all that is in old results were played.
        self.starts_beside = any(event.kind == "beside" for event in script.events)
        self._live = live
        last = max((event.at for event in script.events), default=0)
        events = [*script.events, Event(last + CALM_AFTER, "calm")]
        self._queue = sorted(events, key=lambda event: event.at, reverse=True)
        self._lives: list[Life] = []
        self._main = threading.Lock()
        self._main.acquire()
        self.ids = 0
        self.late_commits: list[tuple[str, int]] = []
        self.delivers_late = False
        self.lanes_write = any(event.kind == "writers" for event in script.events)
        self.late_rows: list[Any] = []
        self.written_by: dict[tuple[str, int, str, int], int] = {}
        self.writers = 0
        self.every_life: list[Life] = []
        for machine in self.machines:
            machine.at = self._at_disk

    def _at_disk(self, what: str) -> None:
        self.at(current_life(), what)

    def deliver_late(self, name: str) -> None:
        """A commit whose answer nobody waits for reaches the cluster, now or never."""
        late, self.late_commits = self.late_commits, []
        self.happened["late answer"] += len(late)
        for producer, epoch in late:
            if producer != name:
                self.late_commits.append((producer, epoch))
            elif self.random.random() < 0.5:
                self.delivers_late = True
                try:
                    self.broker.end_transaction(producer, epoch, commit=True)
                except Fenced:
                    self.note("a late commit is fenced")
                self.delivers_late = False

    def seen_topic(self, life: Life, name: str) -> tuple[str, int] | None:
        """Return id and partitions of a topic as the broker that a process asks knows it."""
        if self.stale is not None and self.steps < self.stale[0]:
            return self.stale[1].get(name)
        topic = self.broker.topics.get(name)
        return None if topic is None else (topic.topic_id, len(topic.partitions))

    def metadata(self) -> dict[str, tuple[str, int]]:
        """Return id and number of partitions of each topic."""
        topics = self.broker.topics.values()
        return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in topics}

    # -- what ports call ----------------------------------------------------------------------

    def at(self, life: Life, what: str) -> None:
        """A process is at a call of a port: whatever is due happens now.

        Raises:
            Killed: If the process is gone.
        """
        if life.dead:
            raise Killed
        self.steps += 1
        self.ms += CALL_MS
        self.on_look()
        if self.steps > STEPS_MAX and not life.stopping:
            self.report(Violation("progress", f"the application does not come to rest ({what})"))
            life.stopping = True
        if self._queue and self._queue[-1].at <= self.steps:
            self._play(life, what)
        if self.starts_beside:
            self._supervise()
            self.on_step()
            if life.wake_ms > self.ms:  # it stands still
                self._wait(life)
        if len(self._lives) > 1 and not self.is_calm and self.random.random() < SWITCH:
            self._hand_over(life)
        if life.dead:
            raise Killed

    def failure(self, life: Life, what: str = "") -> Event | None:
        """Return the failure that the call of a port is to meet, if any."""
        if what == "commit" and life.no_answers:
            life.no_answers -= 1
            life.failures.append(Event(self.steps, "no_answer"))
        if not life.failures:
            return None
        life.met += 1
        self.happened["request that fails"] += 1
        return life.failures.pop()

    def sleep(self, life: Life, seconds: float) -> None:
        """A process sleeps."""
        self.at(life, "sleep")
        life.wake_ms = self.ms + max(1, int(seconds * 1000))
        self._wait(life)
        if life.dead:
            raise Killed

    def _wait(self, life: Life) -> None:
        """Let others run until it is time for a process."""
        while not life.dead and self.ms < life.wake_ms:
            other = min(self._lives, key=lambda known: (known.wake_ms, known.slot))
            if other is life or other.wake_ms >= life.wake_ms:
                self.ms = max(self.ms, life.wake_ms)
                break
            self.ms = max(self.ms, other.wake_ms)
            self._pass(life, other)

    def report(self, violation: Violation) -> None:
        """Note that an invariant does not hold."""
        if violation.invariant in self.off:
            return
        self.violations.append(violation)
        for life in self._lives:
            life.stopping = True  # what is to be found is found
        self.note(f"VIOLATION {violation}")

    def note(self, text: str) -> None:
        """Note what happens, for those who read a failed seed."""
        self.trace.append(f"{self.steps:5} {self.ms:7} {text}")

    def new_id(self) -> str:
        """Return a text that no other call returned."""
        self.ids += 1
        return f"id{self.ids}"

    # -- the order of things ------------------------------------------------------------------

    def run(self, until: Callable[[], bool]) -> None:
        """Let processes run, and start those that are wanted, until somebody says enough."""
        while not until():
            self._supervise()
            if self._lives:
                life = min(self._lives, key=lambda known: (known.wake_ms, known.slot))
                self.ms = max(self.ms, life.wake_ms)
                life.baton.release()
                self._main.acquire()
                self._bury()
            else:
                self.steps += 1
                self.ms += 50
                if self.steps > STEPS_MAX:
                    self.report(Violation("progress", "nothing runs, and nothing is to come"))
                    return
                self._play(None)
            self.broker.tick()

    @property
    def is_played(self) -> bool:
        """Whether all events have happened."""
        return not self._queue

    def lives(self) -> list[Life]:
        """Return the processes that run."""
        return list(self._lives)

    def kill(self, life: Life) -> None:
        """Kill a process."""
        life.dead = True
        life.wake_ms = 0

    def stop_all(self) -> None:
        """Ask every process to stop, and start none."""
        for slot in self.slots:
            slot.wanted = False
        for life in self._lives:
            life.stopping = True

    def abandon(self) -> None:
        """Let the threads of processes that still run come to their end."""
        for life in self._lives:
            self.kill(life)
        while self._lives:
            self._lives[0].baton.release()
            self._main.acquire()
            self._bury()

    def _play(self, life: Life | None, what: str = "") -> None:
        self.broker.tick()
        while self._queue and self._queue[-1].at <= self.steps:
            event = self._queue.pop()
            self.note(f"event {event}")
            target = life or (self._lives[0] if self._lives else None)
            if event.kind in _TO_ONE and target is None:
                continue
            self.happened[event.kind] += 1
            if event.kind == "kill":
                self.happened[f"kill at: {what.split('-')[0] or 'rest'}"] += 1
            if event.kind == "fail":
                target.failures.insert(0, event)  # type: ignore[union-attr]
            elif event.kind == "no_answer":
                target.no_answers += 1  # type: ignore[union-attr]
            elif event.kind == "kill_worker":
                target.worker_dies = True  # type: ignore[union-attr]
            elif event.kind == "kill_writer":
                target.dying_writers += 1  # type: ignore[union-attr]
            elif event.kind == "fail_writer":
                target.failing_writers += 1  # type: ignore[union-attr]
            elif event.kind == "kill":
                self.kill(target)  # type: ignore[arg-type]
            else:
                self.apply(event)

    def _supervise(self) -> None:
        for number, slot in enumerate(self.slots):
            if not slot.wanted or slot.life is not None or self.ms < slot.restart_ms:
                continue
            life = Life(number, self.machines[slot.machine], slot.version)
            life.baton.acquire()
            life.wake_ms = life.began_ms = self.ms
            life.stands_by = slot.stands_by
            slot.life = life
            self._lives.append(life)
            self.every_life.append(life)
            self.happened[f"instances at once: {len(self._lives)}"] += 1
            self.note(f"start {number} version {slot.version} on machine {slot.machine}")
            threading.Thread(target=self._main_of, args=(life,), daemon=True).start()

    def _main_of(self, life: Life) -> None:
        _THREAD.life, _THREAD.world = life, self
        life.baton.acquire()
        try:
            self._live(self, life)
        finally:
            self._main.release()

    def _bury(self) -> None:
        for life in [life for life in self._lives if life.outcome]:
            self._lives.remove(life)
            self.ends.append(life.outcome)
            self.happened[f"end: {life.outcome}"] += 1
            self.on_end(life)
            slot = self.slots[life.slot]
            slot.life = None
            slot.restart_ms = self.ms + 500
            self.note(f"end {life.slot}: {life.outcome}")
            if (
                life.outcome == "FENCED" and not slot.stands_by
            ):  # it stays down, but somebody has to come to rest
                slot.wanted = False
                slot.wanted = self.is_calm and not any(other.wanted for other in self.slots)
            if not any(other.machine is life.machine for other in self._lives):
                life.machine.close_views()

    def _hand_over(self, life: Life) -> None:
        ready = [other for other in self._lives if other.wake_ms <= self.ms and other is not life]
        if ready:
            self._pass(life, self.random.choice(ready))

    def _pass(self, life: Life, other: Life) -> None:
        other.baton.release()
        life.baton.acquire()
