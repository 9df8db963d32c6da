"""Suppliers of processors: checked when the topology is written, with the stores that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypedDict, cast

from mustela.api.errors import BadOptionError, FunctionError, UnknownStoreError
from mustela.api.functions import check_function
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name, path_name
from mustela.api.processor import FixedKeyProcessor, Processor, ProcessorSupplier
from mustela.api.stores import StoreBuilder
from mustela.api.timers import acts_on_time, timer_store
from mustela.dsl.registry import AddedStore, Registry
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.interfaces import StoreSpec
from mustela.topology.asked_stores import AskedStore, asked_stores

__all__ = [
    "Made",
    "add_store_builder",
    "checked_store_builder",
    "checked_supplier",
    "connected_stores",
    "output_names",
    "supplied",
    "timers_of",
    "uses_of",
]


@dataclass(frozen=True, slots=True)
class Made:
    """What a supplier makes, as its checks and their texts need it.

    Attributes:
        noun: What it is called.
        bases: The classes from which it is derived.
        method: The method that it must have.
        methods: The arguments of its methods.
    """

    noun: str
    bases: str
    method: str
    methods: Mapping[str, tuple[str, ...]]

    def called(self, method: str) -> str:
        """Return a method with its arguments."""
        return f"{method}({', '.join(self.methods[method])})"


_PROCESSOR: Final = Made(
    "processor",
    "Processor or FixedKeyProcessor",
    "process",
    MappingProxyType(
        {
            "init": ("context",),
            "process": ("record",),
            "on_timer": ("timer", "context"),
            "close": (),
        }
    ),
)


def checked_supplier(
    supplier: object, *, verb: str, at: Origin, made: Made = _PROCESSOR
) -> type[Any]:
    """Check that a supplier returns a new processor on each call; return the processors' class.

    Args:
        supplier: What the user gave.
        verb: The step's method.
        at: The user's line.
        made: What is wanted, if it is not a processor.

    Raises:
        FunctionError: If it does not.
    """
    noun, fields = made.noun, {"verb": verb}
    if not isinstance(supplier, type) and callable(getattr(supplier, made.method, None)):
        msg = f"{verb} was given a {noun}, not a supplier of them: {type(supplier).__name__}"
        raise FunctionError(
            msg,
            at=at,
            why=f"each key group has its own {noun}",
            fix=f"pass the class: {verb}({type(supplier).__name__})",
            fields=fields,
        )
    check_function(supplier, (), role="supplier", verb=verb, at=at)
    make = cast("Callable[[], object]", supplier)
    first, second = make(), make()
    if not callable(getattr(first, made.method, None)):
        kind, wanted = type(first).__name__, made.called(made.method)
        msg = f"the supplier of {verb} returns {kind}, which has no {wanted}"
        raise FunctionError(
            msg,
            at=at,
            why=f"a {noun} has {made.called('init')}, {wanted} and {made.called('close')}",
            fix=f"derive the class from {made.bases}",
            fields=fields,
        )
    if first is second:
        msg = f"the supplier of {verb} returns the same {noun} each time"
        raise FunctionError(
            msg,
            at=at,
            why=f"each key group has its own {noun}, or they would see each other's fields",
            fix=f"make a new one in each call: lambda: My{noun.capitalize()}(...)",
            fields=fields,
        )
    for method, arguments in made.methods.items():
        if hasattr(first, method):
            check_function(getattr(first, method), arguments, role=method, verb=verb, at=at)
    return type(first)


class Supplied(NamedTuple):
    """A supplier of a step's processors, with what is known about it.

    Attributes:
        supplier: The supplier, as the topology's wrapper returned it.
        stores: The stores that it and the supplier inside it name.
        acts_on_time: Whether its processors may have timers or schedules.
        asks: The stores that their code is sure to ask for.
    """

    supplier: ProcessorSupplier
    stores: tuple[Any, ...]
    acts_on_time: bool
    asks: tuple[AskedStore, ...]


def supplied(
    registry: Registry, supplier: ProcessorSupplier, *, step: str, verb: str, at: Origin
) -> Supplied:
    """Check the supplier of a step's processors, and wrap it with the topology's wrapper.

    Raises:
        FunctionError: If it, or what the wrapper made of it, does not return processors.
    """
    cls = checked_supplier(supplier, verb=verb, at=at)
    asks = asked_stores(supplier())
    stores, timed = [*_own_stores(supplier, at=at)], acts_on_time(cls)
    wrapper = registry.wrapper
    if wrapper is not None:
        fixed = verb == "process_values"
        wrap = (
            wrapper.wrap_fixed_key_processor_supplier if fixed else wrapper.wrap_processor_supplier
        )
        wrapped = wrap(step, supplier)
        if wrapped is not supplier:
            outer = checked_supplier(wrapped, verb=wrap.__name__, at=at)
            _check_timers(cls, outer, step, at)
            stores += _own_stores(wrapped, at=at)
            timed = timed or acts_on_time(outer)
            supplier = wrapped
    return Supplied(supplier, tuple(stores), timed, asks)


def _check_timers(inner: type[Any], outer: type[Any], step: str, at: Origin) -> None:
    """Check that a processor's timers reach it through its wrapper."""
    bases: list[Any] = [Processor, FixedKeyProcessor]
    nothing = (None, *(base.on_timer for base in bases))
    methods = (getattr(inner, "on_timer", None), getattr(outer, "on_timer", None))
    if methods[0] in nothing or methods[1] not in nothing:
        return
    msg = f"{outer.__name__} around {inner.__name__} of step {step!r} has no on_timer"
    raise FunctionError(
        msg,
        at=at,
        why=f"timers that {inner.__name__} registers would be lost",
        fix=f"derive {outer.__name__} from WrappedProcessor, or pass on_timer(timer, context) on",
        fields={"step": step},
    )


