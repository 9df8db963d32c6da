"""The engine of the simulation: the tasks of an epoch as Spark's workers run them, in one process.

Source and lane tasks are `mustela.spark.worker`'s own, frames and all. What they meet outside is
replaced: the consumer by `SimReader`, files by the environments of a `Machine`. Tasks run in an
order that the seed chooses, and a worker can be killed wherever a task touches the world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

import mustela.connectors.kafka.changelogs as changelogs_module
import mustela.connectors.kafka.copies as lanes_module
import mustela.connectors.kafka.log as log_module
import mustela.connectors.kafka.reading_time as reading_module
import mustela.kernel.task as task_module
import mustela.queries.queries as queries_module
import mustela.runtime.cutting.prefetch as ahead_module
import mustela.spark.global_tables as global_tables_module
import mustela.spark.lane_writer as writer_module
import mustela.spark.owners as owners_module
import mustela.spark.worker as worker_module
from mustela.connectors.kafka.reading_time import ReadingSince
from mustela.errors import InvariantError
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.wiring import WiredPlan
from mustela.plan.epoch import (
    EpochOrder,
    Failure,
    Program,
    RestoreOrder,
    TaskReport,
    changelog_topic,
    epochs_topic,
)
from mustela.plan.plan import Plan
from mustela.plan.ticket import Ticket
from mustela.runtime.engine import EngineOptions, EpochJobError, EpochOutput, Reading
from mustela.spark.busy import BusyNote
from mustela.spark.claim import ClaimCheck
from mustela.spark.lane_writer import ForOwners, LaneWriter
from mustela.spark.output import Came, SparkOutput
from mustela.spark.owners import owner_parcels
from mustela.spark.worker import (
    RESTORE,
    SETTLE,
    OnPlace,
    lane_parcels,
    source_parcels,
    tidying,
)
from mustela.state.interfaces import Committed, EnvironmentSpec
from mustela.state.memory import MemorySnapshot
from tests.simulation.calls import HALF, SimDesk
from tests.simulation.executor import SimExecutor
from tests.simulation.locks import SimLock
from tests.simulation.machine import DiskEnvironment
from tests.simulation.plain import SimRowChecks, SimSink
from tests.simulation.ports import SimClock, SimCluster, SimEpochLog, SimReader
from tests.simulation.readers import SimKeeper
from tests.simulation.world import (
    Life,
    SimWorld,
    WorkerKilled,
    current_life,
    current_world,
    reach_worker,
)
from tests.simulation.writers import SimWriter

__all__ = ["SimEngine", "simulated"]

CORES = 2
_BATCH_BYTES = 100


def _clock() -> SimClock:
    """The clocks of the machine that a worker is on."""
    return SimClock(current_world(), current_life())


@contextmanager
def simulated() -> Iterator[None]:
    """Replace what a worker and the driver meet outside for the length of the block."""
    wanted: list[tuple[Any, str, Any]] = [
        (log_module, "RangeReader", SimReader),
        (lanes_module, "RangeReader", SimReader),
        (lanes_module, "WriteLock", SimLock),
        (global_tables_module, "WriteLock", SimLock),
        (changelogs_module, "SystemClock", _clock),
        (reading_module, "SystemClock", _clock),
        (lanes_module, "reach", reach_worker),
        (task_module, "reach", reach_worker),
        (writer_module, "reach", reach_worker),
        (owners_module, "reach", reach_worker),
        (worker_module, "let_go_of_mapped_files", lambda: 0),
        (ahead_module, "ThreadPoolExecutor", SimExecutor),
        (queries_module, "SnapshotKeeper", SimKeeper),
    ]
    before = [getattr(module, name) for module, name, _ in wanted]
    for module, name, ours in wanted:
        setattr(module, name, ours)
    try:
        yield
    finally:
        for (module, name, _), theirs in zip(wanted, before, strict=True):
            setattr(module, name, theirs)


class _Process:
    """What `mustela.spark.process.Process` is to tasks."""

    pid = 1

    def __init__(self, world: SimWorld, life: Life, program: Program) -> None:
        self._world = world
        self._life = life
        self.watermark = -1
        self.program = program
        self.wired = WiredPlan(program.plan)
        self.note = BusyNote(None)
        self.desk = SimDesk(world, _clock())
        self.options = KernelOptions(**program.kernel, calls=self.desk)
        self.reader = SimReader()
        self.sink = SimSink(world, life)
        self.row_checks = SimRowChecks()
        self.admin = SimCluster(world, life)
        self.reading_since: dict[tuple[str, int, int], ReadingSince] = {}
        self._specs: dict[tuple[int, int], EnvironmentSpec] = {}

    def environment(self, stage: int, group: int) -> DiskEnvironment:
        """Return the environment of one key group in one stage."""
        spec = self._specs.get((stage, group))
        if spec is None:
            spec = self._specs[stage, group] = self.program.environment(stage, group)
        return self._life.machine.environment(spec)

    def environment_of(self, spec: EnvironmentSpec) -> DiskEnvironment:
        """Return the environment of any specification."""
        return self._life.machine.environment(spec)

    def claim(self, incarnation: int) -> ClaimCheck:
        """Return what tells whether another instance took over."""
        log = SimEpochLog(self._world, self._life, epochs_topic(self.program.application_id))
        clock = SimClock(self._world, self._life)
        return ClaimCheck(
            incarnation, lambda: next(log.newest_first(), None), clock=clock.monotonic
        )

    def lane_writer(self, ticket: Ticket) -> LaneWriter:
        """Return what writes a lane's changelog rows."""
        program = self.program
        names = program.plan.log_names

        def topic(store: str) -> str:
            return changelog_topic(program.application_id, names.get(store, store))

        writer: Any = SimWriter(self._world, self._life, ticket)
        return LaneWriter(writer, topic, least=program.lane_rows)

    def transaction_writer(self, ticket: Ticket) -> Any:
        """Return what an owner of partitions writes with."""
        return SimWriter(self._world, self._life, ticket)

    def for_owners(self, header: tuple[str, bytes] | None, owners: int) -> ForOwners:
        """Return what puts sink rows together for owners, a few at a time."""
        topics = self._world.broker.topics

        def partitions(topic: str) -> int:
            if topic not in topics:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, topic))
            return len(topics[topic].partitions)

        cluster: Any = SimpleNamespace(partitions=partitions, forget=lambda: None)
        return ForOwners(cluster, {}, header, owners, batch_bytes=_BATCH_BYTES)

    def sealer(self, _header: object) -> Any:
        """Leave to the driver what is not for owners."""
        return SimpleNamespace(seal=lambda _columns: None)

    def weed_out(self, places: Iterable[tuple[int, int]]) -> None:
        """Nothing is damaged but what another boot left."""

    def settle_in(self, incarnation: int, marks: object) -> None:
        """The driver has cleared up: workers are on its host."""

    def tell_calls(self, order: EpochOrder) -> None:
        """Workers see for themselves."""

    def callers(self) -> None:
        """As they do, nobody has to tell."""


