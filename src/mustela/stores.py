"""Stores: how they are created, what processors see of them, transactions over them."""

from __future__ import annotations

from mustela.api.count_min import CountMin as CountMin
from mustela.api.custom_stores import (
    CustomStore as CustomStore,
    query_method as query_method,
)
from mustela.api.intervals import Interval as Interval, Intervals as Intervals
from mustela.api.leaderboard import Leaderboard as Leaderboard, Ranked as Ranked
from mustela.api.options import (
    Materialized as Materialized,
)
from mustela.api.stores import (
    StoreBuilder as StoreBuilder,
    Stores as Stores,
    StoreSupplier as StoreSupplier,
)
from mustela.api.update import Updated as Updated
from mustela.api.upgrades import (
    Upgrade as Upgrade,
)
from mustela.queries.functions import QueryRefusedError as QueryRefusedError
from mustela.queries.shown import StoreInfo as StoreInfo
from mustela.queries.snapshot import Snapshot as Snapshot
from mustela.state.engine import Engine as Engine
from mustela.state.index import Index as Index
from mustela.state.kinds.headers import (
    AggregationWithHeaders as AggregationWithHeaders,
    ValueTimestampHeaders as ValueTimestampHeaders,
)
from mustela.state.kinds.indexed_rows import IndexReader as IndexReader
from mustela.state.kinds.key_value import (
    KeyValueStore as KeyValueStore,
    TimestampedKeyValueStore as TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders as TimestampedKeyValueStoreWithHeaders,
)
from mustela.state.kinds.read_only import (
    ReadOnlyIndex as ReadOnlyIndex,
    ReadOnlyKeyValueStore as ReadOnlyKeyValueStore,
    ReadOnlySessionStore as ReadOnlySessionStore,
    ReadOnlyVersionedStore as ReadOnlyVersionedStore,
    ReadOnlyWindowStore as ReadOnlyWindowStore,
)
from mustela.state.kinds.reading import (
    ReadOnlyCustomStore as ReadOnlyCustomStore,
    ReadOnlyStore as ReadOnlyStore,
    StoreIterator as StoreIterator,
)
from mustela.state.kinds.row_map import OrderedRows as OrderedRows
from mustela.state.kinds.session_store import (
    SessionStore as SessionStore,
    SessionStoreWithHeaders as SessionStoreWithHeaders,
)
from mustela.state.kinds.timed import (
    ValueAndTimestamp as ValueAndTimestamp,
)
from mustela.state.kinds.versioned_store import (
    VersionedKeyValueStore as VersionedKeyValueStore,
    VersionedRecord as VersionedRecord,
)
from mustela.state.kinds.window_store import (
    TimestampedWindowStore as TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders as TimestampedWindowStoreWithHeaders,
    WindowStore as WindowStore,
)
from mustela.state.ordered_value import ordered_bytes as ordered_bytes
from mustela.state.transaction import (
    Refusal as Refusal,
    Transaction as Transaction,
    TransactionRefused as TransactionRefused,
)
