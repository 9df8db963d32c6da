"""Options that steps take: how records are read, written, grouped and stored.

The common options are also plain keywords of the methods. If both are given, they must agree.
The classes have no slots: up to Python 3.11 ``Consumed[str, int](...)`` fails for a generic class
that is frozen and slotted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

from mustela.api.errors import BadOptionError
from mustela.api.handlers import OnError
from mustela.api.indexes import IndexLike
from mustela.api.option import Option
from mustela.api.origin import user_origin
from mustela.api.stores import StoreSupplier
from mustela.api.timestamps import BuiltInExtractor, TimestampExtractor
from mustela.api.upgrades import Upgrades
from mustela.api.watermarks import LatePolicy, WatermarkStrategy
from mustela.config.units import show_duration
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.state.engine import Engine
from mustela.state.interfaces import TtlBy

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
    "Printed",
    "Produced",
    "Repartitioned",
    "ResetWord",
    "StoreType",
    "options_or",
]

ResetWord = Literal["earliest", "latest", "none"]
StoreType = Literal["persistent", "in_memory"]
"""The words for `AutoOffsetReset`."""

Partitioner = Callable[[str, Any, Any, int], int | Iterable[int] | None]
"""(topic, key, value, number of partitions) -> partition, or None for Kafka's own choice.

A sequence of partitions sends the record to each of them; an empty one drops it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoOffsetReset(Option):
    """Where to begin reading a partition for which nothing is committed.

    Attributes:
        strategy: ``earliest``, ``latest``, ``none`` (an error) or ``by_duration``.
        duration: For ``by_duration``: how far back from now.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import StreamsBuilder
        >>> recent = Consumed(auto_offset_reset=AutoOffsetReset.by_duration(timedelta(hours=1)))
        >>> clicks = StreamsBuilder().stream("clicks", consumed=recent)
    """

    strategy: Literal["earliest", "latest", "none", "by_duration"]
    duration: timedelta | None = None

    @classmethod
    def earliest(cls) -> AutoOffsetReset:
        """Begin with the oldest record there is.

        Example:
            >>> str(AutoOffsetReset.earliest())
            'earliest'
        """
        return cls(strategy="earliest")

    @classmethod
    def latest(cls) -> AutoOffsetReset:
        """Begin with records that are written from now on.

        Example:
            >>> str(AutoOffsetReset.latest())
            'latest'
        """
        return cls(strategy="latest")

    @classmethod
    def none(cls) -> AutoOffsetReset:
        """Do not begin at all: a partition without a committed offset is an error.

        Example:
            >>> str(AutoOffsetReset.none())
            'none'
        """
        return cls(strategy="none")

    @classmethod
    def by_duration(cls, duration: timedelta) -> AutoOffsetReset:
        """Begin with the first record that is not older than ``duration``.

        Example:
            >>> from datetime import timedelta
            >>> str(AutoOffsetReset.by_duration(timedelta(hours=1)))
            'by_duration:1h'
        """
        return cls(strategy="by_duration", duration=duration)

    def __str__(self) -> str:
        """Return it as the setting ``auto_offset_reset`` is written."""
        if self.duration is None:
            return self.strategy
        return f"{self.strategy}:{show_duration(self.duration)}"


