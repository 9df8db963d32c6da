"""The writes of one epoch, over a snapshot of the state before it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from mustela.state.index import KnownRows, Lines, index_table
from mustela.state.interfaces import Changes, Rows, Snapshot
from mustela.state.ordered import key_slice, merge_layers, prefix_slice

__all__ = ["Overlay", "StoreOverlay"]


_UNKNOWN = object()

_FEW = 16
"""So many new keys are put in their places one by one; more are sorted."""


class StoreOverlay:
    """One store during an epoch; what operators read and write.

    Values are bytes, so a user's object that changes later cannot change what was stored.

    Attributes:
        fresh_lines: If the store has indexes, the lines of each row that was written.
        name: The store's name.
        current: The current value of every key that was loaded or written; None for absent. After
            `load`, operators may read it directly; they must not change it.
    """

    __slots__ = (
        "_before",
        "_ordered",
        "_snapshot",
        "_unlogged",
        "_written",
        "current",
        "fresh_lines",
        "name",
    )

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        self.name = name
        self.current: dict[bytes, bytes | None] = {}
        self.fresh_lines: dict[bytes, Lines] = {}
        self._snapshot = snapshot
        self._before: dict[bytes, bytes | None] = {}
        self._written: dict[bytes, None] = {}  # in the order of their first writes
        self._unlogged: set[bytes] = set()
        self._ordered: list[bytes] = []

    def load(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Fetch the keys that are not held yet, with one call, and return `current`."""
        current = self.current
        # Sorted, because the store is read in that order anyway, and `changes` then finds it so.
        missing = sorted(set(keys).difference(current))
        if missing:
            found = dict(zip(missing, self._snapshot.getmulti(self.name, missing), strict=True))
            current.update(found)
            self._before.update(found)
        return current

    def get(self, key: bytes) -> bytes | None:
        """Return the current value of ``key``, or None."""
        try:
            return self.current[key]
        except KeyError:
            value = self._snapshot.get(self.name, key)
            self.current[key] = self._before[key] = value
            return value

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the current values of ``keys``, in the same order."""
        current = self.load(keys)
        return [current[key] for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self.current[key] = value
        self._written[key] = None
        if self._unlogged:
            self._unlogged.discard(key)

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Set the values of many keys; the last value of a repeated key wins."""
        fresh = dict(rows)
        self.current.update(fresh)
        self._written.update(dict.fromkeys(fresh))
        if self._unlogged:
            self._unlogged.difference_update(fresh)

    def delete(self, key: bytes) -> None:
        """Remove ``key``, if present."""
        self.put(key, None)

    def put_unlogged(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Set the values of many keys here but not in the changelog.

        Only for rows that are just another form of what the changelog has: a copy restored from it
        has that form, and readers understand both.
        """
        self.current.update(rows)
        self._written.update(dict.fromkeys(rows))
        self._unlogged.update(rows)

    def expire(self, keys: Iterable[bytes]) -> None:
        """Remove expired rows, here but not in the changelog.

        Only for rows whose bytes show readers that they have expired: a copy restored from the
        changelog has them again until it expires them itself.
        """
        self.put_unlogged(dict.fromkeys(keys))

    def before(self, key: bytes) -> bytes | None:
        """Return the value that ``key`` had before the epoch, or None."""
        try:
            return self._before[key]
        except KeyError:
            value = self._before[key] = self._snapshot.get(self.name, key)
            self.current.setdefault(key, value)
            return value

    def before_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values that ``keys`` had before the epoch, in the same order."""
        before = self._before
        missing = sorted(set(keys).difference(before))
        if missing:
            found = dict(zip(missing, self._snapshot.getmulti(self.name, missing), strict=True))
            before.update(found)
            for key, value in found.items():
                self.current.setdefault(key, value)
        return [before[key] for key in keys]

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high as of now; later writes are not visible."""
        keys = self._in_order()
        start, stop = key_slice(keys, low, high)
        below = self._snapshot.range(self.name, low, high, reverse=reverse)
        return self._merge(below, keys[start:stop], reverse=reverse)

    def first(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that `range` would yield; fast even after many writes."""
        keys, current = self._in_order(), self.current
        start, stop = key_slice(keys, low, high)
        step = range(stop - 1, start - 1, -1) if reverse else range(start, stop)
        above = next(((keys[i], row) for i in step if (row := current[keys[i]]) is not None), None)
        written = self._written
        for below in self._snapshot.range(self.name, low, high, reverse=reverse):
            if above is not None and (below[0] >= above[0]) is not reverse:
                return above
            if below[0] not in written:
                return below
        return above

    def _in_order(self) -> list[bytes]:
        ordered, fresh = self._ordered, len(self._written) - len(self._ordered)
        if fresh:  # keys are only ever added
            new = islice(reversed(self._written), fresh)
            if fresh <= _FEW:  # between writes and reads of one record
                for key in new:
                    insort(ordered, key)
            else:
                ordered.extend(new)
                ordered.sort()
        return ordered

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, as of now."""
        keys = self._in_order()
        start, stop = prefix_slice(keys, prefix)
        below = self._snapshot.prefix(self.name, prefix, reverse=reverse)
        return self._merge(below, keys[start:stop], reverse=reverse)

    def _merge(
        self, below: Iterator[tuple[bytes, bytes]], keys: list[bytes], *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        if not keys:
            return below
        if reverse:
            keys.reverse()
        current = self.current
        return merge_layers(below, [(key, current[key]) for key in keys], reverse=reverse)

    def lines(
        self, low: bytes, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the lines of the store's indexes as they were before the epoch."""
        return self._snapshot.range(index_table(self.name), low, high, reverse=reverse)

    def count(self) -> int:
        """Return the current number of keys."""
        written = list(self._written)
        had = sum(value is not None for value in self.before_many(written))
        has = sum(self.current[key] is not None for key in written)
        return self._snapshot.count(self.name) - had + has

    @property
    def known(self) -> KnownRows:
        """What is known of the rows that were written, for the environment that writes lines."""
        return KnownRows(self._before, self.fresh_lines)

    @property
    def written(self) -> int:
        """How many keys were written."""
        return len(self._written)

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """Return the written rows by key, without those known to be unchanged in this epoch."""
        current, before, unknown = self.current, self._before, _UNKNOWN
        return [
            (key, row)
            for key in self._in_order()
            if before.get(key, unknown) != (row := current[key])
        ]

    def logged(self, rows: Rows) -> Rows:
        """Return the rows of `changes` for the changelog: all except the unlogged ones."""
        silent = self._unlogged
        return [row for row in rows if row[0] not in silent] if silent else rows


class Overlay:
    """All stores of an environment during one epoch.

    Nothing reaches the environment until `changes` are passed to it; to abort, just drop the
    overlay.

    Args:
        snapshot: The state before the epoch; it stays open while the overlay is used.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
        >>> from mustela.state.memory import MemoryEnvironment
        >>> spec = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                        stores=(StoreSpec(name="counts"),))
        >>> environment = MemoryEnvironment(spec)
        >>> overlay = Overlay(environment.snapshot(Committed()))
        >>> counts = overlay.store("counts")
        >>> counts.put(b"apple", b"1")
        >>> counts.before(b"apple"), counts.get(b"apple")
        (None, b'1')
        >>> overlay.changes()
        {'counts': [(b'apple', b'1')]}
        >>> environment.write_pending(Token(1, 1, 0), Committed(), overlay.changes())
    """

    __slots__ = ("_snapshot", "_stores")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stores: dict[str, StoreOverlay] = {}

    def store(self, name: str) -> StoreOverlay:
        """Return the view of one store, the same object every time."""
        found = self._stores.get(name)
        if found is None:
            found = self._stores[name] = StoreOverlay(name, self._snapshot)
        return found

    def load(self, store: str, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Fetch what is not held yet, with one call; see `StoreOverlay.load`."""
        return self.store(store).load(keys)

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return the current value of ``key``, or None."""
        return self.store(store).get(key)

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the current values of ``keys``, in the same order."""
        return self.store(store).getmulti(keys)

    def put(self, store: str, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; None deletes."""
        self.store(store).put(key, value)

    def put_many(self, store: str, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set the values of many keys."""
        self.store(store).put_many(rows)

    def delete(self, store: str, key: bytes) -> None:
        """Remove ``key``, if present."""
        self.store(store).delete(key)

    def before(self, store: str, key: bytes) -> bytes | None:
        """Return the value that ``key`` had before the epoch, or None."""
        return self.store(store).before(key)

    def range(
        self, store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high as it is now."""
        return self.store(store).range(low, high, reverse=reverse)

    def prefix(
        self, store: str, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, as of now."""
        return self.store(store).prefix(prefix, reverse=reverse)

    def changes(self) -> dict[str, list[tuple[bytes, bytes | None]]]:
        """Return the rows to be stored and logged, by store; stores without any are left out."""
        found = {name: store.changes() for name, store in self._stores.items()}
        return {name: rows for name, rows in sorted(found.items()) if rows}

    def known(self) -> dict[str, KnownRows]:
        """Return what is known of changed rows, by store; for stores with indexes."""
        return {name: store.known for name, store in self._stores.items() if store.fresh_lines}

    def logged(self, changes: Changes) -> dict[str, Rows]:
        """Return the rows of `changes` that the changelogs hear of."""
        found: dict[str, Rows] = {}
        for name, rows in changes.items():
            heard = self._stores[name].logged(rows)
            if heard:
                found[name] = heard
        return found

    def close(self) -> None:
        """Close the snapshot below."""
        self._snapshot.close()
