"""Versioned stores: the values of each key over time.

Layout, format 1. Times, and what first bytes mean: see layout.py.

- ``01`` and the record key: the latest version. Its time, a byte 1, and the value; or its time and
  a byte 0 for a deletion.
- a segment's start and the record key: the versions that ended within the segment, as a packed
  array of (from, valid to, value or nil for a deletion), ascending. A version ends when the next
  begins.
- ``00``: the largest time of any put, the *observed time*, as eight bytes (signed, big-endian).

So the latest versions of many keys are one `getmulti`, and so are the few segments that an older
version can be in. Appending the version that has just ended decodes nothing. Whole segments are
deleted when the history has expired, in the changelog too: it is compacted and has the same rows,
so it needs no compaction lag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mustela.state.kinds.layout import (
    STREAM_TIME,
    TIME_BYTES,
    TIME_MAX,
    TIME_MIN,
    RowView,
    key_row,
    key_rows,
    pack_time,
    time_key,
    time_rows,
    unpack_time,
)
from mustela.state.kinds.packed import EMPTY, append_packed, pack_rows, unpacker

__all__ = [
    "LATEST",
    "NOT_PUT",
    "VERSIONED_FORMAT",
    "Version",
    "VersionedRows",
    "default_segment_ms",
    "split_latest",
    "unpack_versions",
]

VERSIONED_FORMAT = 1

LATEST: Final = -1
"""What `VersionedRows.put` returns for a version that nothing has followed yet."""

NOT_PUT: Final = -(1 << 63)
"""What `VersionedRows.put` returns for a version older than the history."""

_TIME_LENGTH = 8
_VALUE, _DELETED = b"\x01", b"\x00"
_BODY = TIME_BYTES + 1

_Span = tuple[int, int, bytes | None]
unpack_versions: Callable[[bytes], list[_Span]] = unpacker(list[tuple[int, int, bytes | None]])

_SEGMENTS: Final = ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000))


class Version(NamedTuple):
    """A value of a key, and when it was valid.

    Attributes:
        value: The value's bytes.
        timestamp: The start of its validity.
        valid_to: The end of its validity, not included; None for the latest version.
    """

    value: bytes
    timestamp: int
    valid_to: int | None = None


def default_segment_ms(history_retention_ms: int) -> int:
    """Return a length of segments that fits a history, as Kafka Streams chooses it.

    Example:
        >>> default_segment_ms(60_000), default_segment_ms(86_400_000)
        (20000, 3600000)
    """
    for limit, parts, least in _SEGMENTS:
        if history_retention_ms <= limit:
            return max(history_retention_ms // parts, least)
    return max(history_retention_ms // 24, 300_000)


class VersionedRows:
    """The versions of one key group, as bytes.

    Args:
        view: The rows of the store.
        history_retention_ms: How far before the observed time a version can be put or read.
        segment_ms: Length of a segment; the same for the life of a store.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.state.overlay import Overlay
        >>> spec = StoreSpec(name="v", kind="versioned", history_retention_ms=100)
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(spec,))
        >>> view = Overlay(MemoryEnvironment(place).snapshot(Committed())).store("v")
        >>> versions = VersionedRows(view, history_retention_ms=100)
        >>> versions.put(b"apple", b"green", 10), versions.put(b"apple", b"red", 50)
        (-1, -1)
        >>> versions.put(b"apple", b"yellow", 30)
        50
        >>> versions.get(b"apple", 40)
        Version(value=b'yellow', timestamp=30, valid_to=50)
        >>> versions.get(b"apple")
        Version(value=b'red', timestamp=50, valid_to=None)
    """

    def __init__(
        self, view: RowView, *, history_retention_ms: int, segment_ms: int | None = None
    ) -> None:
        self.view = view
        self.history_retention_ms = history_retention_ms
        self.segment_ms = segment_ms or default_segment_ms(history_retention_ms)

    @property
    def observed(self) -> int:
        """The largest time of any put, -1 before the first."""
        stored = self.view.get(STREAM_TIME)
        return -1 if stored is None else int.from_bytes(stored, "big", signed=True)

    @property
    def bound(self) -> int:
        """The oldest time that can be put, or read from the history."""
        return self.observed - self.history_retention_ms

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a version; None is a deletion, which is also a version.

        Returns:
            Until when it is valid, `LATEST` if no version follows it, or `NOT_PUT` if it is older
            than the history.
        """
        return self.put_many([key], [value], [timestamp])[0]

    def put_many(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> list[int]:
        """Put versions one by one; return the results of `put`.

        Most of them need only two fetches together.
        """
        places = key_rows(keys)
        length = self.segment_ms
        self.view.getmulti(places)
        segments = [time // length * length for time in timestamps]
        self.view.getmulti(list(map(time_key, segments, keys)))
        before = observed = self.observed
        results: list[int] = []
        for key, place, value, timestamp in zip(keys, places, values, timestamps, strict=True):
            if timestamp < observed - self.history_retention_ms:
                results.append(NOT_PUT)
                continue
            observed = max(observed, timestamp)
            results.append(self._put(key, place, value, timestamp))
        if observed > before:
            self.view.put(STREAM_TIME, observed.to_bytes(_TIME_LENGTH, "big", signed=True))
        return results

    def _put(self, key: bytes, place: bytes, value: bytes | None, timestamp: int) -> int:
        stored = self.view.get(place)
        latest = TIME_MIN if stored is None else unpack_time(stored)
        if timestamp < latest:
            return self._put_history(key, value, timestamp, latest)
        segment = time_key(timestamp // self.segment_ms * self.segment_ms, key)
        if stored is not None and timestamp > latest:
            span = latest, timestamp, _value_of(stored)
            self.view.put(segment, append_packed(self.view.get(segment), [span]))
        elif value is None and self.view.get(segment) is None:
            self.view.put(segment, EMPTY)  # so that the deletion is found when it expires
        self.view.put(place, _latest_row(value, timestamp))
        return LATEST

    def _put_history(self, key: bytes, value: bytes | None, timestamp: int, latest: int) -> int:
        """Put a version that is not the latest into the history; return until when it is valid."""
        later = self._spans([key], [timestamp], [latest])[0]
        if later and later[0][0] <= timestamp:
            start, valid_to, old = later[0]
            self._replace(key, valid_to, remove=start, add=(timestamp, valid_to, value))
            if start < timestamp:
                self._replace(key, timestamp, remove=None, add=(start, timestamp, old))
            return valid_to
        valid_to = later[0][0] if later else latest
        self._replace(key, valid_to, remove=None, add=(timestamp, valid_to, value))
        return valid_to

    def _replace(self, key: bytes, valid_to: int, *, remove: int | None, add: _Span) -> None:
        place = time_key(valid_to // self.segment_ms * self.segment_ms, key)
        packed = self.view.get(place)
        spans = [] if packed is None else [s for s in unpack_versions(packed) if s[0] != remove]
        spans.append(add)
        spans.sort(key=lambda span: span[0])
        self.view.put(place, pack_rows(spans))

    def _spans(
        self, keys: Sequence[bytes], froms: Sequence[int], latest: Sequence[int]
    ) -> list[list[_Span]]:
        """Return the older versions of each key that end after ``from``, with one fetch."""
        length = self.segment_ms
        places = [
            [time_key(start, key) for start in range((low + 1) // length * length, end + 1, length)]
            for key, low, end in zip(keys, froms, latest, strict=True)
        ]
        wanted = list(dict.fromkeys(place for mine in places for place in mine))
        packed = dict(zip(wanted, self.view.getmulti(wanted), strict=True))
        found: list[list[_Span]] = []
        for mine, low in zip(places, froms, strict=True):
            rows = (packed[place] for place in mine)
            spans = [span for row in rows if row is not None for span in unpack_versions(row)]
            found.append([span for span in spans if span[1] > low])
        return found

    def delete(self, key: bytes, timestamp: int) -> Version | None:
        """Put a deletion; return the version valid at ``timestamp``, or None."""
        if timestamp < self.bound:
            return None
        held = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return held

    def get(self, key: bytes, as_of: int | None = None) -> Version | None:
        """Return the latest version, or the one valid at ``as_of``; None if there is none."""
        if as_of is None:
            return self.latest_many([key])[0]
        return self.as_of_many([key], [as_of])[0]

    def latest_many(self, keys: Sequence[bytes]) -> list[Version | None]:
        """Return the latest version of each key, with one fetch."""
        return [_version(stored) for stored in self.view.getmulti(key_rows(keys))]

    def as_of_many(self, keys: Sequence[bytes], times: Sequence[int]) -> list[Version | None]:
        """Return, for each key, the version valid at its time.

        One fetch for the latest versions, and one more for those that need an older one. A time
        that is older than the history finds a latest version only.
        """
        bound = self.bound
        found: list[Version | None] = []
        older: list[tuple[int, int]] = []
        for row, stored in enumerate(self.view.getmulti(key_rows(keys))):
            found.append(None)
            if stored is not None:
                latest = unpack_time(stored)
                if latest <= times[row]:
                    found[row] = _version(stored)
                elif times[row] >= bound:
                    older.append((row, latest))
        if older:
            mine = [keys[row] for row, _ in older]
            froms = [times[row] for row, _ in older]
            spans = self._spans(mine, froms, [latest for _, latest in older])
            for (row, _), held in zip(older, spans, strict=True):
                if held and held[0][0] <= times[row] and held[0][2] is not None:
                    found[row] = Version(held[0][2], held[0][0], held[0][1])
        return found

    def versions(
        self, key: bytes, from_: int = TIME_MIN, to: int = TIME_MAX, *, reverse: bool = False
    ) -> list[Version]:
        """Return the versions valid at any time from_ <= time <= to, without deletions."""
        stored = self.view.get(key_row(key))
        if stored is None:
            return []
        latest, bound = unpack_time(stored), self.bound
        spans = self._spans([key], [max(from_, bound)], [latest])[0] if to >= bound else []
        found = [Version(held, start, end) for start, end, held in spans if held is not None]
        last = _version(stored)
        if last is not None:
            found.append(last)
        found = [version for version in found if version.timestamp <= to]
        return found[::-1] if reverse else found

    def expire(self) -> int:
        """Remove the expired history; return how many rows were removed."""
        bound = self.bound
        over = [stored for stored, _ in time_rows(self.view, to=bound - self.segment_ms)]
        if not over:
            return 0
        rows: dict[bytes, bytes | None] = dict.fromkeys(over)
        places = key_rows(list(dict.fromkeys(stored[TIME_BYTES:] for stored in over)))
        for place, stored in zip(places, self.view.getmulti(places), strict=True):
            deleted = stored is not None and stored[TIME_BYTES:] == _DELETED
            if deleted and unpack_time(stored or b"") < bound:
                rows[place] = None
        self.view.put_many(rows)
        return len(over)


def _latest_row(value: bytes | None, timestamp: int) -> bytes:
    return pack_time(timestamp) + (_DELETED if value is None else _VALUE + value)


def _value_of(stored: bytes) -> bytes | None:
    return None if stored[TIME_BYTES:_BODY] == _DELETED else stored[_BODY:]


def _version(stored: bytes | None) -> Version | None:
    if stored is None or stored[TIME_BYTES:_BODY] == _DELETED:
        return None
    return Version(stored[_BODY:], unpack_time(stored))


def split_latest(stored: bytes) -> tuple[bytes, bytes | None]:
    """Split the row of a latest version into what precedes the value, and the value."""
    return stored[:_BODY], None if stored[TIME_BYTES:_BODY] == _DELETED else stored[_BODY:]
