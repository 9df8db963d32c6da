"""The read-only handles of the library's kinds: Kafka Streams' names, Python's protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast, overload

from mustela.model import Windowed
from mustela.serdes.base import Serde
from mustela.state.kinds.reading import Reading, ReadOnlyStore, StoreIterator
from mustela.state.kinds.typed import Moment

__all__ = [
    "ReadOnlyIndex",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
]

K = TypeVar("K")
S = TypeVar("S")
D = TypeVar("D")

_ONE: Any = object()
_NONE: Any = object()


class ReadOnlyKeyValueStore(ReadOnlyStore[K], Generic[K, S]):
    """The rows of a key-value store over all key groups; S is what is shown of a value.

    Each call reads the newest committed epoch, unless the handle is a snapshot's.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> counts = words.group_by(lambda _key, word: word, key=str).count(store="counts")
        >>> with TopologyTestDriver(builder, key_groups=8) as driver:
        ...     driver.create_input_topic("words").pipe_value_list(["b", "a", "c", "a"])
        ...     store = driver.store("counts")
        ...     store["a"], store.get("z", 0), "b" in store, len(store)
        ...     list(store.range("a", "b")), store.get_many(["c", "z"])
        (2, 0, True, 3)
        ([('a', 2), ('b', 1)], [1, None])
    """

    @overload
    def get(self, key: K) -> S | None: ...
    @overload
    def get(self, key: K, default: D) -> S | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return what is stored under ``key``, or ``default``."""
        return self._reading.once(lambda store: store.get(key, default))

    def get_many(self, keys: Sequence[K]) -> list[S | None]:
        """Return what is stored under each key, or None; all as of the same epoch."""
        return self._reading.once(lambda store: store.get_many(keys))

    def range(self, low: K | None = None, high: K | None = None) -> StoreIterator[tuple[K, S]]:
        """Iterate over low <= key <= high, ordered by the keys' bytes; None leaves a side open."""
        return self._reading.rows(lambda store: store.range(low, high))

    def reverse_range(
        self, low: K | None = None, high: K | None = None
    ) -> StoreIterator[tuple[K, S]]:
        """Iterate as `range` does, from the highest key to the lowest."""
        return self._reading.rows(lambda store: store.reverse_range(low, high))

    def all(self) -> StoreIterator[tuple[K, S]]:
        """Iterate over everything, ordered by the keys' bytes."""
        return self.range()

    def reverse_all(self) -> StoreIterator[tuple[K, S]]:
        """Iterate over everything, from the highest key to the lowest."""
        return self.reverse_range()

    def prefix_scan(
        self, prefix: Any, *, serde: Serde[Any] | None = None
    ) -> StoreIterator[tuple[K, S]]:
        """Iterate over the keys whose bytes start with the bytes of ``prefix``.

        Args:
            prefix: The prefix.
            serde: The serde of the prefix; default: the key serde.
        """
        return self._reading.rows(lambda store: store.prefix_scan(prefix, serde=serde))

    def reverse_prefix_scan(
        self, prefix: Any, *, serde: Serde[Any] | None = None
    ) -> StoreIterator[tuple[K, S]]:
        """Iterate as `prefix_scan` does, from the highest key to the lowest."""
        return self._reading.rows(lambda store: store.reverse_prefix_scan(prefix, serde=serde))

    def by(self, index: str) -> ReadOnlyIndex[K, S]:
        """Return the rows by one of the store's indexes.

        Args:
            index: Its name, from ``Materialized(index={...})`` or ``with_index(...)``.

        Raises:
            StoreError: If the store has no such index.
        """
        return ReadOnlyIndex(self._reading, index)

    def values(self) -> StoreIterator[S]:
        """Iterate over the values, in the order of their keys' bytes."""
        return self._reading.rows(lambda store: store.values())

    def items(self) -> StoreIterator[tuple[K, S]]:
        """Iterate over keys and values; the same as `all`."""
        return self.all()

    def approximate_num_entries(self) -> int:
        """Return the number of keys, which is exact."""
        return len(self)

    def __getitem__(self, key: K) -> S:
        found = self.get(key, _NONE)
        if found is _NONE:
            raise KeyError(key)
        return cast("S", found)

    def __contains__(self, key: object) -> bool:
        return self._reading.once(lambda store: key in store)


