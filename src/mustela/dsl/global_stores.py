"""Stores of which every host has a full copy, written by a processor of the user's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mustela.api.errors import BadOptionError
from mustela.api.handlers import read_on_error
from mustela.api.names import check_name
from mustela.api.options import Consumed, options_or
from mustela.api.processor import ProcessorSupplier
from mustela.api.serdes import choose, choose_serde
from mustela.api.stores import StoreBuilder
from mustela.dsl.globalktable import check_copied, row_versions_refused
from mustela.dsl.registry import NodePlace, Registry
from mustela.dsl.suppliers import checked_store_builder, supplied
from mustela.errors import Origin
from mustela.serdes.primitives import BytesSerde
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalStoreOptions", "add_global_store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStoreOptions:
    """The options of `StreamsBuilder.add_global_store`."""

    name: str | None
    consumed: Consumed[Any, Any] | None


def add_global_store(
    registry: Registry,
    store: StoreBuilder,
    topic: str,
    supplier: ProcessorSupplier,
    given: GlobalStoreOptions,
    *,
    at: Origin,
) -> None:
    """Add a global store to a topology; see `StreamsBuilder.add_global_store`.

    Raises:
        BadOptionError: If an option is given that a global store cannot have.
    """
    options = options_or(given.consumed, Consumed[Any, Any](), at=at)
    check_name(topic, what="topic", at=at)
    said = choose("name", given.name, options.name, holder="Consumed", at=at)
    built = checked_store_builder(store, verb="add_global_store", at=at)
    for option in ("auto_offset_reset", "timestamp_extractor"):
        if getattr(options, option) is not None:
            msg = f"a global store takes no {option}="
            raise BadOptionError(
                msg,
                at=at,
                why="its topic is read from its start, and records keep their timestamps",
                fix=f"leave out {option}=",
                fields={"option": option},
            )
    if built.row_versions is not None:
        told = f"with_version({built.row_versions.version})"
        raise row_versions_refused(told, "with_version()", at=at)
    spec = built.spec()
    check_copied(spec, at=at)
    registry.check_free(spec.name, at)
    place = NodePlace(
        name=topic if said is None else check_name(said, what="step", at=at),
        parents=(),
        origin=at,
        explicit_name=said is not None,
    )
    step = place["name"]
    made = supplied(registry, supplier, step=step, verb="add_global_store", at=at)
    place["on_error"] = read_on_error(options.on_error, verb="add_global_store", at=at)
    node = GlobalTableNode(
        **place,
        topic=topic,
        key=choose_serde("key", None, options.key, holder="Consumed", at=at) or BytesSerde(),
        value=choose_serde("value", None, options.value, holder="Consumed", at=at) or BytesSerde(),
        store=replace(spec, logged=False),
        explicit_store=True,
        supplier=made.supplier,
        plain=built.plain,
    )
    registry.add_global_table(node)
