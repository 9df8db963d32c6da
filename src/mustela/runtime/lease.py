"""Whether an instance of an application is alive: it reports so every few seconds, in a topic.

A lease only decides when to try. Only Kafka's fencing decides who owns the application, so nothing
wrong is written when a lease is late, missing or from another clock: times of two hosts are never
compared. An instance is alive if it renews its lease while one listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from mustela.clock import Clock
from mustela.connectors.kafka.admin import TopicSpec
from mustela.connectors.kafka.topic_checks import BROKER_TIME
from mustela.errors import EnvironmentFault, UsageError

__all__ = [
    "InstanceAliveError",
    "Lease",
    "LeaseKeeper",
    "LeaseLog",
    "LeaseRow",
    "LeaseTroubleError",
    "LeaseWatch",
    "StandbyReport",
    "SwitchRefused",
    "TakeOver",
    "decode_lease",
    "decode_lease_row",
    "encode_lease",
    "lease_spec",
    "lease_topic",
]

MISSED_MAX = 3
"""How many renewals in a row an instance may miss."""
LOOKED_AT = 16
"""How many leases at the end of the topic are read: more than there are instances at a time."""
_PAUSE_S = 0.25
_JOIN_S = 3.0
_HOUR_MS = 3_600_000
_SEGMENT_BYTES = 1024 * 1024


class InstanceAliveError(UsageError):
    """An instance of the application is running, and must be stopped first."""

    code = "INSTANCE_ALIVE"


class LeaseTroubleError(EnvironmentFault):
    """An instance cannot report that it is alive; it continues, and retries."""

    code = "LEASE_TROUBLE"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an instance about itself.

    Attributes:
        instance: Names the instance.
        incarnation: The number of its run; 0 before its claim.
        host: Its host.
        pid: Its process.
        started_ms: When it started, by its own clock, in milliseconds.
        time_ms: When it was written, by the instance's own clock, in milliseconds.
        ttl_ms: How long to listen before the instance is taken for dead, in milliseconds.
        ended: Whether it has stopped.
        error: The code of the error that ended it, if one did.
        state: What it is at, as `AppState` names it; empty if the release did not yet report that.
        successor: The standby that it has handed over to, if it has.
    """

    instance: str
    incarnation: int
    host: str
    pid: int
    started_ms: int
    time_ms: int
    ttl_ms: int
    ended: bool = False
    error: str = ""
    state: str = ""
    successor: str = ""

    @property
    def told(self) -> str:
        """The instance, for messages."""
        return f"on {self.host} (process {self.pid})"


class StandbyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a standby about itself.

    Attributes:
        standby: Names the instance.
        host: Its host.
        pid: Its process.
        place: Names its directory of state: two instances with the same one share their state.
        time_ms: When it was written, by the instance's own clock, in milliseconds.
        ttl_ms: How long to listen before it is taken for dead, in milliseconds.
        epoch: The epoch that its replica shows; -1 if none.
        memory_bytes: Memory of its processes.
        ready: Whether its replica follows, and its engine has rehearsed an epoch.
    """

    standby: str
    host: str
    pid: int
    place: str
    time_ms: int
    ttl_ms: int
    epoch: int
    memory_bytes: int
    ready: bool

    @property
    def told(self) -> str:
        """The instance, for messages."""
        return f"on {self.host} (process {self.pid})"


class TakeOver(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a standby takes over.

    Attributes:
        take_over: Names the request.
        by: The standby that takes over without asking the running instance, which may not answer;
            empty to ask it.
        to: Whom the running instance hands over to: a standby, or a host; empty for any.
        force: Whether it does so before the standby has caught up.
    """

    take_over: str
    by: str = ""
    to: str = ""
    force: bool = False


class SwitchRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a running instance that does not hand over.

    Attributes:
        refused: Names the request.
        committed: The epoch that a standby had to reach.
        waiting: The standbys that are alive, for messages.
        behind: Whether one was ready, and did not reach that epoch in time.
    """

    refused: str
    committed: int
    waiting: str
    behind: bool


LeaseRow = Lease | StandbyReport | TakeOver | SwitchRefused
"""A row of the lease topic. Versions that know leases alone pass over the others."""


class LeaseLog(Protocol):
    """The lease topic of an application."""

    def read(self, start: int | None) -> tuple[int, list[Lease]]:
        """Return the offset to read from next time, and the leases since ``start``.

        Args:
            start: An offset; None for the last few leases. A missing topic has none.
        """
        ...

    def write(self, lease: LeaseRow) -> None:
        """Write a row; create the topic if needed.

        Raises:
            MustelaError: If the broker does not accept it.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def lease_topic(application_id: str) -> str:
    """Return the name of an application's lease topic.

    Example:
        >>> lease_topic("wordcount")
        'wordcount-lease'
    """
    return f"{application_id}-lease"