class ReadOnlyIndex(Generic[K, S]):
    """The rows of a key-value store by one of its indexes, over all key groups.

    Rows come in the order of their entries, then of their keys' bytes. Each call reads the newest
    committed epoch, unless the handle is a snapshot's.

    Example:
        >>> from mustela import Materialized, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> kept = Materialized(store="people", index={"city": "city"})
        >>> people = builder.table("people", key=str, value=dict, materialized=kept)
        >>> with TopologyTestDriver(builder, key_groups=4) as driver:
        ...     topic = driver.create_input_topic("people")
        ...     topic.pipe_input("ann", {"city": "Rome"})
        ...     topic.pipe_input("bob", {"city": "Oslo"})
        ...     by_city = driver.store("people").by("city")
        ...     list(by_city.keys("A", "Z")), by_city.one("Rome"), by_city.count()
        (['bob', 'ann'], ('ann', {'city': 'Rome'}), 2)
    """

    def __init__(self, reading: Reading, index: str) -> None:
        self._reading = reading
        self._index = index
        reading.once(lambda store: store.by(index))  # says whether there is such an index

    def get(self, entry: Any) -> StoreIterator[tuple[K, S]]:
        """Iterate over the keys and values with an entry."""
        return self._reading.rows(lambda store: store.by(self._index).get(entry))

    def one(self, entry: Any) -> tuple[K, S] | None:
        """Return the first key and value with an entry, or None; of a unique index the only one."""
        return self._reading.once(lambda store: store.by(self._index).one(entry))

    def range(
        self, low: Any = None, high: Any = None, *, reverse: bool = False
    ) -> StoreIterator[tuple[K, S]]:
        """Iterate over low <= entry <= high; None leaves a side open.

        Args:
            low: The lowest entry.
            high: The highest entry.
            reverse: Begin with the highest.
        """
        return self._reading.rows(
            lambda store: store.by(self._index).range(low, high, reverse=reverse)
        )

    def keys(self, low: Any = None, high: Any = None, *, reverse: bool = False) -> StoreIterator[K]:
        """Iterate over the keys alone, as `range` does; no row is read."""
        return self._reading.rows(
            lambda store: store.by(self._index).keys(low, high, reverse=reverse)
        )

    def count(self, low: Any = None, high: Any = None) -> int:
        """Return how many rows `range` gives."""
        return self._reading.once(lambda store: store.by(self._index).count(low, high))


