"""Removes a store from an application's record, so that it starts empty or is forgotten. Pure.

A store that the program still has gets a new changelog with a new id: local state of the old one
then does not match the record, on whatever host it is, and is rebuilt. That holds for all stores in
the same stage, which are restored from their changelogs. So a drop is refused if rows exist only in
local state.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mustela.errors import UsageError
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.record.epoch_record import EpochRecord

__all__ = ["Drop", "NoSuchStoreError", "StoreNotDroppedError", "drop_of", "without"]

_BY_STORE = ("changelog_ends", "layouts", "stores")


class NoSuchStoreError(UsageError):
    """The application's record has no such store."""

    code = "STATE_NO_SUCH_STORE"


class StoreNotDroppedError(UsageError):
    """A store cannot be dropped: rows that no changelog has would survive or be lost."""

    code = "STATE_DROP_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A store to drop.

    Attributes:
        store: Its name in the record, which is that of its changelog.
        topic: Its changelog.
        claimed: Its name in the program; empty if the program has no such store.
        beside: The other stores of its stage, which are rebuilt from their changelogs.
    """

    store: str
    topic: str
    claimed: str
    beside: tuple[str, ...]


def drop_of(record: EpochRecord, store: str, plan: Plan, application_id: str) -> Drop:
    """Return what to drop.

    Args:
        record: The last epoch record.
        store: The store's name in the program or in the record.
        plan: The program.
        application_id: The application.

    Raises:
        UnknownStoreError: If the record has no such store.
        StoreNotDroppedError: If rows that are in no changelog would be kept or lost.
    """
    name = plan.log_names.get(store, store)
    known = {*record.stores, *record.changelog_ends}
    if name not in known:
        msg = f"{application_id} has no store {store!r} in its record"
        raise NoSuchStoreError(
            msg,
            fix=f"its stores are {', '.join(sorted(known))}" if known else "there is none to drop",
            fields={"store": store},
        )
    if not record.life:
        msg = f"the last epoch of {application_id} was committed by an older version of Mustela"
        raise StoreNotDroppedError(
            msg,
            why="its local state does not say which changelog it belongs to",
            fix="start the application once, stop it, and then drop the store",
            fields={"store": store},
        )
    claimed = next((mine for mine, log in plan.log_names.items() if log == name), "")
    beside: tuple[str, ...] = ()
    if claimed:
        index, spec = plan.stores[claimed]
        stage = plan.stages[index]
        others = [other for other in stage.stores if other.name != claimed]
        if stage.identity in record.groups:
            if not spec.logged:
                raise _stays(store)
            if unlogged := [other.name for other in others if not other.logged]:
                raise _lost(store, unlogged)
        beside = tuple(other.name for other in others)
    topic = changelog_topic(application_id, name)
    return Drop(store=name, topic=topic, claimed=claimed, beside=beside)


def without(record: EpochRecord, store: str, *, now_ms: int) -> EpochRecord:
    """Return the record of a new incarnation without the store.

    Local state that does not name its changelog no longer belongs to this life, unless it has rows
    that are in no changelog.
    """
    fields = {
        field: {name: value for name, value in getattr(record, field).items() if name != store}
        for field in _BY_STORE
    }
    unlogged = any(not store.logged for store in record.stores.values())
    return msgspec.structs.replace(
        record,
        incarnation=record.incarnation + 1,
        time_ms=now_ms,
        adopts_unnamed=record.adopts_unnamed and unlogged,
        dropped=sorted({*record.dropped, store}),
        **fields,
    )


def _stays(store: str) -> StoreNotDroppedError:
    return StoreNotDroppedError(
        f"store {store!r} has no changelog in the program, and its rows are in local state",
        why="the next start would find them there, and continue with them",
        fix="give the store another name, so that it starts empty",
        fields={"store": store},
    )


def _lost(store: str, beside: list[str]) -> StoreNotDroppedError:
    names = ", ".join(f"'{name}'" for name in beside)
    return StoreNotDroppedError(
        f"store {store!r} lives together with {names}, without a changelog",
        why="local state of all of them is rebuilt from changelogs, so those rows would be lost",
        fix=f"if {names} may begin empty too, give {store!r} another name",
        fields={"store": store, "beside": beside},
    )