def timers_of(supplied: Supplied, step: str, key: Serde[Any] | None) -> StoreSpec | None:
    """Return the store for timers and schedules of a step, None if its processors have none."""
    if not supplied.acts_on_time:
        return None
    return timer_store(path_name(step, "timers", length_max=STORE_NAME_LENGTH_MAX), key)


def connected_stores(
    registry: Registry,
    own: Iterable[Any],
    stores: Iterable[str | StoreBuilder],
    *,
    step: str,
    at: Origin,
) -> list[AddedStore]:
    """Return the stores that a step uses; those given as builders are added first.

    Args:
        registry: The topology while it is being written.
        own: What the step's supplier names.
        stores: Further stores that the step was given.
        step: Its name.
        at: The user's line.

    Raises:
        UnknownStoreError: If one was not added.
        BadOptionError: If one is neither a name nor a store builder.
        DuplicateStoreError: If another store has the name of one that is added.
    """
    if isinstance(stores, str | StoreBuilder):
        stores = [stores]
    found: dict[str, AddedStore] = {}
    for store in [*own, *stores]:
        known = _connected(registry, store, step=step, at=at)
        found[known.spec.name] = known
    return list(found.values())


class Uses(TypedDict):
    """The fields of a processor's node for the stores that it uses."""

    connected: tuple[StoreSpec, ...]
    plain: frozenset[str]
    read_only: frozenset[str]


def uses_of(stores: Iterable[AddedStore], *, step: str) -> Uses:
    """Return which stores a step uses, and how."""
    used = list(stores)
    return Uses(
        connected=tuple(store.spec for store in used),
        plain=frozenset(store.spec.name for store in used if store.plain),
        read_only=frozenset(store.spec.name for store in used if store.writer not in {None, step}),
    )


def add_store_builder(registry: Registry, builder: object, *, verb: str, at: Origin) -> AddedStore:
    """Add the store that a builder describes.

    Raises:
        BadOptionError: If it is not a store builder.
        DuplicateStoreError: If another store has the name.
    """
    checked = checked_store_builder(builder, verb=verb, at=at)
    return registry.add_store(checked.spec(), at, plain=checked.plain)


def checked_store_builder(builder: object, *, verb: str, at: Origin) -> StoreBuilder:
    """Return a store builder.

    Raises:
        BadOptionError: If it is not one.
    """
    if not isinstance(builder, StoreBuilder):
        msg = f"{verb} needs a store builder, not {type(builder).__name__} {builder!r:.60}"
        raise BadOptionError(
            msg,
            at=at,
            fix="pass Stores.key_value_store_builder(supplier, key=..., value=...) or another one",
            fields={"verb": verb},
        )
    return builder


def output_names(
    outputs: Mapping[str, object] | Iterable[str], *, at: Origin
) -> dict[str, object | None]:
    """Return the side outputs by name, each with the types that were given.

    Raises:
        BadNameError: If a name breaks the rule for names.
    """
    if isinstance(outputs, str):
        outputs = [outputs]
    said: Mapping[str, object | None] = (
        cast("Mapping[str, object]", outputs)
        if isinstance(outputs, Mapping)
        else dict.fromkeys(outputs)
    )
    return {check_name(name, what="output", at=at): types for name, types in said.items()}


def _own_stores(supplier: object, *, at: Origin) -> Sequence[Any]:
    given: object = getattr(supplier, "stores", None)
    if callable(given):
        try:
            given = given()
        except TypeError as error:
            told = getattr(supplier, "__name__", type(supplier).__name__)
            msg = f"stores() of {told} cannot be called: {error}"
            raise FunctionError(
                msg,
                at=at,
                why="the stores of a processor are needed before it exists",
                fix="put @staticmethod above def stores()",
            ) from None
    if given is None:
        return ()
    return [given] if isinstance(given, str | StoreBuilder) else list(cast("Iterable[Any]", given))


def _connected(registry: Registry, store: object, *, step: str, at: Origin) -> AddedStore:
    if not isinstance(store, str):
        return add_store_builder(registry, store, verb="process", at=at)
    return known_store(registry, store, verb="uses", step=step, at=at)


def known_store(registry: Registry, name: str, *, verb: str, step: str, at: Origin) -> AddedStore:
    """Return a store that was added.

    Raises:
        UnknownStoreError: If it was not; the text says that the step ``verb`` it.
    """
    known = registry.store(name)
    if known is not None:
        return known
    msg = f"step {step!r} {verb} store {name!r}, which was not added"
    raise UnknownStoreError(
        msg,
        evidence={"stores": ", ".join(registry.store_names) or "none"},
        at=at,
        why="a store is added before a step uses it",
        fix="builder.add_state_store(Stores.key_value_store_builder(...)) before this line",
        fields={"step": step, "store": name},
    )