class ReadOnlyVersionedStore(ReadOnlyStore[K], Generic[K, S]):
    """The rows of a versioned store over all key groups; S is `VersionedRecord`.

    Each call reads the newest committed epoch, unless the handle is a snapshot's.
    """

    @overload
    def get(self, key: K, *, as_of: Moment | None = None) -> S | None: ...
    @overload
    def get(self, key: K, default: D, *, as_of: Moment | None = None) -> S | D: ...
    def get(self, key: K, default: Any = None, *, as_of: Moment | None = None) -> Any:
        """Return the newest version, or the one valid at ``as_of``, or ``default``."""
        return self._reading.once(lambda store: store.get(key, default, as_of=as_of))

    def get_many(self, keys: Sequence[K], *, as_of: Moment | None = None) -> list[S | None]:
        """Return the newest version of each key, or the one valid at ``as_of``, or None."""
        return self._reading.once(lambda store: [store.get(key, as_of=as_of) for key in keys])

    def versions(
        self,
        key: K,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
        *,
        reverse: bool = False,
    ) -> StoreIterator[S]:
        """Iterate over the versions valid at any time_from <= time <= time_to."""
        return self._reading.rows(
            lambda store: store.versions(key, time_from, time_to, reverse=reverse)
        )

    def range(self, low: K | None = None, high: K | None = None) -> StoreIterator[tuple[K, S]]:
        """Iterate over the newest versions of low <= key <= high, ordered by the keys' bytes."""
        return self._reading.rows(lambda store: store.range(low, high))

    def reverse_range(
        self, low: K | None = None, high: K | None = None
    ) -> StoreIterator[tuple[K, S]]:
        """Iterate as `range` does, from the highest key to the lowest."""
        return self._reading.rows(lambda store: store.reverse_range(low, high))

    def prefix_scan(self, prefix: Any) -> StoreIterator[tuple[K, S]]:
        """Iterate over the newest versions of the keys whose bytes start with those of a prefix."""
        return self._reading.rows(lambda store: store.prefix_scan(prefix))

    def reverse_prefix_scan(self, prefix: Any) -> StoreIterator[tuple[K, S]]:
        """Iterate as `prefix_scan` does, from the highest key to the lowest."""
        return self._reading.rows(lambda store: store.reverse_prefix_scan(prefix))

    def all(self) -> StoreIterator[tuple[K, S]]:
        """Iterate over the newest versions of all keys, ordered by the keys' bytes."""
        return self.range()

    def history(self, low: K | None = None, high: K | None = None) -> StoreIterator[tuple[K, S]]:
        """Iterate over all versions of low <= key <= high, by the keys' bytes, then by time.

        A key whose newest version is a deletion is there with the versions before it.
        """
        return self._reading.rows(lambda store: store.history(low, high))

    def items(self) -> StoreIterator[tuple[K, S]]:
        """Iterate over keys and newest versions; the same as `all`."""
        return self.all()

    def __getitem__(self, key: K) -> S:
        found = self.get(key, _NONE)
        if found is _NONE:
            raise KeyError(key)
        return cast("S", found)

    def __contains__(self, key: object) -> bool:
        return self._reading.once(lambda store: key in store)


