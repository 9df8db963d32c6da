"""Key-value stores: typed reading and writing, with or without a timestamp for each value.

Layout: a key is its own bytes, and so is a plain value; a timestamped one is as timed.py says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast, overload

from mustela.model import HeadersLike, as_headers
from mustela.serdes.base import Serde
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import ValueTimestampHeaders, add_headers, without_headers
from mustela.state.kinds.indexed_rows import IndexedRows, IndexReader
from mustela.state.kinds.layout import KEY_ROW
from mustela.state.kinds.lru import LruView
from mustela.state.kinds.read_only import ReadOnlyKeyValueStore
from mustela.state.kinds.timed import (
    NO_TIMESTAMP,
    TIMED_BYTES,
    ValueAndTimestamp,
    no_headers,
    pack_timestamped,
    timestamped_unpacker,
    unpack_headed,
    with_timed_value,
)
from mustela.state.kinds.ttl import TtlView
from mustela.state.kinds.typed import TypedStore
from mustela.state.kinds.views import StoreView
from mustela.state.merge_patch import patched
from mustela.state.store_kind import Queried, StoreKind

__all__ = [
    "KEY_VALUE",
    "TIMESTAMPED_KEY_VALUE",
    "KeyValueStore",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
]

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
S = TypeVar("S")


class _KeyValueStore(TypedStore[K, V, S], Generic[K, V, S]):
    """What key-value stores share: reading, iteration, and the shape of a mapping.

    Subclasses say how an item is stored; S is what a reader gets for a key.
    """

    def __init__(self, view: StoreView, spec: StoreSpec) -> None:
        super().__init__(cast("Any", view), spec)
        self._view = view
        self._timed = spec.traits.timed
        self._plainly = self._timed and not spec.with_headers

    @overload
    def get(self, key: K) -> S | None: ...
    @overload
    def get(self, key: K, default: D) -> S | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return what is stored under ``key``, or ``default``.

        Args:
            key: The key; None is not a key.
            default: The result for an absent key.
        """
        stored = self._view.get(self._key_bytes(key))
        return default if stored is None else self._shown(stored)

    def get_many(self, keys: Sequence[K]) -> list[S | None]:
        """Return what is stored under each key, or None; faster than many `get` calls."""
        found = self._view.getmulti([self._key_bytes(key) for key in keys])
        return [None if stored is None else self._shown(stored) for stored in found]

    def delete(self, key: K) -> S | None:
        """Remove ``key`` and return what was stored, or None."""
        data = self._key_bytes(key)
        stored = self._view.get(data)
        if stored is None:
            return None
        self._view.put(data, None)
        return self._shown(stored)

    def range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, S]]:
        """Iterate over low <= key <= high, ordered by the keys' bytes; None leaves a side open."""
        return self._rows(self._view.range(*self._key_bounds(low, high)))

    def reverse_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, S]]:
        """Iterate as `range` does, from the highest key to the lowest."""
        return self._rows(self._view.range(*self._key_bounds(low, high), reverse=True))

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
            serde: The serde of the prefix; default: the key serde.
        """
        data = (serde or self._key).serialize(prefix)
        return self._rows(self._view.prefix(data or b""))

    def reverse_prefix_scan(
        self, prefix: Any, *, serde: Serde[Any] | None = None
    ) -> Iterator[tuple[K, S]]:
        """Iterate as `prefix_scan` does, from the highest key to the lowest."""
        data = (serde or self._key).serialize(prefix)
        return self._rows(self._view.prefix(data or b"", reverse=True))

    def by(self, index: str) -> IndexReader[K, S]:
        """Return the rows by one of the store's indexes.

        Args:
            index: Its name, from ``Materialized(index={...})`` or ``with_index(...)``.

        Raises:
            StoreError: If the store has no such index, or sees single keys only.
        """
        return IndexReader(self._groups, index, self._key.deserialize, self._shown)

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
        return self._shown(stored)

    def __delitem__(self, key: K) -> None:
        if self.delete(key) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key is not None and self._view.get(self._key_bytes(key)) is not None

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.range())

    def __len__(self) -> int:
        return self._view.count()

    def _rows(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, S]]:
        decode_key = self._key.deserialize
        return ((decode_key(key), self._shown(stored)) for key, stored in rows)

    def _row_at(self, place: bytes) -> bytes | None:
        return self._view.get(place)

    def _value_in(self, row: bytes) -> V:
        if self._plainly:
            row = row[TIMED_BYTES:]
        elif self._timed:
            row = without_headers(row)[TIMED_BYTES:]
        return self._value_of(row)

    def _set_at(self, place: bytes, value: V | None, timestamp: int, headers: HeadersLike) -> None:
        row = self._value.serialize(value)
        if row is not None and self._timed:
            row = pack_timestamped(row, timestamp)
            if not self._plainly:
                row = add_headers(row, as_headers(headers))
        self._view.put(place, row)


class KeyValueStore(_KeyValueStore[K, V, V]):
    """A key-value store, with the methods of Kafka Streams and of a mapping.

    Over a timestamped store it shows only the values, as `get_key_value_store` of Kafka's test
    driver does; values put through it have no timestamp and no headers.

    Args:
        view: The rows as bytes.
        spec: Name, kind and serdes; without a serde, values keep Python's built-in types.

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

    def put(self, key: K, value: V | None) -> None:
        """Set the value of ``key``; None deletes."""
        row = self._value.serialize(value)
        if row is not None and self._timed:
            row = pack_timestamped(row, NO_TIMESTAMP)
        self._view.put(self._key_bytes(key), row)

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set the value of ``key`` unless it has one; return the one it had, or None."""
        return self._put_if_absent(self._key_bytes(key), value)

    def compute(self, key: K, fn: Callable[[V | None], V | None]) -> V | None:
        """Replace the value of ``key`` by the result of ``fn``; return the new value.

        The read and the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value, or None if there is none; returns the new value, or None to
                delete.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Tally(ContextualProcessor):
            ...     def process(self, record):
            ...         tally = self.context.state_store("tally")
            ...         total = tally.compute(record.key, lambda old: (old or 0) + record.value)
            ...         self.context.forward(record.with_value(total))
        """
        return self._compute(self._key_bytes(key), fn)

    def merge(self, key: K, value: V, fn: Callable[[V, V], V | None]) -> V | None:
        """Set ``key`` to ``value``, or to ``fn(old, value)`` if it has a value; return the new one.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                delete.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Highest(ContextualProcessor):
            ...     def process(self, record):
            ...         highest = self.context.state_store("highest")
            ...         highest.merge(record.key, record.value, max)
        """
        return self._merge(self._key_bytes(key), value, fn)

    def patch(self, key: K, patch: Mapping[str, Any]) -> V | None:
        """Merge a JSON merge patch (RFC 7396) into the document of ``key``; return the new value.

        A name in the patch replaces that part of the document, None removes it (a typed document
        gets the default back), and a dict is merged into what is there. Without a row, the patch is
        merged into an empty dict.

        Args:
            key: The key.
            patch: What changes.

        Raises:
            StoreError: If the value is not a document, or does not fit its type any longer.

        Example:
            >>> from mustela import Stores
            >>> from mustela.testing import MockProcessorContext
            >>> shops = Stores.persistent_key_value_store("shops")
            >>> shops = Stores.key_value_store_builder(shops, key=str, value=dict)
            >>> store = MockProcessorContext().add_state_store(shops)
            >>> store.put("a", {"city": "Rome", "open": {"from": 9, "to": 17}})
            >>> store.patch("a", {"city": None, "open": {"to": 18}})
            {'open': {'from': 9, 'to': 18}}
        """
        return self._compute(self._key_bytes(key), partial(patched, patch=patch))

    def put_all(self, rows: Iterable[tuple[K, V | None]]) -> None:
        """Set the values of many keys, given as pairs."""
        for key, value in rows:
            self.put(key, value)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    _shown = _KeyValueStore[K, V, V]._value_in


class TimestampedKeyValueStore(_KeyValueStore[K, V, ValueAndTimestamp[V]]):
    """A key-value store with the timestamp of each value's record.

    Args:
        view: The rows as bytes.
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
        if not (spec.traits.by_key and spec.traits.timed):
            msg = f"store {spec.name!r} keeps no timestamps: it is a {spec.kind} store"
            raise StoreError(msg, fix="use KeyValueStore", fields={"store": spec.name})
        self._unpack = timestamped_unpacker(spec)

    def put(self, key: K, value: V | None, *, timestamp: int = NO_TIMESTAMP) -> None:
        """Set the value of ``key`` and its timestamp in milliseconds; None deletes."""
        # `_set_at` inlined, because this method is called for each record.
        row = self._value.serialize(value)
        if row is not None:
            row = pack_timestamped(row, timestamp)
            if not self._plainly:
                row = add_headers(row, ())
        self._view.put(self._key_bytes(key), row)

    def put_if_absent(
        self, key: K, value: V | None, *, timestamp: int = NO_TIMESTAMP
    ) -> ValueAndTimestamp[V] | None:
        """Set the value of ``key`` unless it has one; return the one it had, or None."""
        return self._put_if_absent(self._key_bytes(key), value, timestamp)

    def compute(
        self, key: K, fn: Callable[[V | None], V | None], *, timestamp: int = NO_TIMESTAMP
    ) -> V | None:
        """Replace the value of ``key`` by the result of ``fn``; return the new value.

        The read and the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value alone, or None if there is none; returns the new value, or
                None to delete.
            timestamp: The new value's time, in milliseconds.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Tally(ContextualProcessor):
            ...     def process(self, record):
            ...         tally = self.context.state_store("tally")
            ...         more = lambda old: (old or 0) + record.value
            ...         tally.compute(record.key, more, timestamp=record.timestamp)
        """
        return self._compute(self._key_bytes(key), fn, timestamp)

    def merge(
        self,
        key: K,
        value: V,
        fn: Callable[[V, V], V | None],
        *,
        timestamp: int = NO_TIMESTAMP,
    ) -> V | None:
        """Set ``key`` to ``value``, or to ``fn(old, value)`` if it has a value; return the new one.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                delete.
            timestamp: The new value's time, in milliseconds.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Highest(ContextualProcessor):
            ...     def process(self, record):
            ...         highest = self.context.state_store("highest")
            ...         highest.merge(record.key, record.value, max, timestamp=record.timestamp)
        """
        return self._merge(self._key_bytes(key), value, fn, timestamp)

    def patch(self, key: K, patch: Mapping[str, Any], *, timestamp: int = NO_TIMESTAMP) -> V | None:
        """Merge a patch into the document of ``key``, as `KeyValueStore.patch` does; return it."""
        return self._compute(self._key_bytes(key), partial(patched, patch=patch), timestamp)

    def _shown(self, row: bytes) -> ValueAndTimestamp[V]:
        data, timestamp = self._unpack(row)
        return ValueAndTimestamp(self._value_of(data), timestamp)


