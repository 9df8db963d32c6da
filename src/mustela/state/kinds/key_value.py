"""Key-value stores: typed reading and writing, with or without a timestamp beside each value.

Layout of a timestamped value, format 1: eight bytes of big-endian milliseconds, then the value's
own bytes, as Kafka Streams has it; headers may stand before it (headers.py). A plain value is its
own bytes. A key is its own bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, overload

from mustela.model import HeadersLike, as_headers
from mustela.serdes.base import Serde, SerdeError
from mustela.serdes.values import ValueSerde
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import (
    ValueTimestampHeaders,
    add_headers,
    split_headers,
    without_headers,
)
from mustela.state.kinds.typed import merging
from mustela.state.stored_value import unreadable

__all__ = [
    "NO_TIMESTAMP",
    "KeyValueStore",
    "StoreView",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "ValueAndTimestamp",
    "no_headers",
    "pack_timestamped",
    "timestamped_unpacker",
    "unpack_headed",
    "unpack_timestamped",
]

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
D = TypeVar("D")
S = TypeVar("S")

NO_TIMESTAMP = -1
"""The timestamp of a value that was put without one."""

_TIME = Struct(">q")
_TIME_BYTES = _TIME.size


class ValueAndTimestamp(NamedTuple, Generic[V_co]):
    """A value with the time of the record that it comes from, in milliseconds."""

    value: V_co
    timestamp: int


class StoreView(Protocol):
    """Where a store's bytes are; `StoreOverlay` is one."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        ...

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        ...

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        ...

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``."""
        ...

    def count(self) -> int:
        """Return the number of keys."""
        ...


def pack_timestamped(value: bytes, timestamp: int) -> bytes:
    """Return the stored form of a value and its timestamp.

    Example:
        >>> unpack_timestamped(pack_timestamped(b"x", 1_000))
        (b'x', 1000)
    """
    return _TIME.pack(timestamp) + value


def unpack_timestamped(stored: bytes) -> tuple[bytes, int]:
    """Return the value and the timestamp in a stored form."""
    return stored[_TIME_BYTES:], _TIME.unpack_from(stored)[0]


def timestamped_unpacker(spec: StoreSpec) -> Callable[[bytes], tuple[bytes, int]]:
    """Return what finds the value and the timestamp in the stored form of a store."""
    if not spec.with_headers:
        return unpack_timestamped
    return lambda stored: unpack_timestamped(without_headers(stored))


class _TypedStore(Generic[K, S]):
    """What both kinds share: keys, iteration, and the shape of a mapping.

    Subclasses say how an item is stored; S is what a reader gets for a key.
    """

    def __init__(self, view: StoreView, spec: StoreSpec) -> None:
        self.spec = spec
        self._view = view
        self._key: Serde[Any] = spec.key_serde or ValueSerde(sort_keys=True)
        self._value: Serde[Any] = spec.rows_of(spec.read_serde)

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name

    def _value_of(self, data: bytes) -> Any:
        try:
            return self._value.deserialize(data)
        except SerdeError as error:
            raise unreadable(self.spec, self._value, error) from error

    @overload
    def get(self, key: K) -> S | None: ...
    @overload
    def get(self, key: K, default: D) -> S | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return what is stored under ``key``, or ``default``.

        Args:
            key: The key; None is not a key.
            default: What an absent key gives.
        """
        stored = self._view.get(self._key_bytes(key))
        return default if stored is None else self._decode(stored)

    def get_many(self, keys: Sequence[K]) -> list[S | None]:
        """Return what is stored under each key, None where nothing is; faster than many `get`."""
        found = self._view.getmulti([self._key_bytes(key) for key in keys])
        return [None if stored is None else self._decode(stored) for stored in found]

    def delete(self, key: K) -> S | None:
        """Remove ``key`` and return what was stored, or None."""
        data = self._key_bytes(key)
        stored = self._view.get(data)
        if stored is None:
            return None
        self._view.put(data, None)
        return self._decode(stored)

    def range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, S]]:
        """Iterate over low <= key <= high, ordered by the keys' bytes; None leaves a side open."""
        return self._rows(self._view.range(*self._bounds(low, high)))

    def reverse_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, S]]:
        """Iterate as `range` does, from the highest key to the lowest."""
        return self._rows(self._view.range(*self._bounds(low, high), reverse=True))

    def all(self) -> Iterator[tuple[K, S]]:
        """Iterate over everything, ordered by the keys' bytes."""
        return self.range()

    def reverse_all(self) -> Iterator[tuple[K, S]]:
        """Iterate over everything, from the highest key to the lowest."""
        return self.reverse_range()

    def prefix_scan(self, prefix: Any, *, serde: Serde[Any] | None = None) -> Iterator[tuple[K, S]]:
        """Iterate over the keys whose bytes start with the bytes of ``prefix``.

        Args:
            prefix: The prefix.
            serde: Makes the prefix's bytes; the key serde if not given.
        """
        data = (serde or self._key).serialize(prefix)
        return self._rows(self._view.prefix(data or b""))

    def reverse_prefix_scan(
        self, prefix: Any, *, serde: Serde[Any] | None = None
    ) -> Iterator[tuple[K, S]]:
        """Iterate as `prefix_scan` does, from the highest key to the lowest."""
        data = (serde or self._key).serialize(prefix)
        return self._rows(self._view.prefix(data or b"", reverse=True))

    def keys(self) -> Iterator[K]:
        """Iterate over the keys, in the order of their bytes."""
        return iter(self)

    def values(self) -> Iterator[S]:
        """Iterate over the values, in the order of their keys' bytes."""
        return (value for _, value in self.all())

    def items(self) -> Iterator[tuple[K, S]]:
        """Iterate over keys and values; the same as `all`."""
        return self.all()

    def approximate_num_entries(self) -> int:
        """Return the number of keys."""
        return self._view.count()

    def __getitem__(self, key: K) -> S:
        stored = self._view.get(self._key_bytes(key))
        if stored is None:
            raise KeyError(key)
        return self._decode(stored)

    def __delitem__(self, key: K) -> None:
        if self.delete(key) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key is not None and self._view.get(self._key_bytes(key)) is not None

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.range())

    def __len__(self) -> int:
        return self._view.count()

    def __bool__(self) -> bool:
        return True

    def _rows(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, S]]:
        decode_key = self._key.deserialize
        return ((cast("K", decode_key(key)), self._decode(stored)) for key, stored in rows)

    def _bounds(self, low: K | None, high: K | None) -> tuple[bytes | None, bytes | None]:
        return (
            None if low is None else self._key_bytes(low),
            None if high is None else self._key_bytes(high),
        )

    def _key_bytes(self, key: object) -> bytes:
        data = self._key.serialize(key)
        if data is None:
            msg = f"store {self.name!r} was given None as a key"
            raise StoreError(msg, fix="check the key before", fields={"store": self.name})
        return data

    def _decode(self, stored: bytes) -> S:
        raise NotImplementedError


