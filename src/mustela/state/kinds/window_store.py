"""Window stores as their users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar, cast, overload

from mustela.model import TIME_MAX, Windowed
from mustela.state.interfaces import StoreKind, StoreSpec
from mustela.state.kinds.key_value import (
    NO_TIMESTAMP,
    ValueAndTimestamp,
    pack_timestamped,
    unpack_timestamped,
)
from mustela.state.kinds.layout import RowView
from mustela.state.kinds.packed import append_packed, unpacker
from mustela.state.kinds.typed import Moment, TypedRows, to_ms
from mustela.state.kinds.views import GroupedView, merged
from mustela.state.kinds.window import WindowRows

__all__ = ["TimestampedWindowStore", "WindowStore"]

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
D = TypeVar("D")

_unpack_duplicates: Callable[[bytes], list[bytes]] = unpacker(list[bytes])
_Row = tuple[int, bytes, bytes]
_ONE: Final = object()


class _WindowStore(TypedRows[K, Any], Generic[K, S]):
    """What both window stores share; S is what a reader gets for a window."""

    kind: StoreKind = "window"

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        super().__init__(groups, spec)
        self._several = spec.duplicates

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
            With a start: the value or None. With two times: pairs of start and value, by start.
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
        """Return the value of the window that begins at ``start``, or ``default``."""
        found = next(self._of_key(key, start, start, reverse=False), None)
        return default if found is None else found[1]

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

    def __iter__(self) -> Iterator[Windowed[K]]:
        return (window for window, _ in self.all())

    def __len__(self) -> int:
        return sum(1 for _ in self.all())

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
            end = TIME_MAX if size is None else start + size
            for item in self._items(row, reverse=reverse):
                yield Windowed(self._key_of(data), start, end), self._shown(item)

    def _items(self, row: bytes, *, reverse: bool) -> list[bytes]:
        if not self._several:
            return [row]
        items = _unpack_duplicates(row)
        return items[::-1] if reverse else items

    def _put(self, key: K, value: Any, start: Moment, timestamp: int) -> None:
        data, row = self._key_bytes(key), self._value.serialize(value)
        view = self._groups.of(data)
        begins = to_ms(start, 0)
        floor, moved = self._observe(view, begins)
        if begins < floor:
            return
        rows = _rows(view, self.spec)
        if row is not None:
            row = pack_timestamped(row, timestamp)
        if not self._several:
            rows.put(data, begins, row)
        elif row is not None:
            rows.put(data, begins, append_packed(rows.get(data, begins), [row]))
        if moved:
            rows.expire_before(floor)

    def _shown(self, row: bytes) -> S:
        raise NotImplementedError


class WindowStore(_WindowStore[K, V]):
    """A store of keys, windows and values, with Kafka's methods and a mapping's.

    A window is named by its start; all windows of a store have one length. Ranges include both
    ends, and the range of times is one of starts. What has expired is not shown, and what is put
    too late is left out.

    Args:
        groups: Where the bytes are.
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

        With ``retain_duplicates`` each value is kept, and None does nothing.
        """
        self._put(key, value, start, NO_TIMESTAMP)

    def __setitem__(self, window: tuple[K, Moment], value: V) -> None:
        self.put(window[0], value, window[1])

    def _shown(self, row: bytes) -> V:
        return cast("V", self._value.deserialize(unpack_timestamped(row)[0]))


class TimestampedWindowStore(_WindowStore[K, ValueAndTimestamp[V]]):
    """A window store that shows the time of each value's record.

    Args:
        groups: Where the bytes are.
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
        self._put(key, value, start, timestamp)

    def _shown(self, row: bytes) -> ValueAndTimestamp[V]:
        data, timestamp = unpack_timestamped(row)
        return ValueAndTimestamp(cast("V", self._value.deserialize(data)), timestamp)


def _rows(view: RowView, spec: StoreSpec) -> WindowRows:
    return WindowRows(view, indexed=spec.indexed)


def _place(row: _Row) -> tuple[int, bytes]:
    return row[:2]
