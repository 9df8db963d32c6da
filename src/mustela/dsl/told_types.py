"""What the functions of a topology show about keys and values without a declared serde."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from mustela.api.errors import MissingSerdeError
from mustela.api.given_types import (
    UNKNOWN,
    Part,
    given_type,
    made_class,
    marked_serde,
    needs_serde,
    part_type,
)
from mustela.model import TIME_MAX
from mustela.serdes.base import Serde, type_name
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.topology.aggregate import AggregateNode
from mustela.topology.async_calls import AsyncNode
from mustela.topology.cogroup import CogroupNode
from mustela.topology.foreign_key import ForeignKeyJoinNode, ForeignKeyMatchNode
from mustela.topology.global_table import GlobalJoinNode
from mustela.topology.node import Node
from mustela.topology.routing import BranchNode, RepartitionNode, SplitNode
from mustela.topology.stateless import (
    FilterNode,
    FlatMapNode,
    FlatMapValuesNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    SelectKeyNode,
)
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.stream_table_join import StreamTableJoinNode
from mustela.topology.suppress import SuppressNode
from mustela.topology.table import (
    StreamToTableNode,
    TableFilterNode,
    TableMapValuesNode,
    TableToStreamNode,
)
from mustela.topology.table_group import TableGroupNode
from mustela.topology.table_join import TableJoinNode
from mustela.topology.window_aggregate import WindowAggregateNode

__all__ = ["check_types", "told_serde"]

Half = Literal["key", "value"]

_PASSING: Final = (
    *(FilterNode, PeekNode, SplitNode, BranchNode, RepartitionNode, MergeNode),
    *(StreamToTableNode, TableToStreamNode, TableFilterNode, SuppressNode),
)
"""Steps after which keys and values are unchanged."""

_JOINS: Final = (
    *(StreamJoinNode, StreamTableJoinNode, GlobalJoinNode, TableJoinNode, ForeignKeyJoinNode),
)
_FOLDS: Final = (AggregateNode, WindowAggregateNode)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a function shows.

    Attributes:
        node: Its step.
        half: Whether it concerns keys or values.
        spec: The type.
    """

    node: Node
    half: Half
    spec: Any


def told_serde(
    find: Callable[[str], Node], step: str, half: Half, known: Serde[Any] | None
) -> Serde[Any] | None:
    """Return the serde that functions before a step show, None if they show none.

    Args:
        find: Finds a node by its name.
        step: The step whose records are written.
        half: Its keys or its values.
        known: What is known: nothing, or the serde of windowed keys whose inner serde is not known.
    """
    told = _told(find, step, half, windowed=known is not None)
    if told is None:
        return None
    serde = marked_serde(told.spec, key=half == "key")
    if serde is None or known is None:
        return serde
    if isinstance(known, WindowedSerde):
        size = None if known.size_ms == TIME_MAX else timedelta(milliseconds=known.size_ms)
        return WindowedSerde(serde, window_size=size)
    return SessionWindowedSerde(serde) if isinstance(known, SessionWindowedSerde) else None


def check_types(nodes: Iterable[Node]) -> None:
    """Check that everything that is stored or sent by key has a serde.

    Raises:
        MissingSerdeError: If no serde is known for a class that is not one of Python's own.
    """
    by_name = {node.name: node for node in nodes}
    for node in by_name.values():
        for half, parent in _kept_untyped(node):
            told = _told(by_name.__getitem__, parent, half, made=True)
            if told is not None and needs_serde(told.spec):
                raise _refusal(node, told)


def _kept_untyped(node: Node) -> Iterator[tuple[Half, str]]:
    """Iterate over what a step keeps without a declared serde: keys or values, and whose."""
    parents = node.parents
    keys = [arrival.key if arrival else None for arrival in node.arrivals]
    stores = [store.key_serde for store in node.stores]
    if parents and any(_is_untyped(key) for key in (*keys[:1], *stores)):
        yield "key", parents[0]
    if len(parents) > 1 and _is_untyped(keys[1]):
        yield "key", parents[1]
    for serde, step in _kept_values(node):
        if _is_untyped(serde):
            yield "value", step


def _kept_values(node: Node) -> Iterator[tuple[Serde[Any] | None, str]]:
    """Iterate over the serdes of the values in a step's stores, with the step that makes them."""
    parents = node.parents
    match node:
        case StreamJoinNode():
            yield node.left.value_serde, parents[0]
            yield node.right.value_serde, parents[1]
        case StreamTableJoinNode():
            yield node.copy.value_serde, parents[1]
            if node.buffer is not None:
                yield node.buffer.value_serde, parents[0]
        case TableJoinNode():
            yield from zip((copy.value_serde for copy in node.copies), parents, strict=True)
            if node.store is not None:
                yield node.store.value_serde, node.name
        case ForeignKeyMatchNode():
            yield node.rows.value_serde, parents[1]
        case SuppressNode():
            yield node.buffer.value_serde, parents[0]
        case AggregateNode() | WindowAggregateNode():
            yield node.store.value_serde, node.name
        case (
            StreamToTableNode() | TableFilterNode() | TableMapValuesNode() | ForeignKeyJoinNode()
        ) if node.store is not None:
            yield node.store.value_serde, node.name
        case _:
            return


