"""Protobuf in Confluent's wire format: after the schema's id stand the indexes of the message."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, cast

from mustela.serdes.base import SerdeError, bad_value, type_name, wrong_type
from mustela.serdes.schemas.client import Reference, Registry, RegistrySchema
from mustela.serdes.schemas.registered import Read, RegisteredSerde, Write, library
from mustela.serdes.schemas.wire import read_indexes, write_indexes

# Descriptors are made at run time, and their library has no types for what it makes.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

__all__ = ["ProtobufSerde"]

_KNOWN: Final = ("google/protobuf/", "confluent/", "google/type/")
"""Files that every registry has, and nobody registers."""
_BYTES: Final = "serialized"
"""A file as Protobuf's own bytes in base64, as registries are asked for it."""


class ProtobufSerde(RegisteredSerde[Any]):
    r"""Protobuf whose schemas are in a registry.

    Args:
        message: A class that protoc generated. Without it messages are of classes that are made of
            the schemas in the registry, and written with the schema that they came with.
        registry: Properties of a registry of its own; the application's if not given.

    Raises:
        MissingLibraryError: If protobuf is not installed.

    Example:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from mustela.serdes.base import SerdePlace
        >>> serde = ProtobufSerde(Timestamp).bound(SerdePlace("times"), {"url": "mock://example"})
        >>> serde.serialize(Timestamp(seconds=7))[5:]
        b'\x00\x08\x07'
        >>> serde.deserialize(serde.serialize(Timestamp(seconds=7))).seconds
        7
    """

    kind: ClassVar[str] = "PROTOBUF"
    format: ClassVar[str] = "protobuf"

    def __init__(
        self, message: type[Any] | None = None, *, registry: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(registry)
        self._message: Any = library("google.protobuf.message", "protobuf")
        self.message = message
        self.name = "protobuf"
        if message is not None:
            self.name = f"protobuf:{_descriptor(message).full_name}"
        self.freeze()

    def _made_of(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _made, (self.message, self.registry)

    def shape(self) -> Any:
        """Return the shape of the messages; every field may be missing."""
        return None if self.message is None else _shape(_descriptor(self.message), ())

    # -- from bytes ---------------------------------------------------------------------------

    def _reader(self, schema: RegistrySchema, schema_id: int) -> Read:
        del schema  # it is known, and of Protobuf: that is what the class asks of it
        message = self.message
        if message is not None:

            def read(data: bytes) -> Any:
                _, start = read_indexes(data)
                return message.FromString(data[start:])

            return read
        return self._generic(schema_id)

    def _generic(self, schema_id: int) -> Read:
        """Return what reads messages of any file that the registry has."""
        registry = self._registry()
        file = _Files(registry).add(registry.schema(schema_id, form=_BYTES))
        classes: dict[tuple[int, ...], Any] = {}
        make: Any = library("google.protobuf.message_factory", "protobuf").GetMessageClass

        def read(data: bytes) -> Any:
            indexes, start = read_indexes(data)
            cls = classes.get(indexes)
            if cls is None:
                cls = classes[indexes] = make(_message_at(file, indexes))
            return cls.FromString(data[start:])

        return read

    # -- to bytes -----------------------------------------------------------------------------

    def _written_as(self, value: Any) -> Any:
        wanted = self.message or self._message.Message
        if not isinstance(value, wanted):
            raise wrong_type(self, value, type_name(wanted))
        return value.DESCRIPTOR

    def _writer(self, kind: Any) -> tuple[int, Write]:
        registry = self._registry()
        subject = self._subject(kind.full_name)
        latest = self._latest(kind.full_name)
        if latest is None:
            schema_id = registry.id_of(subject, self._schema_of(kind.file))
        else:
            schema_id = latest[0]
        indexes = write_indexes(_indexes_of(kind))
        sorted_maps = self.place.part == "key"

        def write(value: Any) -> bytes:
            return indexes + value.SerializeToString(deterministic=sorted_maps)

        return schema_id, write

    def _schema_of(self, file: Any) -> RegistrySchema:
        """Return a file as it is registered, after the files that it uses."""
        registry = self._registry()
        references: list[Reference] = []
        for used in file.dependencies:
            if used.name.startswith(_KNOWN):
                continue
            version = registry.version_of(used.name, self._schema_of(used))
            references.append(Reference(used.name, used.name, version))
        text = base64.b64encode(file.serialized_pb).decode("ascii")
        return RegistrySchema(text, self.kind, tuple(references))

    def _refused(self, value: Any, error: Exception) -> SerdeError:
        fix = "set the fields that the message requires"
        return bad_value(self, value, f"{type(error).__name__}: {error}", fix)


class _Files:
    """Makes descriptors of what a registry has."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        pools: Any = library("google.protobuf.descriptor_pool", "protobuf")
        self._pool = pools.DescriptorPool()
        self._files: Any = library("google.protobuf.descriptor_pb2", "protobuf")

    def add(self, schema: RegistrySchema) -> Any:
        """Return the descriptor of a file; the files that it uses are added before."""
        return self._added(schema, "")

    def _added(self, schema: RegistrySchema, name: str) -> Any:
        file = self._files.FileDescriptorProto.FromString(_bytes_of(schema))
        if name:
            file.name = name
        for reference in schema.references:
            self._added(self._registry.referred(reference, form=_BYTES), reference.name)
        for used in file.dependency:
            if used.startswith(_KNOWN):
                self._add_known(used)
        self._pool.Add(file)
        return self._pool.FindFileByName(file.name)

    def _add_known(self, name: str) -> None:
        module = library(name.removesuffix(".proto").replace("/", ".") + "_pb2", "protobuf")
        file = self._files.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for used in file.dependency:
            self._add_known(used)
        self._pool.Add(file)


def _made(message: type[Any] | None, registry: dict[str, str]) -> ProtobufSerde:
    return ProtobufSerde(message, registry=registry)


def _descriptor(message: type[Any]) -> Any:
    return cast("Any", message).DESCRIPTOR


def _bytes_of(schema: RegistrySchema) -> bytes:
    try:
        return base64.b64decode(schema.text, validate=True)
    except ValueError:
        msg = "their schema is a text of Protobuf, which only a class that protoc made of it reads"
        raise ValueError(msg) from None


def _indexes_of(descriptor: Any) -> tuple[int, ...]:
    """Return the path to a message in its file."""
    path: list[int] = []
    while descriptor.containing_type is not None:
        outer = descriptor.containing_type
        path.append(_place(outer.nested_types, descriptor))
        descriptor = outer
    path.append(_place(descriptor.file.message_types_by_name.values(), descriptor))
    return tuple(reversed(path))


def _place(listed: Any, descriptor: Any) -> int:
    return [one.full_name for one in listed].index(descriptor.full_name)


def _message_at(file: Any, indexes: tuple[int, ...]) -> Any:
    messages: Any = list(file.message_types_by_name.values())
    found: Any = None
    for index in indexes:
        if index >= len(messages):
            msg = f"their schema has no message at {list(indexes)}"
            raise ValueError(msg)
        found = messages[index]
        messages = found.nested_types
    return found


def _shape(descriptor: Any, inside: tuple[str, ...]) -> Any:
    if descriptor.full_name in inside:
        return ["inside", inside.index(descriptor.full_name)]
    within = (descriptor.full_name, *inside)
    fields = [[one.name, _field_shape(one, within), "="] for one in descriptor.fields]
    numbers = [one.number for one in descriptor.fields]
    return {
        "class": descriptor.full_name,
        "fields": [
            [f"{n} {name}", *rest] for n, (name, *rest) in zip(numbers, fields, strict=True)
        ],
        "form": "map",
    }


def _field_shape(field: Any, inside: tuple[str, ...]) -> Any:
    kinds = {1: "float", 2: "float", 8: "bool", 9: "str", 12: "bytes", 14: "int"}
    shape = kinds.get(field.type, "int")
    if field.message_type is not None:
        shape = _shape(field.message_type, inside)
    return ["list", shape] if _is_repeated(field) else shape


def _is_repeated(field: Any) -> bool:
    told = getattr(field, "is_repeated", None)  # older libraries have a label in its place
    return bool(field.label == field.LABEL_REPEATED if told is None else told)
