"""A standby waits for as long as another instance of its application lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.runtime.events import Listener
from mustela.runtime.kafka_lease import KafkaLeaseLog
from mustela.runtime.lease import Lease, LeaseWatch
from mustela.runtime.passing_faults import PassingFaults

__all__ = ["others_alive"]


def others_alive(
    settings: Settings, clock: Clock, wait: Callable[[float], bool], listener: Listener
) -> Iterator[Lease]:
    """Yield the lease of another instance for as long as one lives.

    Args:
        settings: Whose application.
        clock: Wall and monotonic time.
        wait: Waits so many seconds; says whether this instance is to stop, which ends it.
        listener: Is told of faults that are borne.
    """
    log = KafkaLeaseLog(settings)
    watch = LeaseWatch(log, clock, wait)
    faults = PassingFaults(clock, limit=settings.commit_timeout.total_seconds())
    try:
        while (lease := faults.retry(watch.living, listener.on_error)) is not None:
            yield lease
    finally:
        log.close()
