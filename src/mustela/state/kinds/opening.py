"""From rows to the store that a user sees, by the store's kind."""

from __future__ import annotations

from typing import Any, Final, Protocol

from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.key_value import (
    KeyValueStore,
    StoreView,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
)
from mustela.state.kinds.session_store import SessionStore, SessionStoreWithHeaders
from mustela.state.kinds.versioned_store import VersionedKeyValueStore
from mustela.state.kinds.views import GroupedView
from mustela.state.kinds.window_store import (
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    WindowStore,
)

__all__ = ["INNER_KINDS", "AnyStore", "WholeView", "open_store"]

INNER_KINDS: Final = frozenset({"list", "buffer", "timer", "parking"})
"""Stores that only the step that owns them can read."""

AnyStore = (
    KeyValueStore[Any, Any]
    | TimestampedKeyValueStore[Any, Any]
    | TimestampedKeyValueStoreWithHeaders[Any, Any]
    | VersionedKeyValueStore[Any, Any]
    | WindowStore[Any, Any]
    | TimestampedWindowStore[Any, Any]
    | TimestampedWindowStoreWithHeaders[Any, Any]
    | SessionStore[Any, Any]
    | SessionStoreWithHeaders[Any, Any]
)


class WholeView(StoreView, GroupedView, Protocol):
    """Rows that are found by the record's key, and by key group too."""


def open_store(view: WholeView, spec: StoreSpec) -> AnyStore:
    """Return a store as the kind that it is.

    Args:
        view: Where the rows are.
        spec: Name, kind and serdes.

    Raises:
        StoreError: If only the step that owns the store knows what it holds.
    """
    if spec.with_headers:
        return _open_with_headers(view, spec)
    match spec.kind:
        case "key_value":
            return KeyValueStore(view, spec)
        case "timestamped_key_value":
            return TimestampedKeyValueStore(view, spec)
        case "versioned":
            return VersionedKeyValueStore(view, spec)
        case "window":
            return TimestampedWindowStore(view, spec)
        case "session":
            return SessionStore(view, spec)
        case _:
            msg = f"store {spec.name!r} is a {spec.kind} store"
            raise StoreError(
                msg,
                why="only the step that owns it knows what it holds",
                fields={"store": spec.name, "kind": spec.kind},
            )


def _open_with_headers(view: WholeView, spec: StoreSpec) -> AnyStore:
    match spec.kind:
        case "window":
            return TimestampedWindowStoreWithHeaders(view, spec)
        case "session":
            return SessionStoreWithHeaders(view, spec)
        case _:
            return TimestampedKeyValueStoreWithHeaders(view, spec)