class TimestampedKeyValueStoreWithHeaders(_KeyValueStore[K, V, ValueTimestampHeaders[V]]):
    """A key-value store with the timestamp and headers of each value's record.

    Args:
        view: The rows as bytes.
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
        if not (spec.traits.by_key and spec.with_headers):
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
        self._set_at(self._key_bytes(key), value, timestamp, headers)

    def put_if_absent(
        self,
        key: K,
        value: V | None,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> ValueTimestampHeaders[V] | None:
        """Set the value of ``key`` unless it has one; return the one it had, or None."""
        return self._put_if_absent(self._key_bytes(key), value, timestamp, headers)

    def compute(
        self,
        key: K,
        fn: Callable[[V | None], V | None],
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Replace the value of ``key`` by the result of ``fn``; return the new value.

        The read and the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value alone, or None if there is none; returns the new value, or
                None to delete.
            timestamp: The new value's time, in milliseconds.
            headers: The new value's headers.
        """
        return self._compute(self._key_bytes(key), fn, timestamp, headers)

    def merge(
        self,
        key: K,
        value: V,
        fn: Callable[[V, V], V | None],
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Set ``key`` to ``value``, or to ``fn(old, value)`` if it has a value; return the new one.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                delete.
            timestamp: The new value's time, in milliseconds.
            headers: The new value's headers.
        """
        return self._merge(self._key_bytes(key), value, fn, timestamp, headers)

    def patch(
        self,
        key: K,
        patch: Mapping[str, Any],
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Merge a patch into the document of ``key``, as `KeyValueStore.patch` does; return it."""
        change = partial(patched, patch=patch)
        return self._compute(self._key_bytes(key), change, timestamp, headers)

    def _shown(self, row: bytes) -> ValueTimestampHeaders[V]:
        return unpack_headed(row, self._value)


def _rows(view: Any, spec: StoreSpec) -> Any:
    if spec.max_entries is not None:
        return LruView(view, spec.max_entries)
    if spec.indexes:
        return IndexedRows(view, spec)
    return view if spec.ttl_ms is None else TtlView(view, spec)


def _head_bytes(spec: StoreSpec) -> int:
    """Return how many bytes `_rows` keeps before a row."""
    if spec.max_entries is not None:
        return LruView.head_bytes
    return 0 if spec.ttl_ms is None else TtlView.head_bytes


def _with_value(spec: StoreSpec, key: bytes, row: bytes, change: Callable[[bytes], bytes]) -> bytes:
    head = _head_bytes(spec)
    if head and key[:1] != KEY_ROW:
        return row
    if spec.traits.timed:
        return row[:head] + with_timed_value(spec, key, row[head:], change)
    return row[:head] + change(row[head:])


_TAKES: Final = frozenset({"max_entries", "ttl_ms", "indexes"})

KEY_VALUE: Final = StoreKind(
    name="key_value",
    store=KeyValueStore,
    rows=_rows,
    by_key=True,
    takes=_TAKES,
    values=_with_value,
    queried=Queried(handle=ReadOnlyKeyValueStore, store=KeyValueStore),
    getter="key_value",
)

TIMESTAMPED_KEY_VALUE: Final = StoreKind(
    name="timestamped_key_value",
    store=TimestampedKeyValueStore,
    headed=TimestampedKeyValueStoreWithHeaders,
    rows=_rows,
    by_key=True,
    timed=True,
    takes=_TAKES,
    values=_with_value,
    queried=Queried(
        handle=ReadOnlyKeyValueStore,
        store=KeyValueStore,
        timed=TimestampedKeyValueStore,
        headed=TimestampedKeyValueStoreWithHeaders,
    ),
    getter="timestamped_key_value",
)
