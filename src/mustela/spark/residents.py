"""The tasks that stay: epochs as orders to Spark tasks that run already.

A Spark job of one task costs some sixty milliseconds of processor time, whatever it does; an order
over a socket costs one or two. So after a few small epochs a task is begun that takes the next ones
as orders, and answers with the frames that their jobs would have given. For a large epoch there are
as many of them as run at once. They hold Spark's cores, and so they leave whenever anything else
wants one: work over key groups, or a job of whoever shares the session. They leave when nothing
comes, and after some time anyway.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.core.broadcast import Broadcast

from mustela.errors import MustelaError
from mustela.plan.epoch import EpochOrder, Program
from mustela.spark.arrivals import call_steps
from mustela.spark.parts import Boxes, run_stages
from mustela.spark.resident import Limits, Resident, TaskMaker
from mustela.spark.shipment import Shipment
from mustela.state.interfaces import Token

__all__ = ["JobMaker", "PartsRead", "Residents"]


class JobMaker(TaskMaker, Protocol):
    """What makes jobs; see `mustela.spark.job.Jobs`."""

    def run_small_epoch(self, shipment: Broadcast[Shipment], order: EpochOrder) -> Iterator[bytes]:
        """Run all of an epoch as a job of one task."""
        ...


@dataclass(frozen=True, slots=True)
class PartsRead:
    """What the first stage of an epoch, run by tasks that stay, has left.

    Attributes:
        home: Frames for the driver.
        boxes: Frames for its lanes.
    """

    home: Sequence[bytes]
    boxes: Boxes


@dataclass(slots=True)
class Residents:
    """Runs the epochs of a program, one at a time, with tasks that stay where it pays.

    Args:
        jobs: Makes Spark's jobs.
        program: What runs.
        shipment: The same, for workers.
        cores: How many tasks run at once.
        limits: How long what may take.
        now: The monotonic clock, in seconds.
    """

    jobs: JobMaker
    program: Program
    shipment: Broadcast[Shipment]
    cores: int = 1
    limits: Limits = field(default_factory=Limits)
    now: Callable[[], float] = time.perf_counter
    _tasks: list[Resident] = field(default_factory=list[Resident])
    _among: int = 0
    _row: int = 0
    _pause_s: float = 0.0
    _not_before: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, order: EpochOrder) -> Iterator[bytes]:
        """Run all of a small epoch and yield the frames for the driver.

        Raises:
            OSError: If the worker died.
            Py4JError: If its job failed.
        """
        with self._lock:
            tasks = self._ready(order.token)
            if tasks:
                with self._gone_after_a_fault():
                    yield from tasks[0].run(order)
            else:
                yield from self.jobs.run_small_epoch(self.shipment, order)
            self._row += 1
            if not self._tasks and self._row >= self.limits.after:
                self._try_to_have(1)

    def read(self, order: EpochOrder) -> PartsRead | None:
        """Run the first stage of a large epoch; None if a job is to do that.

        Raises:
            OSError: If a worker died.
            Py4JError: If its job failed.
        """
        with self._lock:
            tasks = self._all_for(order)
            if not tasks:
                return None
            boxes = Boxes()
            with self._gone_after_a_fault():
                return PartsRead(
                    list(run_stages(tasks, self.program, order, range(1), boxes)), boxes
                )

    def run_large(
        self, order: EpochOrder, read: PartsRead | None, job: Callable[[], Iterator[bytes]]
    ) -> Iterator[bytes]:
        """Run a large epoch and yield the frames for the driver.

        Args:
            order: The epoch.
            read: Its first stage, if that was run before.
            job: Runs all of it as a job, where no tasks can stay.

        Raises:
            OSError: If a worker died.
            Py4JError: If a job failed.
        """
        with self._lock:
            tasks = self._all_for(order)
            if tasks:
                stages = range(1 if read else 0, len(self.program.plan.stages))
                boxes = read.boxes if read else Boxes()
                with self._gone_after_a_fault():
                    yield from read.home if read else ()
                    yield from run_stages(tasks, self.program, order, stages, boxes)
                return
        yield from job()

    def leave(self) -> None:
        """Have the tasks leave, if there are any; their cores are free then."""
        with self._lock:
            self._row = 0
            self._leave()

    def _leave(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.dismiss()  # so that they end at the same time
        for task in tasks:
            task.leave()
        self._among = 0

    @contextmanager
    def _gone_after_a_fault(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self._leave()
            raise

    def _ready(self, token: Token) -> Sequence[Resident]:
        """Return the tasks that are there for an epoch, if nobody else wants their cores."""
        tasks = self._tasks
        if tasks and (tasks[0].wanted or not all(task.comes() for task in tasks)):
            self._make_way()
        elif not all(task.is_well and token >= task.last for task in tasks):
            # What was read ahead is not the next epoch: the one before it was not committed.
            self._leave()
        return self._tasks

    def _all_for(self, order: EpochOrder) -> Sequence[Resident]:
        """Return as many tasks as a large epoch needs; none if it is to have a job."""
        program = self.program
        lanes = program.lanes_in(order) if len(program.plan.stages) > 1 else 1
        wanted = min(self.cores, max(len(order.ranges), lanes))
        others = order.suspect or order.probe or order.owners or program.files
        can = not (others or call_steps(program.plan))  # whose lanes wait at the same time
        if can and len(self._ready(order.token)) < wanted:
            self._try_to_have(wanted)
            self._ready(order.token)
        if not can or len(self._tasks) < wanted:
            self._row = 0
            self._leave()
        return self._tasks

    def _try_to_have(self, count: int) -> None:
        """Begin tasks if it pays; no epoch is under way, so what fails here is nobody's fault."""
        can = sys.platform == "linux" and self.program.spool_dir
        if not can or self.now() < self._not_before:
            return
        try:
            if self.jobs.active() == len(self._tasks):
                self._among = count
                while len(self._tasks) < count:
                    self._begin()
        except (MustelaError, OSError, Py4JError):  # a disk without sockets, say
            self._pause()
            self._leave()

    def _begin(self) -> None:
        known = self.jobs, self.program, self.shipment, self.limits, self.now
        task = Resident(*known, self._among)
        self._tasks.append(task)
        if len(self._tasks) == 1:
            look = threading.Thread(
                target=self._look_after, args=(task,), name="mustela-resident", daemon=True
            )
            look.start()

    def _make_way(self) -> None:
        """Have the tasks leave because they are in somebody's way, and begin none for a while."""
        if self.now() - self._tasks[0].began > self.limits.pause_s_max:
            self._pause_s = 0.0
        self._pause()
        self._leave()

    def _pause(self) -> None:
        self._pause_s = min(max(self._pause_s * 2, self.limits.pause_s), self.limits.pause_s_max)
        self._not_before = self.now() + self._pause_s

    def _look_after(self, first: Resident) -> None:
        """See to it that tasks leave when nothing comes, and when somebody wants their cores."""
        limits = self.limits
        with self._lock:
            self._ready(first.last)  # it need not wait at the door until there is an order
        while not first.ended.wait(limits.look_s):
            first.wanted = first.wanted or self._is_wanted()
            now = self.now()
            if first.wanted or now - first.used > limits.idle_s or now - first.began > limits.age_s:
                with self._lock:
                    if self._tasks[:1] == [first] and first.wanted:
                        self._make_way()
                    elif self._tasks[:1] == [first]:
                        self._leave()
            elif any(now - task.used > limits.idle_s for task in tuple(self._tasks)):
                self._dismiss_idle(now)

    def _dismiss_idle(self, now: float) -> None:
        """Have those leave that only large epochs need, if there are none."""
        with self._lock:
            for task in self._tasks[1:]:
                if now - task.used > self.limits.idle_s:
                    self._tasks.remove(task)
                    task.leave()
            self._among = len(self._tasks)

    def _is_wanted(self) -> bool:
        try:
            return self.jobs.active() > self._among
        except Exception:  # noqa: BLE001 - the JVM ends: the next epoch will say so
            return True