def lease_spec(application_id: str, replication_factor: int) -> TopicSpec:
    """Return the specification of the lease topic; leases not renewed are gone after an hour."""
    return TopicSpec(
        name=lease_topic(application_id),
        partitions=1,
        replication_factor=replication_factor,
        config={
            "cleanup.policy": "delete",
            "retention.ms": str(_HOUR_MS),
            "segment.ms": str(_HOUR_MS),
            "segment.bytes": str(_SEGMENT_BYTES),
        },
        created_with=BROKER_TIME,
    )


def encode_lease(lease: LeaseRow) -> bytes:
    """Return a row of the lease topic as the value of a Kafka record."""
    return msgspec.json.encode(lease)


def decode_lease(value: bytes | None) -> Lease | None:
    """Return the lease, or None if this version cannot read ``value``."""
    row = decode_lease_row(value)
    return row if isinstance(row, Lease) else None


def decode_lease_row(value: bytes | None) -> LeaseRow | None:
    """Return a row of the lease topic, or None if this version cannot read it."""
    for kind in (Lease, StandbyReport, TakeOver, SwitchRefused):
        try:
            return msgspec.json.decode(value or b"", type=kind)
        except msgspec.MsgspecError:
            continue
    return None


class LeaseKeeper:
    """Renews the lease of an instance every few seconds, in a separate thread.

    A failure to do so stops nothing; `trouble` reports it, and `untold` reports each trouble once.

    Args:
        log: The lease topic; the keeper closes it.
        clock: Wall-clock time.
        lease: The lease; its time, incarnation and state are filled in.
        standing: Returns the number of the run, and the state.
        interval: Seconds between two renewals.
        look: Called after each renewal; it may look for what others have written.
    """

    def __init__(
        self,
        log: LeaseLog,
        clock: Clock,
        lease: Lease,
        *,
        standing: Callable[[], tuple[int, str]],
        interval: float,
        look: Callable[[], object] | None = None,
    ) -> None:
        self._look = look
        self._log = log
        self._clock = clock
        self._lease = lease
        self._standing = standing
        self._interval = interval
        self._stop = threading.Event()
        self._has_said = threading.Event()
        self._says_end = False
        self._thread = threading.Thread(target=self._run, name="mustela-lease", daemon=True)
        self.trouble: Exception | None = None
        self._untold: Exception | None = None

    @property
    def instance(self) -> str:
        """The name of the instance in its leases."""
        return self._lease.instance

    def start(self) -> None:
        """Begin, unless it has begun."""
        if not self._has_begun:
            self._thread.start()

    def write(self, row: LeaseRow) -> None:
        """Write another row, before `start` or in its thread: the connection is that of the leases.

        Raises:
            MustelaError: If the broker does not accept it.
        """
        self._log.write(row)

    @property
    def _has_begun(self) -> bool:
        return self._thread.ident is not None

    def wait_until_said(self, is_stopped: Callable[[], bool]) -> None:
        """Wait until the lease was written for the first time, or that has failed.

        Args:
            is_stopped: Whether to wait no longer.
        """
        while not self._has_said.wait(_PAUSE_S) and not is_stopped():
            pass

    def stop(self, *, ended: bool, error: str = "", successor: str = "") -> None:
        """Stop renewing, and report the end of the instance; do not wait long for a broker.

        Args:
            ended: Whether to report the end: a fenced instance writes nothing any more.
            error: The code of the error that ends it, if one does.
            successor: The standby that it hands over to, if it does.
        """
        self._says_end = ended
        self._lease = msgspec.structs.replace(self._lease, error=error, successor=successor)
        self._stop.set()
        if self._has_begun:
            self._thread.join(_JOIN_S)
        else:
            self._log.close()

    def untold(self) -> LeaseTroubleError | None:
        """Return a trouble that was not returned before, whether or not it is over."""
        cause, self._untold = self._untold, None
        if cause is None:
            return None
        error = LeaseTroubleError(
            "this instance cannot report in the lease topic that it is alive",
            evidence={"cause": cause},
            why="a standby, and commands that refuse while an instance is running, may assume it "
            "is dead; its commits are correct all the same",
        )
        error.__cause__ = cause
        return error

    def _run(self) -> None:
        while True:
            self._say(ended=False)
            self._has_said.set()
            self._look_around()
            if self._stop.wait(self._interval):
                break
        if self._says_end and self.trouble is None:
            self._say(ended=True)
        self._log.close()

    def _look_around(self) -> None:
        if self._look is None or self.trouble is not None:
            return
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - it must never end the application
            self._untold = error

    def _say(self, *, ended: bool) -> None:
        incarnation, state = self._standing()
        lease = msgspec.structs.replace(
            self._lease,
            incarnation=incarnation,
            state=state,
            time_ms=self._clock.now_ms(),
            ended=ended,
        )
        try:
            self._log.write(lease)
        except Exception as error:  # noqa: BLE001 - it must never end the application
            if self.trouble is None:
                self._untold = error
            self.trouble = error
        else:
            self.trouble = None


