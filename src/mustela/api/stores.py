"""Stores as users ask for them: suppliers for tables, builders for processors.

A *supplier* gives a store's kind, its name and how long it keeps things; `Materialized` takes one.
A *builder* adds serdes, logging and caching; a topology takes one for processors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol, get_args, runtime_checkable

from mustela.api.engines import checked_engine
from mustela.api.errors import BadOptionError
from mustela.api.indexes import IndexLike, check_indexed, named_indexes
from mustela.api.names import STORE_NAME_LENGTH_MAX, check_name
from mustela.api.option import Answering
from mustela.api.origin import user_origin
from mustela.api.serdes import choose_serde
from mustela.api.spans import milliseconds
from mustela.api.upgrades import Upgrades, read_versions
from mustela.errors import Origin
from mustela.serdes.base import Serde
from mustela.serdes.row_versions import RowVersions
from mustela.serdes.values import ValueSerde
from mustela.state.engine import PLAIN_ENGINE, Engine
from mustela.state.index import NamedIndexes
from mustela.state.interfaces import StoreSpec, TtlBy
from mustela.state.kinds.versioned import default_segment_ms
from mustela.state.store_kind import kind_named

__all__ = ["StoreBuilder", "StoreSupplier", "Stores"]


def check_ttl_by(given: object, owner: str, *, option: str = "ttl_by", at: Origin) -> None:
    """Refuse a name that is not one of the two clocks.

    Raises:
        BadOptionError: If it is not one of them.
    """
    words = get_args(TtlBy)
    if given not in words:
        msg = f"{owner} cannot have {option}={given!r}"
        fix = f"write {option}={words[0]!r} or {option}={words[1]!r}"
        raise BadOptionError(msg, at=at, fix=fix, fields={"option": option})


@runtime_checkable
class StoreSupplier(Protocol):
    """A store for `Materialized` and for the builders of `Stores`.

    A class of the user's may stand for a store: it says which of Mustela's kinds is meant, under
    what name, and how long rows are kept. It does not decide how bytes are kept: every store is
    part of the epoch's commit and has its changelog, whoever asked for it.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import Stores
        >>> class Short:
        ...     name = "recent"
        ...     def spec(self):
        ...         return Stores.persistent_session_store(self.name, timedelta(minutes=1)).spec()
        >>> isinstance(Short(), StoreSupplier)
        True
    """

    @property
    def name(self) -> str:
        """The store's name."""
        ...

    def spec(self) -> StoreSpec:
        """Return the store without serdes."""
        ...


