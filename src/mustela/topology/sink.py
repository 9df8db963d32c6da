"""Where records go: a topic, or one that a function chooses for each record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mustela.api.options import Partitioner
from mustela.model import RecordContext
from mustela.serdes.base import Serde
from mustela.topology.node import Node

__all__ = ["SinkNode", "TopicNameExtractor"]

TopicNameExtractor = Callable[[Any, Any, RecordContext], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkNode(Node):
    """Write records to ``topic``.

    Attributes:
        topic: A name, or a function of (key, value, record context) that returns one.
        key: Serde of the keys; None means the values are bytes already.
        value: Serde of the values.
        partitioner: Optional function that chooses the partition, or several.
    """

    topic: str | TopicNameExtractor
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    partitioner: Partitioner | None = None
