"""The beginning that all aggregations share, whatever they aggregate and in whatever windows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from mustela.api.functions import check_function, check_initializer, function_name
from mustela.api.given_types import read_fold
from mustela.api.handlers import OnError, read_on_error
from mustela.api.options import Materialized, options_or
from mustela.api.serdes import choose_serde
from mustela.dsl.materialize import AGGREGATE_KINDS, store_spec
from mustela.dsl.registry import NodePlace, Registry
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.aggregate import AggregateKind

__all__ = ["Begun", "Fold", "FoldTable", "Group", "begin_fold", "check_fold", "check_merger"]

_ADDS = ("key", "value", "aggregate")
_MERGES = ("key", "left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Records or rows by key that are about to be aggregated.

    Attributes:
        registry: The topology while it is being written.
        parents: The steps that are read; one adder belongs to each.
        path: The beginning of default names.
        key: Serde of the grouping key, if it is known.
        value: Serde of the values, if it is known.
    """

    registry: Registry
    parents: tuple[str, ...]
    path: str
    key: Serde[Any] | None
    value: Serde[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What an aggregation does with the values of a key.

    Attributes:
        kind: What the fold is.
        initializer: Makes the first value.
        adders: Add a value; one for each parent.
        merger: Merges two results.
        subtractor: Removes a value.
        associative: Whether partial results of the adder may be combined.
    """

    kind: AggregateKind
    initializer: Callable[[], Any] | None = None
    adders: tuple[Callable[..., Any], ...] = ()
    merger: Callable[[Any, Any, Any], Any] | None = None
    subtractor: Callable[..., Any] | None = None
    associative: bool = False

    @property
    def adder(self) -> Callable[..., Any] | None:
        """The first adder, after which a step is named and whose annotations are read."""
        return self.adders[0] if self.adders else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTable:
    """The user's options for the table that a step makes.

    Attributes:
        store: Name of the store.
        name: Name of the step.
        options: Options of the store.
        value: Type or serde of the results.
        inherited: Serde of the results if none is given.
        on_error: What happens to a record that fails.
    """

    store: str | None
    name: str | None
    options: Materialized[Any, Any] | None
    value: Any = None
    inherited: Serde[Any] | None = None
    on_error: OnError | None = None


class FoldPlace(NodePlace):
    """The part of a node that each aggregation has."""

    kind: AggregateKind
    store: StoreSpec
    explicit_store: bool
    key: Serde[Any] | None
    initializer: Callable[[], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """An aggregation whose step is about to be added.

    Attributes:
        facts: The fields that its node shares with those of other aggregations.
        key: Serde of the grouping key, if it is known.
        value: Serde of the results, if it is known.
        options: The user's options for the store.
    """

    facts: FoldPlace
    key: Serde[Any] | None
    value: Serde[Any] | None
    options: Materialized[Any, Any]


def begin_fold(
    group: Group,
    fold: Fold,
    table: FoldTable,
    *,
    at: Origin,
    kinds: Collection[str] = AGGREGATE_KINDS,
    never_expires: str | None = None,
) -> Begun:
    """Choose the place of an aggregation, its serdes and its store.

    Args:
        group: What is aggregated.
        fold: How it is aggregated.
        table: The user's options for the result.
        at: The user's line.
        kinds: The kinds of store that can keep the result.
        never_expires: Why its rows cannot expire, if they cannot.

    Raises:
        OptionConflictError: If an option is given twice and the two differ.
        DuplicateNameError: If the step's name is taken.
        BadOptionError: If the options for the store are not possible.
    """
    options = options_or(table.options, Materialized[Any, Any](), at=at)
    place = group.registry.place(
        fold.kind,
        parents=group.parents,
        path=group.path,
        at=at,
        name=table.name,
        apart=table.store or options.store_name or function_name(fold.adder),
    )
    place["on_error"] = read_on_error(table.on_error, verb=fold.kind, at=at)
    key = choose_serde("key", group.key, options.key, holder="Materialized", at=at)
    value = choose_serde("value", table.value, options.value, holder="Materialized", at=at)
    value = value or table.inherited or read_fold(fold.adder, fold.initializer)
    spec, explicit = store_spec(
        place,
        options,
        store=table.store,
        key=key,
        value=value,
        kinds=kinds,
        never_expires=never_expires,
    )
    facts = FoldPlace(
        **place,
        kind=fold.kind,
        store=spec,
        explicit_store=explicit,
        key=spec.key_serde,
        initializer=fold.initializer,
    )
    return Begun(facts=facts, key=key, value=value, options=options)


def check_fold(initializer: object, adder: object, merger: object = None, *, at: Origin) -> None:
    """Check the functions of an aggregation.

    Raises:
        InitializerError: If the initializer does not make the first value of a key.
        FunctionError: If one of them cannot be called with its arguments.
    """
    check_initializer(initializer, verb="aggregate", at=at, adder=adder)
    check_function(adder, _ADDS, role="adder", verb="aggregate", at=at)
    if merger is not None:
        check_merger(merger, at=at)


def check_merger(merger: object, *, at: Origin) -> None:
    """Check the function that merges two aggregates.

    Raises:
        FunctionError: If it cannot be called with a key and two aggregates.
    """
    check_function(merger, _MERGES, role="merger", verb="aggregate", at=at)
