"""The stores of a topology under test, as the test driver opens them."""

from __future__ import annotations

from typing import Any

from mustela.queries.queries import Queries
from mustela.sql.asking import SqlReadable
from mustela.state.kinds.key_value import (
    KeyValueStore,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
)
from mustela.state.kinds.session_store import SessionStore, SessionStoreWithHeaders
from mustela.state.kinds.typed import AnyStore
from mustela.state.kinds.versioned_store import VersionedKeyValueStore
from mustela.state.kinds.window_store import (
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    WindowStore,
)
from mustela.testing.stores import DriverStores

__all__ = ["StoreAccess"]


class StoreAccess(SqlReadable):
    """The part of the test driver that opens stores; each call returns committed state."""

    def _stores(self) -> DriverStores:
        raise NotImplementedError

    def _reader(self) -> Queries:
        raise NotImplementedError

    @property
    def queries(self) -> Queries:
        """What reads the stores; for tools that serve them."""
        return self._reader()

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Return a key-value store of the topology, without timestamps.

        Raises:
            TestDriverError: If there is no store of that name, or it is of another kind.
        """
        return self._stores().key_value(name)

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore[Any, Any]:
        """Return a key-value store of the topology, with timestamps.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it keeps no timestamps.
        """
        return self._stores().take(name, TimestampedKeyValueStore[Any, Any])

    def get_timestamped_key_value_store_with_headers(
        self, name: str
    ) -> TimestampedKeyValueStoreWithHeaders[Any, Any]:
        """Return a key-value store of the topology, with timestamps and headers.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it keeps no headers.

        Example:
            >>> from mustela import Materialized, StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> kept = Materialized(store="prices", with_headers=True)
            >>> prices = builder.table("prices", key=str, value=int, materialized=kept)
            >>> with TopologyTestDriver(builder) as driver:
            ...     topic = driver.create_input_topic("prices")
            ...     topic.pipe_input("pen", 3, timestamp=1_000, headers=(("from", b"web"),))
            ...     driver.get_timestamped_key_value_store_with_headers("prices")["pen"]
            ValueTimestampHeaders(value=3, timestamp=1000, headers=(('from', b'web'),))
        """
        return self._stores().take(name, TimestampedKeyValueStoreWithHeaders[Any, Any])

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Return a versioned store of the topology.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is not versioned.
        """
        return self._stores().take(name, VersionedKeyValueStore[Any, Any])

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """Return a window store of the topology, without timestamps.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is of another kind.

        Example:
            >>> from datetime import timedelta
            >>> from mustela import StreamsBuilder, TimeWindows, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> words = builder.stream("words", key=str, value=str).group_by_key()
            >>> minutes = TimeWindows(size=timedelta(minutes=1), grace=timedelta(0))
            >>> counts = words.windowed_by(minutes).count(store="counts")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("words").pipe_input("a", "x", timestamp=61_000)
            ...     driver.get_window_store("counts").fetch("a", 60_000)
            1
        """
        return self._stores().take(name, WindowStore[Any, Any])

    def get_timestamped_window_store(self, name: str) -> TimestampedWindowStore[Any, Any]:
        """Return a window store of the topology, with timestamps.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is of another kind.
        """
        return self._stores().take(name, TimestampedWindowStore[Any, Any])

    def get_timestamped_window_store_with_headers(
        self, name: str
    ) -> TimestampedWindowStoreWithHeaders[Any, Any]:
        """Return a window store of the topology, with timestamps and headers.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is of another kind, or keeps no headers.
        """
        return self._stores().take(name, TimestampedWindowStoreWithHeaders[Any, Any])

    def get_session_store_with_headers(self, name: str) -> SessionStoreWithHeaders[Any, Any]:
        """Return a session store of the topology, with headers.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is of another kind, or keeps no headers.
        """
        return self._stores().take(name, SessionStoreWithHeaders[Any, Any])

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Return a session store of the topology.

        Raises:
            TestDriverError: If there is no store of that name.
            StoreError: If it is of another kind.
        """
        return self._stores().take(name, SessionStore[Any, Any])

    def get_state_store(self, name: str) -> AnyStore:
        """Return a store of the topology with the interface of its kind.

        Raises:
            TestDriverError: If there is no store of that name, or only its step can read it.
        """
        return self._stores().any(name)

    def get_all_state_stores(self) -> dict[str, AnyStore]:
        """Return all stores by name, except those that only their steps can read."""
        stores = self._stores()
        return {name: stores.any(name) for name in stores.readable()}
