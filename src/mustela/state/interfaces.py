"""What an environment of state promises, whatever keeps it.

One *environment* holds the stores of one key group in one stage: ordered bytes to bytes. It has a
*base*, the state after the last epoch that was folded in, and *pendings*: the changes of epochs
whose commit it has not been told of. The driver's word alone, a `Committed`, turns a pending
into state.
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
from mustela.state.faults import StoreError
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
"""By which time the age of a row is measured."""

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
    """Names one run of one epoch, so that a reused epoch number is never mistaken.

    Tokens are ordered: of two committed epochs the later one has the greater token.
    """

    incarnation: int
    epoch: int
    attempt: int


class StoreSize(NamedTuple):
    """How large a store is in one key group.

    Attributes:
        rows: Entries of its tables.
        size: Pages that they take, in bytes.
    """

    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What the driver says of one key group when an epoch starts.

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
        retention_ms: How long a windowed store keeps a row; None for ever.
        window_ms: Length of a window store's windows.
        segment_ms: Length of the segments of time in which a list or versioned store keeps rows.
        history_retention_ms: How far behind its newest row a versioned store can be read.
        duplicates: A window store keeps every value of a key and start, not the last alone.
        indexed: A window store knows the starts of each key; for windows that start anywhere.
        max_entries: A key-value store keeps so many keys at most, and forgets those that were
            not used for longest; None for all.
        ttl_ms: A key-value store keeps a row so long after it was written; None for ever.
        ttl_by: By which time that is: of the records, or of the clock.
        with_headers: Values are kept with the headers of the records that they come from.
        cached: Whether changes within an epoch may be combined before they are forwarded; None is
            as good as True: it is for the application's ``emit`` to say.
        format_version: Version of the kind's layout.
        topic_config: Settings for the changelog topic that differ from the default.
        renamed_from: The name under which the store began, and which its changelog keeps; None if
            it has its first name.
        row_versions: Of which version the rows are that are written, and how older ones are read;
            None where all rows are of the first.
        own_kind: The store's kind, if it is not one of the library's; ``kind`` is then its name.

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
        """What the store's kind says about itself.

        Example:
            >>> StoreSpec(name="counts").traits.by_key
            True
        """
        return self.own_kind or kind_named(self.kind)

    @property
    def keeps_more(self) -> bool:
        """Whether the store has rows of its own beside those that steps see.

        Example:
            >>> StoreSpec(name="counts").keeps_more
            False
            >>> StoreSpec(name="counts", max_entries=100).keeps_more
            True
        """
        rows = object()
        return self.traits.rows(rows, self) is not rows

    def spec(self) -> StoreSpec:
        """Return the specification itself: it supplies the store that it describes."""
        return self

    @property
    def log_name(self) -> str:
        """The name that the changelog has the store under.

        Example:
            >>> StoreSpec(name="orders", renamed_from="pending").log_name
            'pending'
        """
        return self.renamed_from or self.name

    def rows_of(self, serde: Serde[Any]) -> Serde[Any]:
        """Return what makes rows of values: a serde, or one that knows of older rows, too.

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
        """The serde of the values as whoever looks into the store sees them.

        Example:
            >>> StoreSpec(name="counts").read_serde
            <ValueSerde value:1>
        """
        serde = self.value_serde or ValueSerde()
        return serde.reader or serde

    @property
    def layout(self) -> str:
        """What the stored rows depend on: the same text means that they can be read.

        Example:
            >>> StoreSpec(name="counts").layout
            'timestamped_key_value 1'
            >>> StoreSpec(name="joined", kind="list", segment_ms=60_000).layout
            'list 1, segments of 60000 ms'
        """
        parts = [f"{self.kind} {self.format_version}"]
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
        """Whether rows of a layout can be read; those without headers are rows with none.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """Which state an environment holds; what is found on disk must agree with all of it.

    Attributes:
        application_id: The application.
        cluster_id: The Kafka cluster whose log this state follows.
        stage: Hash of the stage's store set; part of the path.
        group: Index of the key group.
        groups: Number of key groups, G.
        stores: The stores that live here.
        stale_after_ms: A copy that lags by more than this is rebuilt from empty, because its
            changelog may have dropped the deletions that it missed; None for never.
        life: Names the life of the application that the state is of. A reset begins a new life,
            in which epochs and changelogs count from the start again, so that nothing but the name
            tells old state from new.
        changelog_ids: The id of each store's changelog topic, which changes when a topic is made
            anew; a store that is left out is not looked at.
        adopts_unnamed: State that an older version wrote, which gave its lives no names, is this
            life's.
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
    """How an environment compares with what the driver says is committed.

    Attributes:
        CURRENT: The base is the committed state. Nothing to do.
        FOLDABLE: The base and one pending are the committed state. Nothing to do.
        BEHIND: Read the changelogs from `Environment.positions` to the committed ends.
        EMPTY: Nothing is here; read the changelogs from their start.
        STALE: Too old to catch up: destroy, then restore from empty.
        DAMAGED: Not to be trusted: destroy, then restore from empty.
        FOREIGN: Another application's, cluster's, life's, layout's or format's: destroy, then
            restore.
        AHEAD: It holds an epoch that the driver does not know. A named stop.
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
        """Whether a snapshot can be taken now.

        Example:
            >>> Condition.FOLDABLE.ready, Condition.BEHIND.ready
            (True, False)
        """
        return self in {Condition.CURRENT, Condition.FOLDABLE}

    @property
    def catches_up(self) -> bool:
        """Whether the changelogs from `Environment.positions` on make it current."""
        return self in {Condition.BEHIND, Condition.EMPTY}

    @property
    def must_destroy(self) -> bool:
        """Whether it has to be destroyed before it can be restored."""
        return self in {Condition.STALE, Condition.DAMAGED, Condition.FOREIGN}


@runtime_checkable
class Snapshot(Protocol):
    """One consistent view of all stores: the committed state, whatever is written meanwhile.

    A snapshot that stays open keeps disk pages from being used again, so it lives for an epoch
    or a query at most.
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
        """End the view; closing twice does no harm."""
        ...


