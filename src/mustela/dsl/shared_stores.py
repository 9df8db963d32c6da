"""Stores that are read by any key, and stores whose keys are changed from any lane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mustela.api.errors import BadOptionError, SharedStoreError
from mustela.api.names import path_name
from mustela.api.stores import StoreBuilder
from mustela.api.update import update_output
from mustela.dsl.registry import AddedStore, Registry
from mustela.dsl.suppliers import known_store
from mustela.errors import Origin
from mustela.topology.processor import OutputNode

__all__ = ["attach_updates", "checked_updates", "store_names"]


def store_names(names: object, *, option: str, at: Origin) -> tuple[str, ...]:
    """Return the names of stores that an option lists.

    Raises:
        BadOptionError: If it lists something else.
    """
    listed: list[object] = [names] if isinstance(names, str) else list(names)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    for name in listed:
        if not isinstance(name, str):
            msg = f"{option} lists {name!r:.60}, which is not the name of a store"
            raise BadOptionError(
                msg,
                at=at,
                fix=f'{option}=["customers"]: the name that store= or the builder gave',
                fields={"option": option},
            )
    return tuple(dict.fromkeys(name for name in listed if isinstance(name, str)))


def checked_updates(
    registry: Registry, updates: Iterable[str | StoreBuilder], *, step: str, at: Origin
) -> list[AddedStore]:
    """Return the stores whose keys a step changes; those given as builders are added first.

    Raises:
        UnknownStoreError: If one was not added.
        SharedStoreError: If one belongs to a step, or cannot be changed by key.
        BadOptionError: If one is neither a name nor a store builder.
    """
    listed = [updates] if isinstance(updates, str | StoreBuilder) else list(updates)
    found: dict[str, AddedStore] = {}
    for store in listed:
        if isinstance(store, StoreBuilder):
            known = registry.add_store(store.spec(), at, plain=store.plain)
        else:
            (name,) = store_names([store], option="updates", at=at)
            known = known_store(registry, name, verb="updates", step=step, at=at)
        _check_kind(known, step, at)
        found[known.spec.name] = known
    return list(found.values())


def _check_kind(store: AddedStore, step: str, at: Origin) -> None:
    spec = store.spec
    forgets = spec.max_entries is not None or spec.ttl_ms is not None
    changed = spec.traits.by_key or spec.traits.change_at is not None
    if changed and not forgets and not spec.duplicates:
        return
    what = f"it is a {spec.kind} store"
    if changed:
        what = "it keeps several values of a window" if spec.duplicates else "it forgets keys"
    msg = f"step {step!r} cannot update store {spec.name!r}: {what}"
    raise SharedStoreError(
        msg,
        at=at,
        why="a change is made to the value of one key",
        fix="create it with Stores.key_value_store_builder(Stores.persistent_key_value_store(...))",
        fields={"step": step, "store": spec.name},
    )


def attach_updates(
    registry: Registry, step: str, stores: Sequence[AddedStore], at: Origin
) -> dict[str, str]:
    """Add the route from a step to the stores whose keys it changes.

    Returns:
        For each store the name of the step that makes the changes.
    """
    makers: dict[str, str] = {}
    for store in stores:
        name = store.spec.name
        place = registry.place(path_name("update", name), parents=(step,), at=at)
        registry.add(OutputNode(**place, output=update_output(name)))
        makers[name] = registry.add_update(store.spec, place["name"], at)
    return makers
