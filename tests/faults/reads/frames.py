"""Clients that read stores as data frames, by the readers that Spark calls, or by Spark."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from mustela.client.asking import unavailable
from mustela.client.errors import RemoteRefusedError
from mustela.frames.data_source import MustelaDataSource
from mustela.spark_source import hold
from tests.faults.reads.dealt import dealt
from tests.faults.reads.program import Shape

__all__ = ["Frames", "read_by_source", "reader_by_spark", "spark_session"]

Look = dict[str, Any]
Table = list[dict[str, Any]]
Read = Callable[[Mapping[str, str]], Table]

LIFETIME_S = 30
_GONE = (404, 410)
"""An epoch, or a frame, that ended with the process that kept it."""
_NO_ANSWER = ("REMOTE_UNAVAILABLE", "status: 404", "status: 410")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_by_source(options: Mapping[str, str]) -> Table:
    """Read a store as Spark's processes do, each of which gets its part by pickle."""
    source = MustelaDataSource(dict(options))
    reader: Any = pickle.loads(pickle.dumps(source.reader(source.schema())))
    rows: Table = []
    for part in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(part))):
            rows += batch.to_pylist()
    return rows


@cache
def spark_session() -> Any:
    """Return this process's session of Spark, which ends with the process."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder: Any = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.master("local[1]").appName("readers").getOrCreate()
    atexit.register(session.stop)
    return session


def reader_by_spark(session: Any) -> Read:
    """Return what reads a store as a data frame of a session."""

    from pyspark.errors import PySparkException

    def read(options: Mapping[str, str]) -> Table:
        try:
            found = session.read.format("mustela").options(**options).load()
            return found.toArrow().to_pylist()
        except PySparkException as error:
            # Spark hands on the text of what its Python processes raise, and no more.
            if any(told in str(error) for told in _NO_ANSWER):
                raise unavailable("Spark was told so") from None
            raise

    return read


class Frames:
    """Reads one store, or two of an epoch that it holds.

    Args:
        address: Where it asks.
        token: The file with the token.
        shapes: The stores that are there in every release.
        rng: For what is random.
        read: What reads a store.
    """

    def __init__(
        self,
        address: str,
        token: Path,
        shapes: Mapping[str, Shape],
        rng: random.Random,
        read: Read = read_by_source,
    ) -> None:
        self._place = {"url": address, "tokenFile": str(token)}
        self._shapes = {name: shape for name, shape in shapes.items() if shape.layout != "lines"}
        self._stores = dealt(self._shapes, rng)
        self._random = rng
        self._read = read

    def looks(self) -> Iterator[Look]:
        """Yield what was read.

        Raises:
            RemoteUnavailableError: If the server does not answer.
        """
        names = next(self._stores), next(self._stores)
        try:
            if self._random.random() < 0.5:
                yield {"epoch": None, "stores": {names[0]: self._rows(names[0])}}
                return
            with hold(**self._place, lifetime=LIFETIME_S) as epoch:
                found = {name: self._rows(name, epoch=str(epoch)) for name in names}
            yield {"epoch": epoch, "stores": found}
        except RemoteRefusedError as error:
            if error.fields.get("status") not in _GONE:
                raise

    def _rows(self, store: str, **more: str) -> list[list[Any]]:
        parts, lifetime = str(self._random.choice((1, 3, 8))), str(LIFETIME_S)
        options = {**self._place, "store": store, "partitions": parts, "lifetime": lifetime, **more}
        decode = json.loads if self._shapes[store].value == "json" else _as_it_is
        return [
            [
                row["key"],
                _milliseconds(row.get("window_start")),
                _milliseconds(row.get("window_end")),
                decode(row["value"]),
            ]
            for row in self._read(options)
        ]


def _as_it_is(value: Any) -> Any:
    return value


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round((time - _EPOCH).total_seconds() * 1000)