class LeaseWatch:
    """Listens for a live instance.

    Args:
        log: The lease topic.
        clock: Monotonic time.
        pause: Waits some seconds, and returns whether to stop waiting; default: the clock waits.
        pause_s: Seconds between two looks.
    """

    def __init__(
        self,
        log: LeaseLog,
        clock: Clock,
        pause: Callable[[float], object] | None = None,
        *,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._pause_s = pause_s
        self._log = log
        self._clock = clock
        self._pause = pause or clock.sleep
        self._marked: int | None = None

    def mark(self) -> None:
        """Remember the end of the topic, for `newcomer` and `before`; `living` does so, too."""
        self._marked, _ = self._log.read(None)

    def newcomer(self) -> Lease | None:
        """Return the lease of an instance that has written one since `mark`, or None; at once."""
        _, leases = self._log.read(self._marked)
        return _newest(_open(leases))

    def before(self, instance: str) -> Lease | None:
        """Return the lease of an instance that spoke first, or None; at once.

        Of several that begin to live at the same time, the order of the topic chooses one: all of
        them read the same.

        Args:
            instance: One that has written a lease since `mark`; others are before it if their first
                lease since then is.
        """
        _, leases = self._log.read(self._marked)
        alive = _open(leases)
        for lease in leases:
            if lease.instance == instance:
                return None
            if lease.instance in alive:
                return alive[lease.instance]
        return None

    def has_run(self) -> bool:
        """Return whether one of the last leases is of an instance that had made its claim."""
        _, leases = self._log.read(None)
        return any(lease.incarnation for lease in leases)

    def ended(self) -> Lease | None:
        """Return the last lease that reports an end, or None; they are kept for an hour."""
        _, leases = self._log.read(None)
        return next((lease for lease in reversed(leases) if lease.ended), None)

    def last(self) -> Lease | None:
        """Return the last lease of an instance that has not reported its end, or None."""
        _, leases = self._log.read(None)
        return _newest(_open(leases))

    def living(self) -> Lease | None:
        """Return the lease of a live instance, or None, after waiting as long as needed.

        That is no time if the last instance reported its end, and a few seconds otherwise.
        """
        self._marked, leases = self._log.read(None)
        waited_for = _open(leases)
        if not waited_for:
            return None
        deadline = self._clock.monotonic() + max(x.ttl_ms for x in waited_for.values()) / 1000
        while self._clock.monotonic() < deadline:
            if self._pause(self._pause_s):
                return None
            self._marked, new = self._log.read(self._marked)
            fresh = _newest(_open(new))
            if fresh is not None:
                return fresh
            for lease in new:
                waited_for.pop(lease.instance, None)
            if not waited_for:
                return None
        return None


def _open(leases: list[Lease]) -> dict[str, Lease]:
    """Return the last lease of each instance that has not ended, in the order of the topic."""
    found: dict[str, Lease] = {}
    for lease in leases:
        found.pop(lease.instance, None)
        found[lease.instance] = lease
    return {name: lease for name, lease in found.items() if not lease.ended}


def _newest(leases: dict[str, Lease]) -> Lease | None:
    return next(reversed(leases.values()), None)
