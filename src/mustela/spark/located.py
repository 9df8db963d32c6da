"""Tasks that Spark runs where they are at home, if it can.

PySpark cannot say where the partitions behind a shuffle should run. Spark itself asks each RDD on
the way for its preferred locations. So what a shuffle brings is crossed with a list that has one
item for each lane, each preferred by one executor, and of all pairs of partitions those on the
diagonal are kept. All of that is Spark's public interface, and nothing is added to its JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from mustela.spark.executors import connected_executors, scheduler_of
from mustela.spark.placement import Executor

__all__ = ["ExecutorList", "Located"]


class _Classes(NamedTuple):
    """Classes of Spark's that each epoch needs: each step on the way to one is a question."""

    pruned: Any
    pairs: Any
    python: Any


class ExecutorList:
    """Tells the executors that take tasks.

    Args:
        context: A Spark context.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._cores: dict[str, int] = {}

    @cached_property
    def _master(self) -> Any:
        return self._context._jsc.sc().env().blockManager().master()

    @cached_property
    def _backend(self) -> Any:
        """The scheduler's connections to executors; None where all of Spark is one process."""
        backend = scheduler_of(self._context)
        return None if "LocalSchedulerBackend" in str(backend.getClass().getName()) else backend

    def now(self) -> list[Executor]:
        """Return the executors that take tasks; each epoch asks, so it takes few questions.

        One whose connection is closed takes none, though Spark waits to hear why before it gives
        it up, up to five seconds if its host is gone, too. One that is asked to leave takes none.
        """
        backend = self._backend
        active = None if backend is None else connected_executors(backend)
        told = str(self._master.getMemoryStatus().keySet().mkString("\n"))
        found: list[Executor] = []
        for line in told.splitlines():
            # BlockManagerId(0, 10.0.0.7, 40123, None)
            number, host, *_ = line.removeprefix("BlockManagerId(").split(", ")
            if active is None or number in active:
                found.append(Executor(host, number, self._cores_of(number)))
        return sorted(found)

    def _cores_of(self, number: str) -> int:
        if number not in self._cores:
            told = self._context._jsc.sc().statusStore().executorList(True)
            for place in range(told.size()):
                summary = told.apply(place)
                if summary.totalCores() > 0:
                    self._cores[str(summary.id())] = int(summary.totalCores())
        # Spark's own listeners may not have heard yet of one that is new.
        return self._cores.get(number, 1)


class Located:
    """As many tasks as there are executors in a list, each preferred by one of them.

    Args:
        context: A Spark context.
        executors: Where each task is at home.
        readers: If not every executor is fit to read sources, those that are.
    """

    def __init__(
        self, context: Any, executors: Sequence[Executor], readers: Sequence[Executor] = ()
    ) -> None:
        self.executors = tuple(executors)
        self.readers = tuple(readers)
        self._context = context

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The executors, by their numbers."""
        return frozenset(one.number for one in self.executors)

    @cached_property
    def items(self) -> Any:
        """A Java RDD with one empty item for each task."""
        return self._items([[one] for one in self.executors])

    def reading(self, tasks: int) -> Any:
        """Return a Java RDD with one empty item for each task, for any of the readers."""
        return self._items([self.readers] * tasks)

    def _items(self, wanted: Sequence[Sequence[Executor]]) -> Any:
        jvm = self._context._jvm
        rows = jvm.java.util.ArrayList()
        for executors in wanted:
            places = jvm.java.util.ArrayList()
            for one in executors:
                places.add(f"executor_{one.host}_{one.number}")
            rows.add(jvm.scala.Tuple2(b"", self._converters.asScala(places).toSeq()))
        items = self._converters.asScala(rows).toSeq()
        return self._context._jsc.sc().makeRDD(items, self._tag).toJavaRDD()

    def at_home(self, values: Any) -> Any:
        """Return a Java RDD with the same items in as many partitions, each at its home."""
        crossed = self.items.cartesian(values).rdd()
        kept = self._classes.pruned(crossed, self._diagonal, self._tag)
        pairs = self._classes.pairs.fromRDD(kept, self._tag, self._tag)
        return self._classes.python.valueOfPair(pairs)

    @cached_property
    def _classes(self) -> _Classes:
        jvm = self._context._jvm
        pairs = jvm.org.apache.spark.api.java.JavaPairRDD
        return _Classes(jvm.org.apache.spark.rdd.PartitionPruningRDD, pairs, jvm.PythonRDD)

    @cached_property
    def _diagonal(self) -> Any:
        """A set of Scala's, which is a function that says what is in it."""
        tasks = len(self.executors)
        numbers = self._context._jvm.java.util.HashSet()
        for task in range(tasks):
            numbers.add(task * tasks + task)
        return self._converters.asScala(numbers).toSet()

    @property
    def _converters(self) -> Any:
        return self._context._jvm.scala.jdk.javaapi.CollectionConverters

    @cached_property
    def _tag(self) -> Any:
        jvm = self._context._jvm
        return jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
