"""What a statement gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mustela.sql.libraries import arrow

__all__ = ["SqlResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlResult:
    """The rows of a statement, as of one committed epoch.

    Iteration, ``len`` and ``[]`` are those of `rows`.

    Attributes:
        epoch: The epoch of the stores that it read.
        columns: The names of the columns.
        types: Their types, as Arrow names them.
        arrow: The rows as a ``pyarrow.Table``; its `to_pandas` makes a DataFrame, if pandas is
            installed.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=int, store="prices")
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.create_input_topic("prices").pipe_input("pen", 3)
        ...     result = driver.sql("select key, value from prices")
        >>> result.columns, result.types, result.rows, result.dicts()
        (('key', 'value'), ('string', 'int64'), [('pen', 3)], [{'key': 'pen', 'value': 3}])
    """

    epoch: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    arrow: Any

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, with Python's own types; what SQL has as HUGEINT, such as sums, is an int."""
        pa = arrow()
        columns: list[list[Any]] = []
        for column in self.arrow.columns:
            values: list[Any] = column.to_pylist()
            if pa.types.is_decimal(column.type) and column.type.scale == 0:
                values = [None if value is None else int(value) for value in values]
            columns.append(values)
        return list(zip(*columns, strict=True))

    def arrow_stream(self) -> bytes:
        """Return the rows as an Arrow stream."""
        pa = arrow()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.arrow.schema) as stream:
            stream.write_table(self.arrow)
        return sink.getvalue().to_pybytes()

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts; of columns with the same name the last counts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __getitem__(self, at: int) -> tuple[Any, ...]:
        return self.rows[at]
