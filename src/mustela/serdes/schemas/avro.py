"""Avro in Confluent's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from io import BytesIO
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast
from uuid import UUID

import msgspec

from mustela.serdes.base import SerdeError, bad_value, type_name, wrong_type
from mustela.serdes.schemas.avro_types import avro_schema, avro_shape
from mustela.serdes.schemas.client import Reference, RegistrySchema
from mustela.serdes.schemas.faults import SchemaTypeError
from mustela.serdes.schemas.registered import Read, RegisteredSerde, Write, library
from mustela.serdes.schemas.wire import HEAD
from mustela.serdes.shape import is_deeply_immutable

__all__ = ["AvroRecord", "AvroSerde"]

_NATIVE: Final = (bytes, datetime, date, time, UUID)
_WITH_DECIMAL: Final = (*_NATIVE, Decimal)
_PLAIN: Final = MappingProxyType[type[Any], str](
    {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}
)
"""The schemas of values that are not records, if none is declared."""
_LATEST: Final = "latest"


class AvroRecord(dict[str, Any]):
    """An Avro record without a declared class: a dict that knows its schema.

    When written again, it is written with that schema. A dict made from it (``{**record, "total":
    1}``) is a plain dict, written with the latest schema of its subject.

    Example:
        >>> schema = RegistrySchema('{"type":"record","name":"Order","fields":[]}')
        >>> AvroRecord({}, schema).schema.kind
        'AVRO'
    """

    __slots__ = ("schema",)

    def __init__(self, fields: Mapping[str, Any], schema: RegistrySchema) -> None:
        super().__init__(fields)
        self.schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle fields and schema."""
        return AvroRecord, (dict(self), self.schema)