@dataclass(frozen=True, kw_only=True)
class Consumed(Option, Generic[K, V]):
    """How a topic is read.

    Attributes:
        key: Type or serde of the keys; bytes if not given.
        value: Type or serde of the values; bytes if not given.
        auto_offset_reset: Where to begin a partition for which nothing is committed, an
            `AutoOffsetReset` or its word; None takes the application's setting.
        timestamp_extractor: Gives the timestamp of each record. If not given, it is the record's
            own, and a negative one is an error. `FailOnInvalidTimestamp` and others are in
            `mustela.windows`.
        watermark: How the watermark of the source follows from its records; None takes the
            application's settings.
        late: What happens to a record that comes too late for its window.
        on_error: What happens to a record that cannot be decoded, or whose timestamp cannot be
            extracted; see `mustela.handlers`. The application's handlers if not given.
        name: Name of the source.

    Example:
        >>> from mustela import StreamsBuilder
        >>> latest = Consumed(key=str, value=int, auto_offset_reset="latest")
        >>> clicks = StreamsBuilder().stream("clicks", consumed=latest)
    """

    key: type[K] | Serde[K] | None = None
    value: type[V] | Serde[V] | None = None
    auto_offset_reset: AutoOffsetReset | ResetWord | None = None
    timestamp_extractor: TimestampExtractor | BuiltInExtractor | type[BuiltInExtractor] | None = (
        None
    )
    watermark: WatermarkStrategy | None = None
    late: LatePolicy = LatePolicy.DROP
    on_error: OnError | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Produced(Option, Generic[GroupK, GroupV]):
    """How a topic is written.

    Attributes:
        key: Type or serde of the keys; the stream's if not given.
        value: Type or serde of the values; the stream's if not given.
        partitioner: Chooses the partition; Kafka's own choice by key if not given.
        on_error: What happens to a record that cannot be encoded; see `mustela.handlers`. The
            application's handlers if not given.
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
    on_error: OnError | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Grouped(Option, Generic[GroupK, GroupV]):
    """How records are sent to their groups.

    Attributes:
        key: Type or serde of the grouping key.
        value: Type or serde of the values.
        name: Name of the grouping; the names of the steps after it begin with it.

    Example:
        >>> from mustela import StreamsBuilder
        >>> lines = StreamsBuilder().stream("lines", key=str, value=str)
        >>> by_length = lines.group_by(lambda key, line: len(line), grouped=Grouped(key=int))
    """

    key: type[GroupK] | Serde[GroupK] | None = None
    value: type[GroupV] | Serde[GroupV] | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Materialized(Option, Generic[GroupK, GroupV]):
    """How a table is stored.

    Attributes:
        store: Name of the store; ``<application id>-<store>-changelog`` is its changelog.
        key: Type or serde of the keys.
        value: Type or serde of the values.
        logged: Whether changes go to a changelog topic, from which the store is restored.
        topic_config: Settings of the changelog topic that differ from the default.
        supplier: Kind and name of the store, from `Stores`; instead of ``store``.
        caching: Whether changes of a key within an epoch may be combined into one, which is the
            default. False forwards each change of this step, as ``emit = every`` does for all
            steps; under that setting True has no effect.
        store_type: Where Kafka Streams would keep the store. Here the setting ``state.backend``
            decides that for all stores of the application.
        retention: For a windowed table: how long a window can be read, counted from its start (for
            a session, from its end). It is at least the time in which the window accepts records,
            which is the default. Any other table refuses it; use ``ttl`` there.
        ttl: For a table that is not windowed: how long a row is kept after it was written; it must
            be positive. Then the row is deleted, and readers of the table see the deletion. None
            keeps rows until they are deleted.
        ttl_by: The clock of the ``ttl``: ``event_time``, counted from the row's timestamp, or
            ``processing_time``, counted from the wall-clock time at which it was written.
        with_headers: Keep the headers of the record that last changed each row, as the stores of
            `Stores` do whose names end in ``with_headers``.
        renamed_from: The name that the store had in an earlier version of the program. Its rows are
            kept under the new name, and its changelog keeps the old one, so leave this option in
            place for as long as the store exists.
        version: The version of the rows that are written; 1 if not given. Raise it when values
            change so that older rows have to be upgraded.
        upgrade: How older rows are read: a function that makes a value of this version from one of
            the previous version, and whose parameter is annotated with the older type; or an
            `Upgrade`; or a dict with one of them for each older version's number, where each makes
            values of the next version. See the guide on releases.
        index: By what else rows are found, by name: a function of the value, a path such as
            ``"address.city"``, or an `Index`. A processor that has the store, or reads it, uses
            ``store.by(name)``. For key-value stores that do not forget rows by themselves.
        engine: How the store's rows lie on disk, if not as usual; see `Engine`.

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
    retention: timedelta | None = None
    supplier: StoreSupplier | None = None
    caching: bool | None = None
    store_type: StoreType | None = None
    with_headers: bool = False
    renamed_from: str | None = None
    version: int = 1
    upgrade: Upgrades[GroupV] | None = None
    ttl: timedelta | None = None
    ttl_by: TtlBy = "event_time"
    index: Mapping[str, IndexLike] | None = None
    engine: Engine | None = None

    @property
    def store_name(self) -> str | None:
        """The store's name, given by ``store`` or by ``supplier``; None if neither is given.

        Example:
            >>> from mustela import Stores
            >>> Materialized(supplier=Stores.in_memory_key_value_store("counts")).store_name
            'counts'
        """
        if self.store is None and self.supplier is not None:
            return getattr(self.supplier, "name", "")  # anything but a supplier is refused later
        return self.store


