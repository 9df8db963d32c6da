"""The Spark engine: runs the epochs of an application as jobs of one Spark context."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from py4j.protocol import (  # pyright: ignore[reportMissingTypeStubs]
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
)
from pyspark import SparkContext
from pyspark.core.broadcast import Broadcast
from pyspark.errors import PySparkException

from mustela.clock import SystemClock
from mustela.errors import EnvironmentFault, InvariantError, MustelaError
from mustela.logs.options import LogOptions
from mustela.plan.epoch import EpochOrder, Program, RestoreOrder, TaskReport
from mustela.plan.plan import Plan
from mustela.runtime.batch import BatchEngineError, BatchRequest, BatchResult
from mustela.runtime.engine import EngineOptions, EpochOutput, GlobalReading, Reading
from mustela.runtime.shortage import shortage_of
from mustela.runtime.status.snapshot import WorkerView
from mustela.runtime.user_code import user_code
from mustela.spark.archive import make_aside
from mustela.spark.archive_pages import ArchivePages
from mustela.spark.arrivals import Arrivals
from mustela.spark.callers import Callers
from mustela.spark.differing import installed_versions
from mustela.spark.executors import not_without_executors, wait_for_executors
from mustela.spark.frames import load_object, unpack
from mustela.spark.homes import Homes
from mustela.spark.hosts import check_hosts
from mustela.spark.job import Jobs, Task
from mustela.spark.job_errors import error_of, interrupted, job_error, spark_died, timed_out
from mustela.spark.jvm_log import is_relayed
from mustela.spark.keeper import HomeKeeper, Shares
from mustela.spark.located import Located
from mustela.spark.masters import is_local, open_to_all
from mustela.spark.output import Came, SparkOutput, SparkReading
from mustela.spark.own_jvm import begin_workers, end_begun
from mustela.spark.properties import check_joined, starts_directly
from mustela.spark.resident import Residents
from mustela.spark.session import (
    is_stopped,
    jvm_ended,
    lingers,
    release_context,
    take_context,
)
from mustela.spark.shipment import Shipment, check_plan, import_path, ship
from mustela.spark.small_epochs import SmallEpochs
from mustela.spark.spool import clear, clear_others, forget, spool_dir
from mustela.spark.state_views import StateViews
from mustela.spark.watch import Limits, WorkerWatch
from mustela.spark.worker import OPEN, RESTORE, SETTLE, OnPlace, not_done, places_task, tidying
from mustela.state.interfaces import Committed, Snapshot

__all__ = ["SparkEngine"]

_LAST_BREATH_S = 1.0
"""A process that is killed closes its sockets a moment before its end can be seen."""


class SparkStoppedError(EnvironmentFault):
    """The user's Spark session ended before the application."""

    code = "SPARK_STOPPED"


