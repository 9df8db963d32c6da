"""From the rows of a store to its rows by record key, whatever else the store keeps."""

from __future__ import annotations

from typing import Any

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.lru import LruView
from mustela.state.kinds.ttl import TtlView

__all__ = ["by_record_key"]


def by_record_key(view: Any, spec: StoreSpec) -> Any:
    """Return a view of the rows as they were put; of most kinds the rows themselves.

    Args:
        view: The rows of one key group.
        spec: The store.

    Example:
        >>> by_record_key("rows", StoreSpec(name="counts"))
        'rows'
    """
    if spec.max_entries is not None:
        return LruView(view, spec.max_entries)
    if spec.ttl_ms is not None:
        return TtlView(view, spec)
    return view
