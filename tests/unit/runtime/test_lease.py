"""An instance says that it lives; who listens finds out without comparing two clocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest

from mustela.clock import ManualClock
from mustela.errors import EnvironmentFault
from mustela.runtime.lease import (
    LOOKED_AT,
    Lease,
    LeaseKeeper,
    LeaseRow,
    LeaseWatch,
    decode_lease,
    encode_lease,
    lease_spec,
)
from mustela.runtime.standby import TURN_S, Standby, is_first, is_its_turn

SOON = 120.0


def lease(instance: str = "a", *, ended: bool = False) -> Lease:
    return Lease(
        instance=instance,
        incarnation=3,
        host="here",
        pid=7,
        started_ms=1,
        time_ms=2,
        ttl_ms=9_000,
        ended=ended,
    )


class FakeLeaseLog:
    """A lease topic in memory."""

    def __init__(self, *leases: Lease, failures: int = 0) -> None:
        self.leases = list(leases)
        self.failures = failures
        self.wrote = threading.Semaphore(0)
        self.is_closed = False

    def read(self, start: int | None) -> tuple[int, list[Lease]]:
        end = len(self.leases)
        return end, self.leases[max(0, end - LOOKED_AT) if start is None else start :]

    def write(self, lease: LeaseRow) -> None:
        assert isinstance(lease, Lease)
        if self.failures:
            self.failures -= 1
            self.wrote.release()
            gone = "no broker"
            raise EnvironmentFault(gone)
        self.leases.append(lease)
        self.wrote.release()

    def close(self) -> None:
        self.is_closed = True


def watch_of(
    log: FakeLeaseLog, clock: ManualClock, then: Callable[[], object] = bool
) -> LeaseWatch:
    """A watch; at its second look ``then`` has happened."""
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            then()
        clock.sleep(seconds)

    return LeaseWatch(log, clock, pause)


class Waits:
    """A standby that waits on a clock by hand.

    Attributes:
        seconds: How long it has waited.
    """

    def __init__(self, before: int, then: Callable[[], object] = bool) -> None:
        self.seconds = 0.0
        self.clock = ManualClock()
        self.is_promoted = False
        self.standby = Standby(
            wait=self._wait, on_rows=lambda _: None, report=bool, before=lambda: before
        )
        self._then = then

    def _wait(self, seconds: float) -> bool:
        self.clock.sleep(seconds)
        self.seconds += seconds
        self._then()
        return self.is_promoted


def test_a_standby_lets_those_before_it_try() -> None:
    """For two seconds each; it takes its turn if none begins, or if it is told to."""
    log = FakeLeaseLog(lease("dead"))

    def has_turn(waits: Waits) -> bool:
        watch = LeaseWatch(log, waits.clock)
        watch.mark()
        return is_its_turn(watch, waits.clock, waits.standby)

    waits = Waits(0)
    assert has_turn(waits)
    assert waits.seconds == 0
    waits = Waits(2)
    assert has_turn(waits)
    assert waits.seconds == pytest.approx(2 * TURN_S, abs=0.2)
    waits = Waits(2)
    waits.is_promoted = True
    assert has_turn(waits)
    assert waits.seconds < TURN_S
    waits = Waits(2, lambda: log.leases.append(lease("next")))
    assert not has_turn(waits)
    assert waits.seconds < TURN_S


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_of_those_that_begin_at_the_same_time_the_topic_chooses_one(order: str) -> None:
    """Each of them has found that none is alive before any of them says that it is."""
    log, clock = FakeLeaseLog(lease("dead")), ManualClock()
    chosen: list[str] = []
    watches = {name: LeaseWatch(log, clock) for name in order}
    for watch in watches.values():
        assert watch.living() is None
    for name in order:

        def begin(name: str = name) -> str:
            log.write(lease(name))
            return name

        def take_back(name: str = name) -> None:
            log.write(lease(name, ended=True))

        standby = Standby(
            wait=lambda _: False, on_rows=bool, report=bool, begin=begin, take_back=take_back
        )
        if is_first(watches[name], standby):
            chosen.append(name)
    assert chosen == [order[0]]
    assert watches[order[1]].last() == lease(order[0])


def test_who_wrote_first_is_first_although_it_speaks_again_later() -> None:
    """And one that has ended meanwhile, or is dead, is before nobody."""
    log, clock = FakeLeaseLog(lease("dead")), ManualClock()
    watch = LeaseWatch(log, clock)
    watch.mark()
    for one in (lease("gone"), lease("a"), lease("gone", ended=True), lease("b"), lease("a")):
        log.write(one)
    assert watch.before("a") is None
    assert watch.before("b") == lease("a")


def test_one_that_is_told_to_take_over_does_not_ask_who_is_first() -> None:
    """A promotion is for an instance that is alive."""
    log = FakeLeaseLog()
    waits = Waits(0)
    waits.is_promoted = True
    assert is_first(LeaseWatch(log, waits.clock), waits.standby)


def test_a_lease_survives_the_topic() -> None:
    """What a later version adds is passed over, and what is none is none."""
    assert decode_lease(encode_lease(lease())) == lease()
    assert decode_lease(encode_lease(lease()).replace(b'"pid":', b'"new":1,"pid":')) == lease()
    assert [decode_lease(value) for value in (None, b"", b"{}", b"\xff")] == [None] * 4


def test_what_nobody_renews_is_gone_after_an_hour() -> None:
    """So nobody listens for an instance of yesterday."""
    spec = lease_spec("app", 3)
    assert (spec.name, spec.partitions, spec.replication_factor) == ("app-lease", 1, 3)
    assert (spec.config["cleanup.policy"], spec.config["retention.ms"]) == ("delete", "3600000")


@pytest.mark.parametrize("leases", [(), (lease(), lease(ended=True))], ids=["none", "ended"])
def test_without_an_instance_nobody_waits(leases: tuple[Lease, ...]) -> None:
    """A first start, or one after a clean stop."""
    clock = ManualClock()
    watch = watch_of(FakeLeaseLog(*leases), clock)
    assert watch.living() is None
    assert watch.last() is None
    assert clock.now_ms() == 0


def test_an_instance_that_says_nothing_more_is_dead() -> None:
    """After the time that it gave itself, by the clock of who listens alone."""
    clock = ManualClock(5_000_000_000)
    watch = watch_of(FakeLeaseLog(lease()), clock)
    assert watch.last() == lease()
    assert watch.living() is None
    assert clock.now_ms() - 5_000_000_000 == 9_000


def test_an_instance_that_says_so_again_lives() -> None:
    """Whatever its clock says."""
    log = FakeLeaseLog(lease())
    clock = ManualClock(5_000_000_000)
    assert watch_of(log, clock, lambda: log.write(lease())).living() == lease()
    assert clock.now_ms() - 5_000_000_000 < 1_000


def test_an_instance_that_ends_meanwhile_is_waited_for_no_longer() -> None:
    """As a standby does."""
    log = FakeLeaseLog(lease())
    clock = ManualClock()
    assert watch_of(log, clock, lambda: log.write(lease(ended=True))).living() is None
    assert clock.now_ms() < 1_000


def test_the_end_of_an_older_instance_hides_no_newer_one() -> None:
    """The older one, which was replaced, stops a moment later."""
    log = FakeLeaseLog(lease("old"), lease("new"), lease("old", ended=True))
    watch = watch_of(log, ManualClock(), lambda: log.write(lease("new")))
    assert watch.living() == lease("new")


def test_a_watch_that_is_to_stop_stops() -> None:
    """An application that stands by is stopped at once."""
    looked: list[float] = []

    def pause(seconds: float) -> bool:
        looked.append(seconds)
        return True

    assert LeaseWatch(FakeLeaseLog(lease()), ManualClock(), pause).living() is None
    assert len(looked) == 1


def keeper_of(log: FakeLeaseLog, interval: float = 1_000.0) -> LeaseKeeper:
    numbers = count()
    said = lease()
    return LeaseKeeper(
        log, ManualClock(70), said, standing=lambda: (next(numbers), "paused"), interval=interval
    )


@pytest.mark.parametrize("ended", [True, False], ids=["a clean end", "fenced"])
def test_a_keeper_says_that_it_lives_and_that_it_ends(ended: bool) -> None:
    """An instance that was fenced says nothing of its end: a newer one speaks now."""
    log = FakeLeaseLog()
    keeper = keeper_of(log)
    keeper.start()
    assert log.wrote.acquire(timeout=SOON)
    keeper.stop(ended=ended)
    assert [(x.incarnation, x.ended) for x in log.leases] == [(0, False), (1, True)][: 1 + ended]
    assert {(x.time_ms, x.state) for x in log.leases} == {(70, "paused")}
    assert log.is_closed


def test_a_broker_that_fails_ends_nothing() -> None:
    """The lease is said again the next time; of an end that cannot be said nobody hears."""
    log = FakeLeaseLog(failures=1)
    keeper = keeper_of(log, interval=0.001)
    keeper.start()
    for _ in range(2):
        assert log.wrote.acquire(timeout=SOON)
    keeper.stop(ended=True)
    assert log.leases[0].ended is False

    dead = FakeLeaseLog(failures=1_000)
    keeper = keeper_of(dead)
    keeper.start()
    assert dead.wrote.acquire(timeout=SOON)
    keeper.stop(ended=True)
    assert isinstance(keeper.trouble, EnvironmentFault)
    assert dead.leases == []


def test_a_trouble_is_told_once() -> None:
    """However often in a row it is met; after the lease was said again, the next is another one."""
    log = FakeLeaseLog(failures=3)
    keeper = keeper_of(log, interval=0.001)
    assert keeper.untold() is None
    keeper.start()
    for _ in range(5):
        assert log.wrote.acquire(timeout=SOON)
    first, again = keeper.untold(), keeper.untold()
    assert first is not None
    assert (first.code, again) == ("LEASE_TROUBLE", None)
    assert first.evidence["cause"].startswith("no broker")
    log.failures = 1
    while log.failures:
        assert log.wrote.acquire(timeout=SOON)
    keeper.stop(ended=True)
    assert keeper.untold() is not None
    assert keeper.untold() is None
