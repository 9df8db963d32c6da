"""The contract of an environment of state, for every implementation.

One *environment* holds the stores of one key group in one stage: ordered bytes to bytes. It has a
*base*, the state after the last epoch that was folded in, and *pendings*: the changes of epochs
that it does not know to be committed. Only a `Committed` from the driver turns a pending into
state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from mustela.serdes.base import Serde
from mustela.serdes.row_versions import RowVersions, UpgradingSerde
from mustela.serdes.values import ValueSerde
from mustela.state.engine import PLAIN_ENGINE, Engine
from mustela.state.faults import StoreError
from mustela.state.index import NOTHING_KNOWN, KnownRows, NamedIndexes
from mustela.state.store_kind import KINDS, StoreKind, kind_named

__all__ = [
    "STATE_FORMAT",
    "Changes",
    "Committed",
    "Condition",
    "Environment",
    "EnvironmentSpec",
    "Rows",
    "Snapshot",
    "StoreSize",
    "StoreSpec",
    "Token",
    "TtlBy",
]

STATE_FORMAT = 1
"""Version of what an environment keeps; a different one is rebuilt from the changelogs."""

Rows = Sequence[tuple[bytes, bytes | None]]
"""Keys with their new values, None for a deletion; sorted by key, each key once."""

Changes = Mapping[str, Rows]
"""The rows of an epoch by store name."""

TtlBy = Literal["event_time", "processing_time"]
"""The kind of time by which the age of a row is measured."""

_HEADERS = "headers"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def check_name(what: str, name: str) -> str:
    """Return ``name`` if it can be part of a path and of a topic's name.

    Raises:
        StoreError: If it is empty, too long, a dot path, or has other characters.

    Example:
        >>> check_name("store", "counts")
        'counts'
    """
    if _NAME.fullmatch(name) and name not in {".", ".."}:
        return name
    msg = f"{name!r} cannot be the name of a {what}"
    why = "the name becomes a directory and part of a topic's name"
    fix = "use 1 to 200 letters, digits, dots, underscores and hyphens"
    raise StoreError(msg, why=why, fix=fix, fields={"name": name})


class Token(NamedTuple):
    """Identifies one run of one epoch, even if the epoch number is reused.

    Tokens are ordered: of two committed epochs the later one has the greater token.
    """

    incarnation: int
    epoch: int
    attempt: int


class StoreSize(NamedTuple):
    """How large a store is in one key group.

    Attributes:
        rows: Entries of its tables.
        size: Size of their pages, in bytes.
    """

    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The committed state of one key group, as the driver reports it when an epoch starts.

    Attributes:
        token: The last committed epoch that wrote this key group; None if none ever did.
        changelog_ends: Each logged store's changelog end offset after that epoch, by store name.
        time_ms: The driver's clock at that epoch, 0 if unknown; decides whether a copy is stale.

    Example:
        >>> Committed()
        Committed(token=None, changelog_ends={}, time_ms=0)
    """

    token: Token | None = None
    changelog_ends: Mapping[str, int] = field(default_factory=dict[str, int])
    time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """A store, as the plan describes it; picklable.

    Attributes:
        name: Store name; unique in the application, part of the changelog's name.
        kind: Name of the layout of keys and values; see `KINDS`.
        key_serde: Serde of the keys; None if the store sees bytes that are already encoded.
        value_serde: Serde of the values; likewise.
        logged: Whether changes go to a changelog topic.
        retention_ms: How long a windowed store keeps a row; None forever.
        window_ms: Length of a window store's windows.
        segment_ms: Length of the segments of time in which a list or versioned store keeps rows.
        history_retention_ms: How far back from its newest row a versioned store can be read.
        duplicates: A window store keeps every value of a key and start, not only the last one.
        indexed: A window store knows the starts of each key; for windows that start anywhere.
        max_entries: The maximum number of keys of a key-value store, which evicts the least
            recently used; None for no limit.
        ttl_ms: How long a key-value store keeps a row after it was written; None forever.
        ttl_by: The time that this is measured in: of the records, or of the clock.
        with_headers: Values are kept with the headers of their records.
        cached: Whether changes within an epoch may be combined before they are forwarded; None
            means the same as True: the application's ``emit`` decides.
        format_version: Version of the kind's layout.
        topic_config: Settings for the changelog topic that differ from the default.
        renamed_from: The store's original name, which its changelog keeps; None if it was never
            renamed.
        row_versions: The version of new rows, and how to read older ones; None if all rows are of
            the first version.
        own_kind: The store's kind, if it is not one of the library's; ``kind`` is then its name.
        indexes: By what else its rows are found, by name.
        engine: How its rows lie on disk; no part of what they mean.

    Example:
        >>> StoreSpec(name="counts").logged
        True
    """

    name: str
    kind: str = "timestamped_key_value"
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    logged: bool = True
    retention_ms: int | None = None
    window_ms: int | None = None
    segment_ms: int | None = None
    history_retention_ms: int | None = None
    duplicates: bool = False
    indexed: bool = False
    max_entries: int | None = None
    ttl_ms: int | None = None
    ttl_by: TtlBy = "event_time"
    with_headers: bool = False
    cached: bool | None = None
    format_version: int = 1
    topic_config: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    renamed_from: str | None = None
    row_versions: RowVersions | None = None
    own_kind: StoreKind | None = None
    indexes: NamedIndexes = ()
    engine: Engine = PLAIN_ENGINE

    def __post_init__(self) -> None:
        check_name("store", self.name)
        self._check_kind()
        if self.renamed_from is not None:
            check_name("store", self.renamed_from)
        for wrong, msg in self._wrong():
            if wrong:
                what = f"store {self.name!r} {msg}"
                raise StoreError(what, fields={"store": self.name})

    @property
    def traits(self) -> StoreKind:
        """The declaration of the store's kind.

        Example:
            >>> StoreSpec(name="counts").traits.by_key
            True
        """
        return self.own_kind or kind_named(self.kind)

    @property
    def keeps_more(self) -> bool:
        """Whether the store has further rows in its changelog besides those that steps see.

        The lines of indexes are in local files alone.

        Example:
            >>> StoreSpec(name="counts").keeps_more
            False
            >>> StoreSpec(name="counts", max_entries=100).keeps_more
            True
        """
        if self.indexes:
            return False
        rows = object()
        return self.traits.rows(rows, self) is not rows

    def spec(self) -> StoreSpec:
        """Return the specification itself, so that it can serve as a supplier."""
        return self

    @property
    def log_name(self) -> str:
        """The store's name in its changelog.

        Example:
            >>> StoreSpec(name="orders", renamed_from="pending").log_name
            'pending'
        """
        return self.renamed_from or self.name

    def rows_of(self, serde: Serde[Any]) -> Serde[Any]:
        """Return the serde of rows: that of the values, or one that also reads older versions.

        Args:
            serde: The serde of the values.

        Example:
            >>> from mustela.serdes.primitives import IntSerde
            >>> StoreSpec(name="counts").rows_of(IntSerde())
            <IntSerde int>
        """
        if self.row_versions is None:
            return serde
        return UpgradingSerde(serde, self.row_versions)

    @property
    def read_serde(self) -> Serde[Any]:
        """The serde of the values for readers of the store.

        Example:
            >>> StoreSpec(name="counts").read_serde
            <ValueSerde value:1>
        """
        serde = self.value_serde or ValueSerde()
        return serde.reader or serde

    @property
    def layout(self) -> str:
        """What the stored rows depend on: rows with an equal layout can be read.

        Example:
            >>> StoreSpec(name="counts").layout
            'timestamped_key_value 1'
            >>> StoreSpec(name="joined", kind="list", segment_ms=60_000).layout
            'list 1, segments of 60000 ms'
        """
        parts = [f"{self.kind} {self.format_version}"]
        if self.traits.parameters:
            parts.append(self.traits.parameters)
        if self.segment_ms is not None and "segment_ms" in self.traits.takes:
            parts.append(f"segments of {self.segment_ms} ms")
        if self.indexed:
            parts.append("indexed")
        if self.duplicates:
            parts.append("duplicates")
        if self.max_entries is not None:
            parts.append("used last")
        if self.ttl_ms is not None:
            parts.append(f"expiring by {self.ttl_by.replace('_', ' ')}")
        if self.with_headers:
            parts.append(_HEADERS)
        return ", ".join(parts)

    def reads(self, layout: str) -> bool:
        """Return whether rows of a layout can be read, with or without headers.

        Example:
            >>> StoreSpec(name="counts", with_headers=True).reads(StoreSpec(name="counts").layout)
            True
        """
        return layout == self.layout or (
            self.with_headers and f"{layout}, {_HEADERS}" == self.layout
        )

    def _check_kind(self) -> None:
        if self.own_kind is not None:
            object.__setattr__(self, "kind", check_name("kind of store", self.own_kind.name))
        known = self.kind in KINDS
        if known == (self.own_kind is None):
            return
        fields = {"store": self.name, "kind": self.kind}
        if known:
            msg = f"store {self.name!r} has a kind of its own with the name {self.kind!r}"
            why = "the library has a kind of that name, whose rows are laid out otherwise"
            raise StoreError(msg, why=why, fix="give the kind another name", fields=fields)
        msg = f"store {self.name!r} is of kind {self.kind!r}, which does not exist"
        fix = f"name one of {', '.join(KINDS)}, or pass own_kind="
        raise StoreError(msg, fix=fix, fields=fields)

    def _wrong(self) -> Iterator[tuple[bool, str]]:
        spans = (self.retention_ms, self.window_ms, self.history_retention_ms, self.ttl_ms)
        traits, entries = self.traits, self.max_entries
        takes, needed = traits.takes, traits.needs
        yield any(span is not None and span < 0 for span in spans), "has a negative span of time"
        yield self.segment_ms is not None and self.segment_ms < 1, "has segments without length"
        missing = needed is not None and getattr(self, needed) is None
        yield missing, f"is a {self.kind} store and has no {needed}"
        given = {"duplicates": self.duplicates, "indexed": self.indexed}
        foreign = any(given[option] and option not in takes for option in given)
        yield foreign, "has options of window stores"
        kept = entries is not None and ("max_entries" not in takes or entries < 1)
        yield kept, "cannot have max_entries"
        expires = self.ttl_ms is not None and ("ttl_ms" not in takes or entries is not None)
        yield expires, "cannot have a time to live"
        yield self.with_headers and traits.headed is None, "cannot keep headers"
        forgets = entries is not None or self.ttl_ms is not None
        indexed = bool(self.indexes) and ("indexes" not in takes or forgets)
        yield indexed, "cannot have indexes"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """The state that an environment holds; the state found on disk must match all of it.

    Attributes:
        application_id: The application.
        cluster_id: The Kafka cluster whose log this state follows.
        stage: Hash of the stage's store set; part of the path.
        group: Index of the key group.
        groups: Number of key groups, G.
        stores: The stores in it.
        stale_after_ms: A copy that lags by more than this is rebuilt from empty, because its
            changelog may have dropped the deletions that it missed; None means never.
        life: The name of the life of the application that the state belongs to. A reset begins a
            new life, in which epochs and changelogs count from the start again, so that only the
            name distinguishes old state from new.
        changelog_ids: The id of each store's changelog topic, which changes when a topic is
            recreated; a store that is left out is not checked.
        adopts_unnamed: Whether state of an older version, which did not name lives, belongs to this
            life.
    """

    application_id: str
    cluster_id: str = ""
    stage: str
    group: int
    groups: int
    stores: tuple[StoreSpec, ...]
    stale_after_ms: int | None = None
    life: str = ""
    changelog_ids: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    adopts_unnamed: bool = False

    def __post_init__(self) -> None:
        check_name("application", self.application_id)
        check_name("stage", self.stage)
        if not 0 <= self.group < self.groups:
            msg = f"key group {self.group} is not one of {self.groups}"
            raise StoreError(msg)
        if len({spec.name for spec in self.stores}) != len(self.stores):
            msg = f"stage {self.stage} names a store twice"
            raise StoreError(msg)


