"""Which stores, and which fields of values, are not shown over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

__all__ = ["HIDDEN", "Hidden"]

HIDDEN: Final = "[hidden]"
"""What is shown instead of a hidden field."""


class Hidden:
    """What must not be shown.

    Args:
        stores: Names of stores; ``*`` for all that ``shown`` does not name.
        fields: Fields as ``store:field`` or ``store:field.inner``; ``*`` for every store.
        shown: Stores that are shown although ``*`` is hidden.

    Example:
        >>> hidden = Hidden(stores=["secrets"], fields=["customers:email", "*:card.number"])
        >>> hidden.is_hidden("secrets"), hidden.is_hidden("customers")
        (True, False)
        >>> hidden.hider("customers")({"email": "a@b", "card": {"number": 7, "year": 30}})
        {'email': '[hidden]', 'card': {'number': '[hidden]', 'year': 30}}
    """

    def __init__(
        self,
        stores: Iterable[str] = (),
        fields: Iterable[str] = (),
        shown: Iterable[str] = (),
    ) -> None:
        self._stores = frozenset(stores)
        self._shown = frozenset(shown)
        self._fields = tuple(_split(text) for text in fields)

    def is_hidden(self, store: str) -> bool:
        """Return whether a store is not shown at all."""
        return store in self._stores or ("*" in self._stores and store not in self._shown)

    def paths(self, store: str) -> tuple[tuple[str, ...], ...]:
        """Return the fields of a store's values that are not shown, each as its names."""
        return tuple(path for name, path in self._fields if name in (store, "*"))

    def is_named(self, store: str) -> bool:
        """Return whether a field that is not shown is named for this very store."""
        return any(name == store for name, _ in self._fields)

    def hider(self, store: str) -> Callable[[Any], Any]:
        """Return what hides the fields of a store's values."""
        paths = self.paths(store)
        if not paths:
            return lambda document: document
        is_named = self.is_named(store)

        def hide(document: Any) -> Any:
            if is_named and not isinstance(document, dict | list):
                return HIDDEN  # its fields cannot be told apart
            for path in paths:
                document = _without(document, path)
            return cast("Any", document)

        return hide


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    store, _, path = text.partition(":")
    return store, tuple(path.split("."))


def _without(document: Any, path: tuple[str, ...]) -> Any:
    if isinstance(document, list):
        items = cast("list[Any]", document)
        if len(items) == 2 and items[0] == path[0]:  # a pair of a dict whose keys are not text
            items = [items[0], _without(items[1], path[1:]) if path[1:] else HIDDEN]
        return [_without(item, path) for item in items]
    if not isinstance(document, dict):
        return document
    known = cast("dict[str, Any]", document)
    name, inner = path[0], path[1:]
    if name not in known:
        return known
    return {**known, name: _without(known[name], inner) if inner else HIDDEN}
