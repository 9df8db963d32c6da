"""From columns to records: keys and values as the bytes that the topic would hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.records.source import decode_source
from mustela.model import Headers
from mustela.plan.batch import SourceChunk
from mustela.runtime.batch import BatchInput, BatchInputError
from mustela.serdes.base import Serde, type_name
from mustela.serdes.json import JsonSerde
from mustela.serdes.primitives import BytesSerde, FloatSerde, StrSerde, UUIDSerde
from mustela.serdes.structs import PydanticSerde, StructSerde
from mustela.spark.arrow import arrow as pa
from mustela.spark.files import RECORDS, pack_headers
from mustela.sql.types import fields_of
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["Encoder", "Reads", "encoder_of"]

Reads = SourceNode | TableSourceNode | GlobalTableNode
"""What reads a topic."""

_JSON = (JsonSerde, StructSerde, PydanticSerde)
_KAFKAS = frozenset({"topic", "timestampType"})
"""Columns of Spark's Kafka source that are not part of a value."""

_SKIP = KernelOptions(deserialization_handler="continue", processing_handler="continue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Makes the records of a topic from the columns of an input.

    Attributes:
        topic: The topic.
        node: Who reads it.
        key: The column of the keys, if there is one.
        values: The columns of the values.
        composed: Whether these are fields of one value.
        timestamp: The column of the times; empty if the source takes them from its records.
        headers: The column of the headers; empty if there is none.
    """

    topic: str
    node: Reads
    key: str
    values: tuple[str, ...]
    composed: bool
    timestamp: str
    headers: str

    @property
    def retimes(self) -> bool:
        """Whether a function of the user's gives the times."""
        return callable(getattr(self.node, "timestamp_extractor", None))

    def records(self, batch: Any) -> Any:
        """Return the records of some rows, with the columns of `mustela.spark.files.RECORDS`."""
        column = dict(zip(batch.schema.names, batch.columns, strict=True))
        count = batch.num_rows
        keys: Any = pa.nulls(count, pa.binary())
        if self.key:
            keys = self._encoded(column[self.key], self.node.key, self.key)
        if self.composed:
            values = self._composed([column[name] for name in self.values])
        else:
            values = self._encoded(column[self.values[0]], self.node.value, self.values[0])
        times: Any = pa.array([0] * count, pa.int64())
        if self.timestamp:
            times = milliseconds(column[self.timestamp], self.timestamp, self.topic)
        headers: Any = pa.nulls(count, pa.binary())
        if self.headers:
            packed = [pack_headers(_headers(row)) for row in column[self.headers].to_pylist()]
            headers = pa.array(packed, pa.binary())
        event = self._event_times(keys, values, times, headers) if self.retimes else times
        return pa.RecordBatch.from_arrays([keys, values, times, headers, event], schema=RECORDS)

    def _event_times(self, keys: Any, values: Any, times: Any, headers: Any) -> Any:
        """Return what the source's function gives."""
        from mustela.spark.files import unpack_headers

        assert not isinstance(self.node, GlobalTableNode)
        count = len(times)
        extra: list[Headers] = [unpack_headers(data) for data in headers.to_pylist()]
        chunk = SourceChunk(
            topics=(self.topic,),
            topic_index=0,
            partition=0,
            offsets=list(range(count)),
            timestamps=times.to_pylist(),
            headers=extra,
        )
        output = StageOutput()
        node = replace(self.node, on_error=None)
        decode_source(
            node, chunk, keys.to_pylist(), values.to_pylist(), options=_SKIP, output=lambda: output
        )
        return pa.array(chunk.timestamps, pa.int64())

    def _encoded(self, column: Any, serde: Serde[Any] | None, name: str) -> Any:
        kind = column.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return column.cast(pa.binary())
        if pa.types.is_fixed_size_binary(kind):
            return column.cast(pa.binary())
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if text and (serde is None or isinstance(serde, (StrSerde, BytesSerde, UUIDSerde, *_JSON))):
            return column.cast(pa.string()).cast(pa.binary())
        if serde is None or isinstance(serde, BytesSerde):
            raise self._wrong(name, f"{kind}, and the source reads bytes")
        rows = _values(column)
        if isinstance(serde, _JSON):
            return self._json(rows, name)
        if pa.types.is_struct(kind):
            rows = self._typed(rows, serde, name)
        if isinstance(serde, FloatSerde) and pa.types.is_integer(kind):
            rows = [None if row is None else float(row) for row in rows]
        encoded, errors = serde.serialize_each(rows)
        if errors:
            raise self._wrong(name, f"{kind}: {errors[0].what}") from errors[0]
        return pa.array(encoded, pa.binary())

    def _composed(self, columns: Sequence[Any]) -> Any:
        """Return values made of several columns; None where all of them are."""
        names = self.values
        rows: list[Any] = []
        for cells in zip(*map(_values, columns), strict=True):
            is_none = all(cell is None for cell in cells)
            rows.append(None if is_none else dict(zip(names, cells, strict=True)))
        serde = self.node.value
        if isinstance(serde, _JSON):
            return self._json(rows, ", ".join(names))
        if serde is None:
            raise self._wrong(", ".join(names), "several columns, and the source reads bytes")
        rows = self._typed(rows, serde, ", ".join(names))
        encoded, errors = serde.serialize_each(rows)
        if errors:
            raise self._wrong(", ".join(names), errors[0].what) from errors[0]
        return pa.array(encoded, pa.binary())

    def _typed(self, rows: Sequence[Any], serde: Serde[Any], name: str) -> list[Any]:
        """Return documents as what the serde takes: objects of the type that it declares."""
        declared: Any = getattr(serde, "type", None)
        if not fields_of(declared):
            return list(rows)
        validate = getattr(declared, "model_validate", None) or partial(
            msgspec.convert, type=declared
        )
        try:
            return [None if row is None else validate(row) for row in rows]
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise self._wrong(name, f"no {type_name(declared)}: {error}") from error

    def _json(self, rows: Sequence[Any], name: str) -> Any:
        try:
            return pa.array([None if row is None else _JSON_OF(row) for row in rows], pa.binary())
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._wrong(name, f"nothing that JSON can hold: {error}") from error

    def _wrong(self, name: str, what: str) -> BatchInputError:
        return BatchInputError(
            f"column {name} of the input for topic {self.topic!r} is {what}",
            why=f"the source {self.node.name} declares its types, and a topic holds bytes of them",
            fix="give a column of the declared type, or one with the bytes that the topic would "
            "hold",
        )


_JSON_OF = msgspec.json.Encoder(order="deterministic").encode
"""The source decodes it; equal keys that are documents have equal bytes."""


def _values(column: Any) -> list[Any]:
    """Return a column as Python's own values.

    Times in nanoseconds would be those of pandas, and maps lists of pairs.
    """
    plain = _plain(column.type)
    rows = (column if plain == column.type else column.cast(plain, safe=False)).to_pylist()
    undo = _of_pairs(plain)
    return rows if undo is None else [None if row is None else undo(row) for row in rows]


def _of_pairs(kind: Any) -> Callable[[Any], Any] | None:
    """Return what makes dicts of the pairs in a value; None if its type has no map in it."""
    types = pa.types

    def inside(inner: Any) -> Callable[[Any], Any] | None:
        undo = _of_pairs(inner)
        return undo and (lambda value: None if value is None else undo(value))

    if types.is_map(kind):
        item = inside(kind.item_type)
        return lambda pairs: {key: item(value) if item else value for key, value in pairs}
    if types.is_list(kind):
        item = inside(kind.value_type)
        return item and (lambda values: [item(value) for value in values])
    if types.is_struct(kind):
        found = {field.name: undo for field in kind if (undo := inside(field.type))}
        if found:
            return lambda row: {
                name: found[name](value) if name in found else value for name, value in row.items()
            }
    return None


def _plain(kind: Any) -> Any:
    """Return a type without nanoseconds."""
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if types.is_time64(kind):
        return pa.time64("us")
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def _headers(row: Any) -> Headers:
    if row is None:
        return ()
    pairs: Any = row.items() if hasattr(row, "items") else ((h["key"], h["value"]) for h in row)
    return tuple((name, v.encode() if isinstance(v, str) else v) for name, v in pairs)


def milliseconds(column: Any, name: str, topic: str) -> Any:
    """Return times as milliseconds since 1970.

    Raises:
        BatchInputError: If a row has none, or the column holds something else.
    """
    if column.null_count:
        msg = f"column {name} of the input for topic {topic!r} has rows without a time"
        raise BatchInputError(msg, fix="leave those rows out, or fill the column")
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("ms")).cast(pa.int64())
    msg = f"column {name} of the input for topic {topic!r} holds no times but {kind}"
    raise BatchInputError(msg, fix="give timestamps, dates, or whole milliseconds since 1970")