def _is_untyped(serde: Serde[Any] | None) -> bool:
    return type(serde) is ValueSerde and not serde.classes


def _told(
    find: Callable[[str], Node],
    step: str,
    half: Half,
    *,
    made: bool = False,
    windowed: bool = False,
) -> _Told | None:
    """Walk up from a step to the function that makes its keys or values.

    Args:
        find: Finds a node by its name.
        step: The step.
        half: Its keys or its values.
        made: Whether to look also at what functions without annotations make.
        windowed: Whether to look also at the keys inside windowed ones.
    """
    node = find(step)
    if isinstance(node, WindowAggregateNode) and half == "key" and not windowed:
        return None
    if isinstance(node, MergeNode):
        found = [_told(find, parent, half, made=made, windowed=windowed) for parent in node.parents]
        first = found[0]
        same = first is not None and all(one and one.spec == first.spec for one in found)
        return first if same else None
    giver = _giver(node, half)
    if giver is None:
        return None
    if isinstance(giver, str):
        return _told(find, giver, half, made=made, windowed=windowed)
    functions, part = giver
    for function in functions:
        spec = part_type(given_type(function), part)
        if spec is UNKNOWN and made and part == "all":
            spec = made_class(function)
        # The initializer shows the class that it makes, but not that 0 is not meant as 0.0.
        if spec is not UNKNOWN and (function is functions[0] or needs_serde(spec)):
            return _Told(node, half, spec)
    return None


def _giver(node: Node, half: Half) -> str | tuple[tuple[Any, ...], Part] | None:
    """Return the source of a step's keys or values: an earlier step, or functions; else None."""
    match node:
        case MapNode():
            return (node.mapper,), half
        case FlatMapNode():
            return (node.mapper,), "each_key" if half == "key" else "each_value"
        case TableGroupNode():
            return (node.mapper,), half
        case SelectKeyNode() if half == "key":
            return (node.mapper,), "all"
        case TableToStreamNode() if half == "key" and node.mapper is not None:
            return (node.mapper,), "all"
        case MapValuesNode() | TableMapValuesNode() if half == "value":
            return (node.mapper,), "all"
        case FlatMapValuesNode() if half == "value":
            return (node.mapper,), "each"
        case AsyncNode() if half == "value" and node.gives == "value":
            return (node.function,), "all"
        case _:
            return _giver_of_more(node, half)


def _giver_of_more(node: Node, half: Half) -> str | tuple[tuple[Any, ...], Part] | None:
    if isinstance(node, _JOINS) and half == "value":
        return (node.joiner,), "all"
    if isinstance(node, _FOLDS) and half == "value":
        if node.kind == "reduce":
            return node.parents[0]
        adders = node.adders if isinstance(node, CogroupNode | WindowAggregateNode) else ()
        folds = adders or (getattr(node, "adder", None),)
        return ((*folds[:1], node.initializer), "all") if node.kind == "aggregate" else None
    stays = (SelectKeyNode, MapValuesNode, FlatMapValuesNode, TableMapValuesNode, AsyncNode)
    if isinstance(node, (*_PASSING, *_JOINS, *_FOLDS, *stays)) and node.parents:
        return node.parents[0]
    return None


_VERBS: Final[dict[type[Node], str]] = {
    MapNode: "map",
    FlatMapNode: "flat_map",
    FlatMapValuesNode: "flat_map_values",
    TableGroupNode: "group_by",
    TableToStreamNode: "to_stream",
    MapValuesNode: "map_values",
    TableMapValuesNode: "map_values",
    AsyncNode: "map_values_async",
    SelectKeyNode: "select_key",
}
_JOIN_VERBS: Final = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def _verb(node: Node) -> str:
    """Return the method that added a step; all methods that make new types have one."""
    verb = _VERBS.get(type(node)) or _JOIN_VERBS.get(getattr(node, "kind", ""), "aggregate")
    if getattr(node, "with_key", False):
        verb += "_with_key"
    if isinstance(node, TableMapValuesNode) and node.with_nulls:
        verb = "transform_values"
    written = node.origin.code if node.origin else ""
    return "group_by" if verb == "select_key" and f".{verb}(" not in written else verb


def _refusal(node: Node, told: _Told) -> MissingSerdeError:
    verb, half = _verb(told.node), told.half
    plural = {"key": "keys", "value": "values"}[half]
    name = _shown(told.spec)
    serde = marked_serde(told.spec, key=half == "key")
    how = f"give it where they are made: {verb}(..., {half}={name.rpartition('.')[2]})"
    if serde is None:
        how = (
            f"make it a dataclass or a msgspec.Struct and write {verb}(..., {half}=...), or give "
            f"your own Serde there"
        )
    return MissingSerdeError(
        f"{node.name!r} keeps {plural} of type {name}, but no serde is known for them",
        evidence={"made by": f"{told.node.name!r} ({told.node.origin})"},
        at=node.origin,
        why="without declared types only Python's own are kept: a class is never pickled",
        fix=how,
        fields={"part": half, "step": node.name, "type": told.spec},
    )


def _shown(spec: Any) -> str:
    return type_name(spec) if isinstance(spec, type) else str(spec).replace("typing.", "")
