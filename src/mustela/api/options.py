"""Options that steps take: how records are read, written, grouped and stored.

The common options are plain keywords of the methods too. What is said in both places must agree.
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
from mustela.api.option import Option
from mustela.api.origin import user_origin
from mustela.api.stores import StoreSupplier
from mustela.api.timestamps import BuiltInExtractor, TimestampExtractor
from mustela.api.upgrades import Upgrades
from mustela.api.watermarks import LatePolicy, WatermarkStrategy
from mustela.config.units import show_duration
from mustela.errors import Origin
from mustela.serdes.base import Serde
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

Several partitions send the record to each of them, none at all drops it."""


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
        key: Type or serde of the keys; bytes if nothing is said.
        value: Type or serde of the values; bytes if nothing is said.
        auto_offset_reset: Where to begin a partition for which nothing is committed, an
            `AutoOffsetReset` or its word; None takes the application's setting.
        timestamp_extractor: Gives the time of each record; its own timestamp, and an error if
            that is negative, if nothing is said. See `mustela.api.timestamps`.
        watermark: How far event time has come in the source, told from its records; None takes
            the application's settings.
        late: What becomes of a record that comes too late for its window.
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
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Produced(Option, Generic[GroupK, GroupV]):
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
class Grouped(Option, Generic[GroupK, GroupV]):
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
class Materialized(Option, Generic[GroupK, GroupV]):
    """How a table is stored.

    Attributes:
        store: Name of the store; ``<application id>-<store>-changelog`` is its changelog.
        key: Type or serde of the keys.
        value: Type or serde of the values.
        logged: Whether changes go to a changelog topic, from which the store is restored.
        topic_config: Settings of the changelog topic that differ from the default.
        supplier: Kind and name of the store, from `Stores`; instead of ``store``.
        caching: Whether changes of a key within an epoch may become one, as they do if nothing is
            said. False forwards each change of this step, as ``emit = every`` does for all steps;
            with that setting there is nothing that True could do.
        store_type: Where Kafka Streams would keep the store. Here the setting ``state.backend``
            says it for all stores of the application.
        retention: Of a windowed table: how long a window can be read, counted from its start (a
            session: from its end). At least as long as it takes records, which is the default. Any
            other table refuses it, and takes ``ttl``.
        ttl: Of a table that is not windowed: how long a row is kept after it was written, more than
            nothing. Then it is deleted, and readers of the table are told. None keeps rows until
            they are deleted.
        ttl_by: By which time that is: ``event_time``, counted from the time of the row, or
            ``processing_time``, counted by the clock from when it was written.
        with_headers: Keep the headers of the record that made each row what it is, as the stores
            of `Stores` whose names end in ``with_headers`` do.
        renamed_from: The name that the store had in an earlier version of the program. Its rows go
            on under the new name, and its changelog keeps the old one; so this is said for as long
            as the store is there.
        version: The version of the rows that are written. Rows of the first version, which is 1,
            do not say it; count up when values change so that older rows have to be upgraded.
        upgrade: How older rows are read: a function that makes a value of this version from one
            of the version before, whose parameter is annotated with the older type; or an
            `Upgrade`; or one of them for each older version, by its number, where each makes
            values of the next version. See the guide on releases.

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

    @property
    def store_name(self) -> str | None:
        """The store's name, said by ``store`` or by ``supplier``; None if nothing is said.

        Example:
            >>> from mustela import Stores
            >>> Materialized(supplier=Stores.in_memory_key_value_store("counts")).store_name
            'counts'
        """
        if self.store is None and self.supplier is not None:
            return getattr(self.supplier, "name", "")  # what is no supplier is refused later
        return self.store


@dataclass(frozen=True, kw_only=True)
class Repartitioned(Option, Generic[GroupK, GroupV]):
    """How records travel where a stream is repartitioned.

    Attributes:
        key: Type or serde of the keys; those of the stream if nothing is said.
        value: Type or serde of the values; those of the stream if nothing is said.
        partitions: The number of partitions that the partitioner is told; the application's
            number of key groups if nothing is said. How many lanes there are is a setting.
        partitioner: May drop a record or repeat it, as `Partitioner` says.
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
        path: A file to add lines to; standard output if nothing is said.
        label: What each line begins with; the stream's name if nothing is said.
        mapper: Gives the text of a record from key and value; ``key, value`` if nothing is said.
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
        """Print to a file: lines are added to what it holds.

        Raises:
            BadOptionError: If that is no path.

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
        """Return the same with another label.

        Example:
            >>> Printed.to_sys_out().with_label("words").label
            'words'
        """
        return replace(self, label=label)

    def with_key_value_mapper(
        self, mapper: Callable[[GroupK, GroupV], object]
    ) -> Printed[GroupK, GroupV]:
        """Return the same with a function that gives the text of a record.

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
