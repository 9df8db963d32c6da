"""The task that stays: small epochs as orders to a Spark task that runs already.

A Spark job of one task costs some sixty milliseconds of processor time, whatever it does; an order
over a socket costs one or two. So after a few small epochs a task is begun that takes the next ones
as orders, and answers with the frames that their jobs would have given. It holds one of Spark's
cores, and so it leaves whenever anything else wants one: a large epoch, work over key groups, or a
job of whoever shares the session. It leaves when nothing comes, and after some time anyway.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.core.broadcast import Broadcast

from mustela.errors import InvariantError, MustelaError
from mustela.plan.epoch import EpochOrder, Program
from mustela.spark.channel import DONE, END, FRAME, ORDER, Channel, ChannelError, Door
from mustela.spark.frames import dump_object
from mustela.spark.shipment import Shipment, Shipped
from mustela.spark.small_epochs import answer_to, stay_task
from mustela.spark.worker import PlacesOrder
from mustela.state.interfaces import Token

__all__ = ["Job", "Limits", "Resident", "Residents"]

_NUMBERS: Final = itertools.count()
_CALLED_OFF_S: Final = 0.5
_DIED: Final = "Python worker exited unexpectedly: it closed the channel of the task that stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long what may take.

    Attributes:
        after: So many small epochs in a row have a job each before a task stays.
        begins_s: Seconds in which a task must have begun; else the epoch has a job.
        leaves_s: Seconds in which it must have ended when it is asked to; else it is killed.
        look_s: How often to see whether anybody else wants the core.
        idle_s: It leaves after so long without an order.
        age_s: It leaves when it is so old.
        pause_s: How long not to begin another one when somebody else wanted the core, or it did
            not begin. Each time this happens anew the pause is twice as long.
        pause_s_max: But not longer.

    Example:
        >>> limits = Limits()
        >>> limits.begins_s < limits.idle_s < limits.age_s
        True
    """

    after: int = 2
    begins_s: float = 5.0
    leaves_s: float = 10.0
    look_s: float = 0.2
    idle_s: float = 10.0
    age_s: float = 600.0
    pause_s: float = 1.0
    pause_s_max: float = 60.0


class Job(Protocol):
    """A job that nobody waits for; see `mustela.spark.job.JobAside`."""

    def has_ended(self, wait_s: float) -> bool:
        """Wait for its end; return whether it came, or raise why it failed."""
        ...

    def cancel(self) -> None:
        """End it."""
        ...


class TaskMaker(Protocol):
    """What begins a task that stays: `JobMaker`, or `mustela.spark.before_spark`."""

    def stay(self, task: Callable[..., Iterator[bytes]]) -> Job:
        """Begin a job of one task that nobody waits for."""
        ...

    def active(self) -> int:
        """Return how many jobs run or wait, whoever asked for them."""
        ...


class JobMaker(TaskMaker, Protocol):
    """What makes jobs; see `mustela.spark.job.Jobs`."""

    def run_small_epoch(self, shipment: Broadcast[Shipment], order: EpochOrder) -> Iterator[bytes]:
        """Run all of an epoch as a job of one task."""
        ...


@dataclass(slots=True)
class Residents:
    """Runs the small epochs of a program, one at a time, with a task that stays where it pays.

    Args:
        jobs: Makes Spark's jobs.
        program: What runs.
        shipment: The same, for workers.
        limits: How long what may take.
        now: The monotonic clock, in seconds.
    """

    jobs: JobMaker
    program: Program
    shipment: Broadcast[Shipment]
    limits: Limits = field(default_factory=Limits)
    now: Callable[[], float] = time.perf_counter
    _task: Resident | None = None
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
            task = self._ready()
            if task is not None and order.token < task.last:
                # What was read ahead is not the next epoch: the one before it was not committed.
                self._leave()
                task = None
            if task is None:
                yield from self.jobs.run_small_epoch(self.shipment, order)
            else:
                try:
                    yield from task.run(order)
                except BaseException:
                    self._task = None
                    raise
            self._row += 1
            if self._task is None:
                self._think_of_staying()

    def leave(self) -> None:
        """Have the task leave, if there is one; its core is free then."""
        with self._lock:
            self._row = 0
            self._leave()

    def _leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.leave()

    def _ready(self) -> Resident | None:
        """Return the task, if it is there and nobody else wants its core."""
        task = self._task
        if task is None:
            return None
        if task.wanted or not task.comes():
            self._make_way(task)
        elif not task.is_well:
            self._leave()
        return self._task

    def _may_stay(self) -> bool:
        can = sys.platform == "linux" and self.program.spool_dir
        if not can or self._row < self.limits.after or self.now() < self._not_before:
            return False
        return self.jobs.active() == 0

    def _make_way(self, task: Resident) -> None:
        """Have the task leave because it is in somebody's way, and begin none for a while."""
        if self.now() - task.began > self.limits.pause_s_max:
            self._pause_s = 0.0
        self._pause()
        self._leave()

    def _pause(self) -> None:
        self._pause_s = min(max(self._pause_s * 2, self.limits.pause_s), self.limits.pause_s_max)
        self._not_before = self.now() + self._pause_s

    def _think_of_staying(self) -> None:
        """Begin a task if it pays; the epoch is done, so what fails here is not its fault."""
        try:
            if self._may_stay():
                self._begin()
        except (MustelaError, OSError, Py4JError):  # a disk without sockets, say
            self._pause()

    def _begin(self) -> None:
        task = Resident(self.jobs, self.program, self.shipment, self.limits, self.now)
        look = threading.Thread(
            target=self._look_after, args=(task,), name="mustela-resident", daemon=True
        )
        self._task = task
        look.start()

    def _look_after(self, task: Resident) -> None:
        """See to it that a task leaves when nothing comes, and when somebody wants its core."""
        limits = self.limits
        with self._lock:
            self._ready()  # it need not wait at the door until there is an order
        while not task.ended.wait(limits.look_s):
            task.wanted = task.wanted or self._is_wanted()
            now = self.now()
            if task.wanted or now - task.used > limits.idle_s or now - task.began > limits.age_s:
                with self._lock:
                    if self._task is task and task.wanted:
                        self._make_way(task)
                    elif self._task is task:
                        self._leave()

    def _is_wanted(self) -> bool:
        try:
            return self.jobs.active() > 1
        except Exception:  # noqa: BLE001 - the JVM ends: the next epoch will say so
            return True


