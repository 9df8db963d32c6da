"""The Spark job of an epoch: a chain of RDDs whose items are frames.

Built from PySpark's core API with two liberties, both for speed: items are bytes that pass
through unpickled, and each task writes (lane, frame) pairs itself where PySpark would hash and
batch objects first.

No function that is defined here may be part of a task: workers would import this module for it,
and with it the driver's settings and all that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]
from pyspark import SparkContext
from pyspark.core.broadcast import Broadcast
from pyspark.core.rdd import RDD, PipelinedRDD
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket  # pyright: ignore[reportPrivateUsage]

from mustela.plan.epoch import EpochOrder, Program
from mustela.runtime.engine import EpochJobError
from mustela.spark.located import Located
from mustela.spark.owners import owner_task
from mustela.spark.shipment import Shipment
from mustela.spark.small_epochs import small_epoch_task
from mustela.spark.worker import lane_task, source_task, warm_task

__all__ = ["FrameExchange", "JobAside", "Jobs", "Task"]

Task = Callable[[int, Iterable[Any]], Iterator[bytes]]

_NOT_YET = "java.util.concurrent.TimeoutException"


def _same(lane: int) -> int:
    return lane


@dataclass(slots=True)
class FrameExchange:
    """Where a stage of an epoch leaves its frames, and the lanes of the next one fetch them.

    Attributes:
        received: What they fetch.
        dependency: Spark's handle of the stage that leaves them.
        shuffle: Number of the shuffle that holds them.
    """

    received: RDD[bytes]
    dependency: Any
    shuffle: int


@dataclass(slots=True)
class JobAside:
    """A job that nobody waits for.

    Attributes:
        future: Spark's handle of it.
        jvm: The JVM.
    """

    future: Any
    jvm: Any

    def has_ended(self, wait_s: float) -> bool:
        """Wait for its end; return whether it came.

        Raises:
            Py4JJavaError: If it failed.
        """
        try:
            self.future.get(int(wait_s * 1000), self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
        except Py4JJavaError as error:
            thrown: Any = error.java_exception
            if thrown.getClass().getName() == _NOT_YET:
                return False
            raise
        return True

    def result(self) -> list[bytes] | None:
        """Return what its tasks gave, in their order; None if it has not ended.

        Raises:
            Py4JJavaError: If it failed.
        """
        if not self.future.isDone():
            return None
        return [bytes(frame) for frame in self.future.get()]

    def cancel(self) -> None:
        """End it; one that has no core yet never gets one."""
        self.future.cancel(True)


class _Behind(NamedTuple):
    """The tasks of a stage behind the sources, and where they are at home."""

    task: Task
    tasks: int
    where: Located | None


def _behind_sources(
    shipment: Broadcast[Shipment], program: Program, order: EpochOrder, where: Located | None
) -> Iterator[_Behind]:
    for stage in program.plan.stages[1:]:
        task = partial(lane_task, shipment, order, stage.index)
        yield _Behind(task, program.lanes_in(order), where)
    if order.owners:
        yield _Behind(partial(owner_task, shipment, order), order.owners, None)


class Jobs:
    """Builds and runs the jobs of one Spark context.

    Args:
        context: The Spark context.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context: Any = context
        self._bases: dict[int, RDD[int]] = {}
        self._active: Any = None

    def _base(self, tasks: int) -> RDD[int]:
        """Return an RDD of ``tasks`` empty partitions; its Java side is built only once."""
        base = self._bases.get(tasks)
        if base is None:
            base = self._context.parallelize([], tasks)
            self._bases[tasks] = base
        return base

    def _base_at(self, tasks: int, where: Located | None) -> RDD[Any]:
        """Return an RDD of ``tasks`` partitions with nothing to read, at home somewhere or not."""
        if where is None:
            return self._base(tasks)
        return RDD(where.items, self._context, NoOpSerializer())  # type: ignore[arg-type]

    def _pipe(self, parent: RDD[Any], task: Task) -> Any:
        rdd: Any = PipelinedRDD(parent, task)
        rdd._bypass_serializer = True
        return rdd

    def _shuffle(self, pairs: Any, lanes: int) -> FrameExchange:
        jvm = self._context._jvm
        java_pairs = jvm.PairwiseRDD(pairs._jrdd.rdd()).asJavaPairRDD()
        partitioner = jvm.PythonPartitioner(lanes, id(_same))
        shuffled = java_pairs.partitionBy(partitioner)
        values = jvm.PythonRDD.valueOfPair(shuffled)
        received: RDD[bytes] = RDD(values, self._context, NoOpSerializer())  # type: ignore[arg-type]
        dependency = shuffled.rdd().dependencies().head()
        return FrameExchange(received, dependency, dependency.shuffleId())

    def _sources(
        self, shipment: Broadcast[Shipment], order: EpochOrder, where: Located | None
    ) -> Any:
        tasks = len(order.ranges)
        base: RDD[Any] = self._base(tasks)
        if where is not None and where.readers and tasks:
            base = RDD(where.reading(tasks), self._context, NoOpSerializer())  # type: ignore[arg-type]
        return self._pipe(base, partial(source_task, shipment, order))

    def read_ahead(
        self,
        shipment: Broadcast[Shipment],
        program: Program,
        order: EpochOrder,
        where: Located | None = None,
    ) -> FrameExchange:
        """Run the first stage of an epoch alone, if there are lanes or owners behind it."""
        lanes = program.lanes_in(order) if len(program.plan.stages) > 1 else order.owners
        read = self._shuffle(self._sources(shipment, order, where), lanes)
        try:
            self._context._jsc.sc().submitMapStage(read.dependency).get()
        except BaseException:
            self.forget([read.shuffle])
            raise
        return read

    def run_epoch(
        self,
        shipment: Broadcast[Shipment],
        program: Program,
        order: EpochOrder,
        read: FrameExchange | None,
        where: Located | None = None,
    ) -> Iterator[bytes]:
        """Run the job of an epoch and yield the frames for the driver, in task order.

        Spark passes over a stage whose shuffle is there: what was read ahead is not read again.

        Args:
            shipment: The program, for workers.
            program: The program.
            order: The epoch.
            read: Its first stage, if that was run before.
            where: Where its lanes are at home; None if it is all the same.
        """
        exchanges = [read] if read else []
        rdd: Any = None if read else self._sources(shipment, order, where)
        try:
            for done, behind in enumerate(_behind_sources(shipment, program, order, where)):
                if done == len(exchanges):
                    exchanges.append(self._shuffle(rdd, behind.tasks))
                received = self._at_home(exchanges[done].received, behind.where)
                rdd = self._pipe(received, behind.task)
            yield from self._collect(rdd)
        finally:
            self.forget([exchange.shuffle for exchange in exchanges])

    def _at_home(self, received: RDD[bytes], where: Located | None) -> RDD[bytes]:
        if where is None:
            return received
        java: Any = received
        values = where.at_home(java._jrdd)
        return RDD(values, self._context, NoOpSerializer())  # type: ignore[arg-type]

    def run_small_epoch(self, shipment: Broadcast[Shipment], order: EpochOrder) -> Iterator[bytes]:
        """Run all of an epoch as one task and yield the frames for the driver."""
        return self.run_tasks(1, partial(small_epoch_task, shipment, order))

    def stay(self, task: Task) -> JobAside:
        """Begin a job of one task that nobody waits for."""
        rdd = self._pipe(self._base(1), task)
        return JobAside(rdd._jrdd.collectAsync(), self._context._jvm)

    def active(self) -> int:
        """Return how many jobs of the context run or wait, whoever asked for them.

        While a task stays this is asked several times a second. So the scheduler's set of jobs,
        which is one for the life of the context, is fetched once: each handle on the way to it
        costs a question to the JVM, and another one to give it back.
        """
        if self._active is None:
            self._active = self._context._jsc.sc().dagScheduler().activeJobs()
        return int(self._active.size())

    def refuse_second_attempts(self, stages: Iterable[int]) -> None:
        """See whether Spark ran each stage once.

        It resubmits one whose output was lost between its end and the next stage's beginning, and
        that does not count among ``spark.stage.maxConsecutiveAttempts``. Its tasks cannot know:
        each of them is told that this is its first attempt.

        Args:
            stages: Spark's numbers of the stages that the tasks of an epoch were in.

        Raises:
            EpochJobError: If a stage was run twice: the epoch runs again whole.
        """
        for stage in sorted(set(stages) - {-1}):
            info = self._tracker.getStageInfo(stage)
            if info.isDefined() and info.get().currentAttemptId() > 0:
                error = EpochJobError(
                    "an executor was lost", evidence={"spark": f"stage {stage} ran twice"}
                )
                error.suspect = error.lost_executor = True
                raise error

    def forget(self, shuffles: list[int]) -> None:
        """Delete the files of shuffles; Spark alone would wait for its garbage collector."""
        if self._cleaner is not None:
            for shuffle in shuffles:
                self._cleaner.doCleanupShuffle(shuffle, False)

    @cached_property
    def _tracker(self) -> Any:
        """What knows the context's stages; each epoch asks it."""
        return self._context._jsc.sc().statusTracker()

    @cached_property
    def _cleaner(self) -> Any:
        """What deletes the context's shuffles; None if the user has turned that off."""
        cleaner = self._context._jsc.sc().cleaner()
        return cleaner.get() if cleaner.isDefined() else None

    def run_tasks(self, tasks: int, task: Task, where: Located | None = None) -> Iterator[bytes]:
        """Run ``tasks`` tasks without a shuffle and yield their frames."""
        yield from self._collect(self._pipe(self._base_at(tasks, where), task))

    def begin(self, tasks: int, task: Task, where: Located) -> JobAside:
        """Begin a job of tasks without a shuffle that nobody waits for."""
        rdd = self._pipe(self._base_at(tasks, where), task)
        return JobAside(rdd._jrdd.collectAsync(), self._context._jvm)

    def warm_up(self, cores: int) -> None:
        """Run a job that does nothing, so that the first epoch finds everything in its place.

        The first job of a context takes more than a second: classes are loaded, and the parent of
        the Python workers starts. Meanwhile the driver talks to the broker.
        """
        try:
            for _ in self.run_tasks(cores, warm_task):
                pass
        except Exception:  # noqa: BLE001 - the first epoch will meet it, and can say what it is
            pass

    def _collect(self, rdd: Any) -> Iterator[bytes]:
        address = self._context._jvm.PythonRDD.collectAndServe(rdd._jrdd.rdd())
        with _load_from_socket(address, NoOpSerializer()) as frames:
            yield from frames
