"""The rows of one store as documents: found by key, and read in order from any place on."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any, Final, cast

import msgspec

from mustela.admin.data.asked import DataRefusal
from mustela.admin.data.hidden import Hidden
from mustela.queries.shown import StoreInfo
from mustela.queries.snapshot import Snapshot
from mustela.serdes.documents import DocumentForm, form_of
from mustela.serdes.values import ValueSerde
from mustela.state.kinds.headers import AggregationWithHeaders, ValueTimestampHeaders
from mustela.state.kinds.timed import ValueAndTimestamp
from mustela.state.kinds.versioned_store import VersionedRecord

__all__ = ["Bounds", "Placed", "Position", "StoreForms", "StoreRows"]

Document = dict[str, Any]
Found = tuple[Any, Any]
"""What a store's own method yields: a key, or a key in its window, and what it shows of a row."""

Show = Callable[[], Document]

SCANNED: Final = frozenset({"key_value", "timestamped_key_value", "window", "session", "versioned"})
"""Kinds that can be read in order."""

_TIMED: Final = (ValueAndTimestamp, ValueTimestampHeaders, VersionedRecord)
_HEADED: Final = (ValueTimestampHeaders, AggregationWithHeaders)


class Position(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place of a row among all rows of its store.

    Attributes:
        key: The bytes of the record key.
        start: The start of its window.
        end: The end of its window.
        again: How many rows of that place came before, in a store that keeps several.
    """

    key: bytes
    start: int = 0
    end: int = 0
    again: int = 0


Placed = tuple[Position, Show]
"""A row's place, and what shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Which rows are asked for.

    Attributes:
        low: The lowest key; None leaves the side open, as below.
        high: The highest key, included.
        prefix: What the key's bytes begin with.
        time_from: The lowest start of a window, or end of a session, in milliseconds.
        time_to: The highest start, included.
        reverse: Whether the last row comes first.
        versions: Whether all versions of each key are wanted.
    """

    low: Any = None
    high: Any = None
    prefix: Any = None
    time_from: int | None = None
    time_to: int | None = None
    reverse: bool = False
    versions: bool = False


class StoreForms:
    """What keys and values of a store are in JSON.

    Args:
        info: The store.
    """

    def __init__(self, info: StoreInfo) -> None:
        spec = info.spec
        self.info = info
        self.spec = spec
        self.key_serde: Any = spec.key_serde or ValueSerde(sort_keys=True)
        self.key: DocumentForm = form_of(self.key_serde)
        self.value: DocumentForm = form_of(spec.read_serde)

    def of(self, snapshot: Snapshot) -> Any:
        """Return the store as a snapshot shows it, with all that is kept beside its values."""
        info = self.info
        return snapshot.store(info.name, timestamps=info.timestamps, headers=info.headers)


class StoreRows:
    """Reads one store of a snapshot.

    Args:
        handle: The store, as the snapshot shows it.
        forms: What its keys and values are in JSON.
        hidden: What must not be shown.
    """

    def __init__(self, handle: Any, forms: StoreForms, hidden: Hidden) -> None:
        self._handle = handle
        self._forms = forms
        self._spec = forms.spec
        self._hide = hidden.hider(forms.spec.name)
        self._opened: list[Any] = []

    def __enter__(self) -> StoreRows:
        return self

    def __exit__(self, *_error: object) -> None:
        for rows in self._opened:
            close = getattr(rows, "close", None)
            if close is not None:
                close()

    def _open(self, rows: Iterator[Any]) -> Iterator[Any]:
        self._opened.append(rows)
        return rows

    # -- by key -----------------------------------------------------------------------------------

    def get(self, key: Any, as_of: int | None = None) -> Document | None:
        """Return the row of a key.

        Args:
            key: The key.
            as_of: The time for which its value is wanted, in a versioned store.

        Raises:
            DataRefusal: If a key of such a store has several rows.
        """
        self._needs("get", "key_value", "timestamped_key_value", "versioned")
        if as_of is None:
            found = self._handle.get(key)
        else:
            self._needs("as_of", "versioned")
            found = self._handle.get(key, as_of=as_of)
        return None if found is None else self._row(key, found)

    def get_many(self, keys: Sequence[Any]) -> list[Document | None]:
        """Return the rows of keys, in the same order."""
        self._needs("get", "key_value", "timestamped_key_value", "versioned")
        found = self._handle.get_many(keys)
        return [
            None if each is None else self._row(key, each)
            for key, each in zip(keys, found, strict=True)
        ]

    def of_key(
        self, what: str, key: Any, bounds: Bounds, after: Position | None = None
    ) -> Iterator[Placed]:
        """Return the windows, sessions or versions of a key, each with its place.

        Args:
            what: ``windows``, ``sessions`` or ``versions``.
            key: The key.
            bounds: Which of them; the key's own bounds do not matter.
            after: The place after which they begin.
        """
        kind, read, order = {
            "windows": ("window", self._windows, _by_start),
            "sessions": ("session", self._sessions, _by_end),
            "versions": ("versioned", self._versions, _by_start),
        }[what]
        self._needs(what, kind)
        return _placed(read(key, bounds, after), order, after, reverse=bounds.reverse)

    def all_of_key(self, what: str, key: Any, bounds: Bounds) -> Iterator[Document]:
        """Return the same as documents, from the first to the last."""
        return (show() for _, show in self.of_key(what, key, bounds))

    def _windows(self, key: Any, bounds: Bounds, after: Position | None) -> Iterator[Placed]:
        handle, size = self._handle, self._spec.window_ms
        first, last = _narrowed(bounds, after)
        shown, data = self._forms.key.to_document(key), self._forms.key_serde.serialize(key)
        fetch = handle.backward_fetch if bounds.reverse else handle.fetch
        for start, found in self._open(fetch(key, first, last)):
            place = {"start": start, "end": None if size is None else start + size}
            yield (
                Position(data, start),
                lambda place=place, found=found: {"key": shown, **place, **self._shown(found)},
            )

    def _sessions(self, key: Any, bounds: Bounds, after: Position | None) -> Iterator[Placed]:
        handle, first = self._handle, bounds.time_from
        if after is not None and not bounds.reverse:
            first = after.end if first is None else max(first, after.end)
        find = handle.backward_find_sessions if bounds.reverse else handle.find_sessions
        for session, found in self._open(find(key, first, bounds.time_to)):
            yield self._place(session), lambda at=session, found=found: self._row(at, found)

    def _versions(self, key: Any, bounds: Bounds, after: Position | None) -> Iterator[Placed]:
        first, last = _narrowed(bounds, after)
        data = self._forms.key_serde.serialize(key)
        found = self._handle.versions(key, first, last, reverse=bounds.reverse)
        for version in self._open(found):
            yield (
                Position(data, version.timestamp),
                lambda version=version: self._row(key, version),
            )

    # -- in order ---------------------------------------------------------------------------------

    def scan(self, bounds: Bounds, after: Position | None = None) -> Iterator[Placed]:
        """Return rows in the store's order, each with its place and a function that shows it.

        Args:
            bounds: Which rows.
            after: The place after which they begin.
        """
        kind = self._spec.kind
        if kind not in SCANNED:
            msg = "read in order"
            raise self._not_here(msg)
        if bounds.versions:
            return _placed(self._history(bounds, after), _by_key_and_start, after, reverse=False)
        scans = {"window": self._window_scan, "session": self._session_scan}
        rows = scans.get(kind, self._key_scan)(bounds, after)
        placed = (
            (self._place(key), lambda key=key, found=found: self._row(key, found))
            for key, found in rows
        )
        return _placed(placed, _ORDERS.get(kind, _by_key), after, reverse=bounds.reverse)

    def found(self, bounds: Bounds) -> Iterator[Found]:
        """Return what `scan` shows, as the store itself has it.

        Args:
            bounds: Which rows.
        """
        kind = self._spec.kind
        if kind not in SCANNED:
            msg = "read in order"
            raise self._not_here(msg)
        if bounds.versions:
            self._needs("versions", "versioned")
            return self._open(self._handle.history(bounds.low, bounds.high))
        scans = {"window": self._window_scan, "session": self._session_scan}
        return scans.get(kind, self._key_scan)(bounds, None)

    def _history(self, bounds: Bounds, after: Position | None) -> Iterator[Placed]:
        self._needs("versions", "versioned")
        if bounds.reverse or bounds.prefix is not None:
            msg = "read with its versions backwards, or by prefix"
            raise self._not_here(msg)
        serde, low = self._forms.key_serde, bounds.low
        if after is not None:
            low = serde.deserialize(after.key)
        for key, found in self._open(self._handle.history(low, bounds.high)):
            place = Position(serde.serialize(key), found.timestamp)
            yield place, lambda key=key, found=found: self._row(key, found)

    def _place(self, key: Any) -> Position:
        serialize = self._forms.key_serde.serialize
        if self._spec.kind in ("window", "session"):
            return Position(serialize(key.key), key.start, key.end)
        return Position(serialize(key))

    def _key_scan(self, bounds: Bounds, after: Position | None) -> Iterator[Found]:
        handle = self._handle
        low, high = bounds.low, bounds.high
        if not hasattr(handle, "range"):
            return self._filtered(bounds)
        if after is not None:
            key = self._forms.key_serde.deserialize(after.key)
            low, high = (low, key) if bounds.reverse else (key, high)
        if bounds.prefix is None:
            return self._open((handle.reverse_range if bounds.reverse else handle.range)(low, high))
        serialize = self._forms.key_serde.serialize
        prefix = serialize(bounds.prefix)
        if after is None:
            scan = handle.reverse_prefix_scan if bounds.reverse else handle.prefix_scan
            return self._open(scan(bounds.prefix))
        rows = self._open((handle.reverse_range if bounds.reverse else handle.range)(low, high))
        return takewhile(lambda row: serialize(row[0]).startswith(prefix), rows)

    def _filtered(self, bounds: Bounds) -> Iterator[Found]:
        """Return rows of a store that can only be read from its first row on."""
        if bounds.reverse:
            msg = "read backwards"
            raise self._not_here(msg)
        serialize = self._forms.key_serde.serialize
        low = None if bounds.low is None else serialize(bounds.low)
        high = None if bounds.high is None else serialize(bounds.high)
        prefix = b"" if bounds.prefix is None else serialize(bounds.prefix)
        for key, found in self._open(self._handle.all()):
            data = serialize(key)
            if high is not None and data > high:
                return
            if (low is None or data >= low) and data.startswith(prefix):
                yield key, found

    def _window_scan(self, bounds: Bounds, after: Position | None) -> Iterator[Found]:
        handle, low = self._handle, _lowest(bounds)
        fetch = handle.backward_fetch_range if bounds.reverse else handle.fetch_range
        first, last = bounds.time_from, bounds.time_to
        if after is None:
            return self._beginning(bounds, self._open(fetch(low, bounds.high, first, last)))
        rest = (first, after.start - 1) if bounds.reverse else (after.start + 1, last)
        rows = chain(
            self._open(fetch(low, bounds.high, after.start, after.start)),
            self._open(fetch(low, bounds.high, *rest)),
        )
        return self._beginning(bounds, rows)

    def _session_scan(self, bounds: Bounds, after: Position | None) -> Iterator[Found]:
        handle, low, high = self._handle, _lowest(bounds), bounds.high
        if after is not None:
            key = self._forms.key_serde.deserialize(after.key)
            low, high = (low, key) if bounds.reverse else (key, high)
        find = handle.backward_find_sessions_range if bounds.reverse else handle.find_sessions_range
        rows = self._open(find(low, high, bounds.time_from, bounds.time_to))
        # The rows come by key: behind the last one with the prefix there is none.
        return self._beginning(bounds, rows, by_key=not bounds.reverse)

    def _beginning(
        self, bounds: Bounds, rows: Iterator[Found], *, by_key: bool = False
    ) -> Iterator[Found]:
        """Return those whose keys begin with the prefix, if one is asked for."""
        if bounds.prefix is None:
            return rows
        serialize = self._forms.key_serde.serialize
        prefix = serialize(bounds.prefix)

        def begins(row: Found) -> bool:
            return serialize(row[0].key).startswith(prefix)

        return takewhile(begins, rows) if by_key else filter(begins, rows)

    # -- as documents -----------------------------------------------------------------------------

    def _row(self, key: Any, found: Any) -> Document:
        form = self._forms.key
        if self._spec.kind in ("window", "session"):
            window = {"key": form.to_document(key.key), "start": key.start, "end": key.end}
            return {**window, **self._shown(found)}
        return {"key": form.to_document(key), **self._shown(found)}

    def _shown(self, found: Any) -> Document:
        more: Document = {}
        value, cls = found, cast("Any", type(found))
        if cls in _TIMED:
            value, more["timestamp"] = found.value, found.timestamp
        if cls is VersionedRecord and found.valid_to is not None:
            more["valid_to"] = found.valid_to
        if cls is AggregationWithHeaders:
            value = found.aggregation
        if cls in _HEADED:
            more["headers"] = [
                [name, None if data is None else b64encode(data).decode()]
                for name, data in found.headers
            ]
        return {"value": self._hide(self._forms.value.to_document(value)), **more}

    def _needs(self, what: str, *kinds: str) -> None:
        if self._spec.kind not in kinds:
            msg = f"asked for {what}"
            raise self._not_here(msg)

    def _not_here(self, what: str) -> DataRefusal:
        kind = self._spec.kind.replace("_", "-")
        text = f"a {kind} store cannot be {what}"
        fixes = {
            "window": "ask /stores/STORE/KEY/windows, or for a range",
            "session": "ask /stores/STORE/KEY/sessions, or for a range",
        }
        otherwise = "ask /stores/STORE/KEY"
        if self._spec.own_kind is not None:
            otherwise = "ask its query methods: /stores/STORE/methods"
        fix, more = fixes.get(self._spec.kind, otherwise), {"kind": self._spec.kind}
        return DataRefusal(400, "QUERY_KIND", text, fix, more)


def _lowest(bounds: Bounds) -> Any:
    """Return the lowest key: a prefix is not behind any key that begins with it."""
    return bounds.low if bounds.prefix is None else bounds.prefix


def _narrowed(bounds: Bounds, after: Position | None) -> tuple[int | None, int | None]:
    """Return the first and last time that are left after a place."""
    first, last = bounds.time_from, bounds.time_to
    if after is None:
        return first, last
    if bounds.reverse:
        return first, after.start if last is None else min(last, after.start)
    return after.start if first is None else max(first, after.start), last


def _by_key(place: Position) -> tuple[Any, ...]:
    return (place.key,)


def _by_start(place: Position) -> tuple[Any, ...]:
    return (place.start,)


def _by_end(place: Position) -> tuple[Any, ...]:
    return place.end, place.start


def _by_key_and_start(place: Position) -> tuple[Any, ...]:
    return place.key, place.start


_ORDERS: Final[dict[str, Callable[[Position], tuple[Any, ...]]]] = {
    "window": lambda place: (place.start, place.key),
    "session": lambda place: (place.key, place.end, place.start),
}


def _placed(
    rows: Iterator[Placed],
    order: Callable[[Position], tuple[Any, ...]],
    after: Position | None,
    *,
    reverse: bool,
) -> Iterator[Placed]:
    """Yield the rows after a place; those of one place are numbered."""
    last, again = None, 0
    bound = None if after is None else order(after)
    for place, show in rows:
        mark = order(place)
        again = again + 1 if mark == last else 0
        last = mark
        if after is not None and _is_before(mark, bound, again, after, reverse):
            continue
        yield msgspec.structs.replace(place, again=again), show


def _is_before(mark: Any, bound: Any, again: int, after: Position, reverse: bool) -> bool:
    """Whether a row has been shown before the place after which rows begin."""
    if mark == bound:
        return again <= after.again
    return mark > bound if reverse else mark < bound
