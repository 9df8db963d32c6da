"""JSON in Confluent's wire format, its schema in a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, cast

import msgspec

from mustela.serdes.base import Serde, SerdeError, bad_value
from mustela.serdes.json import JsonSerde
from mustela.serdes.schemas.client import Reference, RegistrySchema
from mustela.serdes.schemas.faults import SchemaTypeError
from mustela.serdes.schemas.registered import Read, RegisteredSerde, Write, library
from mustela.serdes.schemas.wire import HEAD
from mustela.serdes.structs import structured_serde

# Schemas are JSON, whose types are known only at run time.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

__all__ = ["JsonSchemaSerde"]

Validate = Callable[[Any], None]


class JsonSchemaSerde(RegisteredSerde[Any]):
    """JSON with a schema in a registry.

    Args:
        of: A type that `resolve_serde` accepts for JSON; the schema is derived from it, and values
            are read as it. Without it, values are what JSON holds.
        schema: The schema, if not that of the type. Values are checked against it when they are
            written and read.
        references: Schemas of the registry that it uses, each by the name of its ``$ref``.
        registry: Properties of the serde's own registry; the application's if not given.

    Without a schema, values are written with the latest one of their subject, and checked against
    the one with which they were written when they are read.

    Raises:
        SchemaTypeError: If the type has no schema, or the schema cannot be read.
        MissingLibraryError: If jsonschema is not installed.

    Example:
        >>> from dataclasses import dataclass
        >>> from mustela.schemas import SerdePlace
        >>> @dataclass
        ... class Order:
        ...     total: int
        >>> serde = JsonSchemaSerde(Order).bound(SerdePlace("orders"), {"url": "mock://example"})
        >>> serde.serialize(Order(30))[5:]
        b'{"total":30}'
        >>> serde.deserialize(serde.serialize(Order(30))).total
        30
    """

    kind: ClassVar[str] = "JSON"
    format: ClassVar[str] = "json with a schema"

    def __init__(
        self,
        of: Any = None,
        *,
        schema: str | Mapping[str, Any] | None = None,
        references: Iterable[Reference] = (),
        registry: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(registry)
        self._library: Any = library("jsonschema", "jsonschema")
        self.type = of
        self.given = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
        self.references = tuple(references)
        text = self.given
        if text is None and of is not None:
            text = json.dumps(_schema_of(of))
        self.schema = None if text is None else RegistrySchema(text, self.kind, self.references)
        self._loaded: Any = None if text is None else self._checked(text)
        self._json: Serde[Any] = JsonSerde() if of is None else structured_serde(of)
        self.name = "jsonschema" if text is None else f"jsonschema:{_told(of, self._loaded)}"
        self.immutable = self._json.immutable
        self.freeze()

    def _checked(self, text: str) -> Any:
        try:
            loaded = json.loads(text)
            self._library.validators.validator_for(loaded).check_schema(loaded)
        except Exception as error:  # noqa: BLE001 - the library may raise anything for a schema
            told = str(error).splitlines()[0]
            msg = f"a schema cannot be read as JSON Schema: {told}"
            raise SchemaTypeError(msg, fix="correct the schema") from None
        return loaded

    def _made_of(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _made, (self.type, self.given, self.references, self.registry)

    def _written(self) -> tuple[Any, ...]:
        return (self.schema,)

    # -- from bytes ---------------------------------------------------------------------------

    def _reader(self, schema: RegistrySchema, schema_id: int) -> Read:
        del schema_id
        decode = self._json.deserialize
        if self.type is not None and self.given is None:
            return lambda data: decode(data[HEAD:])  # the type checks all that its schema says
        validate, plain = self._validator(self.schema or schema), msgspec.json.decode

        def read(data: bytes) -> Any:
            body = data[HEAD:]
            validate(plain(body))
            return decode(body)

        return read

    def _validator(self, schema: RegistrySchema) -> Validate:
        referencing: Any = library("referencing", "jsonschema")
        drafts: Any = library("referencing.jsonschema", "jsonschema")
        loaded = json.loads(schema.text)
        make = self._library.validators.validator_for(loaded)
        draft = drafts.specification_with(make.META_SCHEMA["$schema"])
        # With an explicit registry nothing named by a $ref is fetched.
        known = referencing.Registry().with_resources(
            (reference.name, draft.create_resource(json.loads(referred.text)))
            for reference, referred in self._with_references(schema)
        )
        checks = make(loaded, registry=known)

        def validate(value: Any) -> None:
            error = next(checks.iter_errors(value), None)
            if error is not None:
                place = "/".join(map(str, error.absolute_path)) or "the value"
                msg = f"{place} breaks the rule {error.validator!r} of its schema"
                raise ValueError(msg)

        return validate

    # -- to bytes -----------------------------------------------------------------------------

    def _written_as(self, value: Any) -> Any:
        del value
        return self.schema

    def _declared(self) -> tuple[str, RegistrySchema] | None:
        return None if self.schema is None else (self._title(), self.schema)

    def _title(self) -> str:
        return str(self._loaded.get("title", "")) if isinstance(self._loaded, dict) else ""

    def _writer(self, kind: Any) -> tuple[int, Write]:
        registry = self._registry()
        if kind is None:
            schema_id, schema = registry.latest(self._subject(""))
        else:
            title = self._title()
            found = self._latest(title)
            schema_id, schema = found or (registry.id_of(self._subject(title), kind), kind)
        return schema_id, self._encoder(schema)

    def _encoder(self, schema: RegistrySchema) -> Write:
        is_key = self.place.part == "key"
        inner: Serde[Any] = JsonSerde(sort_keys=is_key)
        if self.type is not None:
            inner = structured_serde(self.type, sort_keys=is_key)
        if self.type is not None and schema == self.schema and self.given is None:
            return cast("Write", inner.serialize)
        validate = self._validator(schema)

        def write(value: Any) -> bytes:
            data = inner.serialize(value) or b"null"
            validate(msgspec.json.decode(data))
            return data

        return write

    def _refused(self, value: Any, error: Exception) -> SerdeError:
        if isinstance(error, SerdeError):
            return error
        return bad_value(self, value, str(error), "make the value agree with its schema")


def _made(
    of: Any, schema: str | None, references: tuple[Reference, ...], registry: dict[str, str]
) -> JsonSchemaSerde:
    return JsonSchemaSerde(of, schema=schema, references=references, registry=registry)


def _schema_of(of: Any) -> dict[str, Any]:
    """Return the schema of a type, with its name if it is a class."""
    try:
        if isinstance(of, type) and hasattr(of, "__pydantic_validator__"):
            from pydantic import TypeAdapter

            return TypeAdapter(of).json_schema()
        (told,), parts = msgspec.json.schema_components([of], ref_template="#/$defs/{name}")
    except (TypeError, ValueError, NameError) as error:
        msg = f"{of!r:.80} has no JSON Schema: {error}"
        raise SchemaTypeError(msg, fix="give the schema: JsonSchemaSerde(..., schema=…)") from None
    name = str(told.get("$ref", "")).rpartition("/")[2]
    schema = {**parts.pop(name)} if name and name in parts and not _uses(parts, name) else told
    if isinstance(of, type):
        schema = {"title": of.__name__, **schema}
    return {**schema, "$defs": parts} if parts else schema


def _uses(parts: dict[str, Any], name: str) -> bool:
    """Say whether a type contains itself: then it is referred to, and cannot be moved."""
    return f"#/$defs/{name}" in json.dumps(parts).replace('\\"', '"')


def _told(of: Any, schema: Any) -> str:
    if isinstance(of, type):
        return of.__qualname__
    title: Any = schema.get("title", "") if isinstance(schema, dict) else ""
    return str(title or "schema")
