"""What an application and the test driver offer for reading their stores."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, overload

from mustela.api.option import Answering
from mustela.model import TopicPartition
from mustela.queries.queries import LIFETIME, TIMEOUT, Queries, Sent
from mustela.queries.shown import H, StoreInfo, checked_handle
from mustela.queries.snapshot import Snapshot

__all__ = ["Readable"]


class Readable(Answering):
    """The part of an application, or of the test driver, that reads stores from outside."""

    @property
    def queries(self) -> Queries:
        """What reads the stores; for tools that serve them."""
        raise NotImplementedError

    @overload
    def store(
        self,
        name: str,
        handle: None = None,
        *,
        timestamps: bool = False,
        headers: bool = False,
        min_epoch: int | bytes | Sent | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> Any: ...
    @overload
    def store(
        self,
        name: str,
        handle: type[H],
        *,
        timestamps: bool = False,
        headers: bool = False,
        min_epoch: int | bytes | Sent | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> H: ...
    def store(
        self,
        name: str,
        handle: type[Any] | None = None,
        *,
        timestamps: bool = False,
        headers: bool = False,
        min_epoch: int | bytes | Sent | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> Any:
        """Return a read-only handle of a store, of its kind, over all lanes.

        Each call of the handle reads the newest committed epoch: never anything uncommitted, and
        never older than what an earlier call has seen. An iteration reads one epoch to its end.
        Use `snapshot` for several calls, or several stores, that must fit together. The pipeline
        does not wait for readers. It can be called from any thread.

        Args:
            name: The store's name.
            handle: The class of the handle with the types of keys and values, so that type
                checkers know them: ``ReadOnlyKeyValueStore[str, int]``. That the store is of this
                kind is checked; what its serdes read is taken from you.
            timestamps: Whether values are shown with their timestamps, as `ValueAndTimestamp`.
            headers: Whether values are shown with timestamps and headers.
            min_epoch: First wait until this epoch is committed: its number, the bytes of the header
                ``mustela.epoch`` of an output record, or what `sent` returns.
            timeout: How long to wait for it.

        Returns:
            A `ReadOnlyKeyValueStore`, `ReadOnlyVersionedStore`, `ReadOnlyWindowStore` or
            `ReadOnlySessionStore`, or the handle of a kind of your own.

        Raises:
            UnknownStoreError: If there is no store of that name.
            QueryError: If it is of another kind than ``handle``, keeps no timestamps or headers, or
                only its step can read it.
            StateUnavailableError: If the application is not running.
            StateElsewhereError: If its state is on other hosts.
            EpochNotReachedError: If the epoch is not committed in time.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> from mustela.stores import ReadOnlyKeyValueStore
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int, store="prices")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("prices").pipe_input("pen", 3, timestamp=5)
            ...     prices = driver.store("prices", ReadOnlyKeyValueStore[str, int])
            ...     prices["pen"], driver.store("prices", timestamps=True)["pen"]
            (3, ValueAndTimestamp(value=3, timestamp=5))
        """
        found = self.queries.store(
            name, timestamps=timestamps, headers=headers, min_epoch=min_epoch, timeout=timeout
        )
        return checked_handle(found, handle)

    def snapshot(
        self,
        *,
        lifetime: timedelta = LIFETIME,
        min_epoch: int | bytes | Sent | None = None,
        timeout: timedelta = TIMEOUT,
    ) -> Snapshot:
        """Return a view of all stores as of the newest committed epoch; use it in a ``with`` block.

        Args:
            lifetime: How long it may be read, at most five minutes.
            min_epoch: First wait until this epoch is committed; see `store`.
            timeout: How long to wait for it.

        Raises:
            StateUnavailableError: If the application is not running.
            StateElsewhereError: If its state is on other hosts.
            EpochNotReachedError: If the epoch is not committed in time.
            SnapshotLimitError: If too many snapshots are open.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int, store="prices")
            >>> with TopologyTestDriver(builder) as driver:
            ...     driver.create_input_topic("prices").pipe_input("pen", 3)
            ...     with driver.snapshot() as snapshot:
            ...         snapshot.epoch, list(snapshot.store("prices").items())
            (1, [('pen', 3)])
        """
        return self.queries.snapshot(lifetime=lifetime, min_epoch=min_epoch, timeout=timeout)

    def stores(self) -> list[StoreInfo]:
        """Return the stores that can be read, by name.

        Raises:
            StateUnavailableError: If the application is not running.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", key=str, value=int, store="prices")
            >>> with TopologyTestDriver(builder) as driver:
            ...     [(info.name, info.kind, info.timestamps) for info in driver.stores()]
            [('prices', 'timestamped_key_value', True)]
        """
        return self.queries.stores()

    @staticmethod
    def sent(offsets: Mapping[tuple[str, int], int]) -> Sent:
        """Return what ``min_epoch`` takes to wait until the results of records are committed.

        Args:
            offsets: The offset of the last record that you sent, by (topic, partition).

        Example:
            >>> from mustela import App
            >>> App("orders").sent({("orders", 0): 41})
            Sent(offsets={TopicPartition(topic='orders', partition=0): 41})
        """
        return Sent({TopicPartition(*place): offset for place, offset in offsets.items()})
