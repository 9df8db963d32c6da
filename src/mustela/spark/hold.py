"""Spark, as the engine has it: started or joined, and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import Thread
from typing import Any

from py4j.protocol import (  # pyright: ignore[reportMissingTypeStubs]
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
)
from pyspark import SparkContext
from pyspark.errors import PySparkException

from mustela.clock import SystemClock
from mustela.errors import EnvironmentFault, InvariantError, MustelaError
from mustela.logs.options import LogOptions
from mustela.runtime.engine import EngineOptions
from mustela.runtime.shortage import shortage_of
from mustela.spark.archive import make_aside
from mustela.spark.archive_pages import ArchivePages
from mustela.spark.before_spark import BeforeSpark
from mustela.spark.executors import not_without_executors, wait_for_executors
from mustela.spark.job import Jobs
from mustela.spark.job_errors import interrupted, job_error, spark_died, timed_out
from mustela.spark.located import Located
from mustela.spark.masters import is_local, likely_cores, open_to_all
from mustela.spark.own_jvm import begin_jvm, begun_workers, end_begun
from mustela.spark.properties import check_joined, starts_directly
from mustela.spark.session import (
    is_stopped,
    jvm_ended,
    lingers,
    release_context,
    take_context,
)
from mustela.spark.watch import Limits, WorkerWatch

__all__ = ["SparkHold", "say_nothing"]

_LAST_BREATH_S = 1.0
"""A process that is killed closes its sockets a moment before its end can be seen."""


class SparkStoppedError(EnvironmentFault):
    """The user's Spark session ended before the application."""

    code = "SPARK_STOPPED"


