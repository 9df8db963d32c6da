"""The lease topic on a Kafka cluster."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta

from mustela.clock import Clock
from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.plain import PlainSink
from mustela.connectors.kafka.ranges import RangeReader
from mustela.runtime.lease import (
    LOOKED_AT,
    MISSED_MAX,
    Lease,
    LeaseKeeper,
    LeaseRow,
    decode_lease_row,
    encode_lease,
    lease_spec,
    lease_topic,
)

__all__ = ["KafkaLeaseLog", "interval_of", "keeper_of"]

_KEY = b"lease"
_INTERVAL = timedelta(seconds=3)
_INTERVAL_WITH_STANDBY = timedelta(milliseconds=400)
_SEND_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 10.0


class KafkaLeaseLog:
    """Reads and writes the lease topic; connects on first use.

    Args:
        settings: Name the application and the brokers.
    """

    def __init__(self, settings: Settings) -> None:
        self._topic = lease_topic(settings.application_id)
        self._spec = lease_spec(settings.application_id, settings.replication_factor)
        self._admin = KafkaAdmin(client_properties(settings, "admin"), timeout=_READ_TIMEOUT_S)
        self._reader = RangeReader(
            client_properties(settings, "consumer"), read_timeout=_READ_TIMEOUT_S
        )
        self._sink = PlainSink(
            client_properties(settings, "producer"),
            send_timeout=_SEND_TIMEOUT_S,
            idempotent=False,  # a lease that is there twice says nothing else
        )
        self._is_made = False

    def read(self, start: int | None) -> tuple[int, list[Lease]]:
        """Return the offset to read from next time, and the leases since ``start``."""
        end, rows = self.read_rows(start)
        return end, [row for row in rows if isinstance(row, Lease)]

    def read_rows(self, start: int | None, last: int = LOOKED_AT) -> tuple[int, list[LeaseRow]]:
        """Return the offset to read from next time, and all rows since ``start``.

        Args:
            start: An offset; None for the last few rows.
            last: How many.
        """
        place = (self._topic, 0)
        if not self._is_made and not self._admin.describe([self._topic]):
            return 0, []
        self._is_made = True
        (end,) = self._admin.end_offsets([place]).values()
        (first,) = self._admin.earliest_offsets([place]).values()
        begin = max(first, end - last if start is None else start)
        if begin >= end:
            return end, []
        chunks = self._reader.read(self._topic, 0, begin, end)
        read = (decode_lease_row(value) for chunk in chunks for value in chunk.values)
        return end, [row for row in read if row is not None]

    def write(self, lease: LeaseRow) -> None:
        """Write a row; create the topic if needed."""
        if not self._is_made:
            if not self._admin.describe([self._topic]):
                self._admin.create([self._spec])
            self._admin.close()
            self._is_made = True
        try:
            self._sink.produce_columns(self._topic, [_KEY], [encode_lease(lease)], partitions=0)
            self._sink.flush()
        except Exception:
            self._is_made = False  # it may have been deleted
            raise

    def close(self) -> None:
        """Close the connections."""
        self._sink.close()
        self._reader.close()
        self._admin.close()


def interval_of(settings: Settings) -> timedelta:
    """Return the time between two leases of an instance.

    Example:
        >>> from pathlib import Path
        >>> given = {"application_id": "app", "standby": True}
        >>> interval_of(Settings.load(given, environ={}, directory=Path("/")))
        datetime.timedelta(microseconds=400000)
    """
    return settings.lease.interval or (_INTERVAL_WITH_STANDBY if settings.standby else _INTERVAL)


def keeper_of(
    settings: Settings,
    clock: Clock,
    *,
    standing: Callable[[], tuple[int, str]],
    on_rows: Callable[[list[LeaseRow]], object] | None = None,
) -> LeaseKeeper:
    """Return the keeper of the lease by which this process shows that it runs an application.

    Args:
        settings: The settings.
        clock: Wall-clock time.
        standing: Returns the number of the run, 0 before it has one, and the state.
        on_rows: Receives what others have written since the last renewal; None does not look.
    """
    interval = interval_of(settings).total_seconds()
    now_ms, host, pid = clock.now_ms(), socket.gethostname(), os.getpid()
    lease = Lease(
        instance=f"{host}/{pid}/{threading.get_ident()}/{now_ms}",
        incarnation=0,
        host=host,
        pid=pid,
        started_ms=now_ms,
        time_ms=now_ms,
        ttl_ms=int(MISSED_MAX * interval * 1000),
    )
    log = KafkaLeaseLog(settings)
    position: list[int] = []

    def look() -> None:
        end, rows = log.read_rows(position[0] if position else None)
        if position and on_rows is not None:
            on_rows(rows)
        position[:] = [end]

    return LeaseKeeper(
        log,
        clock,
        lease,
        standing=standing,
        interval=interval,
        look=None if on_rows is None else look,
    )
