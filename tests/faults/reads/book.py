"""What each committed epoch left in each store, by the changelogs and the epoch records alone.

Rows are read as committed, cut where an epoch's record says that each changelog ended, and decoded
here, from what the layouts of the kinds are: nothing of the library that reads stores has a part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import unpack_from
from typing import Any

import msgspec

from mustela import App
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.feed import read_all
from tests.faults.reads.program import KEY_GROUPS, PARTITIONS, WINDOW_MS, Program, Shape
from tests.faults.watch import Row

__all__ = ["Book", "Contents", "Place", "book_of"]

Place = tuple[str, int | None, int | None]
"""A record's key, and the start and end of its window or session."""
Contents = Mapping[Place, Any]
"""The values of a store."""

_TIME = 8
_SIGN = 1 << 63
_ORDERED_FROM = 0x40
_KEY_ROW = 1


class Book:
    """The contents of all stores as of each epoch.

    Args:
        records: The records of the epochs, in order; a claim repeats that of an epoch.
        logs: By store, the committed rows of its changelog, or of the topic that a global table
            copies, by partition.
        shapes: What the stores are.
        copied: By store, the topic that a global table copies.
    """

    def __init__(
        self,
        records: Iterable[EpochRecord],
        logs: Mapping[str, Mapping[int, Sequence[Row]]],
        shapes: Mapping[str, Shape],
        copied: Mapping[str, str] | None = None,
    ) -> None:
        self._epochs: dict[int, dict[str, Contents]] = {}
        taken = {(store, number): 0 for store, parts in logs.items() for number in parts}
        rows: dict[str, dict[bytes, bytes]] = {store: {} for store in logs}
        now: dict[str, Contents] = {store: {} for store in logs}
        for record in records:
            for store, ends in _ends(record, copied or {}):
                changed = False
                for number, end in enumerate(ends):
                    log, at = logs.get(store, {}).get(number, ()), taken.get((store, number), 0)
                    while at < len(log) and log[at].offset < end:
                        _apply(rows[store], log[at])
                        at, changed = at + 1, True
                    taken[store, number] = at
                if changed:
                    now[store] = _decoded(rows[store], shapes[store])
            self._epochs[record.epoch] = dict(now)
        self._epochs.setdefault(0, {})

    def __contains__(self, epoch: int) -> bool:
        return epoch in self._epochs

    def __len__(self) -> int:
        return len(self._epochs)

    def at(self, epoch: int, store: str) -> Contents:
        """Return what an epoch left in a store."""
        return self._epochs[epoch].get(store, {})

    def since(self, epoch: int) -> list[int]:
        """Return an epoch and all later ones."""
        return sorted(number for number in self._epochs if number >= epoch)


def book_of(servers: str, name: str, program: Program, records: Iterable[EpochRecord]) -> Book:
    """Read what an application has committed.

    Args:
        servers: The broker.
        name: The application.
        program: The newest release that it had, with all stores.
        records: The records of its epochs, in order.
    """
    app = App(name, bootstrap_servers=servers, key_groups=KEY_GROUPS)
    app.topology(lambda builder: program.build(builder, name))
    names = app.built_plan().log_names
    copied = {
        store: f"{name}.{shape.topic}"
        for store, shape in program.shapes.items()
        if shape.layout == "global"
    }
    logs = {
        store: read_all(servers, copied[store], PARTITIONS)
        if store in copied
        else read_all(servers, f"{name}-{names[store]}-changelog", KEY_GROUPS)
        for store in program.shapes
    }
    return Book(records, logs, program.shapes, copied)


def _ends(record: EpochRecord, copied: Mapping[str, str]) -> Iterable[tuple[str, Sequence[int]]]:
    """Yield where what a store is made of ended for an epoch."""
    yield from record.changelog_ends.items()
    for store, topic in copied.items():
        if topic in record.global_ends:
            yield store, record.global_ends[topic][1]


def _apply(rows: dict[bytes, bytes], row: Row) -> None:
    assert row.key is not None
    if row.value is None:
        rows.pop(row.key, None)
    else:
        rows[row.key] = row.value


def _decoded(rows: Mapping[bytes, bytes], shape: Shape) -> Contents:
    found: dict[Place, Any] = {}
    for key, row in sorted(rows.items()):
        for place, value in _LAYOUTS[shape.layout](key, row):
            found[place] = _VALUES[shape.value](value)
    return found


Decoded = Iterable[tuple[Place, bytes]]


def _keyed(key: bytes, row: bytes) -> Decoded:
    yield (key.decode(), None, None), row[_TIME:]


def _expiring(key: bytes, row: bytes) -> Decoded:
    """A row of a key, after the two times of its age; others are an index and the stream time."""
    if key[0] == _KEY_ROW:
        yield (key[1:].decode(), None, None), row[3 * _TIME :]


def _global(key: bytes, row: bytes) -> Decoded:
    yield (key.decode(), None, None), row


def _window(key: bytes, row: bytes) -> Decoded:
    if key[0] >= _ORDERED_FROM:
        start = unpack_from(">Q", key)[0] - _SIGN
        yield (key[_TIME:].decode(), start, start + WINDOW_MS), row[_TIME:]


def _session(key: bytes, row: bytes) -> Decoded:
    if key[0] == _KEY_ROW:
        for start, end, value in msgspec.msgpack.decode(row[_TIME:]):
            yield (key[1:].decode(), start, end), value


def _versioned(key: bytes, row: bytes) -> Decoded:
    if key[0] == _KEY_ROW and row[_TIME] == 1:
        yield (key[1:].decode(), None, None), row[_TIME + 1 :]


def _lines(key: bytes, row: bytes) -> Decoded:
    """A row of one place of a key; all rows of a key have places of their own."""
    if key[0] == _KEY_ROW:
        length = int.from_bytes(key[1:3], "big")
        name, place = key[3 : 3 + length].decode(), key[3 + length :]
        yield (name, int.from_bytes(place, "big"), None), row


_LAYOUTS: dict[str, Callable[[bytes, bytes], Decoded]] = {
    "keyed": _keyed,
    "expiring": _expiring,
    "global": _global,
    "window": _window,
    "session": _session,
    "versioned": _versioned,
    "lines": _lines,
}
_VALUES: dict[str, Callable[[bytes], Any]] = {
    "int": lambda value: int.from_bytes(value, "big", signed=True),
    "str": bytes.decode,
    "json": json.loads,
}