class ReadOnlyWindowStore(ReadOnlyStore[Windowed[K]], Generic[K, S]):
    """The windows of a window store over all key groups; S is what is shown of a value.

    Each call reads the newest committed epoch, unless the handle is a snapshot's.
    """

    @overload
    def fetch(self, key: K, time_from: Moment) -> S | None: ...
    @overload
    def fetch(
        self, key: K, time_from: Moment | None, time_to: Moment | None
    ) -> StoreIterator[tuple[int, S]]: ...
    def fetch(self, key: K, time_from: Moment | None, time_to: Any = _ONE) -> Any:
        """Return the value of one window, or iterate over the windows of a key.

        Args:
            key: The key.
            time_from: The window's start; with ``time_to`` the lowest start.
            time_to: The highest start, included.

        Returns:
            With a start: the value, or None. With two times: pairs of start and value, by start.
        """
        if time_to is _ONE:
            return self.get(key, time_from or 0)
        return self._reading.rows(lambda store: store.fetch(key, time_from, time_to))

    def backward_fetch(
        self, key: K, time_from: Moment | None = None, time_to: Moment | None = None
    ) -> StoreIterator[tuple[int, S]]:
        """Iterate over the windows of a key as `fetch` does, the latest start first."""
        return self._reading.rows(lambda store: store.backward_fetch(key, time_from, time_to))

    @overload
    def get(self, key: K, start: Moment) -> S | None: ...
    @overload
    def get(self, key: K, start: Moment, default: D) -> S | D: ...
    def get(self, key: K, start: Moment, default: Any = None) -> Any:
        """Return the value of the window that begins at ``start``, or ``default``."""
        return self._reading.once(lambda store: store.get(key, start, default))

    def fetch_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over windows of several keys, by start, then by key.

        Args:
            key_from: Lowest key, by its bytes; None leaves the side open, as below.
            key_to: Highest key, included.
            time_from: Lowest start.
            time_to: Highest start, included.
        """
        return self._reading.rows(
            lambda store: store.fetch_range(key_from, key_to, time_from, time_to)
        )

    def backward_fetch_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate as `fetch_range` does, backwards."""
        return self._reading.rows(
            lambda store: store.backward_fetch_range(key_from, key_to, time_from, time_to)
        )

    def fetch_all(
        self, time_from: Moment | None = None, time_to: Moment | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over the windows of all keys with time_from <= start <= time_to."""
        return self.fetch_range(None, None, time_from, time_to)

    def backward_fetch_all(
        self, time_from: Moment | None = None, time_to: Moment | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate as `fetch_all` does, backwards."""
        return self.backward_fetch_range(None, None, time_from, time_to)

    def all(self) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over everything, by start, then by key."""
        return self.fetch_range()

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over everything, backwards."""
        return self.backward_fetch_range()

    def items(self) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over windows and values; the same as `all`."""
        return self.all()

    def __getitem__(self, window: tuple[K, Moment]) -> S:
        return self._reading.once(lambda store: store[window])

    def __contains__(self, window: tuple[K, Moment]) -> bool:
        return self._reading.once(lambda store: window in store)


class ReadOnlySessionStore(ReadOnlyStore[Windowed[K]], Generic[K, S]):
    """The sessions of a session store over all key groups; S is what is shown of an aggregate.

    Each call reads the newest committed epoch, unless the handle is a snapshot's.
    """

    @overload
    def fetch_session(self, key: K, start: Moment, end: Moment) -> S | None: ...
    @overload
    def fetch_session(self, key: K, start: Moment, end: Moment, default: D) -> S | D: ...
    def fetch_session(self, key: K, start: Moment, end: Moment, default: Any = None) -> Any:
        """Return the aggregate of the session with these ends, or ``default``."""
        return self._reading.once(lambda store: store.fetch_session(key, start, end, default))

    @overload
    def get(self, session: Windowed[K]) -> S | None: ...
    @overload
    def get(self, session: Windowed[K], default: D) -> S | D: ...
    def get(self, session: Windowed[K], default: Any = None) -> Any:
        """Return the aggregate of a session, or ``default``."""
        return self._reading.once(lambda store: store.get(session, default))

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of a key, the earliest first."""
        return self._reading.rows(lambda store: store.fetch(key))

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of a key, the latest first."""
        return self._reading.rows(lambda store: store.backward_fetch(key))

    def fetch_range(
        self, key_from: K | None = None, key_to: K | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of key_from <= key <= key_to."""
        return self._reading.rows(lambda store: store.fetch_range(key_from, key_to))

    def backward_fetch_range(
        self, key_from: K | None = None, key_to: K | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate as `fetch_range` does, backwards."""
        return self._reading.rows(lambda store: store.backward_fetch_range(key_from, key_to))

    def find_sessions(
        self, key: K, earliest_end: Moment | None = None, latest_start: Moment | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over a key's sessions that end at or after one time and start by another."""
        return self._reading.rows(
            lambda store: store.find_sessions(key, earliest_end, latest_start)
        )

    def backward_find_sessions(
        self, key: K, earliest_end: Moment | None = None, latest_start: Moment | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate as `find_sessions` does, the latest first."""
        return self._reading.rows(
            lambda store: store.backward_find_sessions(key, earliest_end, latest_start)
        )

    def find_sessions_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        earliest_end: Moment | None = None,
        latest_start: Moment | None = None,
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate as `find_sessions` does, over the sessions of key_from <= key <= key_to."""
        return self._reading.rows(
            lambda store: store.find_sessions_range(key_from, key_to, earliest_end, latest_start)
        )

    def backward_find_sessions_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        earliest_end: Moment | None = None,
        latest_start: Moment | None = None,
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate as `find_sessions_range` does, backwards."""
        return self._reading.rows(
            lambda store: store.backward_find_sessions_range(
                key_from, key_to, earliest_end, latest_start
            )
        )

    def find_sessions_ending(
        self, earliest_end: Moment | None = None, latest_end: Moment | None = None
    ) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over all sessions with earliest_end <= end <= latest_end, by end, then by key."""
        return self._reading.rows(
            lambda store: store.find_sessions_ending(earliest_end, latest_end)
        )

    def all(self) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over everything, by key, then by end."""
        return self._reading.rows(lambda store: store.all())

    def items(self) -> StoreIterator[tuple[Windowed[K], S]]:
        """Iterate over sessions and aggregates; the same as `all`."""
        return self.all()

    def __getitem__(self, session: Windowed[K]) -> S:
        return self._reading.once(lambda store: store[session])

    def __contains__(self, session: Windowed[K]) -> bool:
        return self._reading.once(lambda store: session in store)
