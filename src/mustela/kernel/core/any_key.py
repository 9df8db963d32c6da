"""Reading any key of any store, in whichever lane, as of the end of the previous epoch.

What a task reads does not depend on the progress of other tasks: nothing of the running epoch is
visible, not even the reading lane's own writes. So rerunning an epoch reads the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from mustela.errors import InvariantError
from mustela.plan.keygroups import key_group, key_groups_of
from mustela.state.interfaces import Snapshot, StoreSpec
from mustela.state.kinds.layout import RowView, SnapshotView, read_only
from mustela.state.kinds.opening import open_store
from mustela.state.kinds.typed import AnyStore
from mustela.state.kinds.views import ranged
from mustela.state.ordered import prefix_end

__all__ = ["AnyKeyReader", "AnyKeyRows", "OpenGroup"]


class OpenGroup(Protocol):
    """How an engine opens the state of one key group of one stage, as of the previous epoch."""

    def __call__(self, stage: int, group: int) -> Snapshot:
        """Return the snapshot; the same one every time within a task."""
        ...


class AnyKeyRows:
    """One store over all key groups, as bytes; each key group is opened when first asked for.

    `get` and `getmulti` find rows by the record's key, in key-value stores, whose rows have that
    key. For other kinds, `of` and `all` give the rows of key groups.

    Args:
        spec: The store.
        open_group: Opens a key group of the store's stage.
        key_groups: Number of key groups of the application.
    """

    __slots__ = ("_key_groups", "_open_group", "_rows", "_suffix", "_views", "spec")

    def __init__(
        self, spec: StoreSpec, open_group: Callable[[int], Snapshot], key_groups: int
    ) -> None:
        self.spec = spec
        self._open_group = open_group
        self._key_groups = key_groups
        self._rows = spec.traits.rows
        self._suffix = 0 if spec.key_serde is None else spec.key_serde.group_suffix
        self._views: dict[int, RowView] = {}

    def group(self, group: int) -> RowView:
        """Return the rows of one key group."""
        view = self._views.get(group)
        if view is None:
            view = self._rows(SnapshotView(self._open_group(group), self.spec.name), self.spec)
            self._views[group] = view
        return view

    def of(self, key: bytes) -> RowView:
        """Return the key group of a record key."""
        return self.group(key_group(key, self._key_groups, suffix=self._suffix))

    def all(self) -> Sequence[RowView]:
        """Return every key group."""
        return [self.group(group) for group in range(self._key_groups)]

    def get(self, key: bytes) -> bytes | None:
        """Return the value that ``key`` had at the end of the previous epoch, or None."""
        return self.of(key).get(key)

    def getmulti(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys``, in the same order, with one fetch for each key group."""
        if self._key_groups == 1:
            return self.group(0).getmulti(keys)
        groups = key_groups_of(keys, self._key_groups, suffix=self._suffix)
        by_group: dict[int, list[bytes]] = {}
        for group, key in zip(groups, keys, strict=True):
            if group in by_group:
                by_group[group].append(key)
            else:
                by_group[group] = [key]
        found: dict[bytes, bytes | None] = {}
        for group, wanted in by_group.items():
            found.update(zip(wanted, self.group(group).getmulti(wanted), strict=True))
        return [found[key] for key in keys]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Refuse: keys of other lanes are read-only.

        Raises:
            StoreError: Always.
        """
        del key, value
        raise read_only(self.spec.name)

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high of all key groups, in key order, each key once."""
        return ranged(self, low, high, reverse=reverse)

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, in key order."""
        rows = self.range(prefix, prefix_end(prefix), reverse=reverse)
        return (row for row in rows if row[0].startswith(prefix))

    def count(self) -> int:
        """Return the number of rows."""
        return sum(view.count() for view in self.all())


class AnyKeyReader:
    """All stores of an application, as of the end of the previous epoch, for reading only.

    Args:
        stores: Each store's stage and specification, by name: `Plan.stores`.
        open_group: Opens a key group of a stage.
        key_groups: Number of key groups of the application.

    Example:
        >>> from mustela.state.interfaces import Committed, EnvironmentSpec, Token
        >>> from mustela.state.memory import MemoryEnvironment
        >>> from mustela.serdes.primitives import IntSerde, StrSerde
        >>> store = StoreSpec(name="stock", kind="key_value",
        ...                   key_serde=StrSerde(), value_serde=IntSerde())
        >>> place = EnvironmentSpec(application_id="app", stage="s", group=0, groups=1,
        ...                         stores=(store,))
        >>> environment = MemoryEnvironment(place)
        >>> token = Token(1, 1, 0)
        >>> eight = IntSerde().serialize(8)
        >>> environment.write_pending(token, Committed(), {"stock": [(b"apple", eight)]})
        >>> snapshot = environment.snapshot(Committed(token=token))
        >>> reader = AnyKeyReader({"stock": (1, store)}, lambda stage, group: snapshot, 1)
        >>> reader.store("stock").getmulti([b"apple", b"pear"]) == [eight, None]
        True
        >>> reader.open("stock").get("apple")
        8
    """

    __slots__ = ("_key_groups", "_open_group", "_rows", "_stores", "_typed")

    def __init__(
        self,
        stores: Mapping[str, tuple[int, StoreSpec]],
        open_group: OpenGroup,
        key_groups: int,
    ) -> None:
        self._stores = stores
        self._open_group = open_group
        self._key_groups = key_groups
        self._rows: dict[str, AnyKeyRows] = {}
        self._typed: dict[str, AnyStore] = {}

    def store(self, name: str) -> AnyKeyRows:
        """Return a store as bytes, the same object every time.

        Raises:
            InvariantError: If no stage has it; a built topology names only stores that it has.
        """
        rows = self._rows.get(name)
        if rows is None:
            if name not in self._stores:
                msg = f"no stage has the store {name!r} that is read"
                raise InvariantError(msg, evidence={"stores": sorted(self._stores)})
            stage, spec = self._stores[name]
            open_group = self._open_group
            rows = AnyKeyRows(spec, lambda group: open_group(stage, group), self._key_groups)
            self._rows[name] = rows
        return rows

    def open(self, name: str) -> AnyStore:
        """Return a store with the interface of its kind, the same object every time.

        Writing to it raises a `StoreError`.

        Raises:
            InvariantError: As `store`.
            StoreError: If only the step that owns the store can read it.
        """
        typed = self._typed.get(name)
        if typed is None:
            rows = self.store(name)
            typed = self._typed[name] = open_store(rows, rows.spec)
        return typed