class Condition(Enum):
    """How an environment compares with the committed state.

    Attributes:
        CURRENT: The base is the committed state. Nothing to do.
        FOLDABLE: The base and one pending are the committed state. Nothing to do.
        BEHIND: Read the changelogs from `Environment.positions` to the committed ends.
        EMPTY: Nothing is here; read the changelogs from their start.
        STALE: Too old to catch up: destroy, then restore from empty.
        DAMAGED: Not trustworthy: destroy, then restore from empty.
        FOREIGN: Another application's, cluster's, life's, layout's or format's: destroy, then
            restore.
        AHEAD: It holds an epoch that the driver does not know: stop with an error.
    """

    CURRENT = "current"
    FOLDABLE = "foldable"
    BEHIND = "behind"
    EMPTY = "empty"
    STALE = "stale"
    DAMAGED = "damaged"
    FOREIGN = "foreign"
    AHEAD = "ahead"

    @property
    def ready(self) -> bool:
        """Return whether a snapshot can be taken now.

        Example:
            >>> Condition.FOLDABLE.ready, Condition.BEHIND.ready
            (True, False)
        """
        return self is Condition.CURRENT or self is Condition.FOLDABLE  # no hash: it is asked often

    @property
    def catches_up(self) -> bool:
        """Return whether reading the changelogs from `Environment.positions` makes it current."""
        return self is Condition.BEHIND or self is Condition.EMPTY

    @property
    def must_destroy(self) -> bool:
        """Return whether it has to be destroyed before it can be restored."""
        return self in {Condition.STALE, Condition.DAMAGED, Condition.FOREIGN}