class KeyValueStore(_TypedStore[K, V]):
    """A store of keys and values, with Kafka's methods and a mapping's.

    Over a timestamped store it shows the values alone, as `get_key_value_store` of Kafka's test
    driver does; what is put through it has no timestamp, and no headers.

    Args:
        view: Where the bytes are.
        spec: Name, kind and serdes; without a serde values keep Python's own types.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="s", key_serde=resolve_serde(str), value_serde=resolve_serde(int))
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
        >>> store = KeyValueStore(view, spec)
        >>> store.put("apple", 3)
        >>> store["apple"], store.get("pear", 0), "pear" in store
        (3, 0, False)
        >>> store.put_if_absent("apple", 4)
        3
        >>> list(store.all())
        [('apple', 3)]
    """

    def __init__(self, view: StoreView, spec: StoreSpec) -> None:
        super().__init__(view, spec)
        self._timed = spec.kind == "timestamped_key_value"
        self._plainly = self._timed and not spec.with_headers

    def put(self, key: K, value: V | None) -> None:
        """Set the value of ``key``; None deletes."""
        data = self._value.serialize(value)
        if data is not None and self._timed:
            data = pack_timestamped(data, NO_TIMESTAMP)
        self._view.put(self._key_bytes(key), data)

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set the value of ``key`` unless it has one; return the one it had, or None."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def compute(self, key: K, fn: Callable[[V | None], V | None]) -> V | None:
        """Set the value of ``key`` to what ``fn`` makes of the one it has; return the new value.

        Nothing comes between the read and the write. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value, None if there is none; None as its result deletes.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Tally(ContextualProcessor):
            ...     def process(self, record):
            ...         tally = self.context.state_store("tally")
            ...         total = tally.compute(record.key, lambda old: (old or 0) + record.value)
            ...         self.context.forward(record.with_value(total))
        """
        new = fn(self.get(key))
        self.put(key, new)
        return new

    def merge(self, key: K, value: V, fn: Callable[[V, V], V | None]) -> V | None:
        """Set ``key`` to ``value`` if it has none, else to ``fn(old, value)``; return the new one.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the value that is there and with ``value``; None as its result deletes.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Highest(ContextualProcessor):
            ...     def process(self, record):
            ...         highest = self.context.state_store("highest")
            ...         highest.merge(record.key, record.value, max)
        """
        old = self.get(key)
        new = value if old is None else fn(old, value)
        self.put(key, new)
        return new

    def put_all(self, rows: Iterable[tuple[K, V | None]]) -> None:
        """Set the values of many keys, given as pairs."""
        for key, value in rows:
            self.put(key, value)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def _decode(self, stored: bytes) -> V:
        if self._plainly:
            stored = stored[_TIME_BYTES:]
        elif self._timed:
            stored = without_headers(stored)[_TIME_BYTES:]
        return self._value_of(stored)


