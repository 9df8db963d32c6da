"""Serdes bound to the places where they are used, and to the application's schema registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

from mustela.errors import Origin
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Exchange, Plan
from mustela.serdes.base import Serde, SerdePlace
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.node import Node
from mustela.topology.sink import SinkNode
from mustela.topology.source import SourceNode, TableSourceNode

__all__ = ["SerdeBinder", "bind_serdes"]

T = TypeVar("T")

_OWN = "mustela."
"""Not to be searched: a dataclass of the user's."""
_KEYS = frozenset({"key", "key_serde", "foreign_key", "record_key"})
_PLAIN = frozenset({bool, bytes, float, int, str, type(None), FunctionType, Origin})
"""What most fields hold, and what holds no serde."""


@dataclass(frozen=True, slots=True)
class SerdeBinder:
    """Binds serdes to their places.

    Attributes:
        application_id: The application, whose id is the prefix of its own topics.
        registry: Properties of its schema registry.
    """

    application_id: str
    registry: Mapping[str, str]

    def serde(self, serde: Serde[Any], topic: str, *, key: bool) -> Serde[Any]:
        """Return a serde for a topic that others read and write, too.

        Example:
            >>> from mustela.serdes.primitives import StrSerde
            >>> SerdeBinder("a", {}).serde(StrSerde(), "orders", key=True)
            <StrSerde str>
        """
        place = SerdePlace(topic, "key" if key else "value")
        return serde.bound(place, self.registry)

    def bind(self, value: T, place: SerdePlace | None = None) -> T:
        """Return nodes, stores or containers of them with each serde bound to its place.

        A value that holds no serde that depends on its place is returned unchanged.
        """
        found: Any = value
        place = self._place(value) or place
        if isinstance(value, Serde):
            if place is not None:
                found = cast("Serde[Any]", value).bound(place, self.registry)
        elif dataclasses.is_dataclass(value) and type(value).__module__.startswith(_OWN):
            found = self._fields(value, place)
        elif type(value) is tuple:
            items = cast("tuple[Any, ...]", value)
            bound = tuple(self.bind(item, place) for item in items)
            found = items if _same(items, bound) else bound
        elif isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value)
            changed = {key: self.bind(item, place) for key, item in entries.items()}
            found = entries if _same(entries.values(), changed.values()) else changed
        return cast("T", found)

    def _fields(self, value: Any, place: SerdePlace | None) -> Any:
        changed: dict[str, Any] = {}
        key = other = place
        if place is not None:
            key, other = (dataclasses.replace(place, part=part) for part in ("key", "value"))
        for name in _names(cast("type[Any]", type(value))):
            old = getattr(value, name)
            if type(old) in _PLAIN:
                continue
            new = self.bind(old, key if name in _KEYS else other)
            if new is not old:
                changed[name] = new
        return dataclasses.replace(value, **changed) if changed else value

    def _place(self, value: object) -> SerdePlace | None:
        """Return the topic of what a node or a store holds; None if they lie deeper."""
        match value:
            case SourceNode() | TableSourceNode():
                return SerdePlace(next(iter(value.topics), ""))
            case GlobalTableNode():
                return SerdePlace(value.topic)
            case SinkNode():
                return SerdePlace(value.topic if isinstance(value.topic, str) else "")
            case StoreSpec():
                log = changelog_topic(self.application_id, value.log_name)
                return SerdePlace(log, internal=True)
            case Exchange():
                return self._own(value.step)
            case Node():
                first = next(iter(value.stores), None)
                return self._own(value.name) if first is None else self._place(first)
            case _:
                return None

    def _own(self, name: str) -> SerdePlace:
        """Return the place of data for which Kafka Streams would have a repartition topic."""
        return SerdePlace(f"{self.application_id}-{name}-repartition", internal=True)


def bind_serdes(plan: Plan, application_id: str, registry: Mapping[str, str]) -> Plan:
    """Return a plan whose serdes know where they are used.

    Args:
        plan: The plan.
        application_id: The application's name.
        registry: Properties of its schema registry, by Confluent's names.

    Raises:
        RegistryOptionError: If one of them has an invalid value.
    """
    return SerdeBinder(application_id, registry).bind(plan)


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _same(before: Any, after: Any) -> bool:
    return all(one is other for one, other in zip(before, after, strict=True))
