"""What a serde is: the contract between values and the bytes that Kafka and the stores hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NoReturn, TypeVar

from mustela.errors import DataError, EnvironmentFault, UsageError

__all__ = ["Serde", "SerdeError", "SerdePlace", "SerdeTypeError", "type_name"]

T = TypeVar("T")


class SerdeError(DataError):
    """A value cannot be encoded, or bytes cannot be decoded.

    ``fields`` holds ``serde`` (its name) and ``data`` (the value or the bytes), and for the batch
    methods ``index``, the place in the list. The text never shows the data: it may be private.
    """

    code = "SERDE"


class SerdeTypeError(UsageError):
    """A type cannot have a serde, or two types cannot be distinguished."""

    code = "SERDE_TYPE"


@dataclass(frozen=True, slots=True)
class SerdePlace:
    """Where a serde is used, for those whose bytes depend on it.

    Attributes:
        topic: The topic; for a store, that of its changelog. Empty if a function names it.
        part: Whether keys or values are meant.
        internal: Whether the topic is the application's own, which nobody else writes.

    Example:
        >>> SerdePlace("orders").part
        'value'
    """

    topic: str
    part: Literal["key", "value"] = "value"
    internal: bool = False


def type_name(cls: type[Any]) -> str:
    """Return the name of a type as users write it.

    Example:
        >>> from decimal import Decimal
        >>> type_name(int), type_name(Decimal), type_name(type(None))
        ('int', 'decimal.Decimal', 'None')
    """
    if cls is type(None):
        return "None"
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


class Serde(ABC, Generic[T]):
    """Turns values into bytes and back; every serde maps None to null, and null to None.

    A serde is a value: immutable, picklable, equal to any other of the same class and name. Its
    bytes are a format on disk and in topics, so a serde with other bytes needs a new name.

    Attributes:
        name: Stable name, part of the topology's fingerprint.
        immutable: Whether values that `deserialize` returns cannot be changed in place. Stores then
            keep them without a copy.
        group_suffix: How many of the last bytes do not count for a key's place. All windows of a
            key are in the key group of the key itself, so that they are where its records are.

    Example:
        >>> class Upper(Serde[str]):
        ...     name = "upper"
        ...     immutable = True
        ...     def serialize(self, value: str | None) -> bytes | None:
        ...         return None if value is None else value.upper().encode()
        ...     def deserialize(self, data: bytes | None) -> str | None:
        ...         return None if data is None else data.decode()
        >>> Upper().serialize_many(["a", None])
        [b'A', None]
    """

    name: str = ""
    immutable: bool = False
    group_suffix: int = 0

    @property
    def reader(self) -> Serde[Any] | None:
        """What queries of a store read instead, if the store keeps more than its results."""
        return None

    def bound(self, place: SerdePlace, registry: Mapping[str, str]) -> Serde[T]:
        """Return the serde for a place; itself, if that makes no difference.

        A serde that contains others binds them.

        Args:
            place: Where it is used.
            registry: Properties of the application's schema registry, by Confluent's names.
        """
        del place, registry
        return self

    @abstractmethod
    def serialize(self, value: T | None) -> bytes | None:
        """Return the bytes of a value, None for None.

        Raises:
            SerdeError: If this serde cannot hold the value.
        """

    @abstractmethod
    def deserialize(self, data: bytes | None) -> T | None:
        """Return the value of some bytes, None for None.

        Raises:
            SerdeError: If the bytes are not in this serde's format.
        """

    def serialize_many(self, values: Sequence[T | None]) -> list[bytes | None]:
        """Serialize a list of values.

        Raises:
            SerdeError: For the first value that fails, with its ``index`` in ``fields``.
        """
        try:
            return [self.serialize(value) for value in values]
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.serialize, values, error)

    def deserialize_many(self, data: Sequence[bytes | None]) -> list[T | None]:
        """Deserialize a list.

        Raises:
            SerdeError: For the first item that fails, with its ``index`` in ``fields``.
        """
        try:
            return [self.deserialize(item) for item in data]
        except Exception as error:  # noqa: BLE001 - named by _raise_at
            self._raise_at(self.deserialize, data, error)

    def serialize_each(
        self, values: Sequence[T | None]
    ) -> tuple[list[bytes | None], list[SerdeError]]:
        """Serialize a list and go on after failures.

        The bytes, with None for each value that failed, and the errors in order, each with its
        ``index`` in ``fields``.
        """
        return self._each(self.serialize_many, self.serialize, values)

    def deserialize_each(
        self, data: Sequence[bytes | None]
    ) -> tuple[list[T | None], list[SerdeError]]:
        """Deserialize a list and go on after failures.

        The values, with None for each item that failed, and the errors in order, each with its
        ``index`` in ``fields``.
        """
        return self._each(self.deserialize_many, self.deserialize, data)

    def _raise_at(
        self, one: Callable[[Any], Any], items: Sequence[Any], cause: Exception
    ) -> NoReturn:
        """Find the item that broke a batch and raise its error with the index."""
        for index, item in enumerate(items):
            error = self._error_at(one, item, index)
            if error is not None:
                raise error from error.__cause__
        what = f"serde {self.name} failed on a batch but on none of its items"
        raise SerdeError(what, fields={"serde": self.name, "data": None}) from cause

    def _error_at(self, one: Callable[[Any], Any], item: Any, index: int) -> SerdeError | None:
        try:
            one(item)
        except SerdeError as error:
            error.evidence["index"] = str(index)
            error.fields["index"] = index
            return error
        except EnvironmentFault:
            raise  # if a registry does not answer, the item is not to blame
        except Exception as cause:  # noqa: BLE001 - a serde of the user's may raise anything
            wrapped = SerdeError(
                f"serde {self.name} failed: {type(cause).__name__}: {cause}",
                evidence={"index": index},
                fields={"serde": self.name, "data": item, "index": index},
            )
            wrapped.__cause__ = cause
            return wrapped
        return None

    def _each(
        self,
        many: Callable[[Sequence[Any]], list[Any]],
        one: Callable[[Any], Any],
        items: Sequence[Any],
    ) -> tuple[list[Any], list[SerdeError]]:
        try:
            return many(items), []
        except SerdeError:
            pass
        results: list[Any] = []
        errors: list[SerdeError] = []
        for index, item in enumerate(items):
            error = self._error_at(one, item, index)
            if error is None:
                results.append(one(item))
            else:
                results.append(None)
                errors.append(error)
        return results, errors

    def freeze(self) -> None:
        """Allow no more changes; for the end of a constructor."""
        object.__setattr__(self, "_frozen", True)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless the serde is frozen."""
        if getattr(self, "_frozen", False):
            msg = f"serde {self.name} is frozen: create a new one"
            raise AttributeError(msg)
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        """Compare by class and name."""
        return type(other) is type(self) and self.name == getattr(other, "name", None)

    def __hash__(self) -> int:
        """Hash by class and name."""
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        """Render as the class with the name."""
        return f"<{type(self).__name__} {self.name}>"


def wrong_type(serde: Serde[Any], value: object, wanted: str, fix: str | None = None) -> SerdeError:
    """Return the error for a value of a type that a serde cannot hold."""
    got = type_name(type(value))
    return SerdeError(
        f"serde {serde.name} holds {wanted}, got {got}",
        fix=fix or f"return {wanted} from the step before, or declare the serde of {got}",
        fields={"serde": serde.name, "data": value, "got": got, "wanted": wanted},
    )


def bad_value(serde: Serde[Any], value: object, problem: str, fix: str | None = None) -> SerdeError:
    """Return the error for a value of the right type that cannot be encoded."""
    return SerdeError(
        f"serde {serde.name} cannot encode a {type_name(type(value))}: {problem}",
        fix=fix,
        fields={"serde": serde.name, "data": value},
    )


def bad_bytes(serde: Serde[Any], data: bytes, problem: str, fix: str | None = None) -> SerdeError:
    """Return the error for bytes that are not in a serde's format."""
    return SerdeError(
        f"serde {serde.name} cannot decode {len(data)} bytes: {problem}",
        fix=fix or "declare the serde with which the records were written",
        fields={"serde": serde.name, "data": data},
    )
