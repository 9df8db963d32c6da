"""Leases in the simulated world: who runs says that it lives, and a standby listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from mustela.clock import Clock
from mustela.connectors.kafka.errors import BrokerUnavailable
from mustela.runtime.lease import LOOKED_AT, MISSED_MAX, Lease, LeaseRow, LeaseWatch
from mustela.runtime.passing_faults import PassingFaults
from tests.simulation.world import Life, SimWorld, Violation

__all__ = ["SimLeases", "stand_by"]

INTERVAL_MS = 200
"""Between two times at which an instance says that it lives: short, as are whole runs here."""


@dataclass(slots=True)
class _Keeper:
    since_ms: int
    next_ms: int
    lease: Lease


class SimLeases:
    """The lease topic, and what `LeaseKeeper` does in a thread of its own for each instance.

    Args:
        world: The world.
    """

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.log: list[Lease] = []
        self._keepers: dict[Life, _Keeper] = {}
        world.on_step = self.say

    def begin(self, life: Life) -> None:
        """An instance says from now on that it lives."""
        now = self.world.ms
        lease = Lease(
            instance=self.world.new_id(),
            incarnation=0,
            host=str(life.machine.number),
            pid=life.slot,
            started_ms=now,
            time_ms=now,
            ttl_ms=MISSED_MAX * INTERVAL_MS,
        )
        self._keepers[life] = _Keeper(now, now, lease)
        self.say()

    def end(self, life: Life, *, ended: bool) -> None:
        """An instance says nothing any more, but that it has ended if it has."""
        keeper = self._keepers.pop(life, None)
        if ended and not life.dead and keeper is not None:
            self.log.append(msgspec.structs.replace(keeper.lease, ended=True))

    def say(self) -> None:
        """Let everybody say that it lives whose time has come."""
        now = self.world.ms
        for life, keeper in list(self._keepers.items()):
            if life.dead:
                del self._keepers[life]
            elif now >= keeper.next_ms and now >= life.frozen_ms:
                keeper.next_ms = now + INTERVAL_MS
                self.log.append(keeper.lease)

    def living_since(self, began_ms: int) -> list[Life]:
        """Return the instances that have said all the time that they live."""
        return [
            life
            for life, keeper in self._keepers.items()
            if keeper.since_ms < began_ms and not (life.dead or life.paused)
        ]


class _SimLeaseLog:
    """What `KafkaLeaseLog` offers to who listens."""

    def __init__(self, world: SimWorld, life: Life, leases: SimLeases) -> None:
        self._world = world
        self._life = life
        self._leases = leases

    def read(self, start: int | None) -> tuple[int, list[Lease]]:
        """Return the offset to read from next time, and the leases from ``start`` on."""
        self._world.at(self._life, "read leases")
        if self._world.failure(self._life) is not None:
            raise BrokerUnavailable("could not read leases: simulated")
        log = self._leases.log
        first = max(0, len(log) - LOOKED_AT) if start is None else start
        return len(log), log[first:]

    def write(self, lease: LeaseRow) -> None:
        """Nobody writes who listens."""
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


def stand_by(
    life: Life,
    leases: SimLeases,
    clock: Clock,
    on_error: Callable[[BaseException], None],
    limit: timedelta,
) -> None:
    """Wait for as long as another instance lives, as `mustela.App` does with ``standby``.

    Who takes over from an instance that lives, and says so, is found.
    """
    world = leases.world
    log = _SimLeaseLog(world, life, leases)

    def pause(seconds: float) -> bool:
        world.sleep(life, seconds)
        return life.stopping

    watch, faults = LeaseWatch(log, clock, pause), PassingFaults(clock, limit=limit.total_seconds())
    began = world.ms
    while faults.retry(watch.living, on_error) is not None:
        world.happened["a standby waits"] += 1
        began = world.ms
    if life.stopping:
        return
    life.began_ms = world.ms
    world.note(f"{life.slot} waits no more")
    if leases.living_since(began) and not life.paused:
        world.report(Violation("stops", "a standby takes over from an instance that lives"))
