"""From the rows of Kafka Streams' changelogs to Mustela's, kind by kind.

A bearer is pure: rows of one key group in, what the store's own operator would have written out.
It also says what a store holds in terms that both programs have, by which the two are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec

from mustela.connectors.kafka_streams.changelogs import (
    split_session,
    split_unmatched,
    split_window,
    suppressed,
    unmatched_values,
    users_headers,
)
from mustela.model import TIME_MAX, Headers
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.buffer import SlotBuffer
from mustela.state.kinds.headers import add_headers, add_session_headers
from mustela.state.kinds.layout import STREAM_TIME, TIME_MIN, is_by_time, time_rows
from mustela.state.kinds.list import ListRows
from mustela.state.kinds.list_blocks import BLOCK, unpack_block
from mustela.state.kinds.session import SessionRows, unpack_sessions
from mustela.state.kinds.timed import NO_TIMESTAMP, pack_timestamped
from mustela.state.kinds.versioned import VersionedRows
from mustela.state.kinds.waiting import FIRST_KEY, WaitingPlace, WaitingRows
from mustela.state.kinds.window import WindowRows, split_window_key
from mustela.state.overlay import StoreOverlay
from mustela.topology.foreign_key import ForeignKeyMatchNode
from mustela.topology.node import Node
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.suppress import SuppressNode

__all__ = ["Bearer", "OldRow", "bearer_of", "why_refused"]

_TIME_BYTES: Final = 8
_PLACE: Final = Struct(">qq")
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(list[Any]).decode


class OldRow(NamedTuple):
    """A row of an old changelog.

    Attributes:
        key: The key of the record.
        value: Its value.
        timestamp: Its time, in milliseconds.
        headers: Its headers.
        partition: The partition of the changelog, which is that of the old application's task.
    """

    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int = 0


Seen = tuple[bytes, bytes]
"""A key, and what is stored for it, in terms of both programs."""


class Bearer:
    """Carries the rows of a kind that has one row for each key.

    Args:
        spec: The store here.
        node: The step that owns it.

    Attributes:
        what: The kind, in Kafka Streams' words.
        keeps_all: Whether all records of the changelog count, not only the last one of each key.
        by_event_time: Whether the store's operator keeps its stream time in it.
    """

    what = "key-value"
    keeps_all = False
    by_event_time = False

    def __init__(self, spec: StoreSpec, node: Node) -> None:
        self.spec = spec
        self.node = node
        assert spec.key_serde is not None, spec.name
        self.key_serde: Serde[Any] = spec.key_serde
        self.suffix = self.key_serde.group_suffix

    def record_key(self, key: bytes) -> bytes:
        """Return the record key in the key of an old row."""
        return key

    def value_bytes(self, row: OldRow) -> bytes | None:
        """Return the bytes in an old row that the value's serde reads."""
        return row.value

    def time_of(self, row: OldRow) -> int:
        """Return up to when event time has come with an old row."""
        return row.timestamp

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Write old rows, in the order of their keys, to a key group that holds none."""
        view.put_many((row.key, self._stored(row)) for row in rows)

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield what the old rows of a key group say."""
        return ((row.key, self._stored(row)) for row in rows)

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield what a key group holds."""
        return view.range()

    def shown(self, key: bytes) -> str:
        """Return a key of `expected` and `found` as a person reads it."""
        try:
            return repr(self.key_serde.deserialize(key))
        except Exception:  # noqa: BLE001 - a serde of the user's may raise anything
            return repr(key)

    def keep_time(self, view: StoreOverlay, stream_time: int) -> None:
        """Write the stream time of a key group, if its operator keeps one there."""
        if self.by_event_time and stream_time > NO_TIMESTAMP:
            view.put(STREAM_TIME, stream_time.to_bytes(_TIME_BYTES, "big", signed=True))

    def _stored(self, row: OldRow) -> bytes:
        assert row.value is not None, "deletions have been applied"
        if not self.spec.traits.timed:
            return row.value
        stored = pack_timestamped(row.value, row.timestamp)
        return add_headers(stored, users_headers(row.headers)) if self.spec.with_headers else stored


class TimestampedBearer(Bearer):
    """Timestamped key-value stores."""

    what = "timestamped key-value"


class WindowBearer(Bearer):
    """Window stores: of tumbling, hopping and sliding windows, and of processors."""

    what = "window"
    by_event_time = True

    def record_key(self, key: bytes) -> bytes:
        """Return the record key in the key of an old row."""
        return split_window(key)[0]

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Write the windows of a key group."""
        windows = WindowRows(view, indexed=self.spec.indexed)
        keys, starts, stored = list[bytes](), list[int](), list[bytes | None]()
        for row in rows:
            key, start, _ = split_window(row.key)
            keys.append(key)
            starts.append(start)
            stored.append(self._stored(row))
        if keys:
            windows.put_many(keys, starts, stored)

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield the windows of the old rows."""
        for row in rows:
            key, start, _ = split_window(row.key)
            yield _placed(key, start, 0), self._stored(row)

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield the windows of a key group."""
        for stored, row in time_rows(view):
            start, key = split_window_key(stored)
            yield _placed(key, start, 0), row

    def shown(self, key: bytes) -> str:
        """Return key and start."""
        inner, start, _ = _unplaced(key)
        return f"{super().shown(inner)} at {start}"


