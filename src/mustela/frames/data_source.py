"""The data source ``mustela`` of PySpark."""

from __future__ import annotations

import itertools
import re
from base64 import b64decode
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import LongType, StructType

from mustela.errors import EnvironmentFault, UsageError
from mustela.frames.asking import Asking
from mustela.frames.errors import FrameOptionError
from mustela.frames.options import FrameOptions, options_of
from mustela.sql.libraries import arrow

__all__ = ["MustelaDataSource", "hold", "register"]


def register(spark: Any) -> None:
    """Make ``spark.read.format("mustela")`` known to a session of Spark.

    Spark finds it by itself (see `pyspark_mustela`) where the JVM was told of this Python, by
    ``PYSPARK_PYTHON`` or as ``python3``. Then this does nothing.

    Args:
        spark: A SparkSession.
    """
    try:
        spark.dataSource.register(MustelaDataSource)
    except PySparkException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@contextmanager
def hold(**options: Any) -> Generator[int]:
    """Keep the newest epoch readable while the block runs, for several reads that must agree.

    Args:
        **options: Those of a data frame that say where the application is, and ``lifetime``.

    Returns:
        The number of the epoch, for ``option("epoch", ...)``.

    Raises:
        FrameOptionError: If an option is missing or wrong.
        RemoteUnavailableError: If the application does not answer.
    """
    given = {name: str(value) for name, value in options.items()}
    with Asking(options_of(given, needs_store=False)) as asking:
        frame = asking.open(held=True)
        try:
            yield int(frame["epoch"])
        finally:
            with suppress(EnvironmentFault, UsageError):  # it may have ended by itself
                asking.end(frame["frame"])


class MustelaDataSource(DataSource):
    """A store of a running application, or of a replica, as of one committed epoch."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "mustela"

    def schema(self) -> StructType:
        """Return the columns of the store."""
        options = options_of(self.options)
        with Asking(options) as asking:
            frame = asking.open()["frame"]
            described = asking.described(frame)
            if options.epoch is None:
                asking.end(frame)
        return _spark_schema(described, options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the store."""
        options = options_of(self.options)
        return StoreReader(options, schema)


@dataclass
class StorePart(InputPartition):
    """A range of key groups of a frame; None for all key groups."""

    frame: str
    groups: tuple[int, ...] | None
    bounds: tuple[Any, ...]

    def __init__(self, frame: str, groups: tuple[int, ...] | None, bounds: tuple[Any, ...]) -> None:
        super().__init__(None)
        self.frame = frame
        self.groups = groups
        self.bounds = bounds


class StoreReader(DataSourceReader):
    """Reads a store part by part, all parts as of one epoch.

    It has no ``pushFilters``: before SPARK-58551 all queries of one data frame share the reader
    that was planned last, and it cannot tell whose filters it has. When that ends, a test says so:
    ``tests/integration/test_pushed_filters.py``.
    """

    def __init__(self, options: FrameOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Take a snapshot, which all parts are read of, and divide its key groups."""
        options = self._options
        with Asking(options) as asking:
            frame = asking.open()["frame"]
            described = asking.described(frame)
            there = _all_columns(described)
            _check_schema(self._schema, there, options)
        bounds = tuple(_bounds(described, there, options))
        groups: int = described["groups"]
        count = min(groups, options.partitions)
        if count == 1:
            return [StorePart(frame, None, bounds)]
        edges = [groups * part // count for part in range(count + 1)]
        return [
            StorePart(frame, tuple(range(low, high)), bounds)
            for low, high in itertools.pairwise(edges)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the Arrow batches of a part."""
        assert isinstance(partition, StorePart)
        pa = arrow()
        types: Any = import_module("pyspark.sql.pandas.types")
        schema: Any = types.to_arrow_schema(self._schema, timezone="UTC")
        wish = {
            "groups": partition.groups,
            "columns": self._schema.fieldNames(),
            "bounds": partition.bounds,
        }
        with Asking(self._options) as asking:
            for batch in asking.batches(partition.frame, wish):
                columns = [
                    column if column.type.equals(field.type) else column.cast(field.type)
                    for column, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _bounds(described: dict[str, Any], there: StructType, options: FrameOptions) -> list[Any]:
    """Return what the options say of keys."""
    given = [(">=", "keyFrom", options.key_from), ("<=", "keyTo", options.key_to)]
    found: list[Any] = []
    for comparison, name, text in given:
        if text is None:
            continue
        keys: list[str] = described["keys"]
        if len(keys) != 1 or keys[0] not in described["usable"]:
            what = f"store {options.store} cannot be read by ranges of keys"
            raise FrameOptionError(what, fix=f"leave out {name}, and filter the data frame")
        if not isinstance(there[keys[0]].dataType, LongType):
            found.append((keys[0], comparison, text))
        elif re.fullmatch(r"[0-9]{1,18}", text):
            found.append((keys[0], comparison, int(text)))
        else:
            what = f"the option {name} is not a whole number, as the keys of the store are"
            raise FrameOptionError(what, fix=f'give option("{name}", 120)')
    return found


def _all_columns(described: dict[str, Any]) -> StructType:
    pa = arrow()
    types: Any = import_module("pyspark.sql.pandas.types")
    return types.from_arrow_schema(pa.ipc.read_schema(pa.py_buffer(b64decode(described["schema"]))))


def _spark_schema(described: dict[str, Any], options: FrameOptions) -> StructType:
    schema = _all_columns(described)
    if options.columns is None:
        return schema
    known = schema.fieldNames()
    for name in options.columns:
        if name not in known:
            what = f"store {options.store} has no column {name}"
            raise FrameOptionError(what, fix=f"choose from {', '.join(known)}")
    return StructType([schema[name] for name in options.columns])


def _check_schema(wanted: StructType, there: StructType, options: FrameOptions) -> None:
    """Refuse a schema of the user's that the store does not have."""
    known = {field.name: field.dataType for field in there}
    for field in wanted:
        if known.get(field.name) != field.dataType:
            what = (
                f"store {options.store} has no column {field.name} {field.dataType.simpleString()}"
            )
            fix = f"leave out schema(), or choose from {there.simpleString()}"
            raise FrameOptionError(what, fix=fix)
