"""Options that steps take: how records are read, written, grouped and stored.

The common options are plain keywords of the methods too. What is said in both places must agree.
The classes have no slots: up to Python 3.11 ``Consumed[str, int](...)`` fails for a generic class
that is frozen and slotted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal

from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.topology.errors import BadOptionError

if TYPE_CHECKING:  # a default for a type variable is newer than Python 3.11
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
    GroupK = TypeVar("GroupK", default=Any)
    GroupV = TypeVar("GroupV", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    GroupK = TypeVar("GroupK")
    GroupV = TypeVar("GroupV")

__all__ = [
    "AutoOffsetReset",
    "Consumed",
    "Grouped",
    "Materialized",
    "Partitioner",
    "Produced",
    "options_or",
]

AutoOffsetReset = Literal["earliest", "latest", "none"]
"""Where to begin reading a partition for which nothing is committed."""

Partitioner = Callable[[str, Any, Any, int], int | None]
"""(topic, key, value, number of partitions) -> partition, or None for Kafka's own choice."""


@dataclass(frozen=True, kw_only=True)
class Consumed(Generic[K, V]):
    """How a topic is read.

    Attributes:
        key: Type or serde of the keys; bytes if nothing is said.
        value: Type or serde of the values; bytes if nothing is said.
        auto_offset_reset: Where to begin a partition for which nothing is committed; None takes
            the application's setting.
        name: Name of the source.

    Example:
        >>> from mustela import StreamsBuilder
        >>> latest = Consumed(key=str, value=int, auto_offset_reset="latest")
        >>> clicks = StreamsBuilder().stream("clicks", consumed=latest)
    """

    key: type[K] | Serde[K] | None = None
    value: type[V] | Serde[V] | None = None
    auto_offset_reset: AutoOffsetReset | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Produced(Generic[GroupK, GroupV]):
    """How a topic is written.

    Attributes:
        key: Type or serde of the keys; those of the stream if nothing is said.
        value: Type or serde of the values; those of the stream if nothing is said.
        partitioner: Chooses the partition; Kafka's own choice by key if nothing is said.
        name: Name of the sink.

    Example:
        >>> from mustela import StreamsBuilder
        >>> lines = StreamsBuilder().stream("lines", key=str, value=str)
        >>> first = Produced(partitioner=lambda topic, key, value, count: 0)
        >>> lines.to("copies", produced=first)
    """

    key: type[GroupK] | Serde[GroupK] | None = None
    value: type[GroupV] | Serde[GroupV] | None = None
    partitioner: Partitioner | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Grouped(Generic[GroupK, GroupV]):
    """How records travel when they are grouped.

    Attributes:
        key: Type or serde of the grouping key.
        value: Type or serde of the values.
        name: Name of the grouping; names of what follows begin with it.

    Example:
        >>> from mustela import StreamsBuilder
        >>> lines = StreamsBuilder().stream("lines", key=str, value=str)
        >>> by_length = lines.group_by(lambda key, line: len(line), grouped=Grouped(key=int))
    """

    key: type[GroupK] | Serde[GroupK] | None = None
    value: type[GroupV] | Serde[GroupV] | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Materialized(Generic[GroupK, GroupV]):
    """How a table is stored.

    Attributes:
        store: Name of the store; ``<application id>-<store>-changelog`` is its changelog.
        key: Type or serde of the keys.
        value: Type or serde of the values.
        logged: Whether changes go to a changelog topic, from which the store is restored.
        topic_config: Settings of the changelog topic that differ from the default.

    Example:
        >>> from mustela import StreamsBuilder
        >>> lines = StreamsBuilder().stream("lines", key=str, value=str)
        >>> options = Materialized(store="counts", topic_config={"segment.ms": "600000"})
        >>> counts = lines.group_by_key().count(materialized=options)
    """

    store: str | None = None
    key: type[GroupK] | Serde[GroupK] | None = None
    value: type[GroupV] | Serde[GroupV] | None = None
    logged: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict[str, str])


OptionsT = TypeVar("OptionsT")


def options_or(given: OptionsT | None, default: OptionsT, *, at: Origin) -> OptionsT:
    """Return the options that a user gave, or the default.

    Raises:
        BadOptionError: If they are of another class.
    """
    if given is None:
        return default
    wanted = type(default)
    if isinstance(given, wanted):
        return given
    msg = f"{type(given).__name__} does not hold options of this step"
    raise BadOptionError(
        msg,
        evidence={"got": repr(given)},
        at=at,
        fix=f"pass {wanted.__name__}(...)",
        fields={"wanted": wanted.__name__},
    )
