"""Opens the store that a user sees, according to its kind."""

from __future__ import annotations

from typing import Any

from mustela.state.faults import StoreError
from mustela.state.interfaces import StoreSpec

__all__ = ["open_store"]


def open_store(view: Any, spec: StoreSpec, *, plain: bool = False) -> Any:
    """Return a store as its kind shows it.

    Args:
        view: Where the rows are; a `WholeView`, but for kinds whose rows are found by the record's
            key, which do with a `StoreView`.
        spec: Name, kind and serdes.
        plain: Whether values are shown without their times, where the kind can do both.

    Raises:
        StoreError: If only the step that owns the store knows what it holds.
    """
    kind = spec.traits
    shown = kind.headed if spec.with_headers else (plain and kind.plain) or kind.store
    if shown is not None:
        return shown(view, spec)
    msg = f"store {spec.name!r} is a {spec.kind} store"
    raise StoreError(
        msg,
        why="only the step that owns it knows what it holds",
        fields={"store": spec.name, "kind": spec.kind},
    )