class SessionBearer(Bearer):
    """Session stores."""

    what = "session"
    by_event_time = True

    def record_key(self, key: bytes) -> bytes:
        """Return the record key in the key of an old row."""
        return split_session(key)[0]

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Write the sessions of a key group."""
        sessions: dict[bytes, list[tuple[int, int, Any]]] = {}
        for row in rows:
            key, start, end = split_session(row.key)
            sessions.setdefault(key, []).append((start, end, self._stored(row)))
        SessionRows(view).save_many(sessions)

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield the sessions of the old rows."""
        for row in rows:
            key, start, end = split_session(row.key)
            yield _placed(key, start, end), _pack(self._stored(row))

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield the sessions of a key group."""
        for stored, packed in view.range(b"\x01", b"\x02"):
            for start, end, row in unpack_sessions(packed[_TIME_BYTES:]):
                yield _placed(stored[1:], start, end), _pack(row)

    def shown(self, key: bytes) -> str:
        """Return key, start and end."""
        inner, start, end = _unplaced(key)
        return f"{super().shown(inner)} from {start} to {end}"

    def _stored(self, row: OldRow) -> Any:
        assert row.value is not None, "deletions have been applied"
        if not self.spec.with_headers:
            return row.value
        return add_session_headers(row.value, users_headers(row.headers))


class VersionedBearer(Bearer):
    """Versioned stores, whose changelogs have every version, in the order in which it was put."""

    what = "versioned key-value"
    keeps_all = True

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Put the versions of a key group again, the oldest first, so that none comes too late."""
        came = sorted(self._put(rows), key=attrgetter("timestamp"))
        versions = self._versions(view)
        versions.put_many(
            [row.key for row in came], [row.value for row in came], [row.timestamp for row in came]
        )
        versions.expire()

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield the versions that are left of the old rows: a newer put replaces one of its time.

        A version older than the history was not put.
        """
        now, left = NO_TIMESTAMP, dict[bytes, dict[int, bytes | None]]()
        for row in self._put(rows):
            now = max(now, row.timestamp)
            left.setdefault(row.key, {})[row.timestamp] = row.value
        bound = now - self._history
        for key, versions in left.items():
            times = sorted(versions)
            for time, end in zip(times, [*times[1:], TIME_MAX], strict=True):
                value = versions[time]
                if end > bound and value is not None:
                    yield _placed(key, time, end), value

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield the versions of a key group."""
        versions = self._versions(view)
        bound = versions.bound
        for stored, _ in view.range(b"\x01", b"\x02"):
            for version in versions.versions(stored[1:]):
                end = TIME_MAX if version.valid_to is None else version.valid_to
                if end > bound:
                    yield _placed(stored[1:], version.timestamp, end), version.value

    def shown(self, key: bytes) -> str:
        """Return key and time."""
        inner, time, _ = _unplaced(key)
        return f"{super().shown(inner)} as of {time}"

    @property
    def _history(self) -> int:
        assert self.spec.history_retention_ms is not None, self.spec.name
        return self.spec.history_retention_ms

    def _put(self, rows: Iterable[OldRow]) -> Iterator[OldRow]:
        """Yield the rows that were not older than the history of their task when they came."""
        now: dict[int, int] = {}
        for row in rows:
            reached = now[row.partition] = max(now.get(row.partition, -1), row.timestamp)
            if row.timestamp >= reached - self._history:
                yield row

    def _versions(self, view: StoreOverlay) -> VersionedRows:
        return VersionedRows(
            view, history_retention_ms=self._history, segment_ms=self.spec.segment_ms
        )