@dataclass(frozen=True, kw_only=True)
class StoreBuilder:
    """A store for processors: a supplier, with serdes, logging and caching.

    Attributes:
        supplier: Name and kind.
        kind: What the store shows, with or without timestamps; empty for the supplier's kind.
        key: Serde of the keys.
        value: Serde of the values.
        logged: Whether changes go to a changelog topic, from which the store is restored.
        topic_config: Settings of the changelog topic that differ from the default.
        caching: Accepted as in Kafka Streams; writes of an epoch are always combined.
        plain: Whether a window store shows values without their timestamps.
        with_headers: The store keeps and shows the headers of its values' records.
        renamed_from: The name that the store had in an earlier version of the program.
        row_versions: The versions of its rows, as `with_version` says.
        ttl_ms: How long rows are kept, as `with_ttl` says.
        ttl_by: The clock by which they are kept.
        indexes: By what else rows are found, as `with_index` says.
        engine: How rows lie on disk, as `with_engine` says.

    Example:
        >>> supplier = Stores.persistent_key_value_store("seen")
        >>> seen = Stores.key_value_store_builder(supplier, key=str, value=int)
        >>> seen.name, seen.with_logging_disabled().spec().logged
        ('seen', False)
    """

    supplier: StoreSupplier
    kind: str = ""
    key: Serde[Any]
    value: Serde[Any]
    logged: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict[str, str])
    caching: bool | None = None
    plain: bool = False
    with_headers: bool = False
    renamed_from: str | None = None
    row_versions: RowVersions | None = None
    ttl_ms: int | None = None
    ttl_by: TtlBy = "event_time"
    indexes: NamedIndexes = ()
    engine: Engine = PLAIN_ENGINE

    @property
    def name(self) -> str:
        """The store's name."""
        return self.supplier.name

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> StoreBuilder:
        """Return a copy with a changelog, and with settings for its topic.

        Example:
            >>> seen = Stores.key_value_store_builder(Stores.lru_map("seen", 9), key=str, value=int)
            >>> seen.with_logging_enabled({"segment.ms": "600000"}).spec().topic_config
            {'segment.ms': '600000'}
        """
        return replace(self, logged=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> StoreBuilder:
        """Return a copy without a changelog: what the store holds is lost with the machine.

        Example:
            >>> seen = Stores.key_value_store_builder(Stores.lru_map("seen", 9), key=str, value=int)
            >>> seen.with_logging_disabled().logged
            False
        """
        return replace(self, logged=False, topic_config={})

    def with_caching_enabled(self) -> StoreBuilder:
        """Return a copy for which caching is asked for.

        Example:
            >>> seen = Stores.key_value_store_builder(Stores.lru_map("seen", 9), key=str, value=int)
            >>> seen.with_caching_enabled().caching
            True
        """
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder:
        """Return a copy without caching.

        Example:
            >>> seen = Stores.key_value_store_builder(Stores.lru_map("seen", 9), key=str, value=int)
            >>> seen.with_caching_disabled().caching
            False
        """
        return replace(self, caching=False)

    def with_former_name(self, renamed_from: str) -> StoreBuilder:
        """Return a copy for a store that had another name in an earlier version of the program.

        Example:
            >>> seen = Stores.key_value_store_builder(Stores.lru_map("seen", 9), key=str, value=int)
            >>> seen.with_former_name("known").spec().log_name
            'known'
        """
        return replace(self, renamed_from=renamed_from)

    def with_version(self, version: int, upgrade: Upgrades[Any] | None = None) -> StoreBuilder:
        """Return a copy for values of another version than in earlier programs.

        Args:
            version: The version of the rows that are written; the first one is 1.
            upgrade: How older rows are read, as in `Materialized`.

        Raises:
            BadOptionError: If the upgrades do not lead up to the version.

        Example:
            >>> totals = Stores.persistent_key_value_store("totals")
            >>> def in_cents(euros: float) -> int:
            ...     return round(euros * 100)
            >>> built = Stores.key_value_store_builder(totals, key=str, value=int)
            >>> built.with_version(2, in_cents).spec().row_versions.version
            2
        """
        versions = read_versions(self.name, version, upgrade, at=user_origin())
        return replace(self, row_versions=versions)

    def with_ttl(self, ttl: timedelta, by: TtlBy = "event_time") -> StoreBuilder:
        """Return a copy whose rows are kept for a limited time after they were written.

        Processors do not see older rows; those are deleted at the end of the epoch.

        Args:
            ttl: How long; it must be positive.
            by: ``event_time``: counted from the value's timestamp; in a store without timestamps,
                from that of the record or timer with which it was put. ``processing_time``: by the
                wall clock.

        Raises:
            BadOptionError: If it is not a positive span of time, or the store is not a key-value
                store.

        Example:
            >>> from datetime import timedelta
            >>> seen = Stores.persistent_key_value_store("seen")
            >>> seen = Stores.key_value_store_builder(seen, key=str, value=int)
            >>> seen.with_ttl(timedelta(hours=1)).spec().ttl_ms
            3600000
        """
        at = user_origin()
        ttl_ms = milliseconds("with_ttl", "ttl", ttl, at=at, sign="positive")
        check_ttl_by(by, "with_ttl", option="by", at=at)
        spec = self.spec()
        if "ttl_ms" not in spec.traits.takes or spec.max_entries is not None:
            msg = f"store {self.name!r} cannot have a time to live"
            raise BadOptionError(
                msg,
                at=at,
                why="only stores that keep one value per key, without a limit, can take one",
                fix="leave out with_ttl, or use Stores.persistent_key_value_store(...)",
                fields={"option": "ttl", "store": self.name},
            )
        check_indexed(replace(spec, indexes=(), ttl_ms=ttl_ms), self.indexes, at=at)
        return replace(self, ttl_ms=ttl_ms, ttl_by=by)

    def with_index(self, **indexes: IndexLike) -> StoreBuilder:
        """Return a copy whose rows are also found by what is taken from their values.

        An index is written with the rows and has no changelog: it is made of the rows again
        wherever they are restored, and when a program adds it or changes its function.

        Args:
            indexes: By name, a function of the value, a path such as ``"address.city"``, or an
                `Index` with options.

        Raises:
            BadOptionError: If the store is not a key-value store, or forgets rows.

        Example:
            >>> people = Stores.persistent_key_value_store("people")
            >>> people = Stores.key_value_store_builder(people, key=str, value=dict)
            >>> people.with_index(city="address.city").spec().indexes[0][1].entry(
            ...     {"address": {"city": "Rome"}})
            'Rome'
        """
        at = user_origin()
        named = named_indexes(indexes, at=at)
        check_indexed(self.spec(), named, at=at)
        return replace(self, indexes=named)

    def with_engine(self, engine: Engine) -> StoreBuilder:
        """Return a copy whose rows lie on disk in another way than usual.

        Args:
            engine: In which way; stores of every kind can have one.

        Raises:
            BadOptionError: If it says what cannot be.
            StateLibraryError: If it needs a library that is not installed.

        Example:
            >>> from mustela.stores import Engine
            >>> seen = Stores.persistent_key_value_store("seen")
            >>> seen = Stores.key_value_store_builder(seen, key=str, value=int)
            >>> seen.with_engine(Engine(page_fill=0.9)).spec().engine.page_fill
            0.9
        """
        return replace(self, engine=checked_engine(engine, at=user_origin()))

    def spec(self) -> StoreSpec:
        """Return the store as the plan describes it.

        Example:
            >>> seen = Stores.key_value_store_builder(Stores.lru_map("seen", 9), key=str, value=int)
            >>> seen.spec().kind
            'key_value'
        """
        supplied = self.supplier.spec()
        return replace(
            supplied,
            kind=self.kind or supplied.kind,
            key_serde=self.key,
            value_serde=self.value,
            logged=self.logged,
            cached=self.caching,
            with_headers=self.with_headers,
            topic_config=dict(self.topic_config),
            renamed_from=None if self.renamed_from == self.name else self.renamed_from,
            row_versions=self.row_versions,
            ttl_ms=self.ttl_ms,
            ttl_by=self.ttl_by,
            indexes=self.indexes,
            engine=self.engine,
        )


class Stores(Answering):
    """Kinds of stores, under the names that Kafka Streams gives them.

    ``persistent`` and ``in_memory`` mean the same store here: rows are in memory-mapped files, on
    disk or in memory as the setting ``state.backend`` says for all stores of the application, and
    each store has its changelog. Such a store is as fast as one in memory: no read waits for a disk
    once the pages are warm.

    Example:
        >>> from datetime import timedelta
        >>> from mustela import Materialized, StreamsBuilder
        >>> prices = Stores.persistent_versioned_key_value_store("prices", timedelta(hours=1))
        >>> table = StreamsBuilder().table(
        ...     "prices", key=str, value=float, materialized=Materialized(supplier=prices)
        ... )
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSpec:
        """Keys and values; a table in such a store does not know the timestamps of its rows.

        Example:
            >>> Stores.persistent_key_value_store("counts").kind
            'key_value'
        """
        return _supplier(name, "key_value")

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSpec:
        """Keys and values with the timestamp of each value; the default for tables.

        Example:
            >>> Stores.persistent_timestamped_key_value_store("counts").kind
            'timestamped_key_value'
        """
        return _supplier(name, "timestamped_key_value")

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> StoreSpec:
        """Keys and values with the timestamp and the headers of each value's record.

        An existing store without headers can be changed into one: its older rows then have none.

        Example:
            >>> Stores.persistent_timestamped_key_value_store_with_headers("counts").with_headers
            True
        """
        return _supplier(name, "timestamped_key_value", with_headers=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSpec:
        """Keys and values; a table in such a store knows the timestamp of each row.

        Example:
            >>> Stores.in_memory_key_value_store("counts").name
            'counts'
        """
        return _supplier(name, "timestamped_key_value")

    @staticmethod
    def lru_map(name: str, max_entries: int) -> StoreSpec:
        """The most recently used keys, ``max_entries`` of them in each key group.

        A key that is evicted is deleted in the changelog too.

        Raises:
            BadOptionError: If ``max_entries`` is not a positive number.

        Example:
            >>> Stores.lru_map("recent", 1_000).max_entries
            1000
        """
        at = user_origin()
        if type(max_entries) is not int or max_entries < 1:
            msg = f"lru_map cannot keep {max_entries!r} entries"
            raise BadOptionError(
                msg, at=at, fix="pass a positive number, as in lru_map(name, 1000)"
            )
        return _supplier(name, "timestamped_key_value", max_entries=max_entries)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: timedelta, segment_interval: timedelta | None = None
    ) -> StoreSpec:
        """Keys and their values over time: a late value takes its place in the history.

        Args:
            name: Name of the store.
            history_retention: How far before the newest record older versions can be written and
                read. Anything older is dropped; the newest version of a key is kept for ever.
            segment_interval: Length of the segments in which the history is kept and dropped;
                chosen to fit if not given.

        Raises:
            BadOptionError: If ``history_retention`` is negative, or ``segment_interval`` not
                positive.

        Example:
            >>> from datetime import timedelta
            >>> prices = Stores.persistent_versioned_key_value_store("prices", timedelta(hours=1))
            >>> prices.history_retention_ms, prices.segment_ms
            (3600000, 300000)
        """
        at = user_origin()
        owner = "persistent_versioned_key_value_store"
        history = milliseconds(owner, "history_retention", history_retention, at=at)
        segment = default_segment_ms(history)
        if segment_interval is not None:
            segment = milliseconds(
                owner, "segment_interval", segment_interval, at=at, sign="positive"
            )
        return _supplier(name, "versioned", history_retention_ms=history, segment_ms=segment)

    @staticmethod
    def persistent_window_store(
        name: str,
        retention: timedelta,
        window_size: timedelta,
        *,
        retain_duplicates: bool = False,
    ) -> StoreSpec:
        """One value for each key and window.

        Args:
            name: Name of the store.
            retention: How long a window is kept, from its start; at least ``window_size``.
            window_size: Length of the windows.
            retain_duplicates: Keep every value that is put for a key and window.

        Raises:
            BadOptionError: If a span is negative, or windows would be dropped before their end.

        Example:
            >>> from datetime import timedelta
            >>> hour, minute = timedelta(hours=1), timedelta(minutes=1)
            >>> Stores.persistent_window_store("views", hour, minute).retention_ms
            3600000
        """
        at = user_origin()
        owner = "persistent_window_store"
        kept = milliseconds(owner, "retention", retention, at=at)
        size = milliseconds(owner, "window_size", window_size, at=at)
        if kept < size:
            msg = f"store {name!r} cannot keep windows of {window_size} for {retention}"
            raise BadOptionError(
                msg,
                at=at,
                why="a window would be dropped before its end",
                fix=f"keep them for at least {window_size}",
                fields={"store": name, "retention": retention, "window_size": window_size},
            )
        return _supplier(
            name,
            "window",
            retention_ms=kept,
            window_ms=size,
            duplicates=retain_duplicates,
            indexed=True,
        )

    @staticmethod
    def persistent_timestamped_window_store(
        name: str,
        retention: timedelta,
        window_size: timedelta,
        *,
        retain_duplicates: bool = False,
    ) -> StoreSpec:
        """The same as `persistent_window_store`: every window store knows its values' timestamps.

        Example:
            >>> from datetime import timedelta
            >>> minute = timedelta(minutes=1)
            >>> Stores.persistent_timestamped_window_store("views", minute, minute).window_ms
            60000
        """
        return Stores.persistent_window_store(
            name, retention, window_size, retain_duplicates=retain_duplicates
        )

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str,
        retention: timedelta,
        window_size: timedelta,
        *,
        retain_duplicates: bool = False,
    ) -> StoreSpec:
        """Like `persistent_window_store`, but with the headers of each value's record.

        Example:
            >>> from datetime import timedelta
            >>> minute = timedelta(minutes=1)
            >>> views = Stores.persistent_timestamped_window_store_with_headers(
            ...     "views", minute, minute
            ... )
            >>> views.with_headers
            True
        """
        plain = Stores.persistent_window_store(
            name, retention, window_size, retain_duplicates=retain_duplicates
        )
        return replace(plain, with_headers=True)

    @staticmethod
    def in_memory_window_store(
        name: str,
        retention: timedelta,
        window_size: timedelta,
        *,
        retain_duplicates: bool = False,
    ) -> StoreSpec:
        """The same as `persistent_window_store`.

        Example:
            >>> from datetime import timedelta
            >>> minute = timedelta(minutes=1)
            >>> Stores.in_memory_window_store("views", minute, minute).window_ms
            60000
        """
        return Stores.persistent_window_store(
            name, retention, window_size, retain_duplicates=retain_duplicates
        )

    @staticmethod
    def persistent_session_store(name: str, retention: timedelta) -> StoreSpec:
        """One value for each session of a key.

        Args:
            name: Name of the store.
            retention: How long a session is kept, from its end.

        Raises:
            BadOptionError: If ``retention`` is negative.

        Example:
            >>> from datetime import timedelta
            >>> Stores.persistent_session_store("visits", timedelta(minutes=30)).retention_ms
            1800000
        """
        at = user_origin()
        kept = milliseconds("persistent_session_store", "retention", retention, at=at)
        return _supplier(name, "session", retention_ms=kept)

    @staticmethod
    def persistent_session_store_with_headers(name: str, retention: timedelta) -> StoreSpec:
        """Like `persistent_session_store`, but with the headers of each session's last record.

        Example:
            >>> from datetime import timedelta
            >>> half_hour = timedelta(minutes=30)
            >>> Stores.persistent_session_store_with_headers("visits", half_hour).with_headers
            True
        """
        return replace(Stores.persistent_session_store(name, retention), with_headers=True)

    @staticmethod
    def in_memory_session_store(name: str, retention: timedelta) -> StoreSpec:
        """The same as `persistent_session_store`.

        Example:
            >>> from datetime import timedelta
            >>> Stores.in_memory_session_store("visits", timedelta(minutes=30)).kind
            'session'
        """
        return Stores.persistent_session_store(name, retention)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a key-value store, for processors.

        Args:
            supplier: Name and kind of the store.
            key: Type or serde of the keys; a serde for Python's own types if not given.
            value: Type or serde of the values; likewise.

        Raises:
            BadOptionError: If the supplier's store is of another kind.

        Example:
            >>> supplier = Stores.in_memory_key_value_store("seen")
            >>> Stores.key_value_store_builder(supplier, key=str, value=int).spec().kind
            'key_value'
        """
        return _builder("key_value_store_builder", supplier, "key_value", key, value)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a key-value store that knows the timestamp of each value.

        Example:
            >>> supplier = Stores.persistent_timestamped_key_value_store("seen")
            >>> Stores.timestamped_key_value_store_builder(supplier, key=str, value=int).spec().kind
            'timestamped_key_value'
        """
        verb, kind = "timestamped_key_value_store_builder", "timestamped_key_value"
        return _builder(verb, supplier, kind, key, value)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a key-value store with timestamp and headers of each value's record.

        Example:
            >>> supplier = Stores.persistent_timestamped_key_value_store_with_headers("seen")
            >>> seen = Stores.timestamped_key_value_store_with_headers_builder(
            ...     supplier, key=str, value=int
            ... )
            >>> seen.spec().with_headers
            True
        """
        verb, kind = "timestamped_key_value_store_with_headers_builder", "timestamped_key_value"
        return replace(_builder(verb, supplier, kind, key, value), with_headers=True)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a versioned key-value store.

        Example:
            >>> from datetime import timedelta
            >>> supplier = Stores.persistent_versioned_key_value_store("p", timedelta(hours=1))
            >>> Stores.versioned_key_value_store_builder(supplier, key=str, value=int).spec().kind
            'versioned'
        """
        return _builder("versioned_key_value_store_builder", supplier, "versioned", key, value)

    @staticmethod
    def window_store_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a window store.

        Example:
            >>> from datetime import timedelta
            >>> minute = timedelta(minutes=1)
            >>> supplier = Stores.persistent_window_store("views", minute, minute)
            >>> Stores.window_store_builder(supplier, key=str, value=int).spec().window_ms
            60000
        """
        built = _builder("window_store_builder", supplier, "window", key, value)
        return replace(built, plain=True)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a window store that knows the timestamp of each value.

        Example:
            >>> from datetime import timedelta
            >>> minute = timedelta(minutes=1)
            >>> supplier = Stores.persistent_timestamped_window_store("views", minute, minute)
            >>> Stores.timestamped_window_store_builder(supplier, key=str, value=int).name
            'views'
        """
        return _builder("timestamped_window_store_builder", supplier, "window", key, value)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a window store that knows the timestamp and headers of each value.

        Example:
            >>> from datetime import timedelta
            >>> minute = timedelta(minutes=1)
            >>> supplier = Stores.persistent_timestamped_window_store_with_headers(
            ...     "views", minute, minute
            ... )
            >>> Stores.timestamped_window_store_with_headers_builder(supplier, key=str).with_headers
            True
        """
        verb = "timestamped_window_store_with_headers_builder"
        return replace(_builder(verb, supplier, "window", key, value), with_headers=True)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a session store that knows the headers of each aggregate.

        Example:
            >>> from datetime import timedelta
            >>> supplier = Stores.persistent_session_store_with_headers("v", timedelta(minutes=30))
            >>> Stores.session_store_with_headers_builder(supplier, key=str).spec().with_headers
            True
        """
        verb = "session_store_with_headers_builder"
        return replace(_builder(verb, supplier, "session", key, value), with_headers=True)

    @staticmethod
    def session_store_builder(
        supplier: StoreSupplier, *, key: Any = None, value: Any = None
    ) -> StoreBuilder:
        """Return a builder for a session store.

        Example:
            >>> from datetime import timedelta
            >>> supplier = Stores.persistent_session_store("visits", timedelta(minutes=30))
            >>> Stores.session_store_builder(supplier, key=str, value=int).spec().kind
            'session'
        """
        return _builder("session_store_builder", supplier, "session", key, value)


def _supplier(name: object, kind: str, **options: Any) -> StoreSpec:
    at = user_origin()
    checked = check_name(name, what="store", at=at, length_max=STORE_NAME_LENGTH_MAX)
    return StoreSpec(name=checked, kind=kind, **options)


def _builder(
    verb: str, supplier: StoreSupplier, kind: str, key: object, value: object
) -> StoreBuilder:
    at = user_origin()
    given = checked_supplier(supplier, at=at)
    if given.kind != kind and not (given.traits.by_key and kind_named(kind).by_key):
        builder = f"the builder for {given.kind} stores"
        if given.own_kind is not None:
            builder = "StoreBuilder(supplier=..., key=..., value=...)"
        msg = f"{verb} cannot build store {supplier.name!r}: it is a {given.kind} store"
        raise BadOptionError(
            msg,
            at=at,
            fix=f"use {builder}, or another supplier",
            fields={"store": supplier.name, "kind": given.kind},
        )
    return StoreBuilder(
        supplier=supplier,
        kind=kind,
        key=choose_serde("key", key, None, holder="StoreBuilder", at=at)
        or ValueSerde(sort_keys=True),
        value=choose_serde("value", value, None, holder="StoreBuilder", at=at) or ValueSerde(),
    )


def checked_supplier(supplier: object, *, at: Origin) -> StoreSpec:
    """Return the store that a supplier gives.

    Raises:
        BadOptionError: If it is not a supplier.
    """
    spec: object = supplier.spec() if isinstance(supplier, StoreSupplier) else None
    if isinstance(spec, StoreSpec):
        return spec
    msg = f"{type(supplier).__name__} does not supply a store"
    raise BadOptionError(
        msg,
        evidence={"got": repr(supplier)},
        at=at,
        why="a supplier has a name, and a method spec() that returns a StoreSpec",
        fix="use one of Stores, such as Stores.persistent_key_value_store(name)",
    )
