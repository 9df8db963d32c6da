"""From what a user says about a table's store to its specification."""

from __future__ import annotations

from typing import Any

from mustela.dsl.names import STORE_NAME_LENGTH_MAX, check_name, path_name
from mustela.dsl.options import Materialized
from mustela.dsl.registry import Place
from mustela.dsl.serdes import choose
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec

__all__ = ["store_spec"]


def store_spec(
    place: Place,
    options: Materialized[Any, Any],
    *,
    store: str | None,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
) -> tuple[StoreSpec, bool]:
    """Return the store of a step, and whether the user named it.

    Args:
        place: The step; its name is the store's where none is given.
        options: The user's options.
        store: The store's name by keyword.
        key: Serde of the keys; None for the one that keeps Python's types.
        value: Serde of the values; None for the one that keeps Python's types.

    Raises:
        BadNameError: If the store's name breaks the rule for names.
        OptionConflictError: If the name is given twice and differs.
    """
    at = place["origin"]
    said = choose("store", store, options.store, holder="Materialized", at=at)
    if said is not None:
        name = check_name(said, what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
    elif place["explicit_name"]:
        name = check_name(place["name"], what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
    else:
        name = path_name(place["name"], length_max=STORE_NAME_LENGTH_MAX)
    spec = StoreSpec(
        name=name,
        key_serde=key or ValueSerde(sort_keys=True),
        value_serde=value or ValueSerde(),
        logged=options.logged,
        topic_config=dict(options.topic_config),
    )
    return spec, said is not None or place["explicit_name"]