class SparkEngine:
    """Runs epochs on Spark; see `mustela.runtime.engine.Engine`."""

    def __init__(self) -> None:
        self._context: Any = None
        self._own = False
        self._cores: int | None = None
        self._properties: dict[str, str] = {}
        self._debug = False
        self._class_archive = False
        self._state_backend = ""
        self._logs: LogOptions | None = None
        self._jobs: Jobs | None = None
        self._warm_up: Thread | None = None
        self._pages: ArchivePages | None = None
        self._program: Program | None = None
        self._given = ""
        self._ships = 0
        self._views = StateViews()
        self._shipment: Broadcast[Shipment] | None = None
        self._arrivals: Arrivals | Callers | None = None
        self._keeper: HomeKeeper | None = None
        self._standby_replicas: int | None = None
        self._standby_lag_s = 0.0
        self._small: SmallEpochs | None = None
        self._residents: Residents | None = None
        self._watch: WorkerWatch | None = None
        self._limits = Limits()
        self._say: Callable[[str], None] = _tell_nobody
        self._interrupted = False
        self._died = False
        begin_workers()

    def start(self, options: EngineOptions) -> None:
        """Start Spark, or join the session that the user's program has."""
        self._debug = options.debug
        self._class_archive = options.class_archive
        self._limits = Limits(warn_s=options.warn_s, kill_s=options.kill_s)
        self._say = options.say
        self._state_backend = options.state_backend
        self._logs = options.logs
        self._standby_replicas = options.standby_replicas
        self._standby_lag_s = options.standby_lag_s
        session = options.session
        if session is not None:
            self._context = getattr(session, "sparkContext", session)
            self._own = False
        else:
            active: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
            self._own = active is None or lingers(active)
            self._properties = options.properties
            self._context = (
                take_context(options.application_id, options.properties, options.logs)
                if self._own
                else active
            )
        if self._own and not self._shares_disk:
            warning = open_to_all(dict(self._context.getConf().getAll()))
            if warning is not None:
                self._say(warning)
        if not self._own:
            check_joined(dict(self._context.getConf().getAll()))
        self._await_executors()
        self._jobs = Jobs(self._context)
        self._warm_up = Thread(target=self._jobs.warm_up, args=(self.cores,), daemon=True)
        self._warm_up.start()
        if self._own and self._shares_disk:
            self._pages = ArchivePages(self._context)

    def _await_executors(self) -> None:
        """Wait until somebody can run tasks, where that is not the JVM of the driver."""
        if not is_local(str(self._context.master)):
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
        return is_local(str(self._context.master))

    @property
    def state_is_here(self) -> bool:
        """Whether the state of all key groups is on this host."""
        return self._shares_disk

    def open_state(self, stage: int, group: int, committed: Committed) -> Snapshot:
        """Open a view of the state of a key group; may be called from any thread."""
        return self._views.open(stage, group, committed)

    def global_reading(self, program: Program) -> GlobalReading:
        """Return what opens copies of global tables for readers in this process."""
        from mustela.spark.global_reading import GlobalReading as Reading

        return Reading(program)

    def check(self, plan: Plan) -> None:
        """See whether the plan can be sent to the workers, and its state be kept where they are.

        Before a start nobody knows where they are.
        """
        if self._context is not None and not self._shares_disk:
            check_hosts(plan, master=self._context.master, state_backend=self._state_backend)
        check_plan(plan)

    def rehearse(self, program: Program, order: EpochOrder) -> None:
        """Run an epoch without records, in as many tasks as run at once."""
        if not self._has(program):
            self._ship(program)
        assert self._jobs is not None
        assert self._program is not None
        assert self._shipment is not None
        places = RestoreOrder(incarnation=order.token.incarnation, marks=order.marks)
        self._run_places(OPEN, places, self._places(places))
        job = self._jobs.run_epoch(self._shipment, self._program, order, None)
        came = Came(program.result_bytes)
        for data in self._guarded(job):
            came.add(data)
        self._check(came, order)
        came.frames.close()
        forget(self._program.spool_dir, order.token)

    def _have_room(self) -> None:
        """Have the task leave that stays, if there is one: something needs all cores."""
        if self._residents is not None:
            self._residents.leave()

    def _has(self, program: Program) -> bool:
        """Whether the workers have a program, and nobody has cleared what they left."""
        known = self._program
        if known is None or self._given != program.identity:
            return False
        return not known.spool_dir or Path(known.spool_dir).is_dir()

    def load(self, program: Program) -> None:
        """Broadcast the program to the workers, if they do not have it."""
        if not self._has(program):
            self._ship(program)
        assert self._program is not None
        if self._shares_disk:
            clear_others(self._program.spool_dir)

    def _ship(self, program: Program) -> None:
        self._have_room()
        self._ships += 1
        if self._given == program.identity:  # workers keep what they have of that one
            program = replace(program, identity=f"{program.identity}-{self._ships}")
        else:
            self._given = program.identity
        if self._shares_disk:
            program = replace(program, spool_dir=spool_dir(program))
        if self._logs is not None:
            logs = replace(self._logs, relayed=self._own and is_relayed(self._context))
            program = replace(program, logs=logs)
        if self._shares_disk:
            packed = ship(program, import_path())
        else:
            packed = ship(program, code=user_code(), versions=installed_versions())
        if self._shipment is not None:
            self._shipment.unpersist()
        with self._told_as_ours():
            shipment: Broadcast[Shipment] = self._context.broadcast(packed)
        self._shipment = shipment
        self._program = program
        self._views.take(program)
        assert self._jobs is not None
        self._arrivals = Arrivals(program)
        if not self._shares_disk:
            self._arrivals = Callers(program, self._ask, shipment, SystemClock().monotonic)
            self._keep_homes(program)
        self._small = SmallEpochs(program)
        self._residents = Residents(self._jobs, program, shipment)
        if self._watch is not None:
            self._watch.close()
        self._watch = WorkerWatch(program, self._limits, self._say)

    def _keep_homes(self, program: Program) -> None:
        """Keep the lanes of a program at home; homes stay where they are if another one comes."""
        assert self._jobs is not None
        known = self._keeper
        if known is not None and known.homes.groups == program.key_groups:
            known.new_program()
            return
        homes = Homes(program.key_groups, self._standby_replicas)
        how = self._standby_lag_s, self._say, SystemClock()
        self._keeper = HomeKeeper(self._context, self._jobs, homes, *how)

    def _ask(self, task: Task) -> list[bytes]:
        """Run a task on each executor, and return what the tasks gave."""
        assert self._jobs is not None
        assert self._keeper is not None
        with self._told_as_ours():
            where = self._keeper.everywhere()
            hosts = 1 if where is None else len(where.executors)
            return list(self._jobs.run_tasks(hosts, task, where))

    def arrivals(self) -> set[tuple[int, int]]:
        """Return the key groups for which calls to the outside have ended."""
        return set() if self._arrivals is None else self._arrivals.new()

    def read(self, order: EpochOrder) -> Reading | None:
        """Run the first stage of an epoch whose lanes are to run later, unless it is small."""
        assert self._jobs is not None
        assert self._program is not None
        assert self._shipment is not None
        assert self._watch is not None
        if self._small is None or self._small.has(order):
            return None  # the task that stays would have to leave for it
        self._have_room()
        order = self._placed(order)
        try:
            with self._watch.over(order), self._told_as_ours():
                where = self._at_home(order)
                read = self._jobs.read_ahead(self._shipment, self._program, order, where)
        except BaseException:
            forget(self._program.spool_dir, order.token)
            raise
        known = self._program.spool_dir, order.token, order.placement, where
        return SparkReading(read, self._jobs, *known)

    def run(self, order: EpochOrder, reading: Reading | None = None) -> EpochOutput:
        """Run the job of one epoch, whole."""
        assert reading is None or isinstance(reading, SparkReading)
        assert self._jobs is not None
        assert self._program is not None
        assert self._shipment is not None
        assert self._small is not None
        assert self._residents is not None
        assert self._watch is not None
        assert self._arrivals is not None
        self._await_executors()
        order = self._arrivals.tell(order)
        if reading is None:
            order = self._placed(order)
            where = self._at_home(order)
        else:  # its first stage has dealt out the records
            order, where = replace(order, placement=reading.placement), reading.where
        if order.suspect and self._program.plan.reads_any:
            self._look_at_all(order)
        if order.ticket is None and reading is None:
            order = replace(order, owners=0)
        came = Came(self._program.result_bytes)
        try:
            if reading is None and self._small.has(order):
                order = self._small.narrowed(order)
                job = self._residents.run(order)
            else:
                self._residents.leave()
                read = reading.read if reading else None
                job = self._jobs.run_epoch(self._shipment, self._program, order, read, where)
            with self._watch.over(order), closing(self._guarded(job, where)) as answer:
                for data in answer:
                    came.add(data)
            self._check(came, order)
        except BaseException:
            came.frames.close()
            forget(self._program.spool_dir, order.token)
            raise
        self._small.learn(came.reports)
        self._arrivals.hear(came.reports)
        if self._keeper is not None:
            self._keeper.ran(order, came.reports)
            self._keeper.tend(self._shipment, order)
        return SparkOutput(came, self._program.spool_dir, order)

    def _placed(self, order: EpochOrder) -> EpochOrder:
        """Return an order with its lanes at home, where there are several hosts."""
        if self._keeper is None or self._program is None:
            return order
        with self._told_as_ours():
            return self._keeper.place(order, self._program.lanes_in(order))

    def _at_home(self, order: EpochOrder) -> Located | None:
        """Return where the lanes of an epoch that was just placed are at home."""
        return None if order.placement is None or not self._keeper else self._keeper.lanes

    def _look_at_all(self, order: EpochOrder) -> None:
        """Verify and restore before an epoch in which lanes read each other's state.

        A lane verifies its own key groups while it runs, which is too late for the others.
        """
        everything = RestoreOrder(
            incarnation=order.token.incarnation,
            marks=order.marks,
            suspect=True,
            watermark=order.event_time.before,
        )
        self.restore(everything, _tell_nobody)

    def _check(self, came: Came, order: EpochOrder) -> None:
        """Raise what a task reported, and make sure that every task reported."""
        came.raise_failure()
        stages = self._program.plan.stages if self._program else ()
        lanes = self._program.lanes_in(order) if self._program else 0
        wanted = len(order.ranges) + lanes * (len(stages) - 1) + order.owners
        reported = len(came.reports) + len(came.owned)
        if reported != wanted:
            msg = f"{reported} of {wanted} tasks of an epoch reported"
            raise self._incomplete(msg)
        if not self._shares_disk and self._jobs is not None:
            self._jobs.refuse_second_attempts(came.spark_stages)

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
        if is_stopped(self._context):
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

    def restore(
        self,
        order: RestoreOrder,
        on_progress: Callable[[Sequence[TaskReport], int, int], None],
    ) -> list[TaskReport]:
        """Bring all key groups to the committed state, in rounds of about two seconds.

        A round ends when its tasks have worked as long as a round may take; what they left is dealt
        out anew, so that a core that got on faster takes more of it.
        """
        left = self._places(order)
        total = len(left)
        if self._keeper is not None and self._shipment is not None:
            with self._told_as_ours():
                self._keeper.ask_all(self._shipment, order, self._guarded)
        reports: list[TaskReport] = []
        if self._warm_up is not None:
            self._warm_up.join()  # what it does is part of the start, not of the restore
        on_progress((), 0, total)
        while left:
            shares = self._shares(left, order)
            new = self._run_shares(RESTORE, order, shares)
            reports.extend(new)
            left = not_done(shares.places, new)
            order = replace(order, suspect=False)  # all of it was looked at in the first round
            on_progress(new, total - len(left), total)
        return reports

    def settle(self, order: RestoreOrder) -> None:
        """Fold and sync every key group that is current; after an interruption nothing is."""
        if self._interrupted or self._died:
            return
        self._run_places(SETTLE, order, self._places(order))

    def tidy(
        self, order: RestoreOrder, places: Sequence[tuple[int, int]] = (), *, soon: bool = False
    ) -> list[tuple[int, int]]:
        """Give back disk that key groups do not need, for a fraction of a second."""
        todo = [place for place in places if place[0] in order.marks] or self._places(order)
        if not todo:
            return []
        shares = self._shares(todo, order)
        return not_done(shares.places, self._run_shares(tidying(soon=soon), order, shares))

    def tend(self, committed: Callable[[], RestoreOrder]) -> int:
        """Have the copies of second homes brought up to date; nobody waits for it."""
        if self._keeper is None or self._program is None or self._shipment is None:
            return -1
        return self._keeper.rest(self._shipment, committed, self._program.lanes)

    def _places(self, order: RestoreOrder) -> list[tuple[int, int]]:
        assert self._program is not None
        groups = self._program.key_groups
        return [(stage, group) for stage in order.marks for group in range(groups)]

    def _run_places(
        self, work: OnPlace, order: RestoreOrder, places: list[tuple[int, int]]
    ) -> list[TaskReport]:
        return self._run_shares(work, order, self._shares(places, order)) if places else []

    def _shares(self, places: list[tuple[int, int]], order: RestoreOrder) -> Shares:
        """Deal out places to as many tasks as run at once, at their homes if they have any."""
        with self._told_as_ours():
            if self._keeper is not None and self._program is not None:
                return self._keeper.shares(places, order, self._program.lanes)
            tasks = min(self.cores, len(places))
            return Shares([places[n::tasks] for n in range(tasks)], None)

    def _run_shares(self, work: OnPlace, order: RestoreOrder, shares: Shares) -> list[TaskReport]:
        assert self._jobs is not None
        assert self._shipment is not None
        self._have_room()
        tasks = len(shares.places)
        reports: list[TaskReport] = []
        task = partial(places_task, work, self._shipment, order, shares.places)
        job = self._jobs.run_tasks(tasks, task, shares.where)
        for data in self._guarded(job):
            report: TaskReport = load_object(unpack(data).body)
            if report.failure is not None:
                raise error_of(report.failure)
            reports.append(report)
        if len(reports) != tasks:
            msg = f"{len(reports)} of {tasks} tasks over key groups reported"
            raise self._incomplete(msg)
        return reports

    def workers(self, *, stacks: bool) -> list[WorkerView]:
        """Return what each worker of this host is at; none of other hosts is known."""
        return [] if self._watch is None else self._watch.views(stacks=stacks)

    def batch(self, request: BatchRequest) -> BatchResult:
        """Run an application over DataFrames; see `mustela.runtime.batch.batch`.

        Raises:
            BatchEngineError: If pandas or pyarrow are missing.
        """
        missing = [name for name in ("pandas", "pyarrow") if find_spec(name) is None]
        if missing:
            msg = f"a batch needs {' and '.join(missing)}"
            raise BatchEngineError(msg, fix="pip install 'mustela[batch]'")
        from mustela.spark.batch.start import start_batch  # with Arrow, which only this needs

        return start_batch(self, request)

    def hosts_elsewhere(self) -> list[str]:
        """Return the hosts of Spark's executors other than the driver's."""
        if self._context is None or self._shares_disk:
            return []
        with self._told_as_ours():
            spark = self._context._jsc.sc()
            infos = spark.statusTracker().getExecutorInfos()
            own = spark.getConf().get("spark.driver.host", "")
            return sorted({str(info.host()) for info in infos} - {str(own)})

    def interrupt(self) -> None:
        """Kill the workers of this host, or cancel the jobs of a context that is ours."""
        self._interrupted = True
        if self._shares_disk and self._watch is not None:
            self._watch.kill()
        elif self._own and self._context is not None:
            self._context.cancelAllJobs()

    def stop(self) -> None:
        """Stop Spark if it was started here."""
        end_begun()
        self._have_room()
        if self._pages is not None:
            self._pages.close()
        if self._keeper is not None:
            self._keeper.stop()
        if self._watch is not None:
            self._watch.close()
        self._views.close()
        if self._program is not None:
            clear(self._program.spool_dir)
        if self._own and self._context is not None:
            release_context(self._context, self._properties, self._logs)
            if self._class_archive and starts_directly(self._properties):
                make_aside()
        self._context = None


def _tell_nobody(*_told: object) -> None:
    """Nobody is told."""
