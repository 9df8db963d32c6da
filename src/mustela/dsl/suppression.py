"""Holding back changes of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mustela.dsl.handle import Handle
from mustela.dsl.names import check_name
from mustela.dsl.option import Option
from mustela.dsl.options import options_or
from mustela.dsl.origin import user_origin
from mustela.dsl.registry import NodePlace, Registry
from mustela.dsl.serdes import choose
from mustela.dsl.versions import row_versions_of, versions_of
from mustela.dsl.windows import milliseconds
from mustela.errors import Origin
from mustela.model import TIME_MAX
from mustela.serdes.values import ValueSerde
from mustela.serdes.windowed import SessionWindowedSerde, WindowedSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.errors import BadOptionError, NotWindowedError, SuppressVersionedError
from mustela.topology.suppress import SuppressNode, SuppressUntil, WhenFull
from mustela.topology.window_aggregate import WindowAggregateNode
from mustela.topology.windows import WindowSpec

if TYPE_CHECKING:
    from mustela.dsl.ktable import KTable

__all__ = ["BufferConfig", "Suppressed", "Suppression"]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True)
class BufferConfig(Option):
    """How much a suppressed table may hold back, and what happens when that is too little.

    A bound counts for each key group on its own, as Kafka Streams' counts for each task: so it does
    not matter how many lanes there are.

    Attributes:
        records: Rows that may wait; None for any number.
        bytes: Bytes that their keys and values may have; None for any number.
        when_full: ``emit_early``: the oldest row goes on before its time; ``shut_down``: the
            application stops.
        logged: Whether waiting rows go to a changelog topic, from which they are restored.
        topic_config: Settings of the changelog topic that differ from the default.

    Example:
        >>> BufferConfig.max_records(1_000).with_max_bytes(1 << 20).shut_down_when_full().bytes
        1048576
    """

    records: int | None = None
    bytes: int | None = None
    when_full: WhenFull = "shut_down"
    logged: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def max_records(cls, count: int) -> Self:
        """Return a buffer for so many rows; the oldest goes on early when it is full.

        Args:
            count: Rows that may wait in a key group.

        Example:
            >>> BufferConfig.max_records(10).when_full
            'emit_early'
        """
        return cls(records=_bound("max_records", count, at=user_origin()), when_full="emit_early")

    @classmethod
    def max_bytes(cls, size: int) -> Self:
        """Return a buffer for so many bytes; the oldest row goes on early when it is full.

        Args:
            size: Bytes that the waiting rows of a key group may have: their keys, values and
                headers, and 100 for each row.

        Example:
            >>> BufferConfig.max_bytes(4_096).records is None
            True
        """
        return cls(bytes=_bound("max_bytes", size, at=user_origin()), when_full="emit_early")

    @classmethod
    def unbounded(cls) -> Self:
        """Return a buffer without a bound: what waits is kept on disk, not in memory.

        Example:
            >>> BufferConfig.unbounded().records is None
            True
        """
        return cls()

    def with_max_records(self, count: int) -> Self:
        """Return the same with a bound on rows.

        Args:
            count: Rows that may wait in a key group.

        Example:
            >>> BufferConfig.max_bytes(4_096).with_max_records(10).records
            10
        """
        return replace(self, records=_bound("with_max_records", count, at=user_origin()))

    def with_max_bytes(self, size: int) -> Self:
        """Return the same with a bound on bytes.

        Args:
            size: Bytes that the waiting rows of a key group may have: their keys, values and
                headers, and 100 for each row.

        Example:
            >>> BufferConfig.max_records(10).with_max_bytes(4_096).bytes
            4096
        """
        return replace(self, bytes=_bound("with_max_bytes", size, at=user_origin()))

    def with_no_bound(self) -> Self:
        """Return the same without a bound.

        Example:
            >>> BufferConfig.max_records(10).with_no_bound().records is None
            True
        """
        return replace(self, records=None, bytes=None, when_full="shut_down")

    def emit_early_when_full(self) -> Self:
        """Return the same, but the oldest row goes on before its time when the buffer is full.

        Example:
            >>> BufferConfig.unbounded().with_max_records(9).emit_early_when_full().when_full
            'emit_early'
        """
        return replace(self, when_full="emit_early")

    def shut_down_when_full(self) -> Self:
        """Return the same, but the application stops when the buffer is full.

        Example:
            >>> BufferConfig.max_records(10).shut_down_when_full().when_full
            'shut_down'
        """
        return replace(self, when_full="shut_down")

    def with_logging_disabled(self) -> Self:
        """Return the same without a changelog: what waits is lost with the disk.

        Example:
            >>> BufferConfig.unbounded().with_logging_disabled().logged
            False
        """
        return replace(self, logged=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Self:
        """Return the same with a changelog.

        Args:
            topic_config: Settings of the changelog topic that differ from the default.

        Example:
            >>> BufferConfig.unbounded().with_logging_enabled({"segment.ms": "600000"}).logged
            True
        """
        return replace(self, logged=True, topic_config=dict(topic_config or {}))


@dataclass(frozen=True, kw_only=True)
class Suppressed(Option):
    """What the changes of a table wait for; made by `until_time_limit` or `until_window_closes`.

    Attributes:
        until: What a change waits for.
        time_to_wait: For ``time_limit``: how long.
        buffer: How much may wait.
        name: Name of the step.

    Example:
        >>> Suppressed.until_window_closes(BufferConfig.unbounded()).until
        'window_closes'
    """

    until: SuppressUntil
    buffer: BufferConfig
    time_to_wait: timedelta | None = None
    name: str | None = None

    @classmethod
    def until_time_limit(
        cls, time_to_wait: timedelta, buffer: BufferConfig, *, name: str | None = None
    ) -> Self:
        """Return that a change waits for so long, counted from the first one held back.

        Args:
            time_to_wait: Event time that passes before the last change of a key goes on;
                ``timedelta.max`` for no end but a full buffer.
            buffer: How much may wait.
            name: Name of the step.

        Raises:
            BadOptionError: If the time is no timedelta, or negative.

        Example:
            >>> rare = Suppressed.until_time_limit(timedelta(minutes=5), BufferConfig.unbounded())
            >>> rare.time_to_wait
            datetime.timedelta(seconds=300)
        """
        at = user_origin()
        if time_to_wait != timedelta.max:
            milliseconds("until_time_limit", "time_to_wait", time_to_wait, at=at)
        buffer = _checked(buffer, at=at)
        return cls(until="time_limit", time_to_wait=time_to_wait, buffer=buffer, name=name)

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig, *, name: str | None = None) -> Self:
        """Return that only the last value of a window goes on, when the window is over.

        Args:
            buffer: How much may wait; it must not emit early.
            name: Name of the step.

        Raises:
            BadOptionError: If the buffer would let rows go on early.

        Example:
            >>> final = Suppressed.until_window_closes(BufferConfig.unbounded(), name="final")
            >>> final.name
            'final'
        """
        at = user_origin()
        buffer = _checked(buffer, at=at)
        if buffer.when_full == "emit_early":
            msg = "until_window_closes cannot have a buffer that emits early"
            raise BadOptionError(
                msg,
                at=at,
                why="a result that goes on early is not the last one of its window",
                fix="pass BufferConfig.unbounded(), or BufferConfig.max_records(...)"
                ".shut_down_when_full()",
                fields={"buffer": buffer},
            )
        return cls(until="window_closes", buffer=buffer, name=name)

    def with_name(self, name: str) -> Self:
        """Return the same with a name for the step.

        Args:
            name: The name.

        Example:
            >>> Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final").name
            'final'
        """
        return replace(self, name=check_name(name, what="step", at=user_origin()))


class Suppression(Handle[K, V]):
    """What `KTable` can do to emit less: suppress."""

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold changes back, so that of many changes of a key only the last one goes on.

        With `Suppressed.until_time_limit` a change waits until event time has passed that of the
        first one that was held back by so much; later changes of the key take its place and keep
        its time. With `Suppressed.until_window_closes` the last value of each window goes on once,
        when no record can change it any more; deletions of windows do not go on.

        What goes on keeps the time of the last change. A join with the result sees the values that
        went on, not those that wait.

        Args:
            suppressed: What changes wait for, and how many may.
            name: Step name; made from the step's place if not given. It names the changelog of
                what waits, too.

        Returns:
            The table of what goes on.

        Raises:
            NotWindowedError: If windows shall close, and the table's keys are in no windows.
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


def _bound(owner: str, number: object, *, at: Origin) -> int:
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    msg = f"{owner} needs a number that is not negative, not {number!r}"
    raise BadOptionError(msg, at=at, fix=f"write {owner}(1000)", fields={"value": number})


def _checked(buffer: object, *, at: Origin) -> BufferConfig:
    if isinstance(buffer, BufferConfig):
        return buffer
    msg = f"{type(buffer).__name__} {buffer!r:.60} is no BufferConfig"
    raise BadOptionError(
        msg,
        at=at,
        why="how much may wait must be said",
        fix="pass BufferConfig.unbounded() or BufferConfig.max_records(...)",
        fields={"buffer": buffer},
    )


def _suppressed(given: object, *, at: Origin) -> Suppressed:
    default = Suppressed(until="time_limit", buffer=BufferConfig())
    if given is None:
        msg = "suppress needs to know what changes wait for"
        raise BadOptionError(msg, at=at, fix="pass Suppressed.until_window_closes(...)")
    return options_or(given, default, at=at)  # type: ignore[arg-type]


def _buffer_spec(place: NodePlace, buffer: BufferConfig, table: Handle[Any, Any]) -> StoreSpec:
    key, value = table._key, table._value  # pyright: ignore[reportPrivateUsage]
    registry = table._registry  # pyright: ignore[reportPrivateUsage]
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
    """Return how long rows wait, and how far behind that they may be stamped."""
    if wish.until == "time_limit":
        limit = wish.time_to_wait
        if limit is None or limit == timedelta.max:
            return TIME_MAX, TIME_MAX
        wait_ms = milliseconds("until_time_limit", "time_to_wait", limit, at=at)
        return wait_ms, wait_ms
    windowed = isinstance(table._key, WindowedSerde | SessionWindowedSerde)  # pyright: ignore[reportPrivateUsage]
    windows = list(_windows(registry, name)) if windowed else []
    if not windows:
        msg = f"cannot suppress {name!r} until its windows close: it has none"
        raise NotWindowedError(
            msg,
            at=at,
            why="only the result of a windowed aggregation says when a row changes no more",
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
            why="each version of a row is a result of its own; to hold them back would lose some",
            fix="keep the table in a store that is not versioned, or do not suppress it",
            fields={"table": name, "store": store.name},
        )
