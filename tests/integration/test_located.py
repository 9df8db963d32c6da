"""Where Spark wants to run the tasks of a located job, and that it changes nothing else."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.core.rdd import RDD
from pyspark.serializers import NoOpSerializer

from mustela.spark.job import Jobs
from mustela.spark.located import Located
from mustela.spark.placement import Executor

pytestmark = pytest.mark.spark

AT = [Executor("a", "0", 2), Executor("b", "7", 2), Executor("a", "0", 2)]


def _sends(task: int, rows: Iterable[Any]) -> Iterator[bytes]:
    for _ in rows:
        pass
    for lane in range(len(AT)):
        for number in range(task + lane):
            yield struct.pack("!q", lane)
            yield b"%d from %d" % (number, task)


def _tells(task: int, rows: Iterable[Any]) -> Iterator[bytes]:
    yield b"%d: %s" % (task, b", ".join(sorted(map(bytes, rows))))


def test_lanes_get_what_they_get_without_a_home(spark_context: Any) -> None:
    """Spark prefers the executor, then its host; frames come unchanged, to the same lanes."""
    jobs, where = Jobs(spark_context), Located(spark_context, AT)
    told: list[list[bytes]] = []
    for home in (None, where):
        sent = jobs._shuffle(jobs._pipe(jobs._base(2), _sends), len(AT))
        received = jobs._at_home(sent.received, home)
        told.append([bytes(one) for one in jobs._collect(jobs._pipe(received, _tells))])
    assert told[0] == told[1]
    assert told[0][2] == b"2: 0 from 0, 0 from 1, 1 from 0, 1 from 1, 2 from 1"
    assert preferred(spark_context, received) == ["a 0", "b 7", "a 0"]


def test_tasks_without_input_have_homes_too(spark_context: Any) -> None:
    jobs, where = Jobs(spark_context), Located(spark_context, AT)
    told = [bytes(one) for one in jobs.run_tasks(len(AT), _tells, where)]
    assert told == [b"0: ", b"1: ", b"2: "]
    located: Any = RDD(where.items, spark_context, NoOpSerializer())  # type: ignore[arg-type]
    assert preferred(spark_context, located) == ["a 0", "b 7", "a 0"]


def test_sources_are_for_any_reader(spark_context: Any) -> None:
    java = Located(spark_context, AT, AT[:2]).reading(3)
    read: Any = RDD(java, spark_context, NoOpSerializer())  # type: ignore[arg-type]
    assert preferred(spark_context, read) == ["a 0, b 7"] * 3


def preferred(context: Any, rdd: Any) -> list[str]:
    """Return what Spark's scheduler prefers for each task: host and executor."""
    java = rdd._jrdd.rdd()
    found: list[str] = []
    for task in range(len(AT)):
        locations = context._jsc.sc().getPreferredLocs(java, task)
        places = map(locations.apply, range(locations.size()))
        found.append(", ".join(f"{place.host()} {place.executorId()}" for place in places))
    return found
