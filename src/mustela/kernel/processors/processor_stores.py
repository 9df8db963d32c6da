"""Stores as processors see them: one key group's part, through the overlay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mustela.api.errors import StoreAccessError
from mustela.errors import Origin
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import RowView
from mustela.state.kinds.opening import open_store
from mustela.state.kinds.views import MergedView

__all__ = ["GroupView", "ReadOnlyRows", "open_group_store"]


class GroupView(MergedView):
    """One key group's rows of a store, as if there were no other key group.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: RowView) -> None:
        super().__init__(self)
        self._rows = rows
        self.get = rows.get
        self.getmulti = rows.getmulti
        self.put = rows.put
        self.count = rows.count

    def of(self, key: bytes) -> RowView:
        """Return the rows, whatever the key: a processor sees its key group's state only."""
        del key
        return self._rows

    def all(self) -> Sequence[RowView]:
        """Return the rows as the only key group."""
        return [self._rows]


class ReadOnlyRows:
    """Rows that can be read and not written.

    How a kind of store reads what it keeps beside its rows stays as it is.

    Args:
        rows: The rows.
        store: The store's name, for the error.
        at: The user's line of the step that reads.
    """

    def __init__(self, rows: Any, store: str, at: Origin | None) -> None:
        self._rows = rows
        self._store = store
        self._at = at
        self.get = rows.get
        self.getmulti = rows.getmulti
        self.range = rows.range
        self.first = rows.first
        self.count = rows.count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Refuse.

        Raises:
            StoreAccessError: Always.
        """
        del key, value
        raise self._refusal()

    def put_many(
        self, rows: Mapping[bytes, bytes | None] | Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Refuse.

        Raises:
            StoreAccessError: Always.
        """
        del rows
        raise self._refusal()

    def expire(self, keys: Iterable[bytes]) -> None:
        """Refuse.

        Raises:
            StoreAccessError: Always.
        """
        del keys
        raise self._refusal()

    def _refusal(self) -> StoreAccessError:
        return StoreAccessError(
            f"store {self._store!r} can only be read here",
            at=self._at,
            why="only one step writes it",
            fix="send what you want to write to the topic that fills the store",
            fields={"store": self._store},
        )


def open_group_store(rows: RowView, spec: StoreSpec, *, plain: bool) -> Any:
    """Return one key group's part of a store as a processor uses it.

    Args:
        rows: The rows of the key group.
        spec: The store.
        plain: Whether a window store shows values without their times.
    """
    return open_store(GroupView(rows), spec, plain=plain)
