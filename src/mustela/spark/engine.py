"""The Spark engine: runs the epochs of an application as jobs of one Spark context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pyspark.core.broadcast import Broadcast

from mustela.clock import SystemClock
from mustela.plan.epoch import EpochOrder, Program, RestoreOrder, TaskReport
from mustela.plan.plan import Plan
from mustela.runtime.batch import BatchEngineError, BatchRequest, BatchResult
from mustela.runtime.engine import EngineOptions, EpochOutput, GlobalReading, Reading
from mustela.runtime.status.snapshot import WorkerView
from mustela.runtime.user_code import user_code
from mustela.spark.arrivals import Arrivals
from mustela.spark.callers import Callers
from mustela.spark.differing import installed_versions
from mustela.spark.frames import load_object, unpack
from mustela.spark.hold import SparkHold, say_nothing
from mustela.spark.homes import Homes
from mustela.spark.hosts import check_hosts
from mustela.spark.job import FrameExchange, Task
from mustela.spark.job_errors import error_of
from mustela.spark.jvm_log import is_relayed
from mustela.spark.keeper import HomeKeeper, Shares
from mustela.spark.located import Located
from mustela.spark.output import Came, SparkOutput, SparkReading
from mustela.spark.residents import PartsRead, Residents
from mustela.spark.shipment import Shipment, check_plan, import_path, ship
from mustela.spark.small_epochs import SmallEpochs
from mustela.spark.spool import clear, clear_others, forget, spool_dir
from mustela.spark.state_views import StateViews
from mustela.spark.watch import WorkerWatch
from mustela.spark.worker import (
    OPEN,
    RESTORE,
    SETTLE,
    OnPlace,
    PlacesOrder,
    not_done,
    places_task,
    tidying,
)
from mustela.state.interfaces import Committed, Snapshot

__all__ = ["SparkEngine"]


class SparkEngine(SparkHold):
    """Runs epochs on Spark; see `mustela.runtime.engine.Engine`."""

    def __init__(self) -> None:
        super().__init__()
        self._state_backend = ""
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

    def start(self, options: EngineOptions) -> None:
        """Start Spark, or join the session that the user's program has."""
        self._state_backend = options.state_backend
        self._standby_replicas = options.standby_replicas
        self._standby_lag_s = options.standby_lag_s
        super().start(options)

    def _is_here(self) -> None:
        if self._program is not None:
            self._send(self._program)

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
        self._has_spark(wait=True)
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
        self._program = program
        self._views.take(program)
        self._arrivals = Arrivals(program)
        self._small = SmallEpochs(program)
        if self._watch is not None:
            self._watch.close()
        self._watch = WorkerWatch(program, self._limits, self._say)
        if self._before is None:
            self._send(program)
        else:
            self._before.load(program, ship(self._logging(program, relayed=True), import_path()))

    def _send(self, program: Program) -> None:
        """Send a program to Spark's workers."""
        program = self._logging(program, relayed=self._own and is_relayed(self._context))
        if self._shares_disk:
            packed = ship(program, import_path())
        else:
            packed = ship(program, code=user_code(), versions=installed_versions())
        if self._shipment is not None:
            self._shipment.unpersist()
        with self._told_as_ours():
            shipment: Broadcast[Shipment] = self._context.broadcast(packed)
        self._shipment = shipment
        assert self._jobs is not None
        if not self._shares_disk:
            self._arrivals = Callers(program, self._ask, shipment, SystemClock().monotonic)
            self._keep_homes(program)
        self._residents = Residents(self._jobs, program, shipment, self.cores)

    def _logging(self, program: Program, *, relayed: bool) -> Program:
        logs = self._logs
        return program if logs is None else replace(program, logs=replace(logs, relayed=relayed))

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
        if self._before is not None and self._before.is_over:
            self._has_spark(wait=False)  # asked at rest, too: the first worker need not stay
        return set() if self._arrivals is None else self._arrivals.new()

    def read(self, order: EpochOrder) -> Reading | None:
        """Run the first stage of an epoch whose lanes are to run later, unless it is small."""
        if self._small is None or self._small.has(order) or not self._has_spark(wait=False):
            return None  # one task does all of it
        assert self._jobs is not None
        assert self._program is not None
        assert self._shipment is not None
        assert self._watch is not None
        assert self._residents is not None
        order = self._placed(order)
        try:
            with self._watch.over(order), self._told_as_ours():
                where = self._at_home(order)
                read: FrameExchange | PartsRead | None = self._residents.read(order)
                if read is None:
                    read = self._jobs.read_ahead(self._shipment, self._program, order, where)
        except BaseException:
            forget(self._program.spool_dir, order.token)
            raise
        known = self._program.spool_dir, order.token, order.placement, where
        return SparkReading(read, self._jobs, *known)

    def run(self, order: EpochOrder, reading: Reading | None = None) -> EpochOutput:
        """Run the job of one epoch, whole."""
        assert reading is None or isinstance(reading, SparkReading)
        assert self._program is not None
        assert self._small is not None
        assert self._watch is not None
        assert self._arrivals is not None
        small = reading is None and self._small.has(order)
        self._has_spark(wait=not small)
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
            if small:
                order = self._small.narrowed(order)
            job = self._job(order, reading, where, small=small)
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
        if self._keeper is not None and self._shipment is not None:
            self._keeper.ran(order, came.reports)
            self._keeper.tend(self._shipment, order)
        return SparkOutput(came, self._program.spool_dir, order)

    def _job(
        self, order: EpochOrder, reading: SparkReading | None, where: Located | None, *, small: bool
    ) -> Iterator[bytes]:
        """Return the frames of an epoch as they come."""
        if self._before is not None:
            return self._before.run(order)
        assert self._jobs is not None
        assert self._program is not None
        assert self._shipment is not None
        assert self._residents is not None
        if small:
            return self._residents.run(order)
        read = reading.read if reading else None
        if isinstance(read, FrameExchange):
            self._residents.leave()
            return self._jobs.run_epoch(self._shipment, self._program, order, read, where)
        job = partial(self._jobs.run_epoch, self._shipment, self._program, order, None, where)

        def anew() -> Iterator[bytes]:
            if reading is not None:
                reading.close()
            return job()

        return self._residents.run_large(order, read, anew)

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
        self.restore(everything, say_nothing)

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
        if self._has_spark(wait=order.suspect) and self._warm_up is not None:
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
        if not self._has_spark(wait=False):
            return Shares([places], None)
        with self._told_as_ours():
            if self._keeper is not None and self._program is not None:
                return self._keeper.shares(places, order, self._program.lanes)
            tasks = min(self.cores, len(places))
            return Shares([places[n::tasks] for n in range(tasks)], None)

    def _run_shares(self, work: OnPlace, order: RestoreOrder, shares: Shares) -> list[TaskReport]:
        tasks = len(shares.places)
        reports: list[TaskReport] = []
        if self._before is not None:
            job = self._before.run(PlacesOrder(work, order, shares.places[0]))
        else:
            assert self._jobs is not None
            assert self._shipment is not None
            self._have_room()
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
        self._has_spark(wait=True)
        if missing:
            msg = f"a batch needs {' and '.join(missing)}"
            raise BatchEngineError(msg, fix="pip install 'mustela[batch]'")
        from mustela.spark.batch.start import start_batch  # with Arrow, which only this needs

        return start_batch(self, request)

    def interrupt(self) -> None:
        """Kill the workers of this host, or cancel the jobs of a context that is ours."""
        self._interrupted = True
        if self._shares_disk and self._watch is not None:
            self._watch.kill()
        elif self._own and self._context is not None:
            self._context.cancelAllJobs()

    def stop(self) -> None:
        """Stop Spark if it was started here."""
        with suppress(Exception):  # it could not start, which was told if anything needed it
            self._has_spark(wait=True)
        self._have_room()
        if self._keeper is not None:
            self._keeper.stop()
        if self._watch is not None:
            self._watch.close()
        self._views.close()
        if self._program is not None:
            clear(self._program.spool_dir)
        self._let_go()
