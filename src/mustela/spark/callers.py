"""Calls to the outside that processes of several hosts make, as the driver knows them.

A lane may leave a call to the process that makes it and be on another host in the next epoch. It
cannot see there whether that process lives, nor what it leaves on its own host's disk. So tasks
report who makes calls on their host, and while a lane waits for calls the driver asks all hosts,
between epochs, what has become of them. Orders tell the lanes both. A process counts as gone when
its own host says so, or when its host has not been met for a while by tasks that meet all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.core.broadcast import Broadcast

from mustela.connectors.calls.spool import CallSpool, host_of, living_owners
from mustela.errors import EnvironmentFault
from mustela.plan.calls import CallersSeen, CallOutcome
from mustela.plan.epoch import EpochOrder, Program, TaskReport
from mustela.runtime.engine import EpochJobError
from mustela.spark.arrivals import call_steps, calls_root
from mustela.spark.frames import REPORT, Frame, dump_object, load_object, pack, unpack
from mustela.spark.process import current
from mustela.spark.shipment import Shipment
from mustela.state.interfaces import Token

__all__ = ["Callers", "Question", "answer", "ask_task"]

_ASKED_EVERY_S: Final = 0.25
_ASKED_EVERY_S_MAX: Final = 2.0
_WAITS_S: Final = 6.0
"""Lanes that wait look after two seconds at most: if none has said so for longer, none waits."""

_MISSED: Final = 5
_MISSED_S: Final = 10.0
"""A host that so many questions in a row, over so many seconds, have not met is gone."""

_COMMITTED_AFTER: Final = 2
"""The epoch that was told of an outcome is committed when so many later ones are ordered: the next
one may begin during its commit."""

_ANSWER_BYTES_MAX: Final = 16 << 20
"""What is more comes with the next answer."""


class Question(NamedTuple):
    """What the driver asks each host.

    Attributes:
        known: Calls whose outcome it has.
        done: Calls whose outcome nobody needs any more.
    """

    known: frozenset[str]
    done: frozenset[str]


class Answer(NamedTuple):
    """What a host answers.

    Attributes:
        seen: Who makes calls there.
        outcomes: Step, key group and outcome of calls that have ended.
    """

    seen: CallersSeen
    outcomes: list[tuple[str, int, CallOutcome]]


def ask_task(
    program: Broadcast[Shipment], question: Question, task: int, rows: Iterable[object]
) -> Iterator[bytes]:
    """Answer a question, on a host."""
    for _ in rows:  # a task that leaves its input unread costs the worker
        pass
    running = current(program.value).program
    told = answer(calls_root(running), running, question)
    yield pack(Frame(REPORT, -1, -1, task, 0, "", dump_object(told)))


def answer(root: Path, program: Program, question: Question) -> Answer:
    """Return what the processes of a host have left in a directory; delete what is done."""
    seen = CallersSeen(host_of(root), living_owners(root), waits=False)
    outcomes: list[tuple[str, int, CallOutcome]] = []
    size = 0
    for step in call_steps(program.plan):
        spool = CallSpool(root, step)
        for name in list(spool.names()):
            if name.call_id in question.done:
                spool.remove(name)
            elif name.call_id not in question.known and size < _ANSWER_BYTES_MAX:
                found = spool.read(name)
                if found is not None:
                    outcomes.append((step, name.group, found))
                    size += len(found.result or b"")
    return Answer(seen, outcomes)


@dataclass(slots=True)
class _Outcome:
    """An outcome that the driver has, and the first order that told the lanes of it."""

    step: str
    group: int
    outcome: CallOutcome
    told: Token | None = None


@dataclass(slots=True)
class _Met:
    """When a process was last met, and how many questions have missed it since."""

    at: float
    missed: int = 0


@dataclass(slots=True)
class Callers:
    """What the driver knows of calls on all hosts.

    Args:
        program: What runs.
        ask: Runs a task on each host, and returns what the tasks gave.
        shipment: The program, for workers.
        now: Monotonic seconds.
    """

    program: Program
    ask: Callable[[Callable[..., Iterator[bytes]]], Sequence[bytes]]
    shipment: Any
    now: Callable[[], float]
    _owners: dict[str, _Met] = field(default_factory=dict[str, _Met])
    _outcomes: dict[str, _Outcome] = field(default_factory=dict[str, _Outcome])
    _done: set[str] = field(default_factory=set[str])
    _waited: float | None = None
    _asked: float = 0.0
    _pause: float = _ASKED_EVERY_S

    def hear(self, reports: Iterable[TaskReport]) -> None:
        """Learn from the tasks of an epoch who makes calls, and whether lanes wait for any."""
        now = self.now()
        for report in reports:
            if report.callers is not None:
                # Who is missing may have left an outcome: only an answer tells of both.
                self._owners.update((owner, _Met(now)) for owner in report.callers.owners)
                if report.callers.waits:
                    self._waited = now

    def tell(self, order: EpochOrder) -> EpochOrder:
        """Return an order that tells its lanes what is known."""
        outcomes: dict[str, list[CallOutcome]] = {}
        for call_id, one in list(self._outcomes.items()):
            if one.told is None:
                one.told = order.token
            if order.token.epoch - one.told.epoch >= _COMMITTED_AFTER:
                del self._outcomes[call_id]
                self._done.add(call_id)
            else:
                outcomes.setdefault(one.step, []).append(one.outcome)
        told = {step: tuple(ended) for step, ended in outcomes.items()}
        return replace(order, callers=frozenset(self._owners), outcomes=told)

    def new(self) -> set[tuple[int, int]]:
        """Ask all hosts, if lanes wait; return stages and key groups of new outcomes."""
        now = self.now()
        waits = self._waited is not None and now - self._waited < _WAITS_S
        if not waits or now - self._asked < self._pause:
            return set()
        self._asked = now
        question = Question(frozenset(self._outcomes), frozenset(self._done))
        try:
            frames = self.ask(partial(ask_task, self.shipment, question))
        except (EnvironmentFault, EpochJobError):
            return set()  # an executor was lost, say: the next epoch meets it, and can tell
        self._done -= question.done
        found = self._take([load_object(unpack(data).body) for data in frames])
        self._pause = _ASKED_EVERY_S if found else min(_ASKED_EVERY_S_MAX, 2 * self._pause)
        return found

    def _take(self, answers: Sequence[Answer]) -> set[tuple[int, int]]:
        now, steps = self.now(), call_steps(self.program.plan)
        found: set[tuple[int, int]] = set()
        for met in self._owners.values():
            met.missed += 1
        for told in answers:
            self._meet(told.seen, now)
            for step, group, outcome in told.outcomes:
                if outcome.call_id not in self._outcomes:
                    self._outcomes[outcome.call_id] = _Outcome(step, group, outcome)
                    found.add((steps[step], group))
        for owner, met in list(self._owners.items()):
            if met.missed >= _MISSED and now - met.at >= _MISSED_S:
                del self._owners[owner]
        return found

    def _meet(self, seen: CallersSeen, now: float) -> None:
        """Take in who lives on a host; its others are gone."""
        for owner in [one for one in self._owners if one.startswith(f"{seen.host}.")]:
            if owner not in seen.owners:
                del self._owners[owner]
        for owner in seen.owners:
            self._owners[owner] = _Met(now)