class AvroSerde(RegisteredSerde[Any]):
    """Avro with schemas in a registry.

    Args:
        of: A dataclass, a ``msgspec.Struct``, an attrs class, a TypedDict, a pydantic model, or one
            of Python's own types; the schema is derived from it, and values are read as it. Without
            it, values are what Avro holds: dicts, lists and so on.
        schema: The schema, as text or as JSON has it, if not that of the type. Values are written
            with it, and read as it whatever schema they were written with.
        references: Schemas of the registry that it uses.
        namespace: The namespace of the type's records.
        registry: Properties of the serde's own registry; the application's if not given.

    Raises:
        SchemaTypeError: If the type has no schema, or the schema cannot be read.
        MissingLibraryError: If fastavro is not installed.

    Example:
        >>> from dataclasses import dataclass
        >>> from mustela.schemas import SerdePlace
        >>> @dataclass
        ... class Order:
        ...     total: int
        >>> serde = AvroSerde(Order).bound(SerdePlace("orders"), {"url": "mock://example"})
        >>> serde.serialize(Order(30))[5:]
        b'<'
        >>> serde.deserialize(serde.serialize(Order(30))).total
        30
    """

    kind: ClassVar[str] = "AVRO"
    format: ClassVar[str] = "avro"

    def __init__(
        self,
        of: Any = None,
        *,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        references: Iterable[Reference] = (),
        namespace: str = "",
        registry: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(registry)
        self._avro: Any = library("fastavro", "avro")
        self.type = of
        self.namespace = namespace
        self.given = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        self.references = tuple(references)
        self._json: Any = None
        if self.given is not None:
            self._json = _loaded(self.given)
        elif of is not None:
            self._json = avro_schema(of, namespace)
        self.schema = (
            None
            if self._json is None
            else RegistrySchema(json.dumps(self._json), self.kind, self.references)
        )
        if self.schema is not None and not self.references:
            self._check()
        self.name = f"avro:{_told(of, self._json)}" if self._json is not None else "avro"
        self.immutable = of is not None and is_deeply_immutable(of)
        self._is_model = isinstance(of, type) and hasattr(of, "__pydantic_validator__")
        self._runtime: Any = _runtime(of)
        self.freeze()

    def shape(self) -> Any:
        """Return the shape of the schema's values."""
        return None if self._json is None else avro_shape(self._json)

    def _check(self) -> None:
        try:
            self._avro.parse_schema(self._json, named_schemas={})
        except Exception as error:  # noqa: BLE001 - the library may raise anything for a schema
            msg = f"a schema cannot be read as Avro: {type(error).__name__}: {error}"
            raise SchemaTypeError(msg, fix="correct the schema") from None

    def _made_of(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _made, (self.type, self.given, self.references, self.namespace, self.registry)

    def _written(self) -> tuple[Any, ...]:
        return (self.schema,)

    # -- from bytes ---------------------------------------------------------------------------

    def _reader(self, schema: RegistrySchema, schema_id: int) -> Read:
        del schema_id
        writer = self._parsed(schema)
        own = None if self.schema is None else self._parsed(self.schema)
        if own is not None and self.schema is not None and self.schema.text == schema.text:
            own = None
        decode, finish = self._avro.schemaless_reader, self._finish(schema)

        def read(data: bytes) -> Any:
            stream = BytesIO(data)
            stream.seek(HEAD)
            value = decode(stream, writer, own)
            if stream.tell() != len(data):
                msg = f"{len(data) - stream.tell()} of them are after the end of the value"
                raise ValueError(msg)
            return finish(value)

        return read

    def _finish(self, schema: RegistrySchema) -> Callable[[Any], Any]:
        """Return a function that makes a value from what Avro gives."""
        of = self.type
        if of is None:
            kept = self.schema or schema
            return partial(_with_schema, kept)
        return of.model_validate if self._is_model else partial(_converted, of)

    def _parsed(self, schema: RegistrySchema) -> Any:
        named: dict[str, Any] = {}
        for _, referred in self._with_references(schema):
            self._avro.parse_schema(_loaded(referred.text), named_schemas=named)
        return self._avro.parse_schema(_loaded(schema.text), named_schemas=named)

    # -- to bytes -----------------------------------------------------------------------------

    def _written_as(self, value: Any) -> Any:
        if self._runtime is not None and not isinstance(value, self._runtime):
            raise wrong_type(self, value, type_name(self._runtime))
        if self.schema is not None:
            return self.schema
        if isinstance(value, AvroRecord):
            return value.schema
        plain = _PLAIN.get(cast("type[Any]", type(value)))
        return _LATEST if plain is None else RegistrySchema(json.dumps(plain))

    def _declared(self) -> tuple[str, RegistrySchema] | None:
        if self.schema is None:
            return None
        return _record_name(_loaded(self.schema.text)), self.schema

    def _writer(self, kind: Any) -> tuple[int, Write]:
        registry = self._registry()
        if kind is _LATEST:
            schema_id, schema = registry.latest(self._subject(""))
        else:
            record = _record_name(_loaded(kind.text))
            latest = self._latest(record)
            if latest is None:
                schema_id, schema = registry.id_of(self._subject(record), kind), kind
            else:
                schema_id, schema = latest
        return schema_id, self._encoder(schema)

    def _encoder(self, schema: RegistrySchema) -> Write:
        parsed, encode = self._parsed(schema), self._avro.schemaless_writer
        native = _WITH_DECIMAL if '"decimal"' in schema.text else _NATIVE
        order: Any = "deterministic" if self.place.part == "key" else None
        plain, is_model, timed = self.type is None, self._is_model, "timestamp-" in schema.text

        def write(value: Any) -> bytes:
            if is_model:
                value = value.model_dump(mode="python", by_alias=True)
            if order is not None or not plain:
                value = msgspec.to_builtins(value, builtin_types=native, order=order)
            if timed:
                _check_moments(value)
            stream = BytesIO()
            encode(stream, parsed, value, strict_allow_default=True)
            return stream.getvalue()

        return write

    def _refused(self, value: Any, error: Exception) -> SerdeError:
        told = f"{type(error).__name__}: {error}"
        return bad_value(self, value, told, "make the value agree with its schema")


def _made(
    of: Any,
    schema: str | None,
    references: tuple[Reference, ...],
    namespace: str,
    registry: dict[str, str],
) -> AvroSerde:
    return AvroSerde(
        of, schema=schema, references=references, namespace=namespace, registry=registry
    )


def _with_schema(schema: RegistrySchema, value: Any) -> Any:
    return AvroRecord(value, schema) if type(value) is dict else value  # pyright: ignore[reportUnknownArgumentType]


def _converted(of: Any, value: Any) -> Any:
    return msgspec.convert(value, of)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if text.isidentifier():  # "string" without its quotes, as Java's registry accepts it
            return text
        msg = "a schema cannot be read as Avro: it is not JSON"
        raise SchemaTypeError(msg, fix="correct the schema") from None


def _record_name(schema: Any) -> str:
    """Return the full name of a record's schema, empty if it has none."""
    if not isinstance(schema, dict) or "name" not in schema:
        return ""
    told = cast("dict[str, Any]", schema)
    name, namespace = str(told["name"]), str(told.get("namespace") or "")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _told(of: Any, schema: Any) -> str:
    if isinstance(of, type):
        return of.__qualname__
    return _record_name(schema) or (schema if isinstance(schema, str) else "schema")


def _runtime(of: Any) -> type[Any] | None:
    """Return the class that values must have; None if the schema decides that."""
    if not isinstance(of, type) or issubclass(of, dict):
        return None
    return cast("type[Any]", of)


def _check_moments(value: Any) -> None:
    """Refuse times without a zone, which would be taken as times in this machine's zone."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            msg = "a datetime has no time zone"
            raise ValueError(msg)
    elif isinstance(value, dict):
        for one in cast("dict[Any, Any]", value).values():
            _check_moments(one)
    elif isinstance(value, list | tuple):
        for one in cast("list[Any]", value):
            _check_moments(one)
