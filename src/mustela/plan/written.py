"""The serdes with a schema registry with which an application writes, each at its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mustela.plan.plan import Plan
from mustela.serdes.base import Serde
from mustela.serdes.schemas.registered import RegisteredSerde
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["written_serdes"]

_OWN = "mustela."
_READ = (SourceNode, TableSourceNode, GlobalTableNode)


def written_serdes(plan: Plan) -> list[RegisteredSerde[Any]]:
    """Return them in the order of the plan; those of topics that are only read are left out.

    Args:
        plan: A plan whose serdes are bound to their places.
    """
    found: dict[tuple[Any, ...], RegisteredSerde[Any]] = {}
    for serde in _serdes(plan, set(), reads=False):
        found.setdefault((serde.place, serde), serde)
    return list(found.values())


def _serdes(value: Any, seen: set[int], *, reads: bool) -> Iterator[RegisteredSerde[Any]]:
    if isinstance(value, RegisteredSerde):
        serde = cast("RegisteredSerde[Any]", value)
        if serde.place.internal or not reads:
            yield serde
        return
    for inner in _inside(value, seen):
        yield from _serdes(inner, seen, reads=reads or isinstance(value, _READ))


def _inside(value: Any, seen: set[int]) -> list[Any]:
    """Return what may hold serdes in a node, a store, another serde, or a container of them."""
    if isinstance(value, Mapping):
        return list(cast("Mapping[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        return list(cast("tuple[Any, ...]", value))
    held = _held(value)
    if held is None or id(value) in seen:
        return []
    seen.add(id(value))
    return held


def _held(node: object) -> list[Any] | None:
    """Return the fields of a node, a store or another serde; None for anything else."""
    kind: type = type(node)
    if dataclasses.is_dataclass(node) and kind.__module__.startswith(_OWN):
        return [getattr(node, field.name) for field in dataclasses.fields(node)]
    if issubclass(kind, Serde):
        return list(getattr(node, "__dict__", {}).values())
    return None
