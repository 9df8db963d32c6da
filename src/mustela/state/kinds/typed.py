"""What all user-visible stores share: serdes, changing a value, how far back one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Generic, TypeVar

from mustela.model import HeadersLike
from mustela.serdes.base import SerdeError
from mustela.serdes.values import ValueSerde
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import STREAM_TIME, TIME_MAX, TIME_MIN, RowView
from mustela.state.kinds.timed import NO_TIMESTAMP
from mustela.state.kinds.views import GroupedView
from mustela.state.stored_value import unreadable

__all__ = ["AnyStore", "Moment", "TypedStore", "to_ms"]

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")

Moment = int | datetime
"""Milliseconds since 1970, or an aware datetime."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_LENGTH: Final = 8


def to_ms(moment: Moment | None, default: int) -> int:
    """Return a moment in milliseconds.

    Raises:
        StoreError: If it is a datetime without a time zone.

    Example:
        >>> to_ms(datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 0), to_ms(None, 7)
        (60000, 7)
    """
    if moment is None:
        return default
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            msg = f"{moment!r} has no time zone"
            raise StoreError(msg, fix="pass datetime(..., tzinfo=UTC), or milliseconds")
        since = moment - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return moment


class TypedStore(Generic[K, V, S]):
    """The base of user-visible stores, with the serdes of keys and values.

    A kind adds its methods to read and ``put``; K are its keys, V its values, and S is what a
    reader gets.

    Args:
        groups: The rows, by key group.
        spec: Name, kind, serdes and times of the store.

    Raises:
        StoreError: If the store is of another kind.
    """

    kind: ClassVar[str] = ""
    """The kind of store of a subclass; empty if it checks the kind itself."""

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        if self.kind not in ("", spec.kind):
            msg = f"store {spec.name!r} is a {spec.kind} store, not a {self.kind} store"
            raise StoreError(
                msg,
                fix=f"take the handle for {spec.kind} stores",
                fields={"store": spec.name, "kind": spec.kind},
            )
        self.spec = spec
        self._groups = groups
        # Serdes; only None decodes to None, so that no type check is needed for what is read.
        self._key: Any = spec.key_serde or ValueSerde(sort_keys=True)
        self._value: Any = spec.rows_of(spec.read_serde)

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name

    def all(self) -> Iterator[tuple[Any, S]]:
        """Iterate over everything."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.all())

    def __len__(self) -> int:
        return sum(1 for _ in self.all())

    def __bool__(self) -> bool:
        return True

    # The methods that change a value, over what a kind defines for its rows: where a row is, what
    # is in it, and how it is written. A place identifies a row: a key's bytes, with up to two
    # times.

    def _row_at(self, place: Any) -> Any:
        """Return the row at a place, or None."""
        raise NotImplementedError

    def _value_in(self, row: Any) -> V:
        """Return the value in a row."""
        raise NotImplementedError

    def _shown(self, row: Any) -> S:
        """Return what a reader gets for a row."""
        raise NotImplementedError

    def _set_at(self, place: Any, value: V | None, timestamp: int, headers: HeadersLike) -> Any:
        """Write the value at a place; None deletes."""
        raise NotImplementedError

    def _put_if_absent(
        self,
        place: Any,
        value: V | None,
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> S | None:
        row = self._row_at(place)
        if row is not None:
            return self._shown(row)
        self._set_at(place, value, timestamp, headers)
        return None

    def _compute(
        self,
        place: Any,
        fn: Callable[[V | None], V | None],
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        row = self._row_at(place)
        new = fn(None if row is None else self._value_in(row))
        self._set_at(place, new, timestamp, headers)
        return new

    def _merge(
        self,
        place: Any,
        value: V,
        fn: Callable[[V, V], V | None],
        timestamp: int = NO_TIMESTAMP,
        headers: HeadersLike = (),
    ) -> V | None:
        row = self._row_at(place)
        new = value if row is None else fn(self._value_in(row), value)
        self._set_at(place, new, timestamp, headers)
        return new

    def _key_bytes(self, key: object) -> bytes:
        data = self._key.serialize(key)
        if data is None:
            msg = f"store {self.name!r} was given None as a key"
            raise StoreError(msg, fix="check the key before", fields={"store": self.name})
        return data

    def _key_bounds(self, low: K | None, high: K | None) -> tuple[bytes | None, bytes | None]:
        return (
            None if low is None else self._key_bytes(low),
            None if high is None else self._key_bytes(high),
        )

    def _key_of(self, data: bytes) -> K:
        return self._key.deserialize(data)

    def _value_of(self, data: bytes) -> V:
        try:
            return self._value.deserialize(data)
        except SerdeError as error:
            raise unreadable(self.spec, self._value, error) from error

    def _live_from(self, view: RowView) -> int:
        """Return the oldest time that a key group still shows."""
        stored = view.get(STREAM_TIME) if self.spec.retention_ms is not None else None
        if stored is None or self.spec.retention_ms is None:
            return TIME_MIN
        return int.from_bytes(stored, "big", signed=True) - self.spec.retention_ms + 1

    def _observe(self, view: RowView, time: int) -> tuple[int, bool]:
        """Advance a key group's stream time; return its oldest visible time, and if it advanced."""
        stored = view.get(STREAM_TIME)
        before = -1 if stored is None else int.from_bytes(stored, "big", signed=True)
        if time > before:
            view.put(STREAM_TIME, time.to_bytes(_TIME_LENGTH, "big", signed=True))
        kept = self.spec.retention_ms
        floor = TIME_MIN if kept is None else max(time, before) - kept + 1
        return floor, time > before

    @staticmethod
    def _times(from_: Moment | None, to: Moment | None) -> tuple[int, int]:
        return to_ms(from_, TIME_MIN), to_ms(to, TIME_MAX)


AnyStore = TypedStore[Any, Any, Any]
"""A store of any kind."""
