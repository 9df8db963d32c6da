"""What the serdes with a registry share: heads, ids, subjects, and one look-up per id."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar

from mustela.errors import EnvironmentFault
from mustela.serdes.base import Serde, SerdeError, SerdePlace, bad_bytes
from mustela.serdes.schemas.client import (
    Reference,
    Registry,
    RegistrySchema,
    UnknownSchemaIdError,
    registry_of,
)
from mustela.serdes.schemas.faults import MissingLibraryError, RegistryMissingError
from mustela.serdes.schemas.options import RegistryOptions
from mustela.serdes.schemas.subjects import check_topic, subject_name
from mustela.serdes.schemas.wire import head_of, read_id

__all__ = ["RegisteredSerde", "library"]

T = TypeVar("T")
Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


class RegisteredSerde(Serde[T]):
    """A serde whose bytes name their schema, which is in a registry.

    An application binds its serdes to their places and its registry. Elsewhere call `bound`:
    `AvroSerde().bound(SerdePlace("orders"), {"url": "http://localhost:8081"})`.

    Args:
        registry: Properties of the serde's own registry, by Confluent's names; the application's if
            not given.
    """

    kind: ClassVar[str]
    format: ClassVar[str]
    type: Any = None

    def __init__(self, registry: Mapping[str, str] | None = None) -> None:
        self.registry = dict(registry or {})
        self.own_options = RegistryOptions.of(self.registry)
        self.options = self.own_options
        self.place = SerdePlace("")
        self._readers: dict[int, Read] = {}
        self._writers: dict[Any, tuple[bytes, Write]] = {}

    def bound(self, place: SerdePlace, registry: Mapping[str, str]) -> Self:
        """Return the serde bound to a place, with the application's registry.

        Raises:
            RegistryOptionError: If a property of the registry is invalid at that place.
        """
        options = self.own_options or RegistryOptions.of(registry)
        if options is not None:
            check_topic(_strategy(options, place), place.topic, place.part)
        return self._placed(place, options)

    def _placed(self, place: SerdePlace, options: RegistryOptions | None) -> Self:
        make, arguments = self._made_of()
        made: Self = make(*arguments)
        object.__setattr__(made, "place", place)
        object.__setattr__(made, "options", options)
        return made

    def __eq__(self, other: object) -> bool:
        """Compare what the bytes depend on: what is written, and the subject of its schema.

        All of an application's own topics count as one here: a key has the same bytes in all of
        them.
        """
        if type(other) is not type(self):
            return False
        return self.name == other.name and self._identity() == other._identity()

    def __hash__(self) -> int:
        """Hash by class and name."""
        return hash((type(self), self.name))

    def _identity(self) -> tuple[Any, ...]:
        topic = "" if self.place.internal else self.place.topic
        return self.own_options, topic, *self._written()

    def _written(self) -> tuple[Any, ...]:
        """Return what else decides what is written."""
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle arguments and place; clients and caches stay in their process."""
        make, arguments = self._made_of()
        return _rebuild, (make, arguments, self.place, self.options)

    @abstractmethod
    def _made_of(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return a function that makes such a serde, and its arguments."""

    def shape(self) -> Any:
        """Return the shape of the values, as `mustela.serdes.meaning` compares them.

        None if it is that of their type, or if there is none.
        """
        return None

    # -- from bytes ---------------------------------------------------------------------------

    @abstractmethod
    def _reader(self, schema: RegistrySchema, schema_id: int) -> Read:
        """Return what reads whole values (head included) written with the schema of an id.

        Raises:
            ValueError: If such values cannot be read.
        """

    def deserialize(self, data: bytes | None) -> T | None:
        """Return the value of some bytes, using the schema that they name.

        Raises:
            EnvironmentFault: If the registry does not answer, or refuses.
        """
        if data is None:
            return None
        try:
            schema_id = read_id(data)
            return self._read_with(schema_id)(data)
        except (EnvironmentFault, MissingLibraryError):
            raise
        except UnknownSchemaIdError as error:
            problem = f"the schema registry has no schema with id {error.args[0]}"
            fix = "ask who wrote the record which registry has its schema"
            raise bad_bytes(self, data, problem, fix) from None
        except Exception as error:  # noqa: BLE001 - a library may raise anything for bad bytes
            told = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise bad_bytes(self, data, told) from None

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[T | None]:
        """Deserialize a list; each schema in it is looked up once."""
        heads: dict[bytes, Read] = {}
        found: list[T | None] = []
        try:
            for item in data:
                if item is None:
                    found.append(None)
                    continue
                head = item[:5]
                read = heads.get(head)
                if read is None:
                    read = heads[head] = self._read_with(read_id(item))
                found.append(read(item))
        except (EnvironmentFault, MissingLibraryError):
            raise
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.deserialize, data, error)
        return found

    def _read_with(self, schema_id: int) -> Read:
        read = self._readers.get(schema_id)
        if read is None:
            schema = self._registry().schema(schema_id)
            if schema.kind != self.kind:
                msg = f"their schema {schema_id} is of {schema.kind}, not of {self.kind}"
                raise ValueError(msg)
            read = self._readers[schema_id] = self._reader(schema, schema_id)
        return read

    # -- to bytes -----------------------------------------------------------------------------

    @abstractmethod
    def _written_as(self, value: Any) -> Any:
        """Return a hashable description of the schema with which a value is written.

        Raises:
            SerdeError: If this serde cannot hold the value.
        """

    @abstractmethod
    def _writer(self, kind: Any) -> tuple[int, Write]:
        """Return id and function for values of one `_written_as`, without the head."""

    @abstractmethod
    def _refused(self, value: Any, error: Exception) -> SerdeError:
        """Return the error for a value that does not match its schema."""

    def serialize(self, value: T | None) -> bytes | None:
        """Return the bytes of a value after its schema's id.

        Raises:
            EnvironmentFault: If the registry does not answer, or refuses the schema.
        """
        if value is None:
            return None
        head, write = self._write_as(self._written_as(value))
        try:
            return head + write(value)
        except Exception as error:  # noqa: BLE001 - the library may raise anything for a bad value
            raise self._refused(value, error) from None

    def serialize_many(self, values: Sequence[T | None]) -> list[bytes | None]:
        """Serialize a list of values."""
        one = self.serialize
        try:
            return [None if value is None else one(value) for value in values]
        except (EnvironmentFault, MissingLibraryError):
            raise
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(one, values, error)

    def _write_as(self, kind: Any) -> tuple[bytes, Write]:
        writer = self._writers.get(kind)
        if writer is None:
            schema_id, write = self._writer(kind)
            writer = self._writers[kind] = head_of(schema_id), write
        return writer

    # -- the registry -------------------------------------------------------------------------

    def ensure(self, options: RegistryOptions) -> bool:
        """Have a registry hold the schema of the declared values, before there is one.

        Args:
            options: The registry, and how its subjects are named.

        Returns:
            Whether there is one: a serde without a type or schema learns it from each value.

        Raises:
            EnvironmentFault: If the registry does not answer, or refuses.
        """
        placed = self._placed(self.place, options)
        declared = placed._declared()
        if declared is None:
            return False
        record, schema = declared
        placed._registry().id_of(placed._subject(record), schema)
        return True

    def _declared(self) -> tuple[str, RegistrySchema] | None:
        """Return the record's name and the schema that every value is written with, if known."""
        return None

    def _registry(self) -> Registry:
        return registry_of(self.known_options())

    def known_options(self) -> RegistryOptions:
        """Return the registry.

        Raises:
            RegistryMissingError: If none is named.
        """
        if self.options is None:
            msg = f"serde {self.name} needs a schema registry, but none is named"
            raise RegistryMissingError(
                msg,
                fix="set schema.registry.url; for tests, mock://tests is one inside the process",
            )
        return self.options

    def _subject(self, record: str) -> str:
        options, place = self.options, self.place
        assert options is not None, "the registry was checked before"
        return subject_name(_strategy(options, place), place.topic, place.part, record)

    def _latest(self, record: str) -> tuple[int, RegistrySchema] | None:
        """Return the subject's latest schema if values are written with that.

        Topics that the application keeps for itself use the schema of its program.
        """
        registry, options = self._registry(), self.options
        if options is None or not options.use_latest or self.place.internal:
            return None
        return registry.latest(self._subject(record))

    def _with_references(self, schema: RegistrySchema) -> list[tuple[Reference, RegistrySchema]]:
        """Return the schemas to which one refers, each after those to which it refers itself."""
        found: dict[str, tuple[Reference, RegistrySchema]] = {}

        def add(one: RegistrySchema) -> None:
            for reference in one.references:
                if reference.name not in found:
                    referred = self._registry().referred(reference)
                    add(referred)
                    found[reference.name] = reference, referred

        add(schema)
        return list(found.values())


def _strategy(options: RegistryOptions, place: SerdePlace) -> str:
    return options.key_strategy if place.part == "key" else options.value_strategy


def library(module: str, extra: str) -> ModuleType:
    """Return a library that an extra of the wheel installs.

    Raises:
        MissingLibraryError: If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{extra} needs the library {module.partition('.')[0]}, which is not installed"
        raise MissingLibraryError(msg, fix=f"pip install 'mustela[{extra}]'") from error


def _rebuild(
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    place: SerdePlace,
    options: RegistryOptions | None,
) -> Any:
    return make(*arguments)._placed(place, options)
