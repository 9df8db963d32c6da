"""Versioned stores, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

from mustela.model import HeadersLike
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import KEY_ROW, is_by_time
from mustela.state.kinds.packed import pack_rows
from mustela.state.kinds.read_only import ReadOnlyVersionedStore
from mustela.state.kinds.timed import NO_TIMESTAMP
from mustela.state.kinds.typed import Moment, TypedStore, to_ms
from mustela.state.kinds.versioned import Version, VersionedRows, split_latest, unpack_versions
from mustela.state.kinds.views import GroupedView, merged
from mustela.state.ordered import prefix_end
from mustela.state.store_kind import ChangeAt, Queried, StoreKind

__all__ = ["VERSIONED", "VersionedKeyValueStore", "VersionedRecord"]

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
D = TypeVar("D")


class VersionedRecord(NamedTuple, Generic[V_co]):
    """A value, and when it was valid.

    Attributes:
        value: The value.
        timestamp: The start of its validity, in milliseconds.
        valid_to: The end of its validity in milliseconds, not included; None for the newest
            version.
    """

    value: V_co
    timestamp: int
    valid_to: int | None = None


class VersionedKeyValueStore(TypedStore[K, V, VersionedRecord[V]]):
    """A store that knows the value of a key at times in the past.

    Args:
        groups: The rows as bytes.
        spec: Name, serdes and how far back the history goes.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.kinds.views import GroupViews
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="v", kind="versioned", history_retention_ms=100)
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("v")
        >>> store = VersionedKeyValueStore(GroupViews({0: view}, lambda key: 0), spec)
        >>> store.put("apple", "green", 10), store.put("apple", "red", 50)
        (-1, -1)
        >>> store["apple"]
        VersionedRecord(value='red', timestamp=50, valid_to=None)
        >>> store.get("apple", as_of=20)
        VersionedRecord(value='green', timestamp=10, valid_to=50)
    """

    kind = "versioned"

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        super().__init__(groups, spec)
        assert spec.history_retention_ms is not None, spec.name
        self._history = spec.history_retention_ms

    def put(self, key: K, value: V | None, timestamp: Moment) -> int:
        """Put a version; None is a deletion, which is also a version.

        Returns:
            Until when it is valid, in milliseconds; -1 if no version follows it; the lowest 64-bit
            integer if it is older than the history and was not put.
        """
        return self._set_at(self._place(key, timestamp), value, NO_TIMESTAMP, ())

    def delete(self, key: K, timestamp: Moment) -> VersionedRecord[V] | None:
        """Put a deletion; return the version valid at ``timestamp``, or None."""
        data = self._key_bytes(key)
        return self._found(self._rows(data).delete(data, to_ms(timestamp, 0)))

    def put_if_absent(
        self, key: K, value: V | None, timestamp: Moment
    ) -> VersionedRecord[V] | None:
        """Put a version unless one is valid at ``timestamp``; return that one, or None."""
        return self._put_if_absent(self._place(key, timestamp), value)

    def compute(self, key: K, fn: Callable[[V | None], V | None], timestamp: Moment) -> V | None:
        """Put the result of ``fn`` as a version; return the new value.

        Later versions are not changed: the new one is valid until the next of them. The read and
        the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value valid at ``timestamp``, or None; returns the new value, or
                None for a deletion.
            timestamp: When the new version becomes valid.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Balance(ContextualProcessor):
            ...     def process(self, record):
            ...         more = lambda old: (old or 0) + record.value
            ...         self.context.state_store("balance").compute(
            ...             record.key, more, record.timestamp)
        """
        return self._compute(self._place(key, timestamp), fn)

    def merge(
        self, key: K, value: V, fn: Callable[[V, V], V | None], timestamp: Moment
    ) -> V | None:
        """Put ``value``, or ``fn(old, value)`` if there is an old version; return the new value.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the old value and ``value``; returns the new value, or None for a
                deletion.
            timestamp: When the new version becomes valid.
        """
        return self._merge(self._place(key, timestamp), value, fn)

    @overload
    def get(self, key: K, *, as_of: Moment | None = None) -> VersionedRecord[V] | None: ...
    @overload
    def get(self, key: K, default: D, *, as_of: Moment | None = None) -> VersionedRecord[V] | D: ...
    def get(self, key: K, default: Any = None, *, as_of: Moment | None = None) -> Any:
        """Return the newest version, or the one valid at ``as_of``; ``default`` if there is none.

        Kafka Streams' ``get(key, asOfTimestamp)`` is ``get(key, as_of=timestamp)``: the second
        argument is the default, as in all stores.
        """
        data = self._key_bytes(key)
        when = None if as_of is None else to_ms(as_of, 0)
        found = self._found(self._rows(data).get(data, when))
        return default if found is None else found

    def get_many(self, keys: Sequence[K]) -> list[VersionedRecord[V] | None]:
        """Return the newest version of each key, None where there is none."""
        return [self.get(key) for key in keys]

    def versions(
        self,
        key: K,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[V]]:
        """Iterate over the versions valid at any time_from <= time <= time_to.

        Deletions, and versions older than the history, are left out.
        """
        data = self._key_bytes(key)
        first, last = self._times(time_from, time_to)
        found = self._rows(data).versions(data, first, last, reverse=reverse)
        return (self._shown(version) for version in found)

    def range(
        self, low: K | None = None, high: K | None = None
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the newest versions of low <= key <= high, ordered by the keys' bytes."""
        return self._newest(self._bounded(low, high))

    def reverse_range(
        self, low: K | None = None, high: K | None = None
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate as `range` does, from the highest key to the lowest."""
        return self._newest(self._bounded(low, high, reverse=True))

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the newest versions of the keys whose bytes start with those of a prefix."""
        return self._newest(self._prefixed(prefix))

    def reverse_prefix_scan(self, prefix: Any) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate as `prefix_scan` does, from the highest key to the lowest."""
        return self._newest(self._prefixed(prefix, reverse=True))

    def all(self) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the newest versions of all keys, ordered by the keys' bytes."""
        return self.range()

    def history(
        self, low: K | None = None, high: K | None = None
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over all versions of low <= key <= high, by the keys' bytes, then by time.

        A key whose newest version is a deletion is there with the versions before it.
        """
        for data in self._bounded(low, high):
            key = self._key_of(data)
            for version in self._rows(data).versions(data):
                yield key, self._shown(version)

    def _bounded(self, low: K | None, high: K | None, *, reverse: bool = False) -> Iterator[bytes]:
        """Yield the bytes of keys within bounds that have a row."""
        first = KEY_ROW if low is None else KEY_ROW + self._key_bytes(low)
        last = prefix_end(KEY_ROW) if high is None else KEY_ROW + self._key_bytes(high)
        return self._keys(first, last, KEY_ROW, reverse=reverse)

    def _prefixed(self, prefix: Any, *, reverse: bool = False) -> Iterator[bytes]:
        first = KEY_ROW + (self._key.serialize(prefix) or b"")
        return self._keys(first, prefix_end(first), first, reverse=reverse)

    def _keys(
        self, first: bytes, last: bytes | None, prefix: bytes, *, reverse: bool
    ) -> Iterator[bytes]:
        runs = (view.range(first, last, reverse=reverse) for view in self._groups.all())
        for place, _ in merged(runs, key=lambda row: row[0], reverse=reverse):
            if place.startswith(prefix):
                yield place[len(KEY_ROW) :]

    def _newest(self, keys: Iterator[bytes]) -> Iterator[tuple[K, VersionedRecord[V]]]:
        for data in keys:
            found = self._found(self._rows(data).get(data, None))
            if found is not None:
                yield self._key_of(data), found

    def __getitem__(self, key: K) -> VersionedRecord[V]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key is not None and self.get(key) is not None  # pyright: ignore[reportArgumentType]

    def _place(self, key: K, timestamp: Moment) -> tuple[bytes, int]:
        return self._key_bytes(key), to_ms(timestamp, 0)

    def _row_at(self, place: tuple[bytes, int]) -> Version | None:
        data, when = place
        return self._rows(data).get(data, when)

    def _value_in(self, row: Version) -> V:
        return self._value_of(row.value)

    def _set_at(
        self, place: tuple[bytes, int], value: V | None, timestamp: int, headers: HeadersLike
    ) -> int:
        del timestamp, headers  # a version has the time of its place
        data, when = place
        row = self._value.serialize(value)
        rows = self._rows(data)
        valid_to = rows.put(data, row, when)
        rows.expire()
        return valid_to

    def _rows(self, data: bytes) -> VersionedRows:
        return VersionedRows(
            self._groups.of(data),
            history_retention_ms=self._history,
            segment_ms=self.spec.segment_ms,
        )

    def _found(self, version: Version | None) -> VersionedRecord[V] | None:
        return None if version is None else self._shown(version)

    def _shown(self, row: Version) -> VersionedRecord[V]:
        return VersionedRecord(self._value_of(row.value), row.timestamp, row.valid_to)


def _with_values(
    _spec: StoreSpec, key: bytes, row: bytes, change: Callable[[bytes], bytes]
) -> bytes:
    if key[:1] == KEY_ROW:
        head, value = split_latest(row)
        return row if value is None else head + change(value)
    if not is_by_time(key):
        return row
    return pack_rows(
        [
            (begin, end, None if value is None else change(value))
            for begin, end, value in unpack_versions(row)
        ]
    )


def _change(store: Any, key: Any, change: Any, moments: Any, timestamp: int) -> Any:
    return store.compute(key, change, *(moments or (timestamp,)))


VERSIONED: Final = StoreKind(
    name="versioned",
    store=VersionedKeyValueStore,
    versioned=True,
    takes=frozenset({"segment_ms"}),
    needs="history_retention_ms",
    values=_with_values,
    change_at=ChangeAt(moments=0, words="a moment: at=timestamp", apply=_change),
    queried=Queried(handle=ReadOnlyVersionedStore, store=VersionedKeyValueStore),
    getter="versioned_key_value",
)