class SimEngine:
    """Runs epochs in the simulated world; see `mustela.runtime.engine.Engine`."""

    def __init__(self, world: SimWorld, life: Life) -> None:
        self._world = world
        self._life = life
        self._process: _Process | None = None

    def start(self, options: EngineOptions) -> None:
        """Nothing is to be started."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return CORES

    @property
    def owners(self) -> int:
        """How many tasks may write sink rows in place of the driver."""
        return CORES if self._world.lanes_write else 0

    @property
    def state_is_here(self) -> bool:
        """Whether the state of all key groups is on this host."""
        return True

    def open_state(self, stage: int, group: int, committed: Committed) -> MemorySnapshot:
        """Open a view of the state of a key group."""
        return self._life.machine.seen(self._here().program.environment(stage, group), committed)

    def check(self, plan: Plan) -> None:
        """Any plan will do."""

    def load(self, program: Program) -> None:
        """Take the program."""
        self._world.at(self._life, "load")
        self._process = _Process(self._world, self._life, program)

    def rehearse(self, program: Program, order: EpochOrder) -> None:
        """Nothing is to be warmed."""

    def _here(self) -> Any:
        assert self._process is not None
        return self._process

    def read(self, order: EpochOrder) -> Reading | None:
        """Run the first stage; of every third epoch nothing, as of those that are small."""
        if order.token.epoch % 3 == 0:
            return None
        with self._workers("read"):
            return _SimReading(self._sources(order))

    def _sources(self, order: EpochOrder) -> list[tuple[int, bytes]]:
        process = self._here()
        parcels: list[tuple[int, bytes]] = []
        for task in self._shuffled(range(len(order.ranges))):
            parcels.extend(source_parcels(process, order, task))
        return parcels

    def run(self, order: EpochOrder, reading: Reading | None = None) -> EpochOutput:
        """Run the job of one epoch, whole."""
        process = self._here()
        lanes = process.program.lanes_in(order)
        if order.ticket is None and reading is None:
            order = replace(order, owners=0)
        with self._workers("run"):
            parcels = reading.parcels if isinstance(reading, _SimReading) else self._sources(order)
            for stage in process.program.plan.stages[1:]:
                frames, parcels = _dealt(parcels, lanes), []
                for lane in self._shuffled(range(lanes)):
                    parcels.extend(lane_parcels(process, order, stage.index, lane, frames[lane]))
            if order.owners:
                frames, parcels = _dealt(parcels, order.owners), []
                for owner in self._shuffled(range(order.owners)):
                    parcels.extend(owner_parcels(process, order, owner, frames[owner]))
        return self._output([frame for _, frame in parcels], order)

    def _output(self, data: list[bytes], order: EpochOrder) -> EpochOutput:
        came = Came(self._here().program.result_bytes)
        for packed in data:
            came.add(packed)
        came.raise_failure(_error_of)
        # What they took is of this machine's clock, which no run may show.
        for report in came.reports:
            report.seconds.clear()
        came.owned = [report._replace(seconds=0.0) for report in came.owned]
        return SparkOutput(came, "", order)

    def _shuffled(self, tasks: Iterable[int]) -> list[int]:
        """Return tasks in some order: Spark promises none."""
        order = list(tasks)
        self._world.random.shuffle(order)
        return order

    @contextmanager
    def _workers(self, what: str) -> Iterator[None]:
        self._world.at(self._life, what)
        try:
            yield
        except WorkerKilled:
            self._world.note("a worker is killed")
            self._here().desk.crash(keep_outcomes=self._world.random.random() < HALF)
            failure = EpochJobError("a Spark worker died", evidence={"spark": "simulated"})
            failure.suspect = True
            raise failure from None
        self._world.at(self._life, f"{what} done")

    def arrivals(self) -> Iterable[tuple[int, int]]:
        """Some calls end."""
        process = self._here()
        steps = process.desk.end_some()
        stages = process.program.plan.stages
        ended = [stage.index for stage in stages for step in stage.steps if step.name in steps]
        return [(stage, group) for stage in ended for group in range(process.program.key_groups)]

    def restore(
        self, order: RestoreOrder, on_progress: Callable[[Sequence[TaskReport], int, int], None]
    ) -> list[TaskReport]:
        """Bring all key groups to the committed state."""
        report = self._on_places(RESTORE, order)
        on_progress([report], len(report.wrote), len(report.wrote))
        return [report]

    def settle(self, order: RestoreOrder) -> None:
        """Sync and close local state."""
        self._on_places(SETTLE, order)

    def tidy(
        self, order: RestoreOrder, places: Sequence[tuple[int, int]] = (), *, soon: bool = False
    ) -> list[tuple[int, int]]:
        """Give back disk, of some places each time."""
        left = list(places) or self._places(order)
        now = self._world.random.randint(1, len(left)) if left else 0
        self._on_places(tidying(soon=soon), order, left[:now])
        return left[now:]

    def tend(self, committed: Callable[[], RestoreOrder]) -> int:
        """Keep no copies elsewhere."""
        del committed
        return -1

    def _places(self, order: RestoreOrder) -> list[tuple[int, int]]:
        groups = range(self._here().program.key_groups)
        return [(stage, group) for stage in order.marks for group in groups]

    def _on_places(
        self, work: OnPlace, order: RestoreOrder, only: Sequence[tuple[int, int]] | None = None
    ) -> TaskReport:
        process = self._here()
        plan = process.program.plan
        report = TaskReport(stage=-1, task=0)
        process.watermark = order.watermark
        places = list(self._places(order) if only is None else only)
        with self._workers("work on places"):
            self._world.random.shuffle(places)
            for stage, group in places:
                committed = order.marks[stage][group].committed(plan.stages[stage].logged)
                work.act(process, stage, group, committed, report)
        return report

    def interrupt(self) -> None:
        """Nobody waits in the simulated world."""

    def stop(self) -> None:
        """Nothing is to be stopped."""


class _SimReading:
    def __init__(self, parcels: list[tuple[int, bytes]]) -> None:
        self.parcels = parcels

    def close(self) -> None:
        """Throw it away."""


def _dealt(parcels: list[tuple[int, bytes]], tasks: int) -> list[list[bytes]]:
    """Return the frames of each of so many tasks."""
    frames: list[list[bytes]] = [[] for _ in range(tasks)]
    for number, frame in parcels:
        frames[number % tasks].append(frame)
    return frames


def _error_of(failure: Failure) -> BaseException:
    if failure.error is not None:
        return failure.error
    return InvariantError("a task failed", evidence={"worker": failure.text})
