"""Rows of a sink as typed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mustela.serdes.base import Serde
from mustela.serdes.primitives import (
    BoolSerde,
    BytesSerde,
    Float32Serde,
    FloatSerde,
    Int16Serde,
    Int32Serde,
    IntSerde,
    StrSerde,
    UUIDSerde,
)
from mustela.serdes.scalars import DateSerde, DatetimeSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.spark.arrow import arrow as pa
from mustela.spark.files import ROWS, unpack_headers
from mustela.spark.shipment import Packed

__all__ = ["HEADERS", "Form", "each", "form_of"]

HEADERS: Any = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_MOMENT: Any = pa.timestamp("us", "UTC")

_TYPES: dict[type[Any], Any] = {
    StrSerde: pa.string(),
    IntSerde: pa.int64(),
    Int32Serde: pa.int32(),
    Int16Serde: pa.int16(),
    FloatSerde: pa.float64(),
    Float32Serde: pa.float32(),
    BoolSerde: pa.bool_(),
    BytesSerde: pa.binary(),
    DateSerde: pa.date32(),
    DatetimeSerde: pa.timestamp("us", "UTC"),
}


def _kind(serde: Serde[Any] | None) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the Arrow type of a serde's values, and what makes a cell of a value."""
    if serde is None:
        return pa.binary(), None
    if isinstance(serde, WindowedSerde | SessionWindowedSerde):
        inner, cell = _kind(serde.inner)
        fields = [("key", inner), ("start", _MOMENT), ("end", _MOMENT)]
        return pa.struct([pa.field(*pair) for pair in fields]), _windowed(cell)
    if isinstance(serde, UUIDSerde):
        return pa.string(), str
    found = _TYPES.get(type(serde))
    return (pa.string(), _json) if found is None else (found, None)


def _windowed(cell: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def show(window: Any) -> dict[str, Any]:
        key = window.key if cell is None or window.key is None else cell(window.key)
        return {"key": key, "start": window.start * 1000, "end": window.end * 1000}

    return show


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


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
                pa.field("key", _kind(self.key)[0]),
                pa.field("value", _kind(self.value)[0]),
                pa.field("timestamp", _MOMENT),
                pa.field("headers", HEADERS),
                pa.field("partition", pa.int32()),
                pa.field("offset", pa.int64()),
            ]
        )

    def rows(self, batch: Any) -> Any:
        """Return rows as they are in files, with typed columns."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        headers = [
            None if data is None else [{"key": n, "value": v} for n, v in unpack_headers(data)]
            for data in columns["headers"].to_pylist()
        ]
        return pa.RecordBatch.from_arrays(
            [
                _cells(self.key, columns["key"]),
                _cells(self.value, columns["value"]),
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


def _cells(serde: Serde[Any] | None, column: Any) -> Any:
    kind, cell = _kind(serde)
    if serde is None:
        return column
    values: Sequence[Any] = serde.deserialize_many(column.to_pylist())
    if cell is not None:
        values = [None if value is None else cell(value) for value in values]
    return pa.array(values, kind)


def form_of(serdes: Sequence[tuple[Serde[Any] | None, Serde[Any] | None]]) -> Form:
    """Return how rows of several sinks are shown: as bytes, if their serdes differ."""
    first = serdes[0] if serdes else (None, None)
    return Form(*first) if all(pair == first for pair in serdes) else Form()
