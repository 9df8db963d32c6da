"""Stores: how they are created, what processors see of them, transactions over them."""

from __future__ import annotations

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
from mustela.state.kinds.headers import (
    AggregationWithHeaders as AggregationWithHeaders,
    ValueTimestampHeaders as ValueTimestampHeaders,
)
from mustela.state.kinds.key_value import (
    KeyValueStore as KeyValueStore,
    TimestampedKeyValueStore as TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders as TimestampedKeyValueStoreWithHeaders,
)
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
from mustela.state.transaction import (
    Refusal as Refusal,
    Transaction as Transaction,
    TransactionRefused as TransactionRefused,
)
