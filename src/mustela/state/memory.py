"""An environment in memory, with the same protocol of pendings, for the test driver."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mustela.state.faults import StateNotReadyError, StoreError, gone
from mustela.state.index import NOTHING_KNOWN, KnownRows
from mustela.state.interfaces import Changes, Committed, Condition, EnvironmentSpec, Token
from mustela.state.kinds.indexing import tables_of, with_lines
from mustela.state.ordered import OrderedLayer, key_slice, merge_layers, prefix_end
from mustela.state.protocol import (
    Standing,
    check_fence,
    check_rest,
    check_token,
    compare,
    not_ready,
)

__all__ = ["MemoryEnvironment", "MemorySnapshot"]

_Table = dict[bytes, bytes | None]


class _Sorted:
    """A dict with its keys in order; sorted on first use."""

    __slots__ = ("_order", "rows")

    def __init__(self, rows: dict[bytes, bytes] | None = None) -> None:
        self.rows: dict[bytes, bytes] = {} if rows is None else rows
        self._order: list[bytes] | None = None

    def copy(self) -> _Sorted:
        return _Sorted(dict(self.rows))

    def order(self) -> list[bytes]:
        if self._order is None:
            self._order = sorted(self.rows)
        return self._order

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in changes:
            if value is None:
                self._remove(key)
            else:
                if self._order is not None and key not in self.rows:
                    insort(self._order, key)
                self.rows[key] = value

    def _remove(self, key: bytes) -> None:
        if self.rows.pop(key, None) is not None and self._order is not None:
            del self._order[bisect_left(self._order, key)]


class MemorySnapshot:
    """A view of the base, overlaid by one pending."""

    def __init__(
        self, owner: MemoryEnvironment, base: dict[str, _Sorted], layer: dict[str, _Table]
    ) -> None:
        self._owner: MemoryEnvironment | None = owner
        self._base = base
        self._layer = layer
        self._ordered = OrderedLayer(layer)

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        layer = self._layer.get(store)
        if layer is not None and key in layer:
            return layer[key]
        return self._table(store).rows.get(key)

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order."""
        base = self._table(store).rows
        layer = self._layer.get(store)
        if not layer:
            return [base.get(key) for key in keys]
        return [layer[key] if key in layer else base.get(key) for key in keys]

    def range(
        self, store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order."""
        table = self._table(store)
        order = table.order()
        start, stop = key_slice(order, low, high)
        keys = order[start:stop]
        above = self._ordered.rows(store, low, high)
        if reverse:
            keys.reverse()
            above.reverse()
        rows = table.rows
        return merge_layers(((key, rows[key]) for key in keys), above, reverse=reverse)

    def prefix(
        self, store: str, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, in key order."""
        rows = self.range(store, prefix, prefix_end(prefix), reverse=reverse)
        return (row for row in rows if row[0].startswith(prefix))

    def count(self, store: str) -> int:
        """Return the number of keys."""
        base = self._table(store).rows
        layer = self._layer.get(store, {})
        return len(base) + sum((value is not None) - (key in base) for key, value in layer.items())

    def close(self) -> None:
        """End the view."""
        if self._owner is not None:
            self._owner.forget(self)
            self._owner = None

    def _table(self, store: str) -> _Sorted:
        if self._owner is None:
            msg = "this snapshot is closed"
            raise StateNotReadyError(msg)
        try:
            return self._base[store]
        except KeyError:
            raise unknown_store(store, self._owner.spec) from None


def unknown_store(store: str, spec: EnvironmentSpec) -> StoreError:
    """Return the error for a store that an environment does not have."""
    names = ", ".join(known.name for known in spec.stores) or "none"
    msg = f"stage {spec.stage} has no store {store!r}"
    return StoreError(msg, evidence={"stores": names}, fields={"store": store})


class MemoryEnvironment:
    """An environment in dicts, which survive simulated crashes.

    Example:
        >>> from mustela.state.interfaces import StoreSpec
        >>> spec = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                        stores=(StoreSpec(name="counts"),))
        >>> environment = MemoryEnvironment(spec)
        >>> token = Token(1, 1, 0)
        >>> environment.write_pending(token, Committed(), {"counts": [(b"apple", b"1")]})
        >>> environment.snapshot(Committed()).get("counts", b"apple") is None
        True
        >>> environment.snapshot(Committed(token=token)).get("counts", b"apple")
        b'1'
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        self._spec = spec
        self._views: list[MemorySnapshot] = []
        self._clear()

    def _clear(self) -> None:
        self._standing = Standing()
        self._base = {table: _Sorted() for table in tables_of(self._spec.stores)}
        self._shared = False
        self._pendings: dict[Token, dict[str, _Table]] = {}

    @property
    def spec(self) -> EnvironmentSpec:
        """What this environment holds."""
        return self._spec

    def condition(self, committed: Committed) -> Condition:
        """Compare this state with the committed one."""
        has_pending = committed.token in self._pendings
        return compare(self._standing, committed, has_pending=has_pending, spec=self._spec)

    def positions(self) -> dict[str, int]:
        """Return, per logged store, the changelog offset up to which the base is complete."""
        return dict(self._standing.positions)

    def snapshot(self, committed: Committed) -> MemorySnapshot:
        """Open a view of the committed state."""
        condition = self.condition(committed)
        if not condition.ready:
            raise not_ready(condition, committed, self._where)
        layer: dict[str, _Table] = {}
        if condition is Condition.FOLDABLE and committed.token is not None:
            layer = self._pendings[committed.token]
        view = MemorySnapshot(self, self._base, layer)
        self._views.append(view)
        self._shared = True
        return view

    def forget(self, view: MemorySnapshot) -> None:
        """Remove a closed view from the list."""
        self._views.remove(view)
        self._shared = bool(self._views)

    def write_pending(
        self,
        token: Token,
        committed: Committed,
        changes: Changes,
        known: Mapping[str, KnownRows] = NOTHING_KNOWN,
    ) -> None:
        """Store an epoch's changes under its token; see `Environment.write_pending`."""
        check_fence(self._standing, token.incarnation, self._where)
        check_token(token, committed)
        for store in changes:
            if store not in self._base:
                raise unknown_store(store, self._spec)
        self.fold(committed)
        self._standing.incarnation = token.incarnation
        changes = with_lines(self._spec.stores, changes, self._rows, known)
        self._pendings = {token: {store: dict(rows) for store, rows in changes.items()}}

    def fold(self, committed: Committed) -> None:
        """Fold the committed pending into the base, and drop the other pendings."""
        condition = self.condition(committed)
        if condition.catches_up or condition is Condition.STALE:
            raise gone(self._where)  # it existed when the fold was decided
        if not condition.ready:
            raise not_ready(condition, committed, self._where)
        if condition is Condition.FOLDABLE and committed.token is not None:
            self._own_base()
            for store, rows in self._pendings[committed.token].items():
                self._base[store].apply(rows.items())
            self._standing.move_to(committed)
        self._pendings = {}

    def restore(  # noqa: PLR0913 - rows, where they belong, and who writes them
        self,
        store: str,
        rows: Iterable[tuple[bytes, bytes | None]],
        end_offset: int,
        *,
        start: int = 0,
        goes_on: bool = False,
        anew: bool = False,
        incarnation: int | None = None,
        time_ms: int = 0,
    ) -> None:
        """Apply changelog rows in log order; see `Environment.restore`."""
        if store not in self._base:
            raise unknown_store(store, self._spec)
        check_rest(self._standing, store, start, self._where, goes_on=goes_on)
        if incarnation is not None:
            check_fence(self._standing, incarnation, self._where)
            self._standing.incarnation = incarnation
        self._standing.begin_restore(time_ms)
        self._pendings = {}
        self._own_base()
        if anew:
            for table in tables_of(one for one in self._spec.stores if one.name == store):
                self._base[table] = _Sorted()
            self._standing.positions.pop(store, None)
        changes = with_lines(self._spec.stores, {store: list(dict(rows).items())}, self._rows)
        for table, changed in changes.items():
            self._base[table].apply(changed)
        self._standing.positions[store] = end_offset

    def finish_restore(self, committed: Committed) -> None:
        """Declare the base to be the committed state."""
        self._standing.finish_restore(committed, self._spec, self._where)

    def compact(self, *, live_bytes_max: int | None = None, closing: bool = False) -> bool:  # noqa: ARG002 - as agreed
        """Do nothing: a dict holds no free pages."""
        return False

    def close(self, *, clean: bool) -> None:
        """End all views; the state stays, as it does on a disk."""
        del clean
        for view in list(self._views):
            view.close()

    def destroy(self) -> None:
        """Delete all state."""
        self.close(clean=False)
        self._clear()

    def _rows(self, store: str, keys: list[bytes]) -> list[bytes | None]:
        return [self._base[store].rows.get(key) for key in keys]

    def _own_base(self) -> None:
        """Leave the current base to the open views, and continue with a copy."""
        if self._shared:
            self._base = {name: table.copy() for name, table in self._base.items()}
            self._shared = False

    @property
    def _where(self) -> str:
        return f"memory:{self._spec.application_id}/{self._spec.stage}/{self._spec.group}"