class TimestampedKeyValueStore(_TypedStore[K, ValueAndTimestamp[V]]):
    """A store of keys and values that knows the time of each value's record.

    Args:
        view: Where the bytes are.
        spec: Name and serdes; its kind is ``timestamped_key_value``.

    Raises:
        StoreError: If the store keeps no timestamps.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="s", key_serde=resolve_serde(str), value_serde=resolve_serde(int))
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
        >>> store = TimestampedKeyValueStore(view, spec)
        >>> store.put("apple", 3, timestamp=1_000)
        >>> store["apple"]
        ValueAndTimestamp(value=3, timestamp=1000)
    """

    def __init__(self, view: StoreView, spec: StoreSpec) -> None:
        super().__init__(view, spec)
        if spec.kind != "timestamped_key_value":
            msg = f"store {spec.name!r} keeps no timestamps: it is a {spec.kind} store"
            raise StoreError(msg, fix="use KeyValueStore", fields={"store": spec.name})
        self._unpack = timestamped_unpacker(spec)
        self._headed = spec.with_headers

    def put(self, key: K, value: V | None, *, timestamp: int = NO_TIMESTAMP) -> None:
        """Set the value of ``key`` and its timestamp in milliseconds; None deletes."""
        data = self._value.serialize(value)
        stored = None if data is None else pack_timestamped(data, timestamp)
        if stored is not None and self._headed:
            stored = add_headers(stored, ())
        self._view.put(self._key_bytes(key), stored)

    def put_if_absent(
        self, key: K, value: V | None, *, timestamp: int = NO_TIMESTAMP
    ) -> ValueAndTimestamp[V] | None:
        """Set the value of ``key`` unless it has one; return the one it had, or None."""
        found = self.get(key)
        if found is None:
            self.put(key, value, timestamp=timestamp)
        return found

    def compute(
        self, key: K, fn: Callable[[V | None], V | None], *, timestamp: int = NO_TIMESTAMP
    ) -> V | None:
        """Set the value of ``key`` to what ``fn`` makes of the one it has; return the new value.

        Nothing comes between the read and the write. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value alone, None if there is none; None as its result deletes.
            timestamp: The new value's time, in milliseconds.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Tally(ContextualProcessor):
            ...     def process(self, record):
            ...         tally = self.context.state_store("tally")
            ...         more = lambda old: (old or 0) + record.value
            ...         tally.compute(record.key, more, timestamp=record.timestamp)
        """
        found = self.get(key)
        new = fn(None if found is None else found.value)
        self.put(key, new, timestamp=timestamp)
        return new

    def merge(
        self,
        key: K,
        value: V,
        fn: Callable[[V, V], V | None],
        *,
        timestamp: int = NO_TIMESTAMP,
    ) -> V | None:
        """Set ``key`` to ``value`` if it has none, else to ``fn(old, value)``; return the new one.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the value that is there and with ``value``; None as its result deletes.
            timestamp: The new value's time, in milliseconds.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Highest(ContextualProcessor):
            ...     def process(self, record):
            ...         highest = self.context.state_store("highest")
            ...         highest.merge(record.key, record.value, max, timestamp=record.timestamp)
        """
        found = self.get(key)
        new = value if found is None else fn(found.value, value)
        self.put(key, new, timestamp=timestamp)
        return new

    def _decode(self, stored: bytes) -> ValueAndTimestamp[V]:
        data, timestamp = self._unpack(stored)
        return ValueAndTimestamp(self._value_of(data), timestamp)


