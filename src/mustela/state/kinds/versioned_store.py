"""Versioned stores as their users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from mustela.state.interfaces import StoreKind, StoreSpec
from mustela.state.kinds.layout import KEY_ROW
from mustela.state.kinds.typed import Moment, TypedRows, merging, to_ms
from mustela.state.kinds.versioned import Version, VersionedRows
from mustela.state.kinds.views import GroupedView, merged
from mustela.state.ordered import prefix_end

__all__ = ["VersionedKeyValueStore", "VersionedRecord"]

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
D = TypeVar("D")


class VersionedRecord(NamedTuple, Generic[V_co]):
    """A value, and when it held.

    Attributes:
        value: The value.
        timestamp: Since when, in milliseconds.
        valid_to: Until when, not included; None for the newest version.
    """

    value: V_co
    timestamp: int
    valid_to: int | None = None


class VersionedKeyValueStore(TypedRows[K, V]):
    """A store that knows what the value of a key was at a moment of the past.

    Args:
        groups: Where the bytes are.
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

    kind: StoreKind = "versioned"

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        super().__init__(groups, spec)
        assert spec.history_retention_ms is not None, spec.name
        self._history = spec.history_retention_ms

    def put(self, key: K, value: V | None, timestamp: Moment) -> int:
        """Put a version; None is a deletion, and a version as any other.

        Returns:
            Until when it holds; -1 if nothing has followed it; the least of all 8-byte numbers if
            it is older than the history and was not put.
        """
        data = self._key_bytes(key)
        row = self._value.serialize(value)
        rows = self._rows(data)
        valid_to = rows.put(data, row, to_ms(timestamp, 0))
        rows.expire()
        return valid_to

    def delete(self, key: K, timestamp: Moment) -> VersionedRecord[V] | None:
        """Put a deletion; return the version that held at ``timestamp``, or None."""
        data = self._key_bytes(key)
        return self._shown(self._rows(data).delete(data, to_ms(timestamp, 0)))

    def put_if_absent(
        self, key: K, value: V | None, timestamp: Moment
    ) -> VersionedRecord[V] | None:
        """Put a version unless one held at ``timestamp``; return that one, or None."""
        found = self.get(key, as_of=timestamp)
        if found is None:
            self.put(key, value, timestamp)
        return found

    def compute(self, key: K, fn: Callable[[V | None], V | None], timestamp: Moment) -> V | None:
        """Put what ``fn`` makes of the version that held at a moment; return the new value.

        Later versions stay as they are: the new one holds until the next of them. Nothing comes
        between the read and the write. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value that held at ``timestamp``, None if there was none; None as
                its result is a deletion.
            timestamp: Since when the new version holds.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Balance(ContextualProcessor):
            ...     def process(self, record):
            ...         more = lambda old: (old or 0) + record.value
            ...         self.context.state_store("balance").compute(
            ...             record.key, more, record.timestamp)
        """
        found = self.get(key, as_of=timestamp)
        new = fn(None if found is None else found.value)
        self.put(key, new, timestamp)
        return new

    def merge(
        self, key: K, value: V, fn: Callable[[V, V], V | None], timestamp: Moment
    ) -> V | None:
        """Put ``value``, or ``fn(old, value)`` if a version held at a moment; return the new value.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the value that held and with ``value``; None is a deletion.
            timestamp: Since when the new version holds.
        """
        return self.compute(key, merging(value, fn), timestamp)

    @overload
    def get(self, key: K, *, as_of: Moment | None = None) -> VersionedRecord[V] | None: ...
    @overload
    def get(self, key: K, default: D, *, as_of: Moment | None = None) -> VersionedRecord[V] | D: ...
    def get(self, key: K, default: Any = None, *, as_of: Moment | None = None) -> Any:
        """Return the newest version, or the one that held at ``as_of``; ``default`` if none did.

        Kafka Streams' ``get(key, asOfTimestamp)`` is ``get(key, as_of=timestamp)``: what stands
        second is the default, as in each store.
        """
        data = self._key_bytes(key)
        when = None if as_of is None else to_ms(as_of, 0)
        found = self._shown(self._rows(data).get(data, when))
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
        """Iterate over the versions that held at any time_from <= time <= time_to.

        Deletions are left out, and what is older than the history.
        """
        data = self._key_bytes(key)
        first, last = self._times(time_from, time_to)
        found = self._rows(data).versions(data, first, last, reverse=reverse)
        return (self._record(version) for version in found)

    def all(self) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the newest versions of all keys, ordered by the keys' bytes."""
        end = prefix_end(KEY_ROW)
        runs = (view.range(KEY_ROW, end) for view in self._groups.all())
        for place, _ in merged(runs, key=lambda row: row[0]):
            if place.startswith(KEY_ROW):
                key = self._key_of(place[1:])
                found = self.get(key)
                if found is not None:
                    yield key, found

    def __getitem__(self, key: K) -> VersionedRecord[V]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key is not None and self.get(key) is not None  # pyright: ignore[reportArgumentType]

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.all())

    def __len__(self) -> int:
        return sum(1 for _ in self.all())

    def _rows(self, data: bytes) -> VersionedRows:
        return VersionedRows(
            self._groups.of(data),
            history_retention_ms=self._history,
            segment_ms=self.spec.segment_ms,
        )

    def _shown(self, version: Version | None) -> VersionedRecord[V] | None:
        return None if version is None else self._record(version)

    def _record(self, version: Version) -> VersionedRecord[V]:
        return VersionedRecord(self._value_of(version.value), version.timestamp, version.valid_to)
