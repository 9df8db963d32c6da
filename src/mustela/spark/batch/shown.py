"""Rows of a sink as typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mustela.runtime.batch import BatchOutputError
from mustela.serdes.base import Serde
from mustela.serdes.primitives import Float32Serde, Int16Serde, Int32Serde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.spark.arrow import arrow as pa
from mustela.spark.files import ROWS, unpack_headers
from mustela.spark.shipment import Packed
from mustela.sql.serdes import form_of_serde
from mustela.sql.types import Form as Column

__all__ = ["HEADERS", "Form", "each", "form_of"]

HEADERS: Any = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_MOMENT: Any = pa.timestamp("us", "UTC")

_NARROW: Final[dict[type[Any], Any]] = {
    Int32Serde: pa.int32(),
    Int16Serde: pa.int16(),
    Float32Serde: pa.float32(),
}
"""Files keep the width that topics have; SQL has one for all."""


def _column(serde: Serde[Any] | None) -> Column:
    """Return the column of a serde's values."""
    if serde is None:
        return Column(pa.binary())
    if isinstance(serde, WindowedSerde | SessionWindowedSerde):
        inner = _column(serde.inner)
        fields = [("key", inner.type), ("start", _MOMENT), ("end", _MOMENT)]

        def convert(window: Any) -> dict[str, Any]:
            times = {"start": window.start * 1000, "end": window.end * 1000}
            return {"key": inner.of(window.key), **times}

        return Column(pa.struct([pa.field(*pair) for pair in fields]), convert)
    narrow = _NARROW.get(type(serde))
    return form_of_serde(serde) if narrow is None else Column(narrow)


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of a sink are shown.

    Attributes:
        key: Serde of the keys.
        value: Serde of the values.
    """

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None

    @property
    def schema(self) -> Any:
        """The columns."""
        return pa.schema(
            [
                pa.field("key", _column(self.key).type),
                pa.field("value", _column(self.value).type),
                pa.field("timestamp", _MOMENT),
                pa.field("headers", HEADERS),
                pa.field("partition", pa.int32()),
                pa.field("offset", pa.int64()),
            ]
        )

    def rows(self, batch: Any) -> Any:
        """Return rows as they are in files, with typed columns.

        Raises:
            BatchOutputError: If a value does not fit its column.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        headers = [
            None if data is None else [{"key": n, "value": v} for n, v in unpack_headers(data)]
            for data in columns["headers"].to_pylist()
        ]
        return pa.RecordBatch.from_arrays(
            [
                _cells("key", self.key, columns["key"]),
                _cells("value", self.value, columns["value"]),
                columns["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(_MOMENT),
                pa.array(headers, HEADERS),
                columns["partition"],
                columns["offset"],
            ],
            schema=self.schema,
        )


def each(packed: Packed, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the typed rows of a form; for Spark."""
    form: Form = packed.unpack()
    for batch in batches:
        yield form.rows(batch.select(ROWS.names).cast(ROWS))


def _cells(name: str, serde: Serde[Any] | None, cells: Any) -> Any:
    if serde is None:
        return cells
    column = _column(serde)
    values: Sequence[Any] = serde.deserialize_many(cells.to_pylist())
    try:
        return pa.array([column.of(value) for value in values], column.type)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError, AttributeError):
        msg = f"a row of the result does not fit its column {name}, {column.type}"
        raise BatchOutputError(
            msg,
            why="a column has one type, that of the field as it is declared",
            fix="read the bytes: result.raw(TOPIC), or to_arrow(TOPIC, raw=True)",
            fields={"column": name},
        ) from None


def form_of(serdes: Sequence[tuple[Serde[Any] | None, Serde[Any] | None]]) -> Form:
    """Return how rows of several sinks are shown: as bytes, if their serdes differ."""
    first = serdes[0] if serdes else (None, None)
    return Form(*first) if all(pair == first for pair in serdes) else Form()