class TimestampedKeyValueStoreWithHeaders(_TypedStore[K, ValueTimestampHeaders[V]]):
    """A store of keys and values that knows the time and the headers of each value's record.

    Args:
        view: Where the bytes are.
        spec: Name and serdes; it is a ``timestamped_key_value`` store with headers.

    Raises:
        StoreError: If the store keeps no headers.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="s", with_headers=True,
        ...                  key_serde=resolve_serde(str), value_serde=resolve_serde(int))
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("s")
        >>> store = TimestampedKeyValueStoreWithHeaders(view, spec)
        >>> store.put("apple", 3, timestamp=1_000, headers={"from": b"web"})
        >>> store["apple"]
        ValueTimestampHeaders(value=3, timestamp=1000, headers=(('from', b'web'),))
    """

    def __init__(self, view: StoreView, spec: StoreSpec) -> None:
        super().__init__(view, spec)
        if spec.kind != "timestamped_key_value" or not spec.with_headers:
            raise no_headers(spec)

    def put(
        self,
        key: K,
        value: V | None,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> None:
        """Set the value of ``key``, its timestamp in milliseconds and its headers; None deletes."""
        data = self._value.serialize(value)
        stored = None
        if data is not None:
            stored = add_headers(pack_timestamped(data, timestamp), as_headers(headers))
        self._view.put(self._key_bytes(key), stored)

    def put_if_absent(
        self,
        key: K,
        value: V | None,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> ValueTimestampHeaders[V] | None:
        """Set the value of ``key`` unless it has one; return the one it had, or None."""
        found = self.get(key)
        if found is None:
            self.put(key, value, timestamp=timestamp, headers=headers)
        return found

    def compute(
        self,
        key: K,
        fn: Callable[[V | None], V | None],
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Set the value of ``key`` to what ``fn`` makes of the one it has; return the new value.

        Nothing comes between the read and the write. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value alone, None if there is none; None as its result deletes.
            timestamp: The new value's time, in milliseconds.
            headers: The new value's headers.
        """
        found = self.get(key)
        new = fn(None if found is None else found.value)
        self.put(key, new, timestamp=timestamp, headers=headers)
        return new

    def merge(
        self,
        key: K,
        value: V,
        fn: Callable[[V, V], V | None],
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Set ``key`` to ``value`` if it has none, else to ``fn(old, value)``; return the new one.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the value that is there and with ``value``; None as its result deletes.
            timestamp: The new value's time, in milliseconds.
            headers: The new value's headers.
        """
        return self.compute(key, merging(value, fn), timestamp=timestamp, headers=headers)

    def _decode(self, stored: bytes) -> ValueTimestampHeaders[V]:
        return unpack_headed(stored, self._value)


def unpack_headed(stored: bytes, serde: Serde[Any]) -> ValueTimestampHeaders[Any]:
    """Return value, timestamp and headers in the stored form of a store with headers."""
    headers, row = split_headers(stored)
    data, timestamp = unpack_timestamped(row)
    return ValueTimestampHeaders(serde.deserialize(data), timestamp, headers)


def no_headers(spec: StoreSpec) -> StoreError:
    """Return the error for who wants headers of a store that keeps none."""
    return StoreError(
        f"store {spec.name!r} keeps no headers: it is a {spec.kind} store",
        fix="take the handle without headers, or make the store with headers",
        fields={"store": spec.name, "kind": spec.kind},
    )
