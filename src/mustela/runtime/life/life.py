"""One life of an application: from its claim to its last commit."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.errors import MustelaError
from mustela.faultpoints import reach
from mustela.plan.plan import Plan
from mustela.processes import resident_bytes
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.engine import Engine, EngineOptions, JobInterruptedError
from mustela.runtime.events import AppState, Said
from mustela.runtime.installed import load_engine
from mustela.runtime.kafka_lease import keeper_of
from mustela.runtime.kafka_world import kafka_world
from mustela.runtime.lease import (
    MISSED_MAX,
    LeaseKeeper,
    LeaseRow,
    StandbyReport,
    TakeOver,
)
from mustela.runtime.life.commit_watch import CommitWatch
from mustela.runtime.life.lives import Lives, named
from mustela.runtime.life.standing import Standing
from mustela.runtime.life.takeover_times import TakeoverTimes
from mustela.runtime.life.warm import WarmStandby
from mustela.runtime.listeners import Listeners
from mustela.runtime.logbook import Logbook
from mustela.runtime.ports import LocalState, World
from mustela.runtime.reading import Published
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.replica.replica import Replica
from mustela.runtime.standby import REPORT_EVERY_S, Standby, others_alive
from mustela.runtime.start.opening import check_before_start
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.start.writers import with_writers
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.watched import Admin
from mustela.runtime.switching import Standbys, place_of
from mustela.runtime.time.epoch_timer import EpochTimer

__all__ = ["Life", "Means"]

_LOOK_EVERY_S = 5.0
"""So often a paused application looks whether another instance took over, and what waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a life needs.

    Attributes:
        settings: The settings.
        plan: The physical plan.
        engine_name: Name of the engine.
        session: A session of the engine that the user's program has, or None.
        debug: Whether the engine's own stack traces are wanted.
        clock: Wall and monotonic time.
        board: Receives the state of the loop.
        logbook: Writes events to the log.
        admin: The admin server, if there is one.
        published: Receives each committed state, for readers of stores.
        target: The application as its user names it on the command line; empty if nobody knows.
    """

    settings: Settings
    plan: Plan
    engine_name: str
    session: Any
    debug: bool
    clock: Clock
    board: StatusBoard
    logbook: Logbook
    admin: Admin | None
    published: Published
    target: str = ""


class Life:
    """One life of an application.

    Args:
        means: What it needs.
        standing: The application's state, and the requests to it.
        lives: Notified when epochs can run, and before the life drains.

    Attributes:
        engine: The engine; None before it was chosen.
        coordinator: The driver's loop; None before the engine has started.
        standbys: The standbys that it hears of while it runs.
    """

    def __init__(self, means: Means, standing: Standing, lives: Lives) -> None:
        self._means = means
        self._standing = standing
        self._lives = lives
        self.engine: Engine | None = None
        self.coordinator: Coordinator | None = None
        self._ready: tuple[World, Recovery] | None = None
        self._rehearsing: Coordinator | None = None
        self._times = TakeoverTimes(means.clock, standing.say)
        self._keeper: LeaseKeeper | None = None
        self._name = f"{socket.gethostname()}/{os.getpid()}/{means.clock.now_ms()}"
        self.standbys = Standbys(
            means.clock,
            committed=lambda: -1 if self.coordinator is None else self.coordinator.state.epoch,
            hand_over=lambda: standing.ask_to_hand_over(waits=means.settings.standby),
            say=standing.say,
            answer=lambda row: None if self._keeper is None else self._keeper.write(row),
        )

    def live(self) -> None:
        """Run epochs until the application is asked to stop.

        Raises:
            MustelaError: If it cannot continue.
        """
        engine = self.engine = load_engine(self._means.engine_name, self._engine_options())
        try:
            self._live(engine)
        finally:
            engine.stop()

    def _live(self, engine: Engine) -> None:
        standing, settings = self._standing, self._means.settings
        warm: WarmStandby | None = None
        if settings.standby:
            warm = self._stand_by(engine)
            if standing.stopping.is_set():
                return
        # Before anything is read or created: what `mustela reset` deletes after it has found no
        # instance must not be what this one has seen.
        keeper = self._begin_lease()
        try:
            world, checked = self._ready or self._check()
        except BaseException as error:
            keeper.stop(ended=True, error=_code_of(error))
            self._keeper = None
            self._cool(warm)
            raise
        ended = ""
        try:
            try:
                if warm is None:
                    engine.start(self._engine_options())
                else:
                    self._times.ends("report")
                    warm.take_over()
                    self._times.ends("engine")
                    self._means.published.end()
                self.coordinator = self._rehearsing or self._new_coordinator(engine, world, checked)
                if warm is not None:
                    self.coordinator.run.opening.before_restore = partial(self._reach, warm)
                self._run(self.coordinator, keeper)
            except BaseException as error:
                ended = _code_of(error)
                raise
            finally:
                successor = self.standbys.successor
                keeper.stop(ended=not self._is_fenced(), error=ended, successor=successor)
        finally:
            if self.coordinator is None:  # nobody else closes what is connected
                if warm is not None:
                    warm.stop()
                world.close()

    def _reach(self, warm: WarmStandby, state: CommittedState) -> None:
        self._times.ends("claim")
        reach("standby-claimed")
        warm.reach(state)
        reach("standby-caught-up")
        self._times.ends("catch-up")

    def _new_coordinator(self, engine: Engine, world: World, checked: Recovery) -> Coordinator:
        means = self._means
        coordinator = Coordinator(
            means.settings,
            means.plan,
            engine,
            clock=means.clock,
            listener=Listeners([self._standing.fan, self._times]),
            world=world,
            checked=checked,
            board=means.board,
            uncaught=self._lives.answer,
            published=means.published,
        )
        coordinator.target = means.target
        return coordinator

    def _check(self) -> tuple[World, Recovery]:
        """Return the world, and what a check before the start found in it."""
        means = self._means
        world = kafka_world(means.settings, means.clock, joined=means.session is not None)
        try:
            checked = check_before_start(means.settings, means.plan, world, self._standing.fan)
            return with_writers(world, means.settings, self._standing.say), checked
        except BaseException:
            world.close()
            raise

    def _engine_options(self) -> EngineOptions:
        means = self._means
        options = EngineOptions.of(
            means.settings, session=means.session, debug=means.debug, say=self._standing.say
        )
        return replace(options, logs=means.logbook.options)

    def interrupt(self) -> None:
        """End the running job, and start no other; may be called from any thread."""
        if self.engine is not None:
            self.engine.interrupt()

    def _incarnation(self) -> int:
        return 0 if self.coordinator is None else self.coordinator.state.incarnation

    def _is_fenced(self) -> bool:
        return self.coordinator is not None and self.coordinator.barrier.phase is Phase.FENCED

    def _run(self, coordinator: Coordinator, keeper: LeaseKeeper) -> None:
        standing, ended = self._standing, _Ended()
        means = self._means
        watch = CommitWatch(means.board, means.settings.stall, standing.say, self.interrupt)
        try:
            with ended, watch.over():
                standing.set(AppState.RESTORING)
                coordinator.prepare()
                self._times.ends("check")
                means.logbook.started(means.settings, coordinator, means.admin)
                standing.set(AppState.RUNNING)
                self._lives.started()
                try:
                    self._loop(coordinator, keeper)
                except JobInterruptedError as error:
                    raise watch.error or error from error.__cause__
        finally:
            if standing.hands_over and ended.error is None:
                self._hand_over(keeper)
            self._lives.ending(ended.error)
            standing.set(AppState.DRAINING)
            coordinator.close()

    def _hand_over(self, keeper: LeaseKeeper) -> None:
        """Let a standby begin while this instance closes its state, unless it has the same."""
        self._standing.has_handed_over = True
        if not self.standbys.share_state(place_of(self._means.settings)):
            keeper.stop(ended=True, successor=self.standbys.successor)
            reach("handing-over")

    def _stand_by(self, engine: Engine) -> WarmStandby | None:
        """Wait while another instance is alive, or until this one is asked to stop.

        Returns:
            What is ready for a takeover; None if no other instance is alive, or to stop.
        """
        means, standing = self._means, self._standing
        warm: WarmStandby | None = None

        def wait(seconds: float) -> bool:
            return standing.stopping.wait(seconds) or standing.is_promoted.is_set()

        def begin() -> str:
            if warm is not None:
                self._times.ends("silence")
            name = self._begin_lease().instance
            reach("standby-begins")
            return name

        expects, standing.has_handed_over = standing.has_handed_over, False
        standby = Standby(
            wait=wait,
            on_rows=self._heard_by_standby,
            report=lambda: None if warm is None else self._report(warm),
            before=lambda: self.standbys.before(
                self._name, ready=warm is not None and warm.is_ready
            ),
            begin=begin,
            take_back=self._end_lease,
            expects=expects,
        )
        try:
            for lease in others_alive(means.settings, means.clock, standby, standing.fan):
                self._times.heard()
                if warm is None:
                    standing.set(AppState.STANDBY)
                    standing.fan.on_event(Said(text=f"waits while the instance {lease.told} lives"))
                    warm = self._warm(engine)
        except BaseException:
            self._cool(warm)
            raise
        if standing.stopping.is_set():
            self._cool(warm)
            return None
        standing.set(AppState.STARTING)
        return warm

    def _heard_by_standby(self, rows: Iterable[LeaseRow]) -> None:
        self.standbys.hear_of_others(rows)
        if any(isinstance(row, TakeOver) and row.by == self._name for row in rows):
            self._standing.is_promoted.set()

    def _begin_lease(self) -> LeaseKeeper:
        """Report from now on that this instance is alive; return when it was said."""
        self._keeper = keeper = self._keeper or self._new_keeper()
        keeper.start()
        keeper.wait_until_said(self._standing.stopping.is_set)
        return keeper

    def _end_lease(self) -> None:
        """Report that this instance is alive no longer, if it has reported that it is."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.stop(ended=True)

    def _new_keeper(self) -> LeaseKeeper:
        settings = self._means.settings
        return keeper_of(
            settings,
            self._means.clock,
            standing=lambda: (self._incarnation(), self._standing.state.value),
            on_rows=self.standbys.hear if settings.standby else None,
        )

    def _report(self, warm: WarmStandby) -> None:
        """Report in the lease topic; by the keeper, whose client is connected then."""
        means, record = self._means, warm.replica.record
        ttl_ms = int(MISSED_MAX * REPORT_EVERY_S * 1000)
        self._keeper = keeper = self._keeper or self._new_keeper()
        report = StandbyReport(
            standby=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            place=place_of(means.settings),
            time_ms=means.clock.now_ms(),
            ttl_ms=ttl_ms,
            epoch=-1 if record is None else record.epoch,
            memory_bytes=resident_bytes(os.getpid()),
            ready=warm.is_ready,
        )
        keeper.write(report)

    def _warm(self, engine: Engine) -> WarmStandby:
        """Check that this program can take over, and begin to get ready for it."""
        means, standing = self._means, self._standing
        settings = means.settings
        self._ready = world, checked = self._check()
        backend = "memory" if settings.state.backend == "memory" else "disk"
        name = settings.application_id
        local = LocalState(application_id=name, root=settings.state_dir, backend=backend)
        place = world.disk.choose(local, standing.say)
        replica = Replica(settings, means.plan, examine=checked.examine, place=place)

        def rehearse(record: EpochRecord) -> None:
            if self._rehearsing is None:
                self._rehearsing = self._new_coordinator(engine, world, checked)
            self._rehearsing.run.opening.rehearse(record, place)

        warm = WarmStandby(
            lambda: engine.start(self._engine_options()),
            rehearse,
            means.published.show,
            replica,
            means.clock,
            standing.fan,
        )
        warm.start()
        return warm

    def _cool(self, warm: WarmStandby | None) -> None:
        """End what was ready for a takeover that does not follow."""
        if warm is not None:
            warm.end_following()
            self._means.published.end()
            warm.stop()
        self._end_lease()
        if self._ready is not None:
            self._ready[0].close()

    def _loop(self, coordinator: Coordinator, keeper: LeaseKeeper) -> None:
        standing, clock = self._standing, self._means.clock
        timer = EpochTimer.of(self._means.settings)
        while not standing.stopping.is_set():
            self._tell_of_lease(keeper)
            self._means.logbook.look()
            if standing.pausing.is_asked:
                self._rest(coordinator, keeper)
                continue
            started = clock.monotonic()
            asked, seen = tuple(standing.waiting), coordinator.ends
            busy = coordinator.run_once()
            if asked and coordinator.ends is not seen:  # a look begun after they asked
                standing.tell_waiting(asked, coordinator)
            spent = clock.monotonic() - started
            if busy or not coordinator.rest(lambda: standing.is_wanted):
                standing.stopping.wait(timer.pause(busy=busy, seconds=spent, lag=coordinator.lag()))

    def _tell_of_lease(self, keeper: LeaseKeeper) -> None:
        if (trouble := keeper.untold()) is not None:
            self._standing.fan.on_error(trouble)

    def _rest(self, coordinator: Coordinator, keeper: LeaseKeeper) -> None:
        """Wait until the application is asked to resume or to stop."""
        standing, clock = self._standing, self._means.clock
        standing.set(AppState.PAUSED)
        looked = clock.monotonic()

        def meanwhile() -> None:
            nonlocal looked
            self._tell_of_lease(keeper)
            if clock.monotonic() - looked >= _LOOK_EVERY_S:
                coordinator.look_around()
                looked = clock.monotonic()

        standing.pausing.wait(standing.stopping.is_set, meanwhile)
        if not standing.stopping.is_set():
            coordinator.resume()
            standing.set(AppState.RUNNING)


def _code_of(error: BaseException) -> str:
    return str(getattr(error, "code", "")) or type(error).__name__


class _Ended:
    """Keeps the error that ends a block."""

    def __init__(self) -> None:
        self.error: MustelaError | None = None

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Keep the error; replace an unexpected one by the one that users see."""
        if error is not None:
            self.error = named(error)
            if self.error is not error:
                raise self.error from error
