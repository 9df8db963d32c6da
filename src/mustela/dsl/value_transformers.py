"""``transform_values`` with a transformer that has state: checked, and made of a processor."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from mustela.dsl.functions import check_function
from mustela.dsl.handle import Handle
from mustela.dsl.processing import Ties, attach_processor
from mustela.dsl.registry import Place
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.errors import BadOptionError, FunctionError
from mustela.topology.table import StreamToTableNode, TableToStreamNode
from mustela.topology.timers import acts_on_time
from mustela.topology.value_transformer import TransformerProcessors, TransformerSupplier

if TYPE_CHECKING:
    from mustela.dsl.stores import StoreBuilder

__all__ = ["Mapped", "add_transformer", "is_transformer_supplier"]

_VERB = "transform_values"
_METHODS = {"init": ("context",), "transform": ("key", "value"), "close": ()}


def is_transformer_supplier(
    transformer: object, stores: Sequence[str | StoreBuilder], *, at: Origin
) -> TypeGuard[TransformerSupplier]:
    """Say whether a user's transformer is what gives transformers, not a function.

    Raises:
        FunctionError: If it is a transformer itself.
        BadOptionError: If it is a function, and is given stores.
    """
    if not isinstance(transformer, type) and callable(getattr(transformer, "transform", None)):
        kind = type(transformer).__name__
        msg = f"{_VERB} was given a transformer, not what makes one: {kind}"
        raise FunctionError(
            msg,
            at=at,
            why="each key group has a transformer of its own",
            fix=f"pass the class: {_VERB}({kind})",
            fields={"verb": _VERB},
        )
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
    """Whether it is a class of transformers, or a function without arguments."""
    if isinstance(transformer, type):
        return callable(getattr(transformer, "transform", None))
    if not callable(transformer):
        return False
    try:
        inspect.signature(transformer).bind()
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Mapped:
    """A table of other values that is about to be added.

    Attributes:
        place: Where it stands.
        key: Serde of the keys.
        value: Serde of the new values.
        spec: Its store, if it has one.
        is_named: Whether the user named the store.
    """

    place: Place
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
    """Add a table whose values a transformer with state makes.

    It is a processor between the changes of the table and a table of what it makes of them.

    Args:
        table: The table that is transformed.
        mapped: The new one.
        supplier: Gives transformers.
        stores: The stores that they use.
    """
    registry = table._registry  # pyright: ignore[reportPrivateUsage]
    at, step = mapped.place["origin"], mapped.place["name"]
    timed = _checked(supplier, at=at)
    changes = registry.place("changes", parents=mapped.place["parents"], at=at, path=step)
    registry.add(TableToStreamNode(**changes, mapper=None))
    stream = Handle[Any, Any](registry, changes["name"], *table.serdes)
    between = registry.place("transformer", parents=(changes["name"],), at=at, path=step)
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


def _checked(supplier: TransformerSupplier, *, at: Origin) -> bool:
    """Check what a supplier gives; return whether it schedules punctuators."""
    made: list[object] = [supplier(), supplier()]
    first, second = made
    if not callable(getattr(first, "transform", None)):
        kind = type(first).__name__
        msg = f"the supplier of {_VERB} gives {kind}, which has no transform(key, value)"
        raise FunctionError(
            msg,
            at=at,
            why="a function of (key, value), or what gives transformers, is wanted",
            fix="let it take key and value, or derive the class from ValueTransformerWithKey",
            fields={"verb": _VERB},
        )
    if first is second:
        msg = f"the supplier of {_VERB} gives the same transformer each time"
        raise FunctionError(
            msg,
            at=at,
            why="each key group has a transformer of its own",
            fix="make a new one in each call: lambda: MyTransformer(...)",
            fields={"verb": _VERB},
        )
    for method, arguments in _METHODS.items():
        if hasattr(first, method):
            check_function(getattr(first, method), arguments, role=method, verb=_VERB, at=at)
    return acts_on_time(type(first))
