"""The declaration of a kind of store, so that no other code depends on the names of kinds.

A kind is declared once, as a `StoreKind`, in its own file in ``kinds``, and listed by one line of
`KINDS`. Code that deals with stores uses that declaration: `StoreSpec.traits`. A kind outside the
library needs no line: its stores' specifications carry it (`StoreSpec.own_kind`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

__all__ = ["KINDS", "ChangeAt", "Queried", "StoreKind", "kind_named"]

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "key_value": "key_value:KEY_VALUE",
        "timestamped_key_value": "key_value:TIMESTAMPED_KEY_VALUE",
        "versioned": "versioned_store:VERSIONED",
        "window": "window_store:WINDOW",
        "session": "session_store:SESSION",
        "list": "list:LIST",
        "buffer": "buffer:BUFFER",
        "timer": "timer:TIMER",
        "parking": "parking:PARKING",
    }
)
"""The library's kinds: the name of each, its module in ``kinds``, and its declaration there.

A module is imported for the first store of its kind, because a worker needs few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAt:
    """How an operation from another lane changes one of a key's values.

    Attributes:
        moments: How many times ``at=`` must name; 0 if it may be left out.
        words: What ``at=`` names, for the error's fix.
        apply: Called with the store, the key, the function that changes the value, the moments
            (None if ``at=`` was left out), the record's time and, if the store keeps headers, the
            record's ``headers`` by keyword.
    """

    moments: int
    words: str
    apply: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """How stores of a kind are read from outside of the topology.

    Attributes:
        handle: Creates the read-only handle from a `Reading`; see ``kinds/reading.py``.
        store: Creates, from rows and specification, the store whose methods the handle calls.
        timed: Creates the one that shows timestamps, if the kind has such a one.
        headed: Creates the one that shows headers, if the kind has such a one.
    """

    handle: Callable[[Any], Any]
    store: Callable[[Any, Any], Any]
    timed: Callable[[Any, Any], Any] | None = None
    headed: Callable[[Any, Any], Any] | None = None


def _as_they_are(rows: Any, _spec: Any) -> Any:
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """A kind of store: how its rows are laid out, and how users see them.

    A name and a store are enough. The store is a class derived from `TypedStore`, with any methods;
    it is created from the rows (a `WholeView`: ordered bytes, all of them part of the epoch's
    commit and of the changelog) and the store's specification.

    Attributes:
        name: The kind's name in layouts, on disks and in the epoch record.
        store: Creates what users see; None if only the step that owns a store can read it.
        plain: Creates what users see without timestamps, if that differs.
        headed: Creates what users see with headers; None if stores of the kind cannot keep headers.
        reader: Creates what readers outside of the pipeline see, which cannot write; None if that
            is what users see, over rows that can only be read.
        parameters: What the rows depend on besides the kind, in words; part of the layout.
        rows: Makes, from the rows of a key group and the specification, the rows that steps see.
            What is kept beside those rows, such as an index, is written there: `RecordRows`.
        by_key: Whether each record key has one row, stored under the key's own bytes.
        timed: Whether a row's value begins with its time.
        versioned: Whether earlier values of a key are kept for a while, and can be read.
        by_age: Whether rows leave the changelog by age; rows of other kinds are deleted in it.
        prefix: How many bytes precede the record's key in a row's key.
        takes: The options of `StoreSpec` that only stores of some kinds have.
        needs: The option that a store must have; None for none.
        values: Returns a row with other values, given the specification, the row's key, the row and
            a function that changes a value's bytes; None if rows cannot be rewritten.
        change_at: How an operation from another lane changes a value that ``at=`` names; None if
            the key alone identifies it, or no operation can change it.
        queried: How stores of the kind are read from outside of the topology; None if they are not.
        getter: The name in the test driver's method, ``get_<getter>_store``; empty if it has none.

    Example:
        >>> from mustela.state.interfaces import StoreSpec
        >>> from mustela.state.kinds.typed import TypedStore
        >>> class Counters(TypedStore[str, int, int]):
        ...     def total(self) -> int:
        ...         return sum(int(row) for rows in self._groups.all() for _, row in rows.range())
        >>> counters = StoreKind(name="counters", store=Counters)
        >>> StoreSpec(name="hits", own_kind=counters).layout
        'counters 1'
    """

    name: str
    store: Callable[[Any, Any], Any] | None = None
    plain: Callable[[Any, Any], Any] | None = None
    headed: Callable[[Any, Any], Any] | None = None
    reader: Callable[[Any, Any], Any] | None = None
    parameters: str = ""
    rows: Callable[[Any, Any], Any] = _as_they_are
    by_key: bool = False
    timed: bool = False
    versioned: bool = False
    by_age: bool = False
    prefix: int = 0
    takes: frozenset[str] = frozenset()
    needs: str | None = None
    values: Callable[[Any, bytes, bytes, Callable[[bytes], bytes]], bytes] | None = None
    change_at: ChangeAt | None = None
    queried: Queried | None = None
    getter: str = ""


@cache
def kind_named(name: str) -> StoreKind:
    """Return one of the library's kinds.

    Raises:
        KeyError: If there is none of that name.

    Example:
        >>> kind_named("window").by_age, kind_named("list").store
        (True, None)
    """
    module, _, attribute = KINDS[name].partition(":")
    found = getattr(import_module(f"mustela.state.kinds.{module}"), attribute)
    assert isinstance(found, StoreKind), name
    assert found.name == name, name
    return found
