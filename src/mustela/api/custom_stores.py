"""Stores whose shape their users define: `CustomStore`, and the questions that it answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields
from datetime import timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, dataclass_transform

from mustela.api.errors import BadOptionError
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.api.stores import StoreBuilder
from mustela.serdes.values import ValueSerde
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.row_map import OrderedRows, record_keys
from mustela.state.store_kind import StoreKind

__all__ = [
    "CustomStore",
    "QueryMethod",
    "StoreQueries",
    "query_functions",
    "query_method",
    "query_methods",
]

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__mustela_query__"
_BOUND: Final = "_bound"
_PLAIN: Final = (bool, int, float, str, bytes, timedelta, type(None))


class _Bound(NamedTuple):
    """What an opened store has, and a described one has not."""

    groups: Any
    spec: StoreSpec
    writes: bool


class QueryMethod(NamedTuple):
    """A method of a custom store that readers outside of the pipeline may call.

    Attributes:
        name: The method's name.
        parameters: The name of each parameter, and its type as it was written.
        returns: The type of the result, likewise.
        doc: The first line of its docstring.
    """

    name: str
    parameters: Mapping[str, Any]
    returns: Any
    doc: str


def query_method(method: F) -> F:
    """Let readers outside of the pipeline call a method of a custom store.

    The method only reads; from a read handle it cannot write. Each of its parameters, and its
    result, has a type, by which a request's text is read.

    Args:
        method: The method.

    Raises:
        BadOptionError: If a parameter or the result has no type, or a parameter is ``*args`` or
            ``**kwargs``.

    Example:
        >>> from mustela.stores import CustomStore, query_method
        >>> class Notes(CustomStore):
        ...     def write(self, key: str, line: str) -> None:
        ...         self.rows(key).put(line.encode(), b"")
        ...     @query_method
        ...     def lines(self, key: str) -> list[str]:
        ...         return [line.decode() for line, _ in self.rows(key).range()]
        >>> [method.name for method in query_methods(Notes)]
        ['lines']
    """
    signature = inspect.signature(method)
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    _, *given = signature.parameters.values()
    for one in given:
        if one.annotation is inspect.Parameter.empty or one.kind in loose:
            raise _untyped(method, f"parameter {one.name!r}", f"{one.name}: str")
    if signature.return_annotation is inspect.Signature.empty:
        raise _untyped(method, "the result", "-> int")
    setattr(method, _MARK, True)
    return method


def _untyped(method: Callable[..., Any], what: str, example: str) -> BadOptionError:
    return BadOptionError(
        f"query method {method.__name__!r}: {what} has no type of its own",
        at=user_origin(),
        why="requests are text, which is read by the types of the parameters",
        fix=f"write the type, as in {example!r}",
        fields={"option": method.__name__},
    )


def query_methods(store: type[CustomStore]) -> list[QueryMethod]:
    """Return the methods that readers may call, by name.

    Example:
        >>> from mustela.stores import CountMin
        >>> [method.name for method in query_methods(CountMin)]
        ['estimate', 'total']
    """
    found: list[QueryMethod] = []
    for name, method in inspect.getmembers(store, inspect.isfunction):
        if getattr(method, _MARK, False):
            signature = inspect.signature(method)
            _, *given = signature.parameters.values()
            parameters = MappingProxyType({one.name: one.annotation for one in given})
            doc = (inspect.getdoc(method) or "").partition("\n")[0]
            found.append(QueryMethod(name, parameters, signature.return_annotation, doc))
    return found


@dataclass_transform(kw_only_default=True, frozen_default=True)
class CustomStore:
    """A store of a shape of one's own, over an ordered map of bytes for each record key.

    A subclass has methods that read and write `rows`. What they write is part of the epoch's
    commit, goes to the store's changelog, is restored from it and read by snapshots, as the rows of
    every store are. An object keeps nothing else: it cannot be changed, because what it kept would
    not be committed.

    Annotated attributes are the store's parameters, keyword-only arguments like a dataclass's. They
    are part of what the rows mean, with the class's name and `format_version`: a program that
    changes one does not start on the old rows.

    Attributes:
        format_version: Raise it when rows are laid out in another way.
        kind_name: What the epoch record calls the class; empty for its name. Set it to the former
            name when the class is renamed.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> from mustela.processors import ContextualProcessor
        >>> from mustela.stores import CustomStore, query_method
        >>> class LastSeen(CustomStore):
        ...     kept: int = 3
        ...     def see(self, key: str, item: str, time: int) -> None:
        ...         rows = self.rows(key)
        ...         rows.put(time.to_bytes(8, "big"), item.encode())
        ...         while len(list(rows.range())) > self.kept:
        ...             rows.delete(rows.first()[0])
        ...     @query_method
        ...     def items(self, key: str) -> list[str]:
        ...         return [item.decode() for _, item in self.rows(key).range(reverse=True)]
        >>> class See(ContextualProcessor):
        ...     def process(self, record):
        ...         seen = self.context.state_store("seen")
        ...         seen.see(record.key, record.value, record.timestamp)
        ...         self.context.forward(record.with_value(seen.items(record.key)))
        >>> builder = StreamsBuilder()
        >>> pages = builder.stream("pages", key=str, value=str)
        >>> seen = pages.process(See, stores=[LastSeen(kept=2).builder("seen", key=str)])
        >>> with TopologyTestDriver(builder) as driver:
        ...     topic = driver.create_input_topic("pages")
        ...     for time, page in enumerate(["home", "shop", "cart"]):
        ...         topic.pipe_input("ann", page, timestamp=time)
        ...     driver.get_state_store("seen").items("ann")
        ['cart', 'shop']
    """

    format_version: ClassVar[int] = 1
    kind_name: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True)(cls)

    def builder(self, name: str, *, key: Any = None, value: Any = None) -> StoreBuilder:
        """Return a builder for a store of this shape, for processors.

        Args:
            name: Name of the store.
            key: Type or serde of the record keys; a serde for Python's own types if not given.
            value: Type or serde of what `encode` and `decode` translate; likewise.

        Raises:
            BadNameError: If the name breaks the rule for names.
            BadOptionError: If a parameter is not a plain value, which the epoch record could name.

        Example:
            >>> from mustela.stores import CountMin
            >>> CountMin(width=1000).builder("clicks", key=str).spec().layout
            'custom.CountMin 1, depth 4, width 1000'
        """
        at = user_origin()
        checked = check_name(name, what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
        spec = StoreSpec(name=checked, own_kind=self._kind(), format_version=self.format_version)
        holder = type(self).__name__
        keys = choose_serde("key", key, None, holder=holder, at=at)
        values = choose_serde("value", value, None, holder=holder, at=at)
        return StoreBuilder(
            supplier=spec, key=keys or ValueSerde(sort_keys=True), value=values or ValueSerde()
        )

    @property
    def name(self) -> str:
        """The store's name."""
        return self._opened.spec.name

    def rows(self, key: Any) -> OrderedRows:
        """Return the ordered map of a record key; rows that it never had are simply not there.

        Args:
            key: The record key; a processor writes that of its record, because the rows of other
                keys may belong to other lanes.

        Raises:
            StoreError: If the key is None, or this is only a description: the store itself comes
                from ``context.state_store(name)``.

        Example:
            >>> from mustela.stores import CountMin
            >>> CountMin().rows("ann")
            Traceback (most recent call last):
            mustela.state.faults.StoreError: this CountMin is a description, and has no rows
              fix:   take the store from context.state_store(name), in a step with stores=[name]
              code:  STORE
        """
        groups, spec, writes = self._opened
        data = None if spec.key_serde is None else spec.key_serde.serialize(key)
        if data is None:
            msg = f"store {spec.name!r} was given None as a key"
            raise StoreError(msg, fix="check the key before", fields={"store": spec.name})
        return OrderedRows(groups.of(data), spec.name, data, writes=writes)

    def keys(self) -> Iterator[Any]:
        """Iterate over the record keys that have rows, by the length of their bytes, then by them.

        Example:
            >>> from mustela.testing import MockProcessorContext
            >>> from mustela.stores import CountMin
            >>> counts = MockProcessorContext().add_state_store(CountMin().builder("c", key=str))
            >>> counts.add("bob", "home")
            >>> counts.add("ann", "home")
            >>> list(counts.keys())
            ['ann', 'bob']
        """
        groups, spec, _ = self._opened
        assert spec.key_serde is not None, spec.name
        return map(spec.key_serde.deserialize, record_keys(groups))

    def encode(self, value: Any) -> bytes:
        """Return a value's bytes, by the serde that `builder` was given.

        Raises:
            SerdeError: If the serde cannot encode it.
        """
        spec = self._opened.spec
        data = spec.rows_of(spec.read_serde).serialize(value)
        return b"" if data is None else data

    def decode(self, data: bytes) -> Any:
        """Return the value that `encode` made bytes of.

        Raises:
            SerdeError: If the serde cannot decode it.
        """
        spec = self._opened.spec
        return spec.rows_of(spec.read_serde).deserialize(data)

    def all(self) -> Iterator[tuple[Any, dict[bytes, bytes]]]:
        """Iterate over the record keys, each with its rows as bytes."""
        return ((key, dict(self.rows(key).range())) for key in self.keys())

    @property
    def _opened(self) -> _Bound:
        bound = self.__dict__.get(_BOUND)
        if bound is None:
            msg = f"this {type(self).__name__} is a description, and has no rows"
            fix = "take the store from context.state_store(name), in a step with stores=[name]"
            raise StoreError(msg, fix=fix)
        return bound

    def _kind(self) -> StoreKind:
        holder = type(self).__name__
        given = {one.name: getattr(self, one.name) for one in fields(self)}  # pyright: ignore[reportArgumentType]
        for name, value in given.items():
            if not _is_plain(value):
                msg = f"{holder} cannot have the parameter {name}={value!r:.60}"
                raise BadOptionError(
                    msg,
                    at=user_origin(),
                    why="parameters are part of what the rows mean; the epoch record names them",
                    fix="use numbers, strings, bytes, timedelta or tuples of them; "
                    "put functions into methods",
                    fields={"option": name},
                )
        said = ", ".join(f"{name} {value!r}" for name, value in sorted(given.items()))
        name = f"custom.{self.kind_name or holder}"
        return StoreKind(name=name, store=_Opens(self), reader=_Reads(self), parameters=said)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, _PLAIN)


