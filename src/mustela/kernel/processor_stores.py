"""Stores as processors see them: what belongs to one key group, through the overlay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.layout import RowView
from mustela.state.kinds.opening import open_store
from mustela.state.kinds.views import MergedView
from mustela.state.kinds.window_store import WindowStore
from mustela.state.overlay import StoreOverlay

__all__ = ["GroupView", "open_group_store"]


class GroupView(MergedView):
    """One key group's rows of a store, as if there were no other key group.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: StoreOverlay) -> None:
        super().__init__(self)
        self._rows: RowView = rows
        self.get = rows.get
        self.getmulti = rows.getmulti
        self.put = rows.put
        self.count = rows.count

    def of(self, key: bytes) -> RowView:
        """Return the rows, whatever the key: a processor's state is its key group's."""
        del key
        return self._rows

    def all(self) -> Sequence[RowView]:
        """Return the rows as the only key group."""
        return [self._rows]


def open_group_store(rows: StoreOverlay, spec: StoreSpec, *, plain: bool) -> Any:
    """Return one key group's part of a store as a processor uses it.

    Args:
        rows: The rows of the key group.
        spec: The store.
        plain: Whether a window store shows values without their times.
    """
    view: Any = GroupView(rows)
    if spec.kind == "window" and plain:
        return WindowStore[Any, Any](view, spec)
    return open_store(view, spec)
