"""Sources whose records come from a schedule, not from a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import msgspec

from mustela.api.scheduled import Tick
from mustela.errors import InvariantError
from mustela.kernel.core.each import materialize
from mustela.kernel.core.failures import Failures, ProcessingError
from mustela.kernel.core.operator import Operator
from mustela.model import Headers, Record
from mustela.plan.batch import Batch, Order, Origins
from mustela.plan.keygroups import schedule_group
from mustela.serdes.base import Serde
from mustela.topology.scheduled import ScheduledSourceNode

__all__ = ["ScheduledSourceOperator"]


class _Progress(msgspec.Struct, frozen=True, array_like=True):
    """The stored state of a schedule.

    Attributes:
        handled: The time up to which ticks are handled; initially the start of the schedule.
        number: How many ticks have been handled.
    """

    handled: int
    number: int


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Progress).decode


class _Rows:
    """The rows so far, with the tick of each."""

    def __init__(self, group: int) -> None:
        self._group = group
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] = []
        self.order: list[Order] = []

    def add(self, tick: Tick, rows: Iterable[tuple[Any, Any, int, Headers]]) -> None:
        """Append the rows of a tick, all of them valid."""
        for key, value, timestamp, headers in rows:
            self.keys.append(key)
            self.values.append(value)
            self.timestamps.append(timestamp)
            self.headers.append(headers)
            self.order.append((tick.timestamp, -1, -1, -1, self._group, len(self.order)))

    def batch(self, topics: Sequence[str]) -> Batch:
        """Return them as a batch."""
        headers = self.headers if any(self.headers) else None
        return Batch(self.keys, self.values, Origins(self.timestamps, headers, self.order, topics))


class ScheduledSourceOperator(Operator[ScheduledSourceNode]):
    """Emits, for each due tick, the records that the function makes of it.

    The last tick that was handled is kept in the key group of the source's name. It is written in
    the epoch that emits the tick's records, so that both are committed or neither is.
    """

    def open(self) -> None:
        """Find out whether the schedule is in this lane, and how far it has got."""
        state = self.context.state
        if state is None:
            msg = f"step {self.step.name!r} keeps state, but its stage has none"
            raise InvariantError(msg)
        self._group = schedule_group(self.node.name, self.options.key_groups)
        self._place = self.node.name.encode()
        self._is_here = self._group in state.groups
        self._store = state.store(self.node.progress.name)
        self._handled: int | None = None
        self._bad_ticks = Failures(
            self.node,
            self.processing_handler,
            ProcessingError,
            self.context.output,
            self.node.function,
            f"the tick of a schedule ({self.node.schedule.told})",
        )

    def finish(self) -> Batch | None:
        """Handle the ticks that are due."""
        if not self._is_here:
            return None
        now = self.context.time.now_ms
        stored = self._store.get(self._place)
        before = _Progress(now, 0) if stored is None else _DECODE(stored)
        due, handled = self.node.catch_up.choose(self.node.schedule, before.handled, now)
        if self.node.name in self.context.time.triggered:
            due = [*due, now]
        rows, number = _Rows(self._group), before.number
        for timestamp in due:
            number += 1
            self._handle(timestamp, number, rows)
        after = _Progress(handled, number)
        if stored is None or after != before:
            self._store.put_many([self._place], [_ENCODE(after)])
        self._handled = handled
        if due:
            self.count("ticks", len(due))
        return rows.batch(()) if rows.keys else None

    def due_processing_times(self) -> dict[int, int]:
        """Return when the next tick is due."""
        if self._handled is None:
            return {}
        following = self.node.schedule.after(self._handled)
        return {} if following is None else {self._group: following}

    def key_serde_out(self) -> Serde[Any] | None:
        """Return None: the rows have no key bytes."""
        return None

    def _handle(self, timestamp: int, number: int, rows: _Rows) -> None:
        node = self.node
        tick = Tick(
            name=node.name,
            timestamp=timestamp,
            number=number,
            zone=node.schedule.zone,
            stores={name: lambda name=name: self._open(name) for name in node.reads},
        )
        try:
            made = node.function(tick)
            sound = [] if made is None else [_row(tick, item) for item in materialize(made)]
        except Exception as error:  # noqa: BLE001 - the function is the user's
            order: list[Order] = [(timestamp, -1, -1, -1)]
            failed = Batch([node.name], [None], Origins([timestamp], None, order))
            self._bad_ticks.one(failed.with_key_bytes([self._place]), 0, error)
        else:
            rows.add(tick, sound)

    def _open(self, name: str) -> Any:
        reader = self.context.any_key
        if reader is None:
            msg = f"step {self.step.name!r} reads store {name!r}, and the engine opened none"
            raise InvariantError(msg)
        return reader.open(name)


def _row(tick: Tick, item: Any) -> tuple[Any, Any, int, Headers]:
    """Return a row from one result of the function.

    Raises:
        TypeError: If it is neither a pair nor a record.
    """
    if isinstance(item, Record):
        record = cast("Record[Any, Any]", item)
        return record.key, record.value, record.timestamp, record.headers
    if not isinstance(item, tuple) or len(cast("tuple[Any, ...]", item)) != 2:
        msg = f"the function returned {item!r:.60}, neither a pair (key, value) nor a Record"
        raise TypeError(msg)
    key, value = cast("tuple[Any, Any]", item)
    return key, value, tick.timestamp, ()
