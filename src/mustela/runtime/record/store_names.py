"""Renamed stores: the epoch record knows each by the name of its changelog.

So a program that renames a store, and its previous version after a rollback, both find the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mustela.plan.plan import Plan
from mustela.runtime.record.epoch_record import EpochRecord

__all__ = ["with_log_names", "with_store_names"]

_BY_STORE = ("changelog_ends", "layouts", "stores")


def with_log_names(record: EpochRecord, plan: Plan) -> EpochRecord:
    """Return a record with the stores of a program under the names of their changelogs."""
    changed = {name: log for name, log in plan.log_names.items() if name != log}
    return _renamed(record, changed) if changed else record


def with_store_names(record: EpochRecord, plan: Plan) -> EpochRecord:
    """Return a record with the stores of a program under their names in the program.

    Another store with such a name in the record is left out of the result; the gate checks for one
    with `gate.differences.names_taken`.
    """
    changed = {log: name for name, log in plan.log_names.items() if name != log}
    return _renamed(record, changed) if changed else record


def _renamed(record: EpochRecord, names: Mapping[str, str]) -> EpochRecord:
    """Return a record in which stores have other names."""
    taken = set(names.values()) - names.keys()
    fields: dict[str, Any] = {
        field: {
            names.get(store, store): value
            for store, value in getattr(record, field).items()
            if store not in taken
        }
        for field in _BY_STORE
    }
    return msgspec.structs.replace(record, **fields)
