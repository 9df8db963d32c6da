"""The stores of a join of two streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mustela.api.errors import BadOptionError, DuplicateStoreError
from mustela.api.join_windows import StreamJoined
from mustela.api.stores import StoreSupplier, checked_supplier
from mustela.api.upgrades import Upgrades, read_versions
from mustela.api.window_specs import JoinWindowSpec
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.list import LIST_FORMAT
from mustela.state.kinds.waiting import WAITING_FORMAT
from mustela.topology.stream_join import StreamJoinKind

__all__ = ["JoinStores"]


@dataclass(frozen=True, slots=True)
class JoinStores:
    """The stores of a join of two streams, named as Kafka Streams names them."""

    base: str
    kind: StreamJoinKind
    key: Serde[Any]
    window: JoinWindowSpec
    options: StreamJoined[Any, Any, Any]
    at: Origin

    def left(self, value: Serde[Any] | None) -> StoreSpec:
        """Return the store of the left stream's records."""
        suffix = "-outer-this-join-store" if self.kind == "outer" else "-this-join-store"
        spec = self._kept(self.options.this_store, suffix, value)
        said = self.options
        return self._versioned(spec, said.version, said.upgrade)

    def right(self, value: Serde[Any] | None, left: str) -> StoreSpec:
        """Return the store of the right stream's records.

        Raises:
            DuplicateStoreError: If it has the name of the left store.
        """
        suffix = "-other-join-store" if self.kind == "inner" else "-outer-other-join-store"
        said = self.options
        spec = self._kept(said.other_store, suffix, value)
        spec = self._versioned(spec, said.other_version, said.other_upgrade)
        if spec.name == left:
            msg = f"both sides of a join have a store named {left!r}"
            raise DuplicateStoreError(
                msg,
                at=self.at,
                why="each side keeps its own records, and a store has one changelog",
                fix="give the two suppliers different names",
                fields={"store": left},
            )
        return spec

    def unmatched(self) -> StoreSpec | None:
        """Return the store for records without a partner, if they are results at all."""
        if self.kind == "inner":
            return None
        supplied = self.options.this_store
        base = self.base if supplied is None else supplied.name
        return StoreSpec(
            name=f"{base}-{self.kind}-shared-join-store",
            kind="buffer",
            key_serde=self.key,
            logged=self.options.logged,
            format_version=WAITING_FORMAT,
            topic_config=dict(self.options.topic_config),
        )

    def _versioned(self, spec: StoreSpec, version: int, upgrade: Upgrades[Any] | None) -> StoreSpec:
        versions = read_versions(spec.name, version, upgrade, at=self.at)
        return replace(spec, row_versions=versions)

    def _kept(
        self, supplier: StoreSupplier | None, suffix: str, value: Serde[Any] | None
    ) -> StoreSpec:
        supplied = None if supplier is None else self._checked(supplier)
        return StoreSpec(
            name=self.base + suffix if supplied is None else supplied.name,
            kind="list",
            key_serde=self.key,
            value_serde=value or ValueSerde(),
            logged=self.options.logged,
            retention_ms=self.window.kept_ms + self.window.segment_ms,
            segment_ms=self.window.segment_ms,
            format_version=LIST_FORMAT,
            topic_config=dict(self.options.topic_config),
        )

    def _checked(self, supplier: StoreSupplier) -> StoreSpec:
        """Return a supplied store, if it can keep the records of this join.

        Raises:
            BadOptionError: If it is not a window store with the duplicates, window and retention of
                the join.
        """
        spec = checked_supplier(supplier, at=self.at)
        window = self.window
        wanted = ("window", True, window.size_ms, window.retention_ms)
        if (spec.kind, spec.duplicates, spec.window_ms, spec.retention_ms) == wanted:
            return spec
        msg = f"store {spec.name!r} cannot keep the records of this join"
        raise BadOptionError(
            msg,
            evidence={
                "has": f"{spec.kind} store, retain_duplicates={spec.duplicates}, window "
                f"{spec.window_ms} ms, retention {spec.retention_ms} ms",
                "needs": f"window store, retain_duplicates=True, window {window.size_ms} ms, "
                f"retention {window.retention_ms} ms",
            },
            at=self.at,
            why="all records of one key and time must stay, for before, after and grace together",
            fix="give the supplier the values that the join needs, or leave it out",
            fields={"store": spec.name},
        )
