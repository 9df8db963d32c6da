"""A standby waits while another instance of its application is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.runtime.events import Listener
from mustela.runtime.kafka_lease import KafkaLeaseLog
from mustela.runtime.lease import Lease, LeaseRow, LeaseWatch
from mustela.runtime.passing_faults import PassingFaults

__all__ = ["TURN_S", "NotedLeases", "Standby", "is_first", "is_its_turn", "others_alive"]


_PAUSE_S = 0.1
"""So often a standby looks whether the other instance has said that it is alive."""

REPORT_EVERY_S = 1.0
"""So often it reports about itself."""

TURN_S = 2.0
"""How long a standby lets each one that goes before it try: a claim takes a tenth of that."""

SUCCESSOR_WAIT_S = 10.0
"""How long an instance that has handed over waits until the other one says that it is alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """What a waiting instance does meanwhile.

    Attributes:
        wait: Waits some seconds, and returns whether to wait no longer.
        on_rows: Receives what others write into the lease topic.
        report: Writes the report about itself, if there is one yet.
        before: Returns how many other standbys take over rather than this one.
        begin: Reports from now on that this instance is alive; returns its name in leases.
        take_back: Reports that it is not, after all: another one was first.
        expects: Whether another instance will be alive in a moment: this one has handed over.
    """

    wait: Callable[[float], bool]
    on_rows: Callable[[list[LeaseRow]], object]
    report: Callable[[], object]
    before: Callable[[], int] = int
    begin: Callable[[], str] = str
    take_back: Callable[[], object] = bool
    expects: bool = False


class NotedLeases(KafkaLeaseLog):
    """Hands on what is written while it is read."""

    def __init__(self, settings: Settings, on_rows: Callable[[list[LeaseRow]], object]) -> None:
        super().__init__(settings)
        self._on_rows = on_rows
        self._noted: int | None = None

    def read(self, start: int | None) -> tuple[int, list[Lease]]:
        """Return the offset to read from next time, and the leases since ``start``.

        What was written since the last call is handed on, each row once, whatever the start: of
        two questions for the end of the topic, the second may have a row that the first had not.
        """
        end, rows = self.read_rows(start)
        if self._noted is None or start == self._noted:
            self._noted, news = end, [] if start is None else rows
        else:
            self._noted, news = self.read_rows(self._noted)
        self._on_rows(news)
        return end, [row for row in rows if isinstance(row, Lease)]


def others_alive(
    settings: Settings, clock: Clock, standby: Standby, listener: Listener
) -> Iterator[Lease]:
    """Yield the lease of another instance as long as one is alive.

    Of several that find at the same time that none is, all but one go on waiting.

    Args:
        settings: Name the application.
        clock: Wall and monotonic time.
        standby: What this instance does meanwhile.
        listener: Notified of tolerated faults.
    """
    log = NotedLeases(settings, standby.on_rows)
    watch = LeaseWatch(log, clock, standby.wait, pause_s=_PAUSE_S)
    faults = PassingFaults(clock, limit=settings.commit_timeout.total_seconds())
    expected_until = clock.monotonic() + (SUCCESSOR_WAIT_S if standby.expects else 0.0)
    report_at = 0.0

    def told() -> None:
        nonlocal report_at
        if clock.monotonic() >= report_at:
            standby.report()
            report_at = clock.monotonic() + REPORT_EVERY_S

    try:
        while True:
            lease = faults.retry(watch.living, listener.on_error)
            if lease is not None:
                expected_until = 0.0
                yield lease
                faults.retry(told, listener.on_error)
            elif clock.monotonic() < expected_until:
                if standby.wait(_PAUSE_S):
                    return
            elif faults.retry(
                lambda: is_its_turn(watch, clock, standby) and is_first(watch, standby),
                listener.on_error,
            ):
                return
    finally:
        log.close()


def is_its_turn(watch: LeaseWatch, clock: Clock, standby: Standby) -> bool:
    """Return whether none of the standbys that go first has begun to take over.

    Args:
        watch: Listens for their leases, since it found none.
        clock: Monotonic time.
        standby: Tells how many go first; each gets `TURN_S` seconds.
    """
    before = standby.before()
    if not before:
        return True
    until = clock.monotonic() + TURN_S * before
    while clock.monotonic() < until:
        if standby.wait(_PAUSE_S):
            return True
        if watch.newcomer() is not None:
            return False
    return True


def is_first(watch: LeaseWatch, standby: Standby) -> bool:
    """Let this instance report that it is alive; return whether no other one did so before it.

    This only spares instances that start, or take over, at the same time from fencing each other.
    One that was told to take over does not ask.

    Args:
        watch: Has found that none is alive.
        standby: Reports for this instance.
    """
    if standby.wait(0.0):
        return True
    name = standby.begin()
    try:
        is_first = watch.before(name) is None
    except BaseException:
        standby.take_back()
        raise
    if not is_first:
        standby.take_back()
    return is_first