class SuppressBearer(Bearer):
    """What a suppression holds back."""

    what = "suppression"
    by_event_time = True
    node: SuppressNode

    def value_bytes(self, row: OldRow) -> bytes | None:
        """Return the value that waits."""
        return None if row.value is None else suppressed(row.value, row.headers).new

    def time_of(self, row: OldRow) -> int:
        """Return the time of the update that waits."""
        return row.timestamp if row.value is None else suppressed(row.value, row.headers).timestamp

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Write the slots of a key group."""
        slots = [self._slot(row) for row in rows]
        if slots:
            keys, times, stored = zip(*slots, strict=True)
            SlotBuffer(view).put_many(keys, times, stored)

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield the slots of the old rows."""
        for row in rows:
            key, time, stored = self._slot(row)
            yield key, _pack([time, *_unpack(stored)])

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield the slots of a key group."""
        for slot in SlotBuffer(view).due():
            yield slot.key, _pack([slot.time, *_unpack(slot.value)])

    def _slot(self, row: OldRow) -> tuple[bytes, int, bytes]:
        assert row.value is not None, "deletions have been applied"
        held = suppressed(row.value, row.headers)
        due = held.due
        if self.node.until == "window_closes":
            window: Any = self.key_serde.deserialize(row.key)
            due = min(window.end + self.node.wait_ms, TIME_MAX)
        headers = list(users_headers(held.headers))
        return row.key, due, _pack([held.timestamp, held.new, held.prior, headers])


class JoinSideBearer(Bearer):
    """The records of one side of a join of two streams."""

    what = "window with duplicates, of a stream join"
    by_event_time = True

    def record_key(self, key: bytes) -> bytes:
        """Return the record key in the key of an old row."""
        return split_window(key)[0]

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Write the records of a key group, those of one key and time in their order."""
        assert self.spec.segment_ms is not None, self.spec.name
        came = [(*split_window(row.key), row.value or b"") for row in rows]
        came.sort(key=lambda one: one[1:3])
        if came:
            keys, times, _, values = zip(*came, strict=True)
            ListRows(view, segment_ms=self.spec.segment_ms).append(keys, times, values)

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield the lists of the old rows, by key and time."""
        lists: dict[tuple[bytes, int], list[tuple[int, bytes]]] = {}
        for row in rows:
            key, time, number = split_window(row.key)
            lists.setdefault((key, time), []).append((number, row.value or b""))
        for (key, time), values in lists.items():
            yield _placed(key, time, 0), _pack([value for _, value in sorted(values)])

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield the lists of a key group, by key and time."""
        lists: dict[tuple[bytes, int], list[bytes]] = {}
        for place, block in view.range():
            if is_by_time(place) or place.startswith(BLOCK):
                for key, time, value in zip(*unpack_block(block), strict=True):
                    lists.setdefault((key, time), []).append(value)
        for (key, time), values in lists.items():
            yield _placed(key, time, 0), _pack(values)

    def shown(self, key: bytes) -> str:
        """Return key and time."""
        inner, time, _ = _unplaced(key)
        return f"{super().shown(inner)} at {time}"