class SparkHold:
    """A Spark context, one's own or the user's, which may still be on its way.

    Who derives from it runs a program on it, and is told by `_is_here` that jobs can be run.
    """

    def __init__(self) -> None:
        self._context: Any = None
        self._own = False
        self._cores: int | None = None
        self._properties: dict[str, str] = {}
        self._debug = False
        self._class_archive = False
        self._logs: LogOptions | None = None
        self._jobs: Jobs | None = None
        self._warm_up: Thread | None = None
        self._pages: ArchivePages | None = None
        self._before: BeforeSpark | None = None
        self._watch: WorkerWatch | None = None
        self._limits = Limits()
        self._say: Callable[[str], None] = say_nothing
        self._interrupted = False
        self._died = False
        begin_jvm()

    def start(self, options: EngineOptions) -> None:
        """Start Spark, or join the session that the user's program has.

        Where the parent of the workers is there, a context of our own is not waited for.
        """
        self._debug = options.debug
        self._class_archive = options.class_archive
        self._limits = Limits(warn_s=options.warn_s, kill_s=options.kill_s)
        self._say = options.say
        self._logs = options.logs
        session = options.session
        if session is not None:
            self._context = getattr(session, "sparkContext", session)
            self._own = False
        else:
            active: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
            self._own = active is None or lingers(active)
            self._properties = options.properties
            take = partial(take_context, options.application_id, options.properties, options.logs)
            daemon = begun_workers(options) if active is None else None
            if daemon is not None:
                self._cores = likely_cores(options.properties)
                clock = SystemClock().monotonic
                self._before = BeforeSpark(take, self._warm_up_workers, daemon, clock)
                return
            self._context = take() if self._own else active
        self._use_context()

    def _use_context(self) -> None:
        """Get ready to run jobs."""
        if self._own and not self._shares_disk:
            warning = open_to_all(dict(self._context.getConf().getAll()))
            if warning is not None:
                self._say(warning)
        if not self._own:
            check_joined(dict(self._context.getConf().getAll()))
        self._await_executors()
        self._jobs, cores = self._jobs or Jobs(self._context), self.cores
        if self._warm_up is None:
            warm_up = partial(self._jobs.warm_up, cores)
            self._warm_up = Thread(target=warm_up, daemon=True)
            self._warm_up.start()
        if self._own and self._shares_disk:
            self._pages = ArchivePages(self._context)

    def _warm_up_workers(self, context: SparkContext) -> None:
        self._jobs = Jobs(context)
        self._jobs.warm_up(context.defaultParallelism)

    def _has_spark(self, *, wait: bool) -> bool:
        """Whether jobs can be run, and no worker runs orders before Spark has any.

        Raises:
            MustelaError: If Spark could not start.
        """
        before = self._before
        if before is None:
            return True
        if not (wait or before.is_over) and before.has_worker():
            return False
        before.leave()
        self._context, self._cores = before.context(), None
        self._warm_up = before.thread
        self._use_context()
        self._is_here()
        self._before = None
        return True

    def _is_here(self) -> None:
        """Send what workers need, if something was loaded before."""

    def _await_executors(self) -> None:
        """Wait until somebody can run tasks, where that is not the JVM of the driver."""
        if self._before is None and not is_local(str(self._context.master)):
            with self._told_as_ours():
                wait_for_executors(
                    self._context,
                    clock=SystemClock(),
                    say=self._say,
                    stopped=lambda: self._interrupted,
                )

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at once; every epoch asks, and only a cluster's change."""
        with self._told_as_ours():
            if self._cores is None or not self._shares_disk:
                self._cores = int(self._context.defaultParallelism)
            return self._cores

    @property
    def owners(self) -> int:
        """As many tasks as run at once, where executors are on other hosts."""
        return 0 if self._shares_disk else self.cores

    @property
    def _shares_disk(self) -> bool:
        """Whether workers run on the driver's host."""
        return self._before is not None or is_local(str(self._context.master))

    @property
    def state_is_here(self) -> bool:
        """Whether the state of all key groups is on this host."""
        return self._shares_disk

    def _guarded(self, job: Iterator[bytes], where: Located | None = None) -> Generator[bytes]:
        """Yield frames of a job; see `_told_as_ours`."""
        at = frozenset[str]() if where is None else where.numbers
        watched = nullcontext() if self._shares_disk else not_without_executors(self._context, at)
        with self._told_as_ours(), watched:
            yield from job

    @contextmanager
    def _told_as_ours(self) -> Generator[None]:
        """Turn what Spark raises into an error of ours; its stack only when debugging."""
        if self._interrupted:
            raise interrupted(())
        if self._before is None and is_stopped(self._context):
            msg = "the Spark session was stopped while the application was running"
            raise SparkStoppedError(
                msg,
                why="the session belongs to the surrounding program",
                fix="close the application before the session is stopped",
            )
        try:
            yield
        except (Py4JError, Py4JNetworkError, PySparkException, OSError) as error:
            raise self._error_of_job(error) from (error if self._debug else None)

    def _error_of_job(self, error: Exception) -> MustelaError:
        watch = self._watch
        dead = watch.take_dead() if watch is not None else []
        if self._interrupted:
            return interrupted(dead)
        if watch is not None and watch.overdue is not None:
            overdue, watch.overdue = watch.overdue, None
            return timed_out(overdue, self._limits.kill_s)
        cause = shortage_of(error) or self._death(error)
        if cause is not None:
            return cause
        cluster = not self._shares_disk
        return job_error(str(error), debug=self._debug, cluster=cluster, dead=dead)

    def _death(self, error: Exception | None) -> MustelaError | None:
        """Return an error if the JVM has ended; ``error`` is what led to the question."""
        answered = isinstance(error, Py4JJavaError | PySparkException)
        code = jvm_ended(self._context, wait_s=0 if answered else _LAST_BREATH_S)
        if code is None and not isinstance(error, Py4JNetworkError):
            return None
        self._died = True
        return spark_died(code, str(error or "its answer broke off"), debug=self._debug)

    def _incomplete(self, what: str) -> MustelaError:
        """Return the error for a job of which not every task reported."""
        return self._death(None) or InvariantError(what)

    def hosts_elsewhere(self) -> list[str]:
        """Return the hosts of Spark's executors other than the driver's."""
        if self._context is None or self._shares_disk:
            return []
        with self._told_as_ours():
            spark = self._context._jsc.sc()
            infos = spark.statusTracker().getExecutorInfos()
            own = spark.getConf().get("spark.driver.host", "")
            return sorted({str(info.host()) for info in infos} - {str(own)})

    def _let_go(self) -> None:
        """Stop Spark if it was started here."""
        end_begun()
        if self._pages is not None:
            self._pages.close()
        if self._own and self._context is not None:
            release_context(self._context, self._properties, self._logs)
            if self._class_archive and starts_directly(self._properties):
                make_aside()
        self._context = None


def say_nothing(*_told: object) -> None:
    """Nobody is told."""