class Resident:
    """One task that stays; all but `wanted` belongs to whoever has the lock of its `Residents`.

    Attributes:
        wanted: Whether anybody else wants its core.
        began: When it began.
        used: When it last had an order.
        last: The token of that order: it takes none from before.
        ended: Whether it is no longer there.
    """

    def __init__(
        self,
        jobs: TaskMaker,
        program: Program,
        shipment: Shipped,
        limits: Limits,
        now: Callable[[], float],
    ) -> None:
        root = Path(program.spool_dir)
        self._door = Door(root, f"orders-{os.getpid()}-{next(_NUMBERS)}")
        self._jobs = jobs
        self._limits = limits
        self._now = now
        self._channel: Channel | None = None
        self.wanted = False
        self.ended = threading.Event()
        self.began = self.used = now()
        self.last = Token(-1, -1, -1)
        try:
            self._job = jobs.stay(partial(stay_task, shipment, self._door.key))
        except BaseException:
            self._door.close()
            raise

    def comes(self) -> bool:
        """Wait until the task is there; return whether it is."""
        deadline = self.began + self._limits.begins_s
        while self._channel is None:
            left = deadline - self._now()
            self._channel = self._door.admit(min(left, self._limits.look_s))
            if self._channel is None and (left <= 0 or self._is_hopeless()):
                return False
        return True

    def _is_hopeless(self) -> bool:
        """Whether it failed, or another job has its core: then the epoch's job is in its place."""
        try:
            return self._jobs.active() > 1 or self._job.has_ended(0)
        except Exception:  # noqa: BLE001 - the epoch's own job will meet it, and say what it is
            return True

    @property
    def is_well(self) -> bool:
        """Whether it lives, and waits for an order."""
        return self._channel is not None and self._channel.is_quiet

    def run(self, order: EpochOrder | PlacesOrder) -> Iterator[bytes]:
        """Run an epoch, or work on key groups; after any fault the task is gone.

        Raises:
            OSError: If the worker died.
            Py4JError: What its job says of that.
        """
        assert self._channel is not None
        channel, whole = self._channel, False
        if not isinstance(order, PlacesOrder):
            self.last = order.token
        try:
            channel.send(ORDER, dump_object(order))
            channel.flush()
            while (message := channel.receive())[0] == FRAME:
                yield message[1]
            if message != (DONE, answer_to(order)):
                what = f"the answer to the order {order!r:.80} ends with {message!r:.80}"
                raise InvariantError(what)
            whole = True
            self.used = self._now()
        except ChannelError:
            self._bury()
        finally:
            if not whole:
                self.leave()

    def _bury(self) -> None:
        """Raise why the worker closed the channel: what its job says, if it says something."""
        assert self._channel is not None
        if not self._job.has_ended(self._limits.leaves_s):
            self._channel.kill()
            self._job.has_ended(self._limits.leaves_s)
        raise ChannelError(_DIED)

    def leave(self) -> None:
        """End it, and wait until its core is free. What hangs is killed."""
        if self.ended.is_set():
            return
        self.ended.set()
        try:
            if self._channel is None:
                self._call_off()
            else:
                self._dismiss(self._channel)
        except (Py4JError, OSError):
            pass  # that it failed has been told, or does not matter any more
        finally:
            self._door.close()
            if self._channel is not None:
                self._channel.close()

    def _call_off(self) -> None:
        self._door.close()
        if not self._job.has_ended(_CALLED_OFF_S):
            self._job.cancel()  # it has no core yet
            self._job.has_ended(self._limits.leaves_s)

    def _dismiss(self, channel: Channel) -> None:
        if channel.is_quiet:
            channel.send(END)
            channel.flush()
        else:
            channel.hang_up()
        if not self._job.has_ended(self._limits.leaves_s):
            channel.kill()
            self._job.has_ended(self._limits.leaves_s)
