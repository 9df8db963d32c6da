"""The data source ``mustela`` of PySpark."""

from __future__ import annotations

import itertools
from base64 import b64decode
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from mustela.errors import EnvironmentFault, UsageError
from mustela.frames.asking import Asking
from mustela.frames.errors import FrameOptionError
from mustela.frames.options import FrameOptions, options_of

__all__ = ["PUSHDOWN", "MustelaDataSource", "hold", "register"]

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""The property of Spark without which filters do not reach Python data sources."""
_COMPARISONS: Final[dict[type[Any], str]] = {
    EqualTo: "==",
    GreaterThanOrEqual: ">=",
    GreaterThan: ">",
    LessThanOrEqual: "<=",
    LessThan: "<",
    In: "in",
}
_KEYS_MAX: Final = 1_000


def register(spark: Any, *, pushdown: bool = True) -> None:
    """Make ``spark.read.format("mustela")`` known to a session of Spark.

    Args:
        spark: A SparkSession.
        pushdown: Whether filters shall reach the stores, for which a property of the session is
            set, ``spark.sql.python.filterPushdown.enabled``. Without it, each data frame needs
            ``option("pushdown", "false")``, and all rows are read.
    """
    spark.dataSource.register(MustelaDataSource)
    if pushdown:
        spark.conf.set(PUSHDOWN, "true")


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
        return (FilteredReader if options.pushdown else StoreReader)(options, schema)


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
    """Reads a store part by part, all parts as of one epoch."""

    def __init__(self, options: FrameOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._filters: list[tuple[str, str, Any]] = []

    def partitions(self) -> list[InputPartition]:
        """Take a snapshot, which all parts are read of, and divide its key groups."""
        options = self._options
        with Asking(options) as asking:
            frame = asking.open()["frame"]
            described = asking.described(frame)
            _check_schema(self._schema, _spark_schema(described, options), options)
        usable, keys = set(described["usable"]), set(described["keys"])
        bounds = tuple(each for each in self._filters if each[0] in usable)
        groups: int = described["groups"]
        by_key = any(name in keys and kind in ("==", "in") for name, kind, _ in bounds)
        count = 1 if by_key else min(groups, options.partitions)
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
        pa: Any = import_module("pyarrow")
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


class FilteredReader(StoreReader):
    """Also narrows what is read by the filters of a query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note what narrows the scan; Spark applies all filters once more."""
        for each in filters:
            bound = _bound(each)
            if bound is not None:
                self._filters.append(bound)
            yield each


def _bound(given: Filter) -> tuple[str, str, Any] | None:
    comparison = _COMPARISONS.get(type(given))
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if comparison is None or len(path) != 1:
        return None
    value: Any = getattr(given, "value", None)
    if isinstance(value, tuple | list):
        values = [_plain(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        return None if None in values or len(values) > _KEYS_MAX else (path[0], comparison, values)
    plain = _plain(value)
    return None if plain is None else (path[0], comparison, plain)


def _plain(value: Any) -> str | int | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return None  # which moment that is depends on the session
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _spark_schema(described: dict[str, Any], options: FrameOptions) -> StructType:
    pa: Any = import_module("pyarrow")
    types: Any = import_module("pyspark.sql.pandas.types")
    schema: StructType = types.from_arrow_schema(
        pa.ipc.read_schema(pa.py_buffer(b64decode(described["schema"])))
    )
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
