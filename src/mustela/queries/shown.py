"""Which stores there are, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar, get_origin

from mustela.queries.errors import QueryError, UnknownStoreError
from mustela.queries.source import Edition, StorePlace
from mustela.serdes.primitives import BytesSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.reading import Reading, ReadOnlyCustomStore, ReadOnlyStore
from mustela.state.store_kind import Queried

__all__ = [
    "Shown",
    "StoreInfo",
    "checked_handle",
    "handle_of",
    "is_queried",
    "place_of",
    "shown_store",
    "told_stores",
    "without_values",
]


H = TypeVar("H", bound=ReadOnlyStore[Any] | ReadOnlyCustomStore)


class Shown(Enum):
    """What is shown of a value."""

    VALUES = "values"
    TIMESTAMPS = "timestamps"
    HEADERS = "headers"

    @classmethod
    def of(cls, *, timestamps: bool, headers: bool) -> Shown:
        """Return what two flags say."""
        if headers:
            return cls.HEADERS
        return cls.TIMESTAMPS if timestamps else cls.VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """A store that can be read.

    Attributes:
        name: Its name.
        kind: Its kind, such as ``window``.
        timestamps: Whether it keeps the timestamps of its values.
        headers: Whether it keeps the headers of its values.
        spec: Its serdes, times and other properties.
    """

    name: str
    kind: str
    timestamps: bool
    headers: bool
    spec: StoreSpec


def told_stores(edition: Edition) -> list[StoreInfo]:
    """Return the stores that can be read, by name."""
    found: list[StoreInfo] = []
    for name, place in sorted(edition.stores.items()):
        spec, queried = place.spec, is_queried(place.spec)
        if queried is not None:
            found.append(
                StoreInfo(
                    name=name,
                    kind=spec.kind,
                    timestamps=queried.timed is not None,
                    headers=spec.with_headers and queried.headed is not None,
                    spec=spec,
                )
            )
    return found


def place_of(edition: Edition, name: str) -> StorePlace:
    """Return where a store is.

    Raises:
        UnknownStoreError: If there is none of that name.
        QueryError: If only its step can read it.
    """
    place = edition.stores.get(name)
    if place is None:
        known = ", ".join(info.name for info in told_stores(edition)) or "none"
        msg = f"there is no store {name!r}"
        raise UnknownStoreError(
            msg,
            evidence={"stores": known},
            fix='name one of these, or give a table a store: store="..."',
            fields={"store": name},
        )
    _queried(place.spec)
    return place


def without_values(place: StorePlace) -> StorePlace:
    """Return a store whose values are left as they lie, for who needs keys and times alone.

    Rows of several versions are read as ever: reading may leave out some of them.
    """
    spec = place.spec
    if spec.row_versions is not None:
        return place
    return replace(place, spec=replace(spec, value_serde=BytesSerde()))


def handle_of(spec: StoreSpec, shown: Shown, reading: Reading) -> Any:
    """Return the read-only handle of a store.

    Raises:
        QueryError: If it does not keep what is to be shown.
    """
    _creator(spec, shown)
    return _queried(spec).handle(reading)


def checked_handle(made: Any, handle: type[H] | None) -> Any:
    """Return a handle that was made, if it is of the class that was asked for.

    Args:
        made: The handle.
        handle: The class, such as ``ReadOnlyWindowStore[str, int]``; None takes any.

    Raises:
        QueryError: If it is of another one.
    """
    wanted: type[Any] | None = get_origin(handle) or handle
    if wanted is None or isinstance(made, wanted):
        return made
    msg = f"store {made.name!r} is not read by a {wanted.__name__}: it is a {made.kind} store"
    fix = f"ask for a {type(made).__name__}"
    raise QueryError(msg, fix=fix, fields={"store": made.name, "kind": made.kind})


def shown_store(spec: StoreSpec, shown: Shown, rows: Any) -> Any:
    """Return the store that a handle calls."""
    return _creator(spec, shown)(rows, spec)


def is_queried(spec: StoreSpec) -> Queried | None:
    """Return how a store is read from outside; None if only its step can read it."""
    kind = spec.traits
    if kind.queried is not None or kind.reader is None:
        return kind.queried
    return Queried(handle=ReadOnlyCustomStore, store=kind.reader)


def _queried(spec: StoreSpec) -> Queried:
    found = is_queried(spec)
    if found is not None:
        return found
    msg = f"store {spec.name!r} cannot be read from outside: it is a {spec.kind} store"
    raise QueryError(
        msg,
        why="only the step that owns it knows what it holds",
        fix="read the table or store that its step writes",
        fields={"store": spec.name, "kind": spec.kind},
    )


def _creator(spec: StoreSpec, shown: Shown) -> Callable[[Any, Any], Any]:
    queried = _queried(spec)
    found = queried.store
    if shown is Shown.TIMESTAMPS:
        found = queried.timed
    elif shown is Shown.HEADERS:
        found = queried.headed if spec.with_headers else None
    if found is not None:
        return found
    msg = f"store {spec.name!r} keeps no {shown.value}: it is a {spec.kind} store"
    fix = f"leave out {shown.value}=True"
    if shown is Shown.HEADERS and queried.headed is not None:
        fix += ", or make the store with Materialized(with_headers=True)"
    raise QueryError(msg, fix=fix, fields={"store": spec.name, "kind": spec.kind})