def encoder_of(topic: str, node: Reads, given: BatchInput, names: Sequence[str]) -> Encoder:
    """Return what makes records of an input.

    Args:
        topic: The topic.
        node: Who reads it.
        given: What the user says.
        names: The input's columns.

    Raises:
        BatchInputError: If a column is missing.
    """
    plain = BatchInput(data=None)
    there = frozenset(names)

    def column(option: str) -> str:
        name: str = getattr(given, option)
        if name in there:
            return name
        if name != getattr(plain, option):
            raise _missing(topic, option, name, names)
        return ""

    used = {option: column(option) for option in ("key", "timestamp", "headers")}
    for option in ("partition", "offset"):
        used[option] = column(option)
    value = column("value")
    encoder = Encoder(
        topic=topic,
        node=node,
        key=used["key"],
        values=(value,),
        composed=False,
        timestamp=used["timestamp"],
        headers=used["headers"],
    )
    if not used["timestamp"] and not encoder.retimes and not isinstance(node, GlobalTableNode):
        raise _missing(topic, "timestamp", given.timestamp, names)
    if value:
        return encoder
    # A column that the user named by another name than Kafka's is one of the fields, too.
    hidden = {name for option, name in used.items() if name == getattr(plain, option)}
    values = tuple(name for name in names if name not in hidden | _KAFKAS)
    if not values:
        raise _missing(topic, "value", given.value, names)
    return replace(encoder, values=values, composed=True)


def _missing(topic: str, option: str, name: str, names: Sequence[str]) -> BatchInputError:
    return BatchInputError(
        f"the input for topic {topic!r} has no column {name}",
        evidence={"columns": ", ".join(names)},
        fix=f'name the column: BatchInput(data=…, {option}="…")',
        fields={"topic": topic, "option": option},
    )