@runtime_checkable
class Environment(Protocol):
    """The stores of one key group in one stage; see the module's text for base and pending."""

    @property
    def spec(self) -> EnvironmentSpec:
        """What this environment holds."""
        ...

    def condition(self, committed: Committed) -> Condition:
        """Compare what is here with what is committed; never raises for damaged state."""
        ...

    def positions(self) -> dict[str, int]:
        """Return, per logged store, the changelog offset up to which the base is complete."""
        ...

    def snapshot(self, committed: Committed) -> Snapshot:
        """Open a view of the committed state.

        Raises:
            StateNotReadyError: If `condition` is not ready.
            StateDamagedError: If what is here cannot be read.
        """
        ...

    def write_pending(self, token: Token, committed: Committed, changes: Changes) -> None:
        """Store an epoch's changes under its token, in one local transaction.

        The same transaction folds the pending of ``committed`` into the base, if it is not
        there yet, and deletes every other pending: those epochs were never committed.

        Args:
            token: This run of this epoch.
            committed: What was committed when the epoch began.
            changes: Rows sorted by key, each key once, by store.

        Raises:
            FencedStateError: If a higher incarnation has written here.
            StateGoneError: If the committed state is not here any more.
            StateNotReadyError: If what is here is ahead of it, or not to be trusted.
            StateDiskFullError: If there is no room; nothing is changed then.
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
        """Apply changelog rows in log order; they end before ``end_offset``.

        The environment is partial until `finish_restore`. A restore that was cut short goes on
        from `positions`; rows that are applied again do no harm.

        Args:
            store: The store whose changelog this is.
            rows: Keys and values (None for a deletion), a later row replacing an earlier one.
            end_offset: The offset to go on from.
            start: The offset from which the rows were read: all before it are here already.
            goes_on: A restore is under way already, of this store or of another one.
            anew: These are all rows of the store. What a restore that was cut short has left of it
                goes, its position too: the log may not tell of its deletion any more.
            incarnation: The running incarnation; refused if a higher one was here.
            time_ms: The driver's clock when reading began; 0 if unknown.

        Raises:
            FencedStateError: If a higher incarnation has written here.
            StateGoneError: If the rows before are not here any more.
        """
        ...

    def finish_restore(self, committed: Committed) -> None:
        """Declare the base to be the committed state.

        Raises:
            StateNotReadyError: If a logged store's position is not at its committed end.
        """
        ...

    def compact(self, *, live_bytes_max: int | None = None) -> bool:
        """Give unused disk back where that is worth the work; no snapshot may be open.

        Args:
            live_bytes_max: Leave more data than this alone: copying it takes too long.

        Returns:
            Whether something was done.
        """
        ...

    def close(self, *, clean: bool) -> None:
        """Let go of files; ``clean`` syncs and says so, which survives a reboot."""
        ...

    def destroy(self) -> None:
        """Delete all state. The environment is empty afterwards and can be used."""
        ...
