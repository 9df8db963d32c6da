"""A standby waits while another instance of its application is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.runtime.events import Listener
from mustela.runtime.kafka_lease import KafkaLeaseLog
from mustela.runtime.lease import Lease, LeaseWatch
from mustela.runtime.passing_faults import PassingFaults

__all__ = ["others_alive"]


_PAUSE_S = 0.1
"""So often a standby looks whether the other instance has said that it is alive."""


def others_alive(
    settings: Settings, clock: Clock, wait: Callable[[float], bool], listener: Listener
) -> Iterator[Lease]:
    """Yield the lease of another instance as long as one is alive.

    Args:
        settings: Name the application.
        clock: Wall and monotonic time.
        wait: Waits some seconds, and returns whether this instance should stop.
        listener: Notified of tolerated faults.
    """
    log = KafkaLeaseLog(settings)
    watch = LeaseWatch(log, clock, wait, pause_s=_PAUSE_S)
    faults = PassingFaults(clock, limit=settings.commit_timeout.total_seconds())
    try:
        while (lease := faults.retry(watch.living, listener.on_error)) is not None:
            yield lease
    finally:
        log.close()