class StoreQueries:
    """What readers outside of the pipeline see of a custom store: its query methods.

    Example:
        >>> from mustela.testing import MockProcessorContext
        >>> from mustela.stores import CountMin
        >>> built = CountMin().builder("clicks", key=str)
        >>> clicks = MockProcessorContext().add_state_store(built)
        >>> clicks.add("ann", "home")
        >>> handle = StoreQueries(clicks)
        >>> handle.estimate("ann", "home"), dir(handle)
        (1, ['estimate', 'total'])
    """

    def __init__(self, store: CustomStore) -> None:
        bound = store._opened  # pyright: ignore[reportPrivateUsage]
        self._store = _bind(store, bound.groups, bound.spec, writes=False)
        self._names = frozenset(method.name for method in query_methods(type(store)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._names:
            known = ", ".join(sorted(self._names)) or "none"
            msg = (
                f"store {self._store.name!r} cannot be asked for {name!r}; its query methods: "
                f"{known}"
            )
            raise AttributeError(msg)
        return getattr(self._store, name)

    def __dir__(self) -> list[str]:
        return sorted(self._names)


def query_functions(spec: StoreSpec) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of a store's query methods by name; none if it is not a custom store.

    Example:
        >>> from mustela.stores import CountMin
        >>> sorted(query_functions(CountMin().builder("clicks", key=str).spec()))
        ['estimate', 'total']
    """
    reader = spec.traits.reader
    if not isinstance(reader, _Reads):
        return {}
    store = type(reader.described)
    return {method.name: getattr(store, method.name) for method in query_methods(store)}


def _bind(store: CustomStore, groups: Any, spec: StoreSpec, *, writes: bool) -> CustomStore:
    opened = copy(store)
    opened.__dict__[_BOUND] = _Bound(groups, spec, writes)
    return opened


@dataclass(frozen=True, slots=True)
class _Opens:
    """Opens a custom store for the processors of a topology."""

    described: CustomStore

    def __call__(self, groups: Any, spec: StoreSpec) -> CustomStore:
        return _bind(self.described, groups, spec, writes=True)


@dataclass(frozen=True, slots=True)
class _Reads:
    """Opens a custom store for readers outside of the pipeline."""

    described: CustomStore

    def __call__(self, groups: Any, spec: StoreSpec) -> StoreQueries:
        return StoreQueries(_bind(self.described, groups, spec, writes=False))
