"""Why ``spark.read.format("mustela")`` takes no filters from Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
)
from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

NUMBERS = 10


class Numbers(DataSource):
    """Ten numbers, read as the filters allow that Spark hands over; Spark applies them again."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number long"

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return NumbersReader()


class NumbersReader(DataSourceReader):
    """Reads the numbers between two bounds."""

    def __init__(self) -> None:
        self.low, self.high = 0, NUMBERS

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, GreaterThanOrEqual):
                self.low = max(self.low, each.value)
            elif isinstance(each, LessThan):
                self.high = min(self.high, each.value)
        return filters  # all of them are applied by Spark as well

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        del partition
        return iter([(number,) for number in range(self.low, self.high)])


def found(frame: Any) -> list[int]:
    """Return the numbers of a data frame."""
    return sorted(row.number for row in frame.collect())


@pytest.fixture
def numbers(spark_context: Any) -> Any:
    """The numbers as a data frame."""
    session = SparkSession(spark_context).newSession()
    session.dataSource.register(Numbers)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session.read.format("numbers").load()


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="notyet: SPARK-58551")
def test_a_query_without_a_filter_reads_everything_after_one_with_a_filter(numbers: Any) -> None:
    """A reader belongs to one query; before SPARK-58551 the next one of the data frame has it too.

    When this passes, `mustela.frames` can take filters of keys from Spark.
    """
    assert found(numbers.where("number < 3")) == [0, 1, 2]
    assert found(numbers) == list(range(NUMBERS))


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="notyet: SPARK-58551")
def test_a_query_reads_by_its_own_filter_while_another_one_is_planned(numbers: Any) -> None:
    """Two queries of a data frame, both planned before they are run, each read what they want.

    Before SPARK-58551 the first reads by the filter of the second. So it would not help to have
    Spark apply all filters again, nor to bind a reader to the query that reads first.
    """
    low, high = numbers.where("number < 3"), numbers.where("number >= 8")
    for query in (low, high):
        query._jdf.queryExecution().executedPlan()
    assert (found(low), found(high)) == ([0, 1, 2], [8, 9])