@runtime_checkable
class Snapshot(Protocol):
    """One consistent view of the committed state of all stores, unaffected by later writes.

    An open snapshot keeps disk pages from being reused, so it lives for one epoch or query at most.
    """

    def get(self, store: str, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        ...

    def getmulti(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the same order; one call costs less than many."""
        ...

    def range(
        self, store: str, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over low <= key <= high in key order; None leaves a side open."""
        ...

    def prefix(
        self, store: str, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys that start with ``prefix``, in key order."""
        ...

    def count(self, store: str) -> int:
        """Return the number of keys."""
        ...

    def close(self) -> None:
        """End the view; closing it twice is allowed."""
        ...


@runtime_checkable
class Environment(Protocol):
    """The stores of one key group in one stage; see the module's text for base and pending."""

    @property
    def spec(self) -> EnvironmentSpec:
        """What this environment holds."""
        ...

    def condition(self, committed: Committed) -> Condition:
        """Compare this state with the committed one; never raises for damaged state."""
        ...

    def positions(self) -> dict[str, int]:
        """Return, per logged store, the changelog offset up to which the base is complete."""
        ...

    def snapshot(self, committed: Committed) -> Snapshot:
        """Open a view of the committed state.

        Raises:
            StateNotReadyError: If `condition` is not ready.
            StateDamagedError: If the state cannot be read.
        """
        ...

    def write_pending(
        self,
        token: Token,
        committed: Committed,
        changes: Changes,
        known: Mapping[str, KnownRows] = NOTHING_KNOWN,
    ) -> None:
        """Store an epoch's changes under its token, in one local transaction.

        The same transaction folds the pending of ``committed`` into the base, if it is not in there
        yet, and deletes every other pending: those epochs were never committed. Parts of a large
        one may be folded in transactions before it.

        Args:
            token: This run of this epoch.
            committed: What was committed when the epoch began.
            changes: Rows sorted by key, each key once, by store.
            known: What the epoch knows of those rows; saves work for stores with indexes.

        Raises:
            FencedStateError: If a higher incarnation has written here.
            StateGoneError: If the committed state is no longer here.
            StateNotReadyError: If the state is ahead of it, or not trustworthy.
            StateDiskFullError: If there is no room; the state is what it was then.
        """
        ...

    def fold(self, committed: Committed) -> None:
        """Fold the committed pending into the base; for idle times and for shutdown."""
        ...

    def restore(  # noqa: PLR0913 - rows, where they belong, and who writes them
        self,
        store: str,
        rows: Iterable[tuple[bytes, bytes | None]],
        end_offset: int,
        *,
        start: int = 0,
        goes_on: bool = False,
        anew: bool = False,
        incarnation: int | None = None,
        time_ms: int = 0,
    ) -> None:
        """Apply changelog rows, up to but not including ``end_offset``, in log order.

        The environment is partial until `finish_restore`. An interrupted restore continues from
        `positions`; applying rows again does no harm.

        Args:
            store: The store whose changelog this is.
            rows: Keys and values (None for a deletion), a later row replacing an earlier one.
            end_offset: The offset to continue from.
            start: The offset from which the rows were read; all rows before it are here already.
            goes_on: A restore of this store or another one is already in progress.
            anew: These are all rows of the store. What an interrupted restore left of it is
                deleted, including its position, because the log may no longer contain the
                deletions.
            incarnation: The running incarnation; refused if a higher one has written here.
            time_ms: The driver's clock when reading began; 0 if unknown.

        Raises:
            FencedStateError: If a higher incarnation has written here.
            StateGoneError: If the earlier rows are no longer here.
        """
        ...

    def finish_restore(self, committed: Committed) -> None:
        """Declare the base to be the committed state.

        Raises:
            StateNotReadyError: If a logged store's position is not at its committed end.
        """
        ...

    def compact(self, *, live_bytes_max: int | None = None, closing: bool = False) -> bool:
        """Free unused disk space if that is worth the work; no snapshot may be open.

        Args:
            live_bytes_max: Do not compact more data than this, because copying it takes too long.
            closing: A clean close comes next, for which somebody waits.

        Returns:
            Whether something was done.
        """
        ...

    def close(self, *, clean: bool) -> None:
        """Close the files; ``clean`` syncs and marks them clean, which survives a reboot."""
        ...

    def destroy(self) -> None:
        """Delete all state. The environment is empty afterwards, and can be used again."""
        ...
