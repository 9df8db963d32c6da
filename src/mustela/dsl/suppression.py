"""Holding back changes of a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from mustela.api.errors import BadOptionError, NotWindowedError, SuppressVersionedError
from mustela.api.options import options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose
from mustela.api.spans import milliseconds
from mustela.api.suppression import BufferConfig, Suppressed
from mustela.api.window_specs import WindowSpec
from mustela.dsl.handle import Handle, registry_of
from mustela.dsl.registry import NodePlace, Registry
from mustela.dsl.versions import row_versions_of, versions_of
from mustela.errors import Origin
from mustela.model import TIME_MAX
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.suppress import SuppressNode
from mustela.topology.window_aggregate import WindowAggregateNode

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["Suppression"]

K = TypeVar("K")
V = TypeVar("V")


class Suppression(Handle[K, V]):
    """What `KTable` can do to emit less: suppress."""

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold back changes, so that only the last of many changes of a key is sent on.

        With `Suppressed.until_time_limit` a change waits until event time has passed the timestamp
        of the first one held back by the given time; later changes of the key replace it and keep
        its time. With `Suppressed.until_window_closes` the last value of each window is sent on
        once, when no record can change it any more; deletions of windows are not sent on.

        A result keeps the timestamp of the last change. A join with the result sees the values that
        were sent on, not those that wait.

        Args:
            suppressed: What changes wait for, and how many may.
            name: Step name; made from the step's place if not given. It also names the changelog of
                the waiting rows.

        Returns:
            The table of the changes that are sent on.

        Raises:
            NotWindowedError: If it must wait for windows to close, but the table has no windowed
                keys.
            SuppressVersionedError: If the table is versioned.
            DuplicateNameError: If another step already has this name.

        Example:
            >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
            >>> clicks = builder.stream("clicks", key=str, value=str).group_by_key()
            >>> counts = clicks.windowed_by(minutes).count(store="counts")
            >>> last = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            >>> last.to_stream(lambda window, _count: window.key).to("out", key=str, value=int)
            >>> with TopologyTestDriver(builder) as driver:
            ...     clicks = driver.create_input_topic("clicks")
            ...     clicks.pipe_input("ann", "/", timestamp=1_000)
            ...     clicks.pipe_input("ann", "/cart", timestamp=2_000)
            ...     clicks.pipe_input("bob", "/", timestamp=60_000)
            ...     driver.create_output_topic("out").read_key_values_to_list()
            [('ann', 2)]
        """
        at = user_origin()
        wish = _suppressed(suppressed, at=at)
        said = choose("name", name, wish.name, holder="Suppressed", at=at)
        place = self._registry.place("suppress", parents=(self._name,), at=at, name=said)
        _refuse_versioned(self._registry, self._name, at=at)
        wait_ms, span_ms = _waits(self, wish, self._registry, self._name, at=at)
        self._registry.add(
            SuppressNode(
                **place,
                until=wish.until,
                wait_ms=wait_ms,
                span_ms=span_ms,
                buffer=_buffer_spec(place, wish.buffer, self),
                key=self._key,
                value=self._value,
                max_records=wish.buffer.records,
                max_bytes=wish.buffer.bytes,
                when_full=wish.buffer.when_full,
                explicit_store=said is not None,
            )
        )
        return self._registry.handles.table(place["name"], self._key, self._value)


def _suppressed(given: object, *, at: Origin) -> Suppressed:
    default = Suppressed(until="time_limit", buffer=BufferConfig())
    if given is None:
        msg = "suppress needs to know what changes wait for"
        raise BadOptionError(msg, at=at, fix="pass Suppressed.until_window_closes(...)")
    return options_or(given, default, at=at)  # type: ignore[arg-type]


def _buffer_spec(place: NodePlace, buffer: BufferConfig, table: Handle[Any, Any]) -> StoreSpec:
    key, value = table.serdes
    registry = registry_of(table)
    return StoreSpec(
        name=place["name"],
        kind="buffer",
        key_serde=key or ValueSerde(sort_keys=True),
        value_serde=value or ValueSerde(),
        row_versions=row_versions_of(registry, table.name),
        logged=buffer.logged,
        topic_config=dict(buffer.topic_config),
    )


def _waits(
    table: Handle[Any, Any], wish: Suppressed, registry: Registry, name: str, *, at: Origin
) -> tuple[int, int]:
    """Return how long rows wait, and how far before that their timestamps may be."""
    if wish.until == "time_limit":
        limit = wish.time_to_wait
        if limit is None or limit == timedelta.max:
            return TIME_MAX, TIME_MAX
        wait_ms = milliseconds("until_time_limit", "time_to_wait", limit, at=at)
        return wait_ms, wait_ms
    windowed = isinstance(table.serdes[0], WindowedSerde | SessionWindowedSerde)
    windows = list(_windows(registry, name)) if windowed else []
    if not windows:
        msg = f"cannot suppress {name!r} until its windows close: it has none"
        raise NotWindowedError(
            msg,
            at=at,
            why="only the result of a windowed aggregation says when a row no longer changes",
            fix="group the stream, and use windowed_by(...) before the aggregation; or suppress"
            " with Suppressed.until_time_limit(...)",
            fields={"table": name},
        )
    wait_ms = max(spec.closes_at(0, 0) for spec in windows)
    return wait_ms, max(max(spec.lag_ms, wait_ms) for spec in windows)


def _windows(registry: Registry, name: str) -> Iterator[WindowSpec]:
    """Yield the windows of a table, those of all tables that it is made of."""
    node = registry.node(name)
    if isinstance(node, WindowAggregateNode):
        yield node.windows
        return
    for parent in node.parents:
        yield from _windows(registry, parent)


def _refuse_versioned(registry: Registry, name: str, *, at: Origin) -> None:
    store = versions_of(registry, name)
    if store is not None:
        msg = f"cannot suppress {name!r}: it is a versioned table"
        raise SuppressVersionedError(
            msg,
            at=at,
            why="each version of a row is a separate result: holding them back would lose some",
            fix="keep the table in a store that is not versioned, or do not suppress it",
            fields={"table": name, "store": store.name},
        )
