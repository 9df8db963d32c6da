"""One life of an application: from its claim to its last commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.errors import MustelaError
from mustela.plan.plan import Plan
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.engine import Engine, EngineOptions, JobInterruptedError
from mustela.runtime.events import AppState, Said
from mustela.runtime.installed import load_engine
from mustela.runtime.kafka_lease import keeper_of
from mustela.runtime.kafka_world import kafka_world
from mustela.runtime.lease import LeaseKeeper
from mustela.runtime.life.commit_watch import CommitWatch
from mustela.runtime.life.lives import Lives, named
from mustela.runtime.life.standing import Standing
from mustela.runtime.logbook import Logbook
from mustela.runtime.ports import World
from mustela.runtime.reading import Published
from mustela.runtime.standby import others_alive
from mustela.runtime.start.opening import check_before_start
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.watched import Admin
from mustela.runtime.time.epoch_timer import EpochTimer

__all__ = ["Life", "Means"]

_SUCCESSOR_EVERY_S = 5.0
"""So often a paused application looks whether another instance took over."""


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


class Life:
    """One life of an application.

    Args:
        means: What it needs.
        standing: The application's state, and the requests to it.
        lives: Notified when epochs can run, and before the life drains.

    Attributes:
        engine: The engine; None before it was chosen.
        coordinator: The driver's loop; None before the engine has started.
    """

    def __init__(self, means: Means, standing: Standing, lives: Lives) -> None:
        self._means = means
        self._standing = standing
        self._lives = lives
        self.engine: Engine | None = None
        self.coordinator: Coordinator | None = None

    def live(self) -> None:
        """Run epochs until the application is asked to stop.

        Raises:
            MustelaError: If it cannot continue.
        """
        means, standing = self._means, self._standing
        settings = means.settings
        if settings.standby:
            self._stand_by()
            if standing.stopping.is_set():
                return
        engine = self.engine = load_engine(means.engine_name)
        # Before anything is read or created: what `mustela reset` deletes after it has found no
        # instance must not be what this one has seen.
        keeper = keeper_of(settings, means.clock, incarnation=self._incarnation)
        keeper.start()
        try:
            keeper.wait_until_said(standing.stopping.is_set)
            checked = self._checked(world := kafka_world(settings, means.clock))
        except BaseException:
            keeper.stop(ended=True)
            raise
        try:
            try:
                options = EngineOptions.of(
                    settings, session=means.session, debug=means.debug, say=standing.say
                )
                engine.start(replace(options, logs=means.logbook.options))
                self.coordinator = Coordinator(
                    settings,
                    means.plan,
                    engine,
                    clock=means.clock,
                    listener=standing.fan,
                    world=world,
                    checked=checked,
                    board=means.board,
                    uncaught=self._lives.answer,
                    published=means.published,
                )
                self._run(self.coordinator, keeper)
            finally:
                keeper.stop(ended=not self._is_fenced())
        finally:
            engine.stop()

    def _checked(self, world: World) -> Recovery:
        means = self._means
        try:
            return check_before_start(means.settings, means.plan, world, self._standing.fan)
        except BaseException:
            world.cluster.close()
            raise

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
                means.logbook.started(means.settings, coordinator, means.admin)
                standing.set(AppState.RUNNING)
                self._lives.started()
                try:
                    self._loop(coordinator, keeper)
                except JobInterruptedError as error:
                    raise watch.error or error from error.__cause__
        finally:
            self._lives.ending(ended.error)
            standing.set(AppState.DRAINING)
            coordinator.close()

    def _stand_by(self) -> None:
        """Wait while another instance is alive, or until this one is asked to stop."""
        means, standing = self._means, self._standing
        wait = standing.stopping.wait
        for lease in others_alive(means.settings, means.clock, wait, standing.fan):
            if standing.state is not AppState.STANDBY:
                standing.set(AppState.STANDBY)
                standing.fan.on_event(Said(text=f"waits while the instance {lease.told} lives"))
        standing.set(AppState.STARTING)

    def _loop(self, coordinator: Coordinator, keeper: LeaseKeeper) -> None:
        standing, clock = self._standing, self._means.clock
        timer = EpochTimer(self._means.settings.commit_interval.total_seconds())
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
            if clock.monotonic() - looked >= _SUCCESSOR_EVERY_S:
                coordinator.notice_successor()
                looked = clock.monotonic()

        standing.pausing.wait(standing.stopping.is_set, meanwhile)
        if not standing.stopping.is_set():
            coordinator.resume()
            standing.set(AppState.RUNNING)


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