@dataclass(frozen=True, kw_only=True)
class Repartitioned(Option, Generic[GroupK, GroupV]):
    """How records are sent to their lanes when a stream is repartitioned.

    Attributes:
        key: Type or serde of the keys; the stream's if not given.
        value: Type or serde of the values; the stream's if not given.
        partitions: The number of partitions that the partitioner is called with; the application's
            number of key groups if not given. The number of lanes is a setting.
        partitioner: May drop or duplicate a record, as `Partitioner` says.
        name: Name of the step.

    Example:
        >>> from mustela import StreamsBuilder
        >>> lines = StreamsBuilder().stream("lines", key=str, value=str)
        >>> by_length = lines.select_key(lambda key, line: len(line))
        >>> spread = by_length.repartition(repartitioned=Repartitioned(key=int, name="spread"))
    """

    key: type[GroupK] | Serde[GroupK] | None = None
    value: type[GroupV] | Serde[GroupV] | None = None
    partitions: int | None = None
    partitioner: Partitioner | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Printed(Option, Generic[GroupK, GroupV]):
    """Where and how the records of a stream are printed.

    Attributes:
        path: A file to append lines to; standard output if not given.
        label: The beginning of each line; the stream's name if not given.
        mapper: Makes the text of a record from key and value; ``key, value`` if not given.
        name: Name of the step.

    Example:
        >>> from mustela import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> words = builder.stream("words", key=str, value=str)
        >>> words.print(Printed(label="w", mapper=lambda key, word: f"{word} from {key}"))
        >>> with TopologyTestDriver(builder) as driver:
        ...     driver.create_input_topic("words").pipe_input("a", "sun")
        [w]: sun from a
    """

    path: str | None = None
    label: str | None = None
    mapper: Callable[[GroupK, GroupV], object] | None = None
    name: str | None = None

    @classmethod
    def to_sys_out(cls) -> Printed[Any, Any]:
        """Print to standard output.

        Example:
            >>> Printed.to_sys_out().path
        """
        return Printed()

    @classmethod
    def to_file(cls, path: str | PathLike[str]) -> Printed[Any, Any]:
        """Print to a file, at its end.

        Raises:
            BadOptionError: If it is not a path.

        Example:
            >>> Printed.to_file("words.txt").path
            'words.txt'
        """
        found = fspath(path) if isinstance(cast("object", path), str | PathLike) else ""
        if not found:
            msg = f"{path!r} is not the path of a file"
            fix = 'pass a path, as in Printed.to_file("words.txt")'
            raise BadOptionError(msg, at=user_origin(), fix=fix, fields={"option": "path"})
        return Printed(path=found)

    def with_label(self, label: str) -> Printed[GroupK, GroupV]:
        """Return a copy with another label.

        Example:
            >>> Printed.to_sys_out().with_label("words").label
            'words'
        """
        return replace(self, label=label)

    def with_key_value_mapper(
        self, mapper: Callable[[GroupK, GroupV], object]
    ) -> Printed[GroupK, GroupV]:
        """Return a copy with a function that makes the text of a record.

        Example:
            >>> Printed.to_sys_out().with_key_value_mapper("{}={}".format).mapper("a", 1)
            'a=1'
        """
        return replace(self, mapper=mapper)


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
    keyword = "store" if wanted is Materialized else "name"
    named = isinstance(given, str) and wanted in {Materialized, Grouped, Repartitioned}
    fix = f"write {keyword}={given!r}" if named else f"pass {wanted.__name__}(...)"
    raise BadOptionError(
        msg,
        evidence={"got": repr(given)},
        at=at,
        fix=fix,
        fields={"wanted": wanted.__name__},
    )
