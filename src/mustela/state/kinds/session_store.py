"""Session stores, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar, overload

from mustela.model import HeadersLike, SessionWindowed, Windowed, as_headers
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.headers import (
    AggregationWithHeaders,
    SessionRow,
    add_session_headers,
    split_session_headers,
    without_session_headers,
)
from mustela.state.kinds.layout import KEY_ROW, TIME_BYTES, RowView
from mustela.state.kinds.packed import pack_rows
from mustela.state.kinds.read_only import ReadOnlySessionStore
from mustela.state.kinds.session import Session, SessionRows, unpack_sessions
from mustela.state.kinds.timed import NO_TIMESTAMP, no_headers
from mustela.state.kinds.typed import Moment, TypedStore, to_ms
from mustela.state.kinds.views import GroupedView, merged
from mustela.state.store_kind import ChangeAt, Queried, StoreKind

__all__ = ["SESSION", "SessionStore", "SessionStoreWithHeaders"]

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
D = TypeVar("D")

_Found = tuple[bytes, Session]


class _SessionStore(TypedStore[K, V, S], Generic[K, V, S]):
    """What both session stores share; S is what a reader gets for a session."""

    kind = "session"

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session, if it exists."""
        data = self._key_bytes(session.key)
        SessionRows(self._groups.of(data)).put(data, session.start, session.end, None)

    def delete(self, session: Windowed[K]) -> S | None:
        """Remove a session; return what `fetch_session` would have returned, or None."""
        row = self._row_at(self._place(session))
        if row is None:
            return None
        self.remove(session)
        return self._shown(row)

    def _place(self, session: Windowed[K]) -> tuple[bytes, int, int]:
        return self._key_bytes(session.key), session.start, session.end

    def _row_at(self, place: tuple[bytes, int, int]) -> SessionRow | None:
        data, start, end = place
        view = self._groups.of(data)
        return None if end < self._live_from(view) else SessionRows(view).get(data, start, end)

    def _value_in(self, row: SessionRow) -> V:
        return self._value.deserialize(without_session_headers(row))

    def _set_at(
        self,
        place: tuple[bytes, int, int],
        value: V | None,
        timestamp: int,
        headers: HeadersLike,
    ) -> None:
        del timestamp  # a session has the times of its ends
        data, start, end = place
        packed = self._value.serialize(value)
        row: SessionRow | None = packed
        if packed is not None and self.spec.with_headers:
            row = add_session_headers(packed, as_headers(headers))
        view = self._groups.of(data)
        floor, moved = self._observe(view, end)
        if end < floor:
            return
        rows = SessionRows(view)
        rows.put(data, start, end, row)
        if moved:
            rows.expire_before(floor)

    @overload
    def fetch_session(self, key: K, start: Moment, end: Moment) -> S | None: ...
    @overload
    def fetch_session(self, key: K, start: Moment, end: Moment, default: D) -> S | D: ...
    def fetch_session(self, key: K, start: Moment, end: Moment, default: Any = None) -> Any:
        """Return the value of the session with exactly these ends, or ``default``."""
        row = self._row_at((self._key_bytes(key), to_ms(start, 0), to_ms(end, 0)))
        return default if row is None else self._shown(row)

    @overload
    def get(self, session: Windowed[K]) -> S | None: ...
    @overload
    def get(self, session: Windowed[K], default: D) -> S | D: ...
    def get(self, session: Windowed[K], default: Any = None) -> Any:
        """Return the value of a session, or ``default``; see `fetch_session`."""
        return self.fetch_session(session.key, session.start, session.end, default)

    def fetch(self, key: K) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of a key."""
        return self.find_sessions(key)

    def backward_fetch(self, key: K) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of a key, the latest first."""
        return self.backward_find_sessions(key)

    def fetch_range(
        self, key_from: K | None = None, key_to: K | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of key_from <= key <= key_to, by the keys' bytes."""
        return self.find_sessions_range(key_from, key_to)

    def backward_fetch_range(
        self, key_from: K | None = None, key_to: K | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate as `fetch_range` does, backwards."""
        return self.backward_find_sessions_range(key_from, key_to)

    def find_sessions(
        self, key: K, earliest_end: Moment | None = None, latest_start: Moment | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of a key with end >= earliest_end and start <= latest_start."""
        return self._of_key(key, earliest_end, latest_start, reverse=False)

    def backward_find_sessions(
        self, key: K, earliest_end: Moment | None = None, latest_start: Moment | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate as `find_sessions` does, backwards."""
        return self._of_key(key, earliest_end, latest_start, reverse=True)

    def find_sessions_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        earliest_end: Moment | None = None,
        latest_start: Moment | None = None,
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over the sessions of several keys, chosen as in `find_sessions`."""
        return self._of_range((key_from, key_to), (earliest_end, latest_start), reverse=False)

    def backward_find_sessions_range(
        self,
        key_from: K | None = None,
        key_to: K | None = None,
        earliest_end: Moment | None = None,
        latest_start: Moment | None = None,
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate as `find_sessions_range` does, backwards."""
        return self._of_range((key_from, key_to), (earliest_end, latest_start), reverse=True)

    def find_sessions_ending(
        self, earliest_end: Moment | None = None, latest_end: Moment | None = None
    ) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over all sessions with earliest_end <= end <= latest_end, by end, then by key."""
        first, last = self._times(earliest_end, latest_end)
        runs = (
            SessionRows(view).ending(max(first, self._live_from(view)), last)
            for view in self._groups.all()
        )
        for data, start, end, row in merged(runs, key=lambda found: (found[2], found[0], found[1])):
            yield SessionWindowed(self._key_of(data), start, end), self._shown(row)

    def all(self) -> Iterator[tuple[Windowed[K], S]]:
        """Iterate over everything, by key, then by end."""
        return self.find_sessions_range()

    def __getitem__(self, session: Windowed[K]) -> S:
        found = self.fetch_session(session.key, session.start, session.end)
        if found is None:
            raise KeyError(session)
        return found

    def __delitem__(self, session: Windowed[K]) -> None:
        if session not in self:
            raise KeyError(session)
        self.remove(session)

    def __contains__(self, session: Windowed[K]) -> bool:
        return self.fetch_session(session.key, session.start, session.end) is not None

    def _of_key(
        self, key: K, earliest: Moment | None, latest: Moment | None, *, reverse: bool
    ) -> Iterator[tuple[Windowed[K], S]]:
        data = self._key_bytes(key)
        view = self._groups.of(data)
        first, last = self._times(earliest, latest)
        first = max(first, self._live_from(view))
        for start, end, row in SessionRows(view).find(data, first, last, reverse=reverse):
            yield SessionWindowed(key, start, end), self._shown(row)

    def _of_range(
        self,
        keys: tuple[K | None, K | None],
        times: tuple[Moment | None, Moment | None],
        *,
        reverse: bool,
    ) -> Iterator[tuple[Windowed[K], S]]:
        low, high = self._key_bounds(*keys)
        first, last = self._times(*times)

        def run(view: RowView) -> Iterator[tuple[bytes, list[Session]]]:
            live = max(first, self._live_from(view))
            for data, sessions in SessionRows(view).scan(low, high, reverse=reverse):
                yield data, [s for s in sessions if s[1] >= live and s[0] <= last]

        runs = map(run, self._groups.all())
        for data, sessions in merged(runs, key=lambda found: found[0], reverse=reverse):
            for start, end, row in reversed(sessions) if reverse else sessions:
                yield SessionWindowed(self._key_of(data), start, end), self._shown(row)


class SessionStore(_SessionStore[K, V, V]):
    """A session store, with the methods of Kafka Streams and of a mapping.

    A session is a `Windowed` key, both ends included. Sessions of a key are ordered by end, then by
    start; those of several keys by key first. Expired sessions are not shown, and sessions put too
    late are ignored.

    Args:
        groups: The rows as bytes.
        spec: Name, serdes and retention.

    Example:
        >>> from mustela.serdes.resolve import resolve_serde
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.kinds.views import GroupViews
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="v", kind="session", retention_ms=100,
        ...                  key_serde=resolve_serde(str), value_serde=resolve_serde(int))
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("v")
        >>> store = SessionStore(GroupViews({0: view}, lambda key: 0), spec)
        >>> store.put(Windowed("apple", 0, 5), 3)
        >>> store.fetch_session("apple", 0, 5)
        3
        >>> list(store.find_sessions("apple", 5, 9))
        [(Windowed(key='apple', start=0, end=5, kind='session'), 3)]
        >>> store.remove(Windowed("apple", 0, 5))
        >>> list(store.fetch("apple"))
        []
    """

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Set the value of a session; None removes it."""
        self._set_at(self._place(session), value, NO_TIMESTAMP, ())

    def put_if_absent(self, session: Windowed[K], value: V | None) -> V | None:
        """Set the value of a session unless it has one; return the one it had, or None."""
        return self._put_if_absent(self._place(session), value)

    def compute(self, session: Windowed[K], fn: Callable[[V | None], V | None]) -> V | None:
        """Replace the value of a session by the result of ``fn``; return the new value.

        The session is the one with exactly these ends: to find the sessions that a record belongs
        to, and to merge several, use `find_sessions`, `remove` and `put`. The read and the write
        are atomic. If ``fn`` raises, nothing is changed.

        Args:
            session: Key and ends.
            fn: Called with the value, or None if there is none; returns the new value, or None to
                remove.

        Example:
            >>> from mustela import Windowed
            >>> from mustela.processors import ContextualProcessor
            >>> class Visits(ContextualProcessor):
            ...     def process(self, record):
            ...         visit = Windowed(record.key, record.value["from"], record.value["to"])
            ...         more = lambda old: (old or 0) + record.value["pages"]
            ...         self.context.state_store("visits").compute(visit, more)
        """
        return self._compute(self._place(session), fn)

    def merge(self, session: Windowed[K], value: V, fn: Callable[[V, V], V | None]) -> V | None:
        """Set a session to ``value``, or to ``fn(old, value)`` if it exists; return the value.

        Args:
            session: Key and ends.
            value: The value; not None.
            fn: Called with the existing value and ``value``; returns the new value, or None to
                remove.
        """
        return self._merge(self._place(session), value, fn)

    def __setitem__(self, session: Windowed[K], value: V) -> None:
        self.put(session, value)

    def _shown(self, row: SessionRow) -> V:
        return self._value_in(row)


class SessionStoreWithHeaders(_SessionStore[K, V, AggregationWithHeaders[V]]):
    """A session store with the headers of each aggregate's record.

    Args:
        groups: The rows as bytes.
        spec: Name, serdes and retention; it keeps headers.

    Raises:
        StoreError: If the store keeps no headers.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec
        >>> from mustela.state.kinds.views import GroupViews
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="v", kind="session", with_headers=True)
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("v")
        >>> store = SessionStoreWithHeaders(GroupViews({0: view}, lambda key: 0), spec)
        >>> store.put(Windowed("apple", 0, 5), 3, headers={"from": b"web"})
        >>> store.fetch_session("apple", 0, 5)
        AggregationWithHeaders(aggregation=3, headers=(('from', b'web'),))
    """

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        super().__init__(groups, spec)
        if not spec.with_headers:
            raise no_headers(spec)

    def put(
        self, session: Windowed[K], aggregation: V | None, *, headers: HeadersLike = ()
    ) -> None:
        """Set the aggregate of a session and its headers; None removes it."""
        self._set_at(self._place(session), aggregation, NO_TIMESTAMP, headers)

    def put_if_absent(
        self, session: Windowed[K], aggregation: V | None, *, headers: HeadersLike = ()
    ) -> AggregationWithHeaders[V] | None:
        """Set the aggregate of a session unless it has one; return what it had, or None."""
        return self._put_if_absent(self._place(session), aggregation, headers=headers)

    def compute(
        self,
        session: Windowed[K],
        fn: Callable[[V | None], V | None],
        *,
        headers: HeadersLike = (),
    ) -> V | None:
        """Replace the aggregate of a session by the result of ``fn``; return the new one.

        Args:
            session: Key and ends, exactly.
            fn: Called with the aggregate alone, or None if there is none; returns the new one, or
                None to remove.
            headers: The new aggregate's headers.
        """
        return self._compute(self._place(session), fn, headers=headers)

    def merge(
        self,
        session: Windowed[K],
        value: V,
        fn: Callable[[V, V], V | None],
        *,
        headers: HeadersLike = (),
    ) -> V | None:
        """Set a session to ``value``, or to ``fn(old, value)`` if it exists; return the value.

        Args:
            session: Key and ends.
            value: The value; not None.
            fn: Called with the existing aggregate and ``value``; returns the new one, or None to
                remove.
            headers: The new aggregate's headers.
        """
        return self._merge(self._place(session), value, fn, headers=headers)

    def _shown(self, row: SessionRow) -> AggregationWithHeaders[V]:
        headers, data = split_session_headers(row)
        return AggregationWithHeaders(self._value.deserialize(data), headers)


def _with_values(
    _spec: StoreSpec, key: bytes, row: bytes, change: Callable[[bytes], bytes]
) -> bytes:
    if key[:1] != KEY_ROW:
        return row
    changed: list[Session] = []
    for start, end, value in unpack_sessions(row[TIME_BYTES:]):
        now = change(value) if isinstance(value, bytes) else (value[0], change(value[1]))
        changed.append((start, end, now))
    return row[:TIME_BYTES] + pack_rows(changed)


def _change(store: Any, key: Any, change: Any, moments: Any, _timestamp: int, **more: Any) -> Any:
    start, end = (to_ms(moment, 0) for moment in moments)
    return store.compute(Windowed(key, start, end), change, **more)


SESSION: Final = StoreKind(
    name="session",
    store=SessionStore,
    headed=SessionStoreWithHeaders,
    prefix=TIME_BYTES,
    values=_with_values,
    change_at=ChangeAt(moments=2, words="a session: at=(start, end)", apply=_change),
    queried=Queried(
        handle=ReadOnlySessionStore, store=SessionStore, headed=SessionStoreWithHeaders
    ),
    getter="session",
)
