"""What a batch gives: files of rows, as typed DataFrames."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mustela.plan.files import LETTERS
from mustela.plan.plan import Plan
from mustela.runtime.batch import BatchResult
from mustela.spark.arrow import arrow as pa, parquet as pq
from mustela.spark.batch.shown import Form, each, form_of
from mustela.spark.batch.stores import LeftState
from mustela.spark.files import ROWS, rows_directory
from mustela.spark.shipment import Packed
from mustela.topology.sink import SinkNode

__all__ = ["FilesResult"]


class FilesResult(BatchResult):
    """The rows that sinks wrote; see `mustela.runtime.batch.BatchResult`.

    Args:
        plan: The plan that ran.
        directory: Everything that it left.
        output: The rows, in it.
        session: Returns a SparkSession.
        left: The stores.
    """

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        output: Path,
        session: Callable[[], Any],
        left: LeftState,
    ) -> None:
        self._left = left
        self._directory = directory
        self._output = output
        self._session = session
        self._sinks = {node.name: node for node in plan.nodes if isinstance(node, SinkNode)}
        named = {node.topic for node in self._sinks.values() if isinstance(node.topic, str)}
        found = {unquote(path.name) for path in output.iterdir()} if output.exists() else set[str]()
        self._topics = sorted((named | found) - {LETTERS})
        self.counters: Mapping[str, int] = {}
        self.watermark = -1
        self.epochs = 0
        atexit.register(self.close)

    def __getitem__(self, topic: str) -> Any:
        """Return the rows of a topic as a DataFrame.

        Raises:
            KeyError: If no sink writes it.
        """
        if topic not in self._topics:
            raise KeyError(topic)
        return self._frame(topic, self._form(topic))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the topics, by name."""
        return iter(self._topics)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self._topics)

    @property
    def has_dead_letters(self) -> bool:
        """Whether there are dead letters."""
        return bool(self._files(LETTERS))

    @property
    def dead_letters(self) -> Any:
        """The dead letters as a DataFrame."""
        return self._frame(LETTERS, Form())

    def raw(self, topic: str) -> Any:
        """Return the rows of a topic with keys and values as bytes."""
        return self._frame(topic, Form())

    def to_arrow(self, topic: str, *, raw: bool = False) -> Any:
        """Return the rows of a topic as an Arrow table, in the order of their offsets."""
        form = Form() if raw or topic == LETTERS else self._form(topic)
        tables = [
            pq.read_table(path, schema=ROWS, partitioning=None) for path in self._files(topic)
        ]
        whole = pa.concat_tables([ROWS.empty_table(), *tables]).sort_by("offset")
        return pa.Table.from_batches(
            [form.rows(batch) for batch in whole.to_batches()], form.schema
        )

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> Any:
        """Return a store as it was at the end."""
        return self._left.queries.store(name, timestamps=timestamps, headers=headers)

    def close(self) -> None:
        """Delete the files."""
        self._left.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        atexit.unregister(self.close)

    def _steps(self, topic: str) -> list[str]:
        directory = rows_directory(self._output, topic, "x").parent
        return [unquote(path.name) for path in directory.iterdir()] if directory.exists() else []

    def _files(self, topic: str) -> list[Path]:
        directory = rows_directory(self._output, topic, "x").parent
        return sorted(directory.glob("*/*.parquet"))

    def _form(self, topic: str) -> Form:
        """Return how a topic's rows are shown."""
        writers = [self._sinks[step] for step in self._steps(topic) if step in self._sinks]
        writers = writers or [node for node in self._sinks.values() if node.topic == topic]
        return form_of([(node.key, node.value) for node in writers])

    def _frame(self, topic: str, form: Form) -> Any:
        types: Any = import_module("pyspark.sql.pandas.types")
        session = self._session()
        schema = types.from_arrow_schema(ROWS)
        files = [str(path) for path in self._files(topic)]
        frame = session.read.schema(schema).parquet(*files) if files else None
        if frame is None:
            frame = session.createDataFrame([], schema)
        return frame.mapInArrow(
            partial(each, Packed.of(form)), types.from_arrow_schema(form.schema)
        )
