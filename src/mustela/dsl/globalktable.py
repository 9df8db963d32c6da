"""A table of which every host has a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from mustela.api.errors import BadOptionError
from mustela.api.names import check_name
from mustela.api.options import Consumed, Materialized, options_or
from mustela.api.serdes import choose, choose_serde
from mustela.api.stores import checked_supplier
from mustela.dsl.handle import Handle
from mustela.dsl.materialize import AGGREGATE_KINDS, store_spec
from mustela.dsl.registry import NodePlace, Registry
from mustela.errors import Origin
from mustela.serdes.primitives import BytesSerde
from mustela.serdes.row_versions import FIRST_VERSION
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode

__all__ = ["GlobalKTable", "add_global_table", "row_versions_refused"]

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Handle[K, V]):
    """A topic as a table of which every host has a full copy; from `StreamsBuilder.global_table`.

    A stream is joined with it by any key, and no records travel for that. Changes of the table do
    not produce results by themselves, and records are joined with the rows that are there when they
    are processed, whatever their timestamps.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> towns = builder.global_table("towns", key=str, value=str)
        >>> calls = builder.stream("calls", key=str, value=dict)
        >>> named = calls.join(
        ...     towns,
        ...     lambda call, town: {**call, "town": town},
        ...     foreign_key=lambda call: call["prefix"],
        ... )
        >>> named.to("named", value=dict)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("towns").pipe_input("030", "Berlin")
        ...     driver.create_input_topic("calls").pipe_input("555", {"prefix": "030"})
        ...     driver.create_output_topic("named").read_value()
        {'prefix': '030', 'town': 'Berlin'}
    """

    _kind = "global table"

    @property
    def queryable_store_name(self) -> str | None:
        """The name of the table's store if the user named it, else None.

        Example:
            >>> from mustela import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.global_table("towns", key=str, store="towns").queryable_store_name
            'towns'
        """
        node = self._registry.node(self._name)
        named = bool(getattr(node, "explicit_store", False))
        return node.stores[0].name if named else None


def add_global_table(  # noqa: PLR0913 - the keywords of `StreamsBuilder.global_table`
    registry: Registry,
    topic: str,
    *,
    key: Any,
    value: Any,
    name: str | None,
    store: str | None,
    consumed: Consumed[Any, Any] | None,
    materialized: Materialized[Any, Any] | None,
    at: Origin,
) -> GlobalKTable[Any, Any]:
    """Add a global table to a topology; see `StreamsBuilder.global_table`."""
    options = options_or(consumed, Consumed[Any, Any](), at=at)
    stored = options_or(materialized, Materialized[Any, Any](), at=at)
    check_name(topic, what="topic", at=at)
    said = choose("name", name, options.name, holder="Consumed", at=at)
    place = NodePlace(
        name=topic if said is None else check_name(said, what="step", at=at),
        parents=(),
        origin=at,
        explicit_name=said is not None,
    )
    _refuse_what_cannot_be(options, stored, at=at)
    key_serde = choose_serde("key", key, options.key, holder="Consumed", at=at)
    value_serde = choose_serde("value", value, options.value, holder="Consumed", at=at)
    key_serde = choose_serde("key", key_serde, stored.key, holder="Materialized", at=at)
    value_serde = choose_serde("value", value_serde, stored.value, holder="Materialized", at=at)
    spec, explicit = store_spec(
        place,
        stored,
        store=store,
        key=key_serde or BytesSerde(),
        value=value_serde or BytesSerde(),
        kinds=AGGREGATE_KINDS,
        never_expires="it is a copy of its topic, and has the same rows",
    )
    assert spec.key_serde is not None
    assert spec.value_serde is not None
    node = GlobalTableNode(
        **place,
        topic=topic,
        key=spec.key_serde,
        value=spec.value_serde,
        store=replace(spec, logged=False),
        explicit_store=explicit,
    )
    table = registry.add_global_table(node)
    return registry.handles.global_table(table.name, table.key, table.value)


def row_versions_refused(said: str, options: str, *, at: Origin) -> BadOptionError:
    """Return the error for versions of rows that come from a topic."""
    return BadOptionError(
        f"a global table or store has no versions of its rows, but is given {said}",
        at=at,
        why="a copy holds the records of its topic, byte for byte, and a new copy is read from"
        " there: nothing would be upgraded",
        fix=f"leave out {options}, and make the serde of the topic read older records",
        fields={"option": "version"},
    )


def check_copied(store: StoreSpec | None, *, at: Origin) -> None:
    """Refuse a store that keeps more than the records of a topic.

    Raises:
        BadOptionError: If it has rows beside those of records, such as an index.
    """
    if store is None or not (store.keeps_more or store.indexes):
        return
    msg = f"a global table or store cannot be kept in store {store.name!r}"
    raise BadOptionError(
        msg,
        evidence={"layout": store.layout},
        at=at,
        why="a copy holds the records of its topic, byte for byte, and no rows beside them",
        fix="give it a store that keeps all records and nothing else, or read the topic with "
        "table() and keep that in this store",
        fields={"store": store.name, "kind": store.kind},
    )


def _refuse_what_cannot_be(
    options: Consumed[Any, Any], stored: Materialized[Any, Any], *, at: Origin
) -> None:
    """Refuse options that a full copy of a topic cannot have.

    Raises:
        BadOptionError: If the table would be versioned or keep more than its topic has, its rows
            have versions, or it would not begin at its topic's start.
    """
    supplied = None if stored.supplier is None else checked_supplier(stored.supplier, at=at)
    check_copied(supplied, at=at)
    if supplied is not None and supplied.traits.versioned:
        msg = "a global table cannot be versioned"
        raise BadOptionError(
            msg,
            evidence={"store": supplied.name},
            at=at,
            why="its rows are not read in step with the records that are joined with them, so "
            "the row of a record's time may not be there yet",
            fix="read the topic with table(), or use another supplier",
            fields={"option": "materialized"},
        )
    if stored.version != FIRST_VERSION or stored.upgrade is not None:
        given = f"version={stored.version}"
        raise row_versions_refused(given, "version= and upgrade=", at=at)
    if options.on_error is not None:
        msg = "a global table takes no on_error="
        raise BadOptionError(
            msg,
            at=at,
            why="its rows are decoded where they are looked up",
            fix="set processing_handler in the settings, or read the topic with table()",
            fields={"option": "on_error"},
        )
    if options.auto_offset_reset is not None:
        msg = "a global table takes no auto_offset_reset="
        raise BadOptionError(
            msg,
            at=at,
            why="it holds the whole topic, so reading begins at the topic's start",
            fix="leave out auto_offset_reset=",
            fields={"option": "auto_offset_reset"},
        )
