"""What runs before Spark is up: small epochs, and work on key groups, in one worker.

A JVM and its context take a second, and the first job another quarter: that was most of the time
from a start to the first result. The parent of the workers is there earlier
(`mustela.spark.early`), and makes one worker without being asked by Spark. It takes orders as a
task that stays does (`mustela.spark.resident`), and leaves when Spark has workers of its own;
whatever needs more than one waits for these. If it fails, Spark is waited for as well, and has
words for what went wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from pyspark import SparkContext

from mustela.plan.epoch import EpochOrder, Program
from mustela.spark.early import EarlyDaemon
from mustela.spark.frames import dump_object
from mustela.spark.resident import Job, Limits, Resident
from mustela.spark.shipment import Handed, Shipment
from mustela.spark.worker import RESTORE, PlacesOrder

__all__ = ["BeforeSpark"]

_RESTORE_S: Final = 0.5
"""How long the worker restores before it is seen whether Spark has more of them."""


class _Aside(Job):
    """The worker of a parent that Spark has not asked, as a job that nobody waits for."""

    def __init__(self, daemon: EarlyDaemon) -> None:
        self._daemon = daemon

    def has_ended(self, wait_s: float) -> bool:
        """Wait for its end; return whether it came."""
        return self._daemon.has_ended(wait_s)

    def cancel(self) -> None:
        """Do nothing: it ends by itself at the door, which is closed."""


class _Parent:
    """The parent of the workers, as what begins a task that stays."""

    def __init__(self, daemon: EarlyDaemon) -> None:
        self._daemon = daemon

    def stay(self, task: Callable[..., Iterator[bytes]]) -> Job:
        """Have it make a worker for a task."""
        self._daemon.ask(dump_object(task))
        return _Aside(self._daemon)

    def active(self) -> int:
        """Nobody else can want its worker."""
        return 0


class BeforeSpark:
    """A context that is being made, and the worker that runs what can be run meanwhile.

    Args:
        make: Makes the context; called in a thread of its own. Whoever else asks PySpark for a
            context meanwhile waits for this one.
        warm_up: Lets a context have its workers, in the same thread.
        daemon: The parent of the workers.
        now: The monotonic clock, in seconds.

    Attributes:
        thread: Ends when the context has its workers, or could not be made.
    """

    def __init__(
        self,
        make: Callable[[], SparkContext],
        warm_up: Callable[[SparkContext], None],
        daemon: EarlyDaemon,
        now: Callable[[], float],
    ) -> None:
        self._make = make
        self._warm_up = warm_up
        self._daemon = daemon
        self._now = now
        self._made: Future[SparkContext] = Future()
        self._begun = threading.Event()
        self._worker: Resident | None = None
        self._is_loaded = False
        # The process does not end before this thread has: nobody else could end the JVM.
        self.thread = threading.Thread(target=self._run, name="mustela-spark-start")
        self.thread.start()
        self._begun.wait()

    def _run(self) -> None:
        spark: Any = SparkContext
        with spark._lock:
            self._begun.set()
            try:
                made = self._make()
            except BaseException as error:  # noqa: BLE001 - `context` raises it where it is needed
                self._made.set_exception(error)
                return
            self._made.set_result(made)
        with suppress(Exception):  # the first job will meet it, and has words for it
            self._warm_up(made)

    @property
    def is_over(self) -> bool:
        """Whether the context is there with its workers, or has failed."""
        return not self.thread.is_alive()

    def context(self) -> SparkContext:
        """Wait for the context.

        Raises:
            MustelaError: If Spark could not start.
        """
        return self._made.result()

    def load(self, program: Program, shipment: Shipment) -> None:
        """Begin a worker for a program; another program than the first one waits for Spark."""
        if self._is_loaded:
            self.leave()
            return
        self._is_loaded = True
        if not self.is_over:
            with suppress(OSError):
                parent, limits = _Parent(self._daemon), Limits()
                self._worker = Resident(parent, program, Handed(shipment), limits, self._now)

    def has_worker(self) -> bool:
        """Wait until the worker is there; return whether it is."""
        if self._worker is not None and not (self._worker.comes() and self._worker.is_well):
            self.leave()
        return self._worker is not None

    def run(self, order: EpochOrder | PlacesOrder) -> Iterator[bytes]:
        """Run an epoch, or work on key groups, in the worker; after any fault it is gone.

        Raises:
            OSError: If it died.
        """
        assert self._worker is not None
        if isinstance(order, PlacesOrder) and order.work is RESTORE:
            order = order._replace(work=RESTORE._replace(seconds=_RESTORE_S))
        try:
            yield from self._worker.run(order)
        except BaseException:
            self._worker = None
            raise

    def leave(self) -> None:
        """Have the worker leave, if there is one; there will be none any more."""
        worker, self._worker, self._is_loaded = self._worker, None, True
        if worker is not None:
            worker.leave()
