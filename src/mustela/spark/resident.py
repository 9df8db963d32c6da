"""One task that stays: it takes orders over a channel, as long as its Spark job runs."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, Protocol

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from mustela.errors import InvariantError
from mustela.plan.epoch import EpochOrder, Program
from mustela.spark.channel import DONE, END, FRAME, ORDER, Channel, ChannelError, Door
from mustela.spark.frames import dump_object
from mustela.spark.shipment import Shipped
from mustela.spark.staying import PartOrder, answer_to, stay_task
from mustela.spark.worker import PlacesOrder
from mustela.state.interfaces import Token

__all__ = ["Job", "Limits", "Resident", "TaskMaker"]

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


class Resident:
    """One task that stays; all but `wanted` belongs to whoever has the lock of its `Residents`.

    Args:
        jobs: Begins its job.
        program: What it runs.
        shipment: The same, for workers.
        limits: How long what may take.
        now: The monotonic clock, in seconds.
        among: How many tasks stay, with this one.

    Attributes:
        wanted: Whether anybody else wants its core.
        began: When it began.
        used: When it last had an order.
        last: The token of that order: it takes none from before.
        ended: Whether it was told to leave.
    """

    def __init__(
        self,
        jobs: TaskMaker,
        program: Program,
        shipment: Shipped,
        limits: Limits,
        now: Callable[[], float],
        among: int = 1,
    ) -> None:
        root = Path(program.spool_dir)
        self._door = Door(root, f"orders-{os.getpid()}-{next(_NUMBERS)}")
        self._jobs = jobs
        self._limits = limits
        self._now = now
        self._among = among
        self._channel: Channel | None = None
        self.wanted = False
        self.ended = threading.Event()
        self._has_left = False
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
            return self._jobs.active() > self._among or self._job.has_ended(0)
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
            self.bury()
        finally:
            if not whole:
                self.leave()

    def begin(self, part: PartOrder) -> None:
        """Order one task of an epoch; `hear` has its answer.

        Raises:
            ChannelError: If the worker is gone; `bury` says why.
        """
        self.last = part.token
        self.channel.send(ORDER, dump_object(part))
        self.channel.flush()

    def hear(self, part: PartOrder) -> tuple[list[bytes], bool]:
        """Return the frames of a task's answer that have come, and whether they are the last ones.

        Raises:
            ChannelError: If the worker is gone; `bury` says why.
            InvariantError: If it answers something else.
        """
        frames: list[bytes] = []
        for message in self.channel.come():
            if message[0] == FRAME:
                frames.append(message[1])
            elif message == (DONE, answer_to(part)):
                self.used = self._now()
                return frames, True
            else:
                what = f"the answer to {part!r:.80} ends with {message!r:.80}"
                raise InvariantError(what)
        return frames, False

    @property
    def channel(self) -> Channel:
        """The way to it; it has come."""
        assert self._channel is not None
        return self._channel

    def bury(self) -> NoReturn:
        """Raise why the worker closed the channel: what its job says, if it says something."""
        assert self._channel is not None
        if not self._job.has_ended(self._limits.leaves_s):
            self._channel.kill()
            self._job.has_ended(self._limits.leaves_s)
        raise ChannelError(_DIED)

    def dismiss(self) -> None:
        """Tell it to leave; `leave` waits for that."""
        if self.ended.is_set():
            return
        self.ended.set()
        channel = self._channel
        if channel is None:
            self._door.close()
            return
        try:
            if channel.is_quiet:
                channel.send(END)
                channel.flush()
            else:
                channel.hang_up()
        except OSError:
            pass  # it has gone by itself

    def leave(self) -> None:
        """End it, and wait until its core is free. What hangs is killed."""
        if self._has_left:
            return
        self._has_left = True
        self.dismiss()
        try:
            self._await_end()
        except (Py4JError, OSError):
            pass  # that it failed has been told, or does not matter any more
        finally:
            self._door.close()
            if self._channel is not None:
                self._channel.close()

    def _await_end(self) -> None:
        channel, job = self._channel, self._job
        if job.has_ended(_CALLED_OFF_S if channel is None else self._limits.leaves_s):
            return
        if channel is None:
            job.cancel()  # it has no core yet
        else:
            channel.kill()
        job.has_ended(self._limits.leaves_s)
