"""The rows that an epoch wrote to a changelog, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mustela.admin.data.asked import DataRefusal
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.rows import Bounds, Document, StoreForms, StoreRows
from mustela.runtime.status.change_ring import ChangedRows
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import KEY_ROW, SnapshotView, is_by_time
from mustela.state.kinds.opening import open_store
from mustela.state.kinds.window import split_window_key

__all__ = ["ChangedStore", "is_followed"]

FOLLOWED: Final = frozenset(
    {"key_value", "timestamped_key_value", "window", "session", "versioned"}
)
"""Kinds whose changes can be shown."""


def is_followed(forms: StoreForms) -> bool:
    """Return whether the changes of a store can be shown."""
    return forms.spec.logged and forms.spec.kind in FOLLOWED


class ChangedStore:
    """Shows what epochs changed in one store.

    Args:
        forms: The store.
        hidden: What must not be shown.
        prefix: What the bytes of keys begin with.

    Raises:
        DataRefusal: If its changes cannot be shown.
    """

    def __init__(self, forms: StoreForms, hidden: Hidden, prefix: bytes = b"") -> None:
        spec = forms.spec
        if not spec.logged:
            what = "the store has no changelog, so its changes are not known"
            raise DataRefusal(400, "QUERY_UNLOGGED", what, "ask for its rows again and again")
        if spec.kind not in FOLLOWED:
            what = f"changes of a {spec.kind.replace('_', '-')} store are not shown"
            raise DataRefusal(400, "QUERY_KIND", what)
        self._forms = forms
        self._hidden = hidden
        self._prefix = prefix

    def documents(self, groups: Mapping[int, ChangedRows]) -> Iterator[Document]:
        """Yield what an epoch changed: rows as they are now, and the keys of those deleted.

        Args:
            groups: The rows that it wrote, by key group.
        """
        for _, rows in sorted(groups.items()):
            yield from self._of_group(dict(rows))

    def _of_group(self, rows: dict[bytes, bytes | None]) -> Iterator[Document]:
        spec = self._forms.spec
        kept = _Rows({key: row for key, row in rows.items() if row is not None})
        view = SnapshotView(kept, spec.name)
        handle = open_store(_OneGroup(spec.traits.rows(view, spec)), spec)
        shown = StoreRows(handle, self._forms, self._hidden)
        deserialize = self._forms.key_serde.deserialize
        for stored, row in rows.items():
            place = _record_key(spec, stored)
            if place is None or not place[0].startswith(self._prefix):
                continue
            key = deserialize(place[0])
            yield self._document(shown, key, place[1], is_deleted=row is None)

    def _document(
        self, shown: StoreRows, key: Any, start: int | None, *, is_deleted: bool
    ) -> Document:
        named = {"key": self._forms.key.to_document(key)}
        if self._forms.spec.kind == "session":
            return {**named, "sessions": list(shown.all_of_key("sessions", key, Bounds()))}
        if start is not None:
            size = self._forms.spec.window_ms
            window = {**named, "start": start, "end": None if size is None else start + size}
            found = next(
                shown.all_of_key("windows", key, Bounds(time_from=start, time_to=start)), None
            )
            return {**window, "deleted": True} if found is None else found
        found = None if is_deleted else shown.get(key)
        return {**named, "deleted": True} if found is None else found


def _record_key(spec: StoreSpec, stored: bytes) -> tuple[bytes, int | None] | None:
    """Return the record key of a stored key, with the start of its window.

    None for rows that a kind keeps beside those that it shows.
    """
    if spec.kind == "window":
        if not is_by_time(stored):
            return None
        start, key = split_window_key(stored)
        return key, start
    if spec.traits.by_key and not spec.keeps_more:
        return stored, None
    return (stored[1:], None) if stored.startswith(KEY_ROW) else None


class _Rows:
    """The rows of one epoch, as if they were all that is committed; see `Snapshot`."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self._rows = rows

    def get(self, store: str, key: bytes) -> bytes | None:
        del store
        return self._rows.get(key)

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        del store
        return [self._rows.get(key) for key in keys]

    def range(
        self, store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        del store
        for key in sorted(self._rows, reverse=reverse):
            if (low is None or key >= low) and (high is None or key <= high):
                yield key, self._rows[key]

    def prefix(
        self, store: str, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return (
            row
            for row in self.range(store, prefix, None, reverse=reverse)
            if row[0].startswith(prefix)
        )

    def count(self, store: str) -> int:
        del store
        return len(self._rows)

    def close(self) -> None:
        """Nothing is open."""


class _OneGroup:
    """One key group as a whole store."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def of(self, key: bytes) -> Any:
        del key
        return self._view

    def all(self) -> Sequence[Any]:
        return [self._view]
