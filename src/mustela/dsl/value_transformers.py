"""``transform_values`` with a stateful transformer: checked, and run by a processor."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from mustela.api.errors import BadOptionError
from mustela.api.timers import acts_on_time
from mustela.api.value_transformer import TransformerProcessors, TransformerSupplier
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.processing import Ties, attach_processor
from mustela.dsl.registry import NodePlace
from mustela.dsl.suppliers import Made, checked_supplier
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.table import StreamToTableNode, TableToStreamNode

if TYPE_CHECKING:
    from mustela.api.stores import StoreBuilder

__all__ = ["Mapped", "add_transformer", "is_transformer_supplier"]

_VERB = "transform_values"
_TRANSFORMER = Made(
    "transformer",
    "ValueTransformerWithKey",
    "transform",
    {"init": ("context",), "transform": ("key", "value"), "close": ()},
)


def is_transformer_supplier(
    transformer: object, stores: Sequence[str | StoreBuilder], *, at: Origin
) -> TypeGuard[TransformerSupplier]:
    """Say whether a user's transformer is a supplier of transformers, not a function.

    Raises:
        BadOptionError: If it is a function, but is given stores.
    """
    if _gives_transformers(transformer):
        return True
    if stores:
        msg = f"{_VERB} is given stores and a function, which cannot reach them"
        raise BadOptionError(
            msg,
            at=at,
            why="stores are reached through the context that init(context) is given",
            fix="pass a class derived from ValueTransformerWithKey",
            fields={"option": "stores"},
        )
    return False


def _gives_transformers(transformer: object) -> bool:
    """Whether it is a class of transformers, a transformer, or a function without arguments."""
    if callable(getattr(transformer, _TRANSFORMER.method, None)):
        return True
    if isinstance(transformer, type) or not callable(transformer):
        return False
    try:
        inspect.signature(transformer).bind()
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Mapped:
    """A table with other values that is about to be added.

    Attributes:
        place: Its place.
        key: Serde of the keys.
        value: Serde of the new values.
        spec: Its store, if it has one.
        is_named: Whether the user named the store.
    """

    place: NodePlace
    key: Serde[Any] | None
    value: Serde[Any] | None
    spec: StoreSpec | None
    is_named: bool


def add_transformer(
    table: Handle[Any, Any],
    mapped: Mapped,
    supplier: TransformerSupplier,
    stores: Sequence[str | StoreBuilder],
) -> None:
    """Add a table whose values a stateful transformer makes.

    It is a processor between the changes of the table and a table of its results.

    Args:
        table: The table that is transformed.
        mapped: The new one.
        supplier: Makes transformers.
        stores: The stores that they use.
    """
    registry = registry_of(table)
    at, step = mapped.place["origin"], mapped.place["name"]
    timed = acts_on_time(checked_supplier(supplier, verb=_VERB, at=at, made=_TRANSFORMER))
    changes = registry.place("changes", parents=mapped.place["parents"], at=at, path=step)
    registry.add(TableToStreamNode(**changes, mapper=None))
    stream = Handle[Any, Any](registry, changes["name"], *table.serdes)
    between = registry.place("transformer", parents=(changes["name"],), at=at, path=step)
    between["on_error"] = mapped.place.get("on_error")
    transforming = TransformerProcessors(supplier, timed)
    attach_processor(stream, between, transforming, Ties(stores), verb="process_values")
    behind = mapped.place.copy()
    behind["parents"] = (between["name"],)
    node = StreamToTableNode(
        **behind,
        key=mapped.key,
        value=mapped.value,
        store=mapped.spec,
        explicit_store=mapped.is_named,
    )
    registry.add(node)
