"""The place where handles are made, so that their modules need not import each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mustela.api.window_specs import SessionWindowSpec
from mustela.dsl.cogroup import (
    Cogroup,
    CogroupedKStream,
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
)
from mustela.dsl.folds import Group
from mustela.dsl.globalktable import GlobalKTable
from mustela.dsl.grouped import KGroupedStream
from mustela.dsl.grouped_table import KGroupedTable
from mustela.dsl.handle import Handle
from mustela.dsl.kstream import KStream
from mustela.dsl.ktable import KTable
from mustela.dsl.processed import ProcessedKStream, Replies
from mustela.dsl.registry import NodePlace, Registry
from mustela.dsl.transacted import TransactedKStream
from mustela.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream, WindowedGroup

if TYPE_CHECKING:
    from mustela.serdes.base import Serde

__all__ = ["Handles"]


class Handles:
    """Makes the handles of one topology while it is being written.

    A stream becomes a table and a table a stream, so their classes would import each other. They
    ask ``registry.handles`` instead, and name each other only as types.

    Args:
        registry: The topology while it is being written.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def stream(
        self, name: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> KStream[Any, Any]:
        """Return the stream of a step, with what is known of its serdes."""
        return KStream(self._registry, name, key, value)

    def processed(
        self,
        name: str,
        key: Serde[Any] | None,
        outputs: Mapping[str, tuple[Any, Any]],
        replies: Replies,
    ) -> ProcessedKStream[Any, Any]:
        """Return the stream of a processor, which also has outputs and replies."""
        return ProcessedKStream(self._registry, name, key, None, outputs=outputs, replies=replies)

    def transacted(
        self, stream: Handle[Any, Any], place: NodePlace, name: str, key: Serde[Any] | None
    ) -> TransactedKStream[Any, Any]:
        """Return the results of the transactions that a stream asks for."""
        return TransactedKStream(stream, place, name, key)

    def table(
        self, name: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> KTable[Any, Any]:
        """Return the table of a step."""
        return KTable(self._registry, name, key, value)

    def global_table(self, name: str, key: Serde[Any], value: Serde[Any]) -> GlobalKTable[Any, Any]:
        """Return a global table."""
        return GlobalKTable(self._registry, name, key, value)

    def grouped(
        self, parent: str, path: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> KGroupedStream[Any, Any]:
        """Return the records of a step by key; the names of later steps begin with the path."""
        return KGroupedStream(self._group(parent, path, key, value))

    def grouped_table(
        self, parent: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> KGroupedTable[Any, Any]:
        """Return the rows of a step by group."""
        return KGroupedTable(self._group(parent, parent, key, value))

    def _group(
        self, parent: str, path: str, key: Serde[Any] | None, value: Serde[Any] | None
    ) -> Group:
        return Group(registry=self._registry, parents=(parent,), path=path, key=key, value=value)

    def cogrouped(self, cogroup: Cogroup) -> CogroupedKStream[Any, Any]:
        """Return several grouped streams as one."""
        return CogroupedKStream(cogroup)

    def windowed(
        self, group: WindowedGroup
    ) -> TimeWindowedKStream[Any, Any] | SessionWindowedKStream[Any, Any]:
        """Return grouped records in windows of either kind."""
        if isinstance(group.windows, SessionWindowSpec):
            return SessionWindowedKStream(group)
        return TimeWindowedKStream(group)

    def windowed_cogroup(
        self, group: WindowedGroup, cogroup: Cogroup
    ) -> TimeWindowedCogroupedKStream[Any, Any] | SessionWindowedCogroupedKStream[Any, Any]:
        """Return several grouped streams in windows of either kind."""
        if isinstance(group.windows, SessionWindowSpec):
            return SessionWindowedCogroupedKStream(group, cogroup)
        return TimeWindowedCogroupedKStream(group, cogroup)