class UnmatchedBearer(Bearer):
    """The records of a left or outer join of streams that have no partner yet."""

    what = "records of a stream join without a partner"
    node: StreamJoinNode

    def record_key(self, key: bytes) -> bytes:
        """Return the record key in the key of an old row."""
        return split_unmatched(key).key

    def value_bytes(self, row: OldRow) -> bytes | None:
        """Return nothing: the values of two sides are in these rows, each with its own serde."""
        for value in () if row.value is None else unmatched_values(row.value):
            serde = (self.node.right, self.node.left)[split_unmatched(row.key).is_left].value_serde
            assert serde is not None, self.spec.name
            serde.deserialize(value)

    def fill(self, view: StoreOverlay, rows: Iterable[OldRow]) -> None:
        """Write the records of a key group, and the time of the first of them."""
        waiting = [(self._place(row), value) for row in rows for value in _values_of(row)]
        if waiting:
            waiting.sort(key=itemgetter(0))
            WaitingRows(view, width_ms=self.node.window.block_ms).save(None, waiting, ())
            first = min(place[0] - self._wait(place[1]) for place, _ in waiting)
            view.put(FIRST_KEY, first.to_bytes(_TIME_BYTES, "big", signed=True))

    def expected(self, rows: Iterable[OldRow]) -> Iterator[Seen]:
        """Yield the records of the old rows, by side, key and time."""
        for row in rows:
            close, rank, key = self._place(row)
            yield _placed(key, close - self._wait(rank), rank), _pack(_values_of(row))

    def found(self, view: StoreOverlay) -> Iterator[Seen]:
        """Yield the records of a key group, by side, key and time."""
        waiting: dict[tuple[bytes, int, int], list[bytes]] = {}
        rows = WaitingRows(view, width_ms=self.node.window.block_ms)
        for block in rows.read(TIME_MAX):
            start, stop = rows.span(block, TIME_MIN, TIME_MAX)
            for number, (close, rank, key) in enumerate(block.entries(start, stop), start):
                place = key, close - self._wait(rank), rank
                waiting.setdefault(place, []).append(block.value(number))
        return ((_placed(*place), _pack(values)) for place, values in waiting.items())

    def shown(self, key: bytes) -> str:
        """Return side, key and time."""
        inner, time, rank = _unplaced(key)
        return f"{('right', 'left')[rank]} {super().shown(inner)} at {time}"

    def _wait(self, rank: int) -> int:
        window = self.node.window
        return (window.before_ms, window.after_ms)[rank] + window.grace_ms

    def _place(self, row: OldRow) -> WaitingPlace:
        time, is_left, key = split_unmatched(row.key)
        return time + self._wait(is_left), int(is_left), key


_BEARERS: Final[dict[str, type[Bearer]]] = {
    "key_value": Bearer,
    "timestamped_key_value": TimestampedBearer,
    "window": WindowBearer,
    "session": SessionBearer,
    "versioned": VersionedBearer,
    "list": JoinSideBearer,
    "buffer": SuppressBearer,
}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why the rows of some stores cannot be taken over."""

    applies: Callable[[StoreSpec, Node], bool]
    why: str


_REFUSALS: Final = (
    _Refusal(
        lambda _spec, node: isinstance(node, ForeignKeyMatchNode),
        "a foreign-key join keeps left rows by foreign key here, and only their hashes there",
    ),
    _Refusal(
        lambda _spec, node: (
            isinstance(node, StreamJoinNode) and (node.spans is not None or node.single_store)
        ),
        "a join of a stream with itself, or with a window for each record, keeps other rows here",
    ),
    _Refusal(
        lambda spec, node: (
            spec.kind not in _BEARERS
            or (spec.kind == "buffer" and not isinstance(node, SuppressNode | StreamJoinNode))
        ),
        "Kafka Streams has no store of this kind",
    ),
    _Refusal(
        lambda _spec, node: getattr(node, "emit", None) == "close",
        "Kafka Streams does not keep which windows an emit on close has passed on",
    ),
    _Refusal(
        lambda spec, _node: spec.duplicates or spec.keeps_more,
        "the store has rows here that it does not have there (duplicates, max_entries or ttl)",
    ),
    _Refusal(lambda spec, _node: not spec.logged, "the store has no changelog here"),
    _Refusal(
        lambda spec, _node: spec.row_versions is not None,
        "the store has several versions of rows here",
    ),
)


def why_refused(spec: StoreSpec, node: Node) -> str:
    """Return why the rows of a store cannot be taken over; empty if they can."""
    return next((one.why for one in _REFUSALS if one.applies(spec, node)), "")


def bearer_of(spec: StoreSpec, node: Node) -> Bearer:
    """Return what carries the rows of a store that is not refused."""
    if spec.kind == "buffer" and isinstance(node, StreamJoinNode):
        return UnmatchedBearer(spec, node)
    return _BEARERS[spec.kind](spec, node)


def _values_of(row: OldRow) -> list[bytes]:
    assert row.value is not None, "deletions have been applied"
    return unmatched_values(row.value)


def _placed(key: bytes, first: int, second: int) -> bytes:
    return key + _PLACE.pack(first, second)


def _unplaced(key: bytes) -> tuple[bytes, int, int]:
    return key[: -_PLACE.size], *_PLACE.unpack(key[-_PLACE.size :])
