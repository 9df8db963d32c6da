"""What the typed stores share: serdes, moments in time, and how far back a store is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar, cast

from mustela.serdes.base import Serde, SerdeError
from mustela.serdes.values import ValueSerde
from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreKind, StoreSpec
from mustela.state.kinds.layout import STREAM_TIME, TIME_MAX, TIME_MIN, RowView
from mustela.state.kinds.views import GroupedView
from mustela.state.stored_value import unreadable

__all__ = ["Moment", "TypedRows", "merging", "to_ms"]

K = TypeVar("K")
V = TypeVar("V")

Moment = int | datetime
"""Milliseconds since 1970, or an aware datetime."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_LENGTH: Final = 8


def merging(value: V, fn: Callable[[V, V], V | None]) -> Callable[[V | None], V | None]:
    """Return what sets ``value`` where there is none, else ``fn(old, value)``.

    Example:
        >>> more = merging(2, max)
        >>> more(None), more(5)
        (2, 5)
    """
    return lambda old: value if old is None else fn(old, value)


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


class TypedRows(Generic[K, V]):
    """A store of one kind over key groups, with the serdes of its keys and values.

    Args:
        groups: Where the rows are.
        spec: Name, kind, serdes and times of the store.

    Raises:
        StoreError: If the store is of another kind.
    """

    kind: StoreKind
    """The kind of store that a subclass shows."""

    def __init__(self, groups: GroupedView, spec: StoreSpec) -> None:
        if spec.kind != self.kind:
            msg = f"store {spec.name!r} is a {spec.kind} store, not a {self.kind} store"
            raise StoreError(
                msg,
                fix=f"take the handle for {spec.kind} stores",
                fields={"store": spec.name, "kind": spec.kind},
            )
        self.spec = spec
        self._groups = groups
        self._key: Serde[Any] = spec.key_serde or ValueSerde(sort_keys=True)
        self._value: Serde[Any] = spec.rows_of(spec.read_serde)

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name

    def __bool__(self) -> bool:
        return True

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
        return cast("K", self._key.deserialize(data))

    def _value_of(self, data: bytes) -> V:
        try:
            return cast("V", self._value.deserialize(data))
        except SerdeError as error:
            raise unreadable(self.spec, self._value, error) from error

    def _live_from(self, view: RowView) -> int:
        """Return the oldest time that a key group still shows."""
        stored = view.get(STREAM_TIME) if self.spec.retention_ms is not None else None
        if stored is None or self.spec.retention_ms is None:
            return TIME_MIN
        return int.from_bytes(stored, "big", signed=True) - self.spec.retention_ms + 1

    def _observe(self, view: RowView, time: int) -> tuple[int, bool]:
        """Move a key group's stream time; return its oldest time to show, and whether it moved."""
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
