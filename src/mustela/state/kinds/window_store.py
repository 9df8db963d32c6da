"""Window stores, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar, overload

from mustela.model import TIME_MAX, HeadersLike, Windowed, as_headers
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import ValueTimestampHeaders, add_headers
from mustela.state.kinds.layout import TIME_BYTES, RowView, is_by_time, unpack_time
from mustela.state.kinds.packed import append_packed, unpacker
from mustela.state.kinds.read_only import ReadOnlyWindowStore
from mustela.state.kinds.timed import (
    NO_TIMESTAMP,
    ValueAndTimestamp,
    no_headers,
    pack_timestamped,
    timestamped_unpacker,
    unpack_headed,
    with_timed_value,
)
from mustela.state.kinds.typed import Moment, TypedStore, to_ms
from mustela.state.kinds.views import GroupedView, merged
from mustela.state.kinds.window import SHOWN_FROM, WindowRows
from mustela.state.store_kind import ChangeAt, Queried, StoreKind

__all__ = ["WINDOW", "TimestampedWindowStore", "TimestampedWindowStoreWithHeaders", "WindowStore"]

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
D = TypeVar("D")

_unpack_duplicates: Callable[[bytes], list[bytes]] = unpacker(list[bytes])
_Row = tuple[int, bytes, bytes]
_ONE: Final = object()


class _WindowStore(TypedStore[K, V, S], Generic[K, V, S]):
    """What both window stores share; S is what a reader gets for a window."""

    kind = "window"

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        super().__init__(groups, spec)
        self._several = spec.duplicates
        self._unpack = timestamped_unpacker(spec)

    @overload
    def fetch(self, key: K, time_from: Moment) -> S | None: ...
    @overload
    def fetch(
        self, key: K, time_from: Moment | None, time_to: Moment | None
    ) -> Iterator[tuple[int, S]]: ...
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
        return self._of_key(key, time_from, time_to, reverse=False)

    def backward_fetch(
        self, key: K, time_from: Moment | None = None, time_to: Moment | None = None
    ) -> Iterator[tuple[int, S]]:
        """Iterate over the windows of a key as `fetch` does, the latest start first."""
        return self._of_key(key, time_from, time_to, reverse=True)

    @overload
    def get(self, key: K, start: Moment) -> S | None: ...
    @overload
    def get(self, key: K, start: Moment, default: D) -> S | D: ...
    def get(self, key: K, start: Moment, default: Any = None) -> Any:
        """Return the value of the window that begins at ``start``, or ``default``.

        If there are several values, it is the last one put.
        """
        place = self._key_bytes(key), to_ms(start, 0)
        row = self._row_at(place)
        return default if row is None else self._shown(self._items(row, reverse=True)[0])

    def delete(self, key: K, start: Moment) -> S | None:
        """Remove the window that begins at ``start``; return what `get` would have, or None."""
        place = self._place(key, start)
        row = self._row_at(place)
        if row is None:
            return None
        self._set_at(place, None, NO_TIMESTAMP, ())
        return self._shown(row)

    def fetch_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over windows of several keys, by start, then by key.

        Args:
            key_from: Lowest key, by its bytes; None leaves the side open, as below.
            key_to: Highest key, included.
            time_from: Lowest start.
            time_to: Highest start, included.
        """
        return self._of_range((key_from, key_to), (time_from, time_to), reverse=False)

    def backward_fetch_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate as `fetch_range` does, backwards."""
        return self._of_range((key_from, key_to), (time_from, time_to), reverse=True)

    def fetch_all(
        self, time_from: Moment | None = None, time_to: Moment | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over the windows of all keys with time_from <= start <= time_to."""
        return self.fetch_range(None, None, time_from, time_to)

    def backward_fetch_all(
        self, time_from: Moment | None = None, time_to: Moment | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate as `fetch_all` does, backwards."""
        return self.backward_fetch_range(None, None, time_from, time_to)

    def all(self) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over everything, by start, then by key."""
        return self.fetch_range()

    def backward_all(self) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over everything, backwards."""
        return self.backward_fetch_range()

    def __getitem__(self, window: tuple[K, Moment]) -> S:
        found = self.get(*window)
        if found is None:
            raise KeyError(window)
        return found

    def __contains__(self, window: tuple[K, Moment]) -> bool:
        return window[0] is not None and self.get(*window) is not None

    def _place(self, key: K, start: Moment) -> tuple[bytes, int]:
        if self._several:
            msg = f"store {self.name!r} keeps several values for a window, and this needs one"
            raise StoreError(
                msg,
                why="it was made with retain_duplicates=True",
                fix="use put and fetch, or make it without duplicates",
                fields={"store": self.name},
            )
        return self._key_bytes(key), to_ms(start, 0)

    def _row_at(self, place: tuple[bytes, int]) -> bytes | None:
        data, start = place
        view = self._groups.of(data)
        if start < self._live_from(view):
            return None
        return _rows(view, self.spec).get(data, start)

    def _value_in(self, row: bytes) -> V:
        return self._value.deserialize(self._unpack(row)[0])

    def _live_from(self, view: RowView) -> int:
        shown = view.get(SHOWN_FROM)
        return super()._live_from(view) if shown is None else unpack_time(shown)

    def _of_key(
        self, key: K, time_from: Moment | None, time_to: Moment | None, *, reverse: bool
    ) -> Iterator[tuple[int, S]]:
        data = self._key_bytes(key)
        view = self._groups.of(data)
        low, high = self._times(time_from, time_to)
        low = max(low, self._live_from(view))
        if low > high:
            return iter(())
        if low == high:
            row = _rows(view, self.spec).get(data, low)
            found = [] if row is None else [(low, row)]
        else:
            found = _rows(view, self.spec).fetch(data, low, high, reverse=reverse)
        return (
            (start, self._shown(item))
            for start, row in found
            for item in self._items(row, reverse=reverse)
        )

    def _of_range(
        self,
        keys: tuple[K | None, K | None],
        times: tuple[Moment | None, Moment | None],
        *,
        reverse: bool,
    ) -> Iterator[tuple[Windowed[K], S]]:
        low, high = self._key_bounds(*keys)
        time_from, time_to = self._times(*times)

        def run(view: RowView) -> Iterator[_Row]:
            first = max(time_from, self._live_from(view))
            if first > time_to:
                return
            for row in _rows(view, self.spec).scan(first, time_to, reverse=reverse):
                if (low is None or row[1] >= low) and (high is None or row[1] <= high):
                    yield row

        rows = merged(map(run, self._groups.all()), key=_place, reverse=reverse)
        size = self.spec.window_ms
        for start, data, row in rows:
            end = TIME_MAX if size is None else min(start + size, TIME_MAX)
            for item in self._items(row, reverse=reverse):
                yield Windowed(self._key_of(data), start, end), self._shown(item)

    def _items(self, row: bytes, *, reverse: bool) -> list[bytes]:
        if not self._several:
            return [row]
        items = _unpack_duplicates(row)
        return items[::-1] if reverse else items

    def _set_at(
        self, place: tuple[bytes, int], value: V | None, timestamp: int, headers: HeadersLike
    ) -> None:
        row = self._value.serialize(value)
        if row is None and self._several:
            return  # stream time does not advance either
        data, start = place
        view = self._groups.of(data)
        floor, moved = self._observe(view, start)
        if start < floor:
            return
        rows = _rows(view, self.spec)
        if row is not None:
            row = pack_timestamped(row, timestamp)
            if self.spec.with_headers:
                row = add_headers(row, as_headers(headers))
            if self._several:
                row = append_packed(rows.get(data, start), [row])
        rows.put(data, start, row)
        if moved:
            rows.expire_before(floor)


class WindowStore(_WindowStore[K, V, V]):
    """A window store, with the methods of Kafka Streams and of a mapping.

    A window is identified by its start; all windows of a store have the same length. Ranges include
    both ends, and ranges of times are ranges of starts. Expired windows are not shown, and windows
    put too late are ignored.

    Args:
        groups: The rows as bytes.
        spec: Name, serdes, retention and length of the windows.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.kinds.views import GroupViews
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="w", kind="window", window_ms=10, retention_ms=100,
        ...                  key_serde=resolve_serde(str), value_serde=resolve_serde(int))
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("w")
        >>> store = WindowStore(GroupViews({0: view}, lambda key: 0), spec)
        >>> store.put("apple", 3, 0)
        >>> store.put("apple", 4, 10)
        >>> store.fetch("apple", 10), list(store.fetch("apple", 0, 10))
        (4, [(0, 3), (10, 4)])
        >>> list(store.all())[0]
        (Windowed(key='apple', start=0, end=10), 3)
        >>> store["apple", 0], ("apple", 20) in store
        (3, False)
    """

    def put(self, key: K, value: V | None, start: Moment) -> None:
        """Set the value of the window that begins at ``start``; None deletes it.

        With ``retain_duplicates`` every value is kept, and None does nothing.
        """
        self._set_at((self._key_bytes(key), to_ms(start, 0)), value, NO_TIMESTAMP, ())

    def put_if_absent(self, key: K, value: V | None, start: Moment) -> V | None:
        """Set the value of a window unless it has one; return the one it had, or None."""
        return self._put_if_absent(self._place(key, start), value)

    def compute(self, key: K, fn: Callable[[V | None], V | None], start: Moment) -> V | None:
        """Replace the value of a window by the result of ``fn``; return the new value.

        The read and the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value, or None if there is none; returns the new value, or None to
                delete.
            start: The window's start.

        Example:
            >>> from mustela.processors import ContextualProcessor
            >>> class Hourly(ContextualProcessor):
            ...     def process(self, record):
            ...         hour = record.timestamp - record.timestamp % 3_600_000
            ...         more = lambda old: (old or 0) + record.value
            ...         self.context.state_store("hours").compute(record.key, more, hour)
        """
        return self._compute(self._place(key, start), fn)

    def merge(self, key: K, value: V, fn: Callable[[V, V], V | None], start: Moment) -> V | None:
        """Set a window to ``value``, or to ``fn(old, value)`` if it exists; return the value.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                delete.
            start: The window's start.
        """
        return self._merge(self._place(key, start), value, fn)

    def __setitem__(self, window: tuple[K, Moment], value: V) -> None:
        self.put(window[0], value, window[1])

    def _shown(self, row: bytes) -> V:
        return self._value_in(row)


class TimestampedWindowStore(_WindowStore[K, V, ValueAndTimestamp[V]]):
    """A window store with the timestamp of each value's record.

    Args:
        groups: The rows as bytes.
        spec: Name, serdes, retention and length of the windows.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.kinds.views import GroupViews
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="w", kind="window", window_ms=10)
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("w")
        >>> store = TimestampedWindowStore(GroupViews({0: view}, lambda key: 0), spec)
        >>> store.put("apple", 3, 0, timestamp=7)
        >>> store.fetch("apple", 0)
        ValueAndTimestamp(value=3, timestamp=7)
    """

    def put(self, key: K, value: V | None, start: Moment, *, timestamp: int = NO_TIMESTAMP) -> None:
        """Set the value of the window that begins at ``start`` and its time; None deletes it."""
        self._set_at((self._key_bytes(key), to_ms(start, 0)), value, timestamp, ())

    def put_if_absent(
        self, key: K, value: V | None, start: Moment, *, timestamp: int = NO_TIMESTAMP
    ) -> ValueAndTimestamp[V] | None:
        """Set the value of a window unless it has one; return what it had, or None."""
        return self._put_if_absent(self._place(key, start), value, timestamp)

    def compute(
        self,
        key: K,
        fn: Callable[[V | None], V | None],
        start: Moment,
        *,
        timestamp: int = NO_TIMESTAMP,
    ) -> V | None:
        """Replace the value of a window by the result of ``fn``; return the new value.

        The read and the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value alone, or None if there is none; returns the new value, or
                None to delete.
            start: The window's start.
            timestamp: The new value's time, in milliseconds.
        """
        return self._compute(self._place(key, start), fn, timestamp)

    def merge(
        self,
        key: K,
        value: V,
        fn: Callable[[V, V], V | None],
        start: Moment,
        *,
        timestamp: int = NO_TIMESTAMP,
    ) -> V | None:
        """Set a window to ``value``, or to ``fn(old, value)`` if it exists; return the value.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                delete.
            start: The window's start.
            timestamp: The new value's time, in milliseconds.
        """
        return self._merge(self._place(key, start), value, fn, timestamp)

    def _shown(self, row: bytes) -> ValueAndTimestamp[V]:
        data, timestamp = self._unpack(row)
        return ValueAndTimestamp(self._value.deserialize(data), timestamp)


class TimestampedWindowStoreWithHeaders(_WindowStore[K, V, ValueTimestampHeaders[V]]):
    """A window store with the timestamp and headers of each value's record.

    Args:
        groups: The rows as bytes.
        spec: Name, serdes, retention and length of the windows; it keeps headers.

    Raises:
        StoreError: If the store keeps no headers.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.kinds.views import GroupViews
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="w", kind="window", window_ms=10, with_headers=True)
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("w")
        >>> store = TimestampedWindowStoreWithHeaders(GroupViews({0: view}, lambda key: 0), spec)
        >>> store.put("apple", 3, 0, timestamp=7, headers={"from": b"web"})
        >>> store.fetch("apple", 0)
        ValueTimestampHeaders(value=3, timestamp=7, headers=(('from', b'web'),))
    """

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        super().__init__(groups, spec)
        if not spec.with_headers:
            raise no_headers(spec)

    def put(
        self,
        key: K,
        value: V | None,
        start: Moment,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> None:
        """Set a window's value, its time and its headers; None deletes it."""
        self._set_at((self._key_bytes(key), to_ms(start, 0)), value, timestamp, headers)

    def put_if_absent(
        self,
        key: K,
        value: V | None,
        start: Moment,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> ValueTimestampHeaders[V] | None:
        """Set the value of a window unless it has one; return what it had, or None."""
        return self._put_if_absent(self._place(key, start), value, timestamp, headers)

    def compute(
        self,
        key: K,
        fn: Callable[[V | None], V | None],
        start: Moment,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Replace the value of a window by the result of ``fn``; return the new value.

        The read and the write are atomic. If ``fn`` raises, nothing is changed.

        Args:
            key: The key.
            fn: Called with the value alone, or None if there is none; returns the new value, or
                None to delete.
            start: The window's start.
            timestamp: The new value's time, in milliseconds.
            headers: The new value's headers.
        """
        return self._compute(self._place(key, start), fn, timestamp, headers)

    def merge(
        self,
        key: K,
        value: V,
        fn: Callable[[V, V], V | None],
        start: Moment,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        """Set a window to ``value``, or to ``fn(old, value)`` if it exists; return the value.

        Args:
            key: The key.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                delete.
            start: The window's start.
            timestamp: The new value's time, in milliseconds.
            headers: The new value's headers.
        """
        return self._merge(self._place(key, start), value, fn, timestamp, headers)

    def _shown(self, row: bytes) -> ValueTimestampHeaders[V]:
        return unpack_headed(row, self._value)


def _with_value(spec: StoreSpec, key: bytes, row: bytes, change: Callable[[bytes], bytes]) -> bytes:
    return with_timed_value(spec, key, row, change) if is_by_time(key) else row


def _change(store: Any, key: Any, change: Any, moments: Any, timestamp: int, **more: Any) -> Any:
    return store.compute(key, change, *moments, timestamp=timestamp, **more)


WINDOW: Final = StoreKind(
    name="window",
    store=TimestampedWindowStore,
    plain=WindowStore,
    headed=TimestampedWindowStoreWithHeaders,
    timed=True,
    by_age=True,
    prefix=TIME_BYTES,
    takes=frozenset({"duplicates", "indexed"}),
    values=_with_value,
    change_at=ChangeAt(moments=1, words="a window: at=start", apply=_change),
    queried=Queried(
        handle=ReadOnlyWindowStore,
        store=WindowStore,
        timed=TimestampedWindowStore,
        headed=TimestampedWindowStoreWithHeaders,
    ),
    getter="window",
)


def _rows(view: RowView, spec: StoreSpec) -> WindowRows:
    return WindowRows(view, indexed=spec.indexed)


def _place(row: _Row) -> tuple[int, bytes]:
    return row[:2]
