"""An application: a name, a topology, settings, and its life from start to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from mustela.api.option import Answering
from mustela.clock import Clock, SystemClock
from mustela.config.settings import Settings
from mustela.dsl.builder import StreamsBuilder
from mustela.errors import InvariantError, MustelaError
from mustela.plan.bound import bind_serdes
from mustela.plan.plan import Plan
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.runtime.app_errors import (
    AppStateError,
    NoTopologyError,
    UnnamedStepError,
    refuse_unnamed,
)
from mustela.runtime.app_topics import AppTopics, app_topics
from mustela.runtime.building import build_topology
from mustela.runtime.caught_up import CaughtUp
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.engine import Engine, EngineOptions
from mustela.runtime.events import AppState, Listener, Said, StateChanged
from mustela.runtime.installed import load_admin, load_engine as _load_engine
from mustela.runtime.kafka_lease import keeper_of
from mustela.runtime.kafka_world import kafka_world
from mustela.runtime.lease import LeaseKeeper
from mustela.runtime.listeners import ListenerError, Listeners
from mustela.runtime.logbook import Logbook
from mustela.runtime.pausing import Pausing
from mustela.runtime.shortage import shortage_of
from mustela.runtime.signals import stopped_by_signals
from mustela.runtime.standby import others_alive
from mustela.runtime.start.opening import check_before_start
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.watched import Admin, Watched, workers_of
from mustela.runtime.time.epoch_timer import EpochTimer
from mustela.topology.graph import TopologyGraph

__all__ = [
    "App",
    "AppState",
    "AppStateError",
    "AppTopics",
    "ListenerError",
    "NoTopologyError",
    "UnnamedStepError",
]


Build = TypeVar("Build", bound=Callable[[StreamsBuilder], object])


class App(Answering):
    """A stream processing application.

    Args:
        application_id: The application's name: consumer group, transactional id and the first
            part of its internal topics.
        settings: Settings by name: nested, dotted, or Kafka Streams' names; they win over the
            environment and ``mustela.yaml``.
        session: A SparkSession or SparkContext to run in; without one, the active one or a new
            one is used.
        engine: Name of the engine.
        clock: For tests.
        **more: Settings as keywords; they win over ``settings``.

    Example:
        >>> app = App("wordcount")
        >>> @app.topology
        ... def build(builder):
        ...     lines = builder.stream("lines", key=str, value=str)
        ...     words = lines.flat_map_values(str.split).group_by(lambda _key, word: word)
        ...     words.count(store="counts").to_stream().to("counts", key=str, value=int)
        >>> app.state.value
        'created'
    """

    def __init__(
        self,
        application_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        session: Any = None,
        engine: str = "spark",
        clock: Clock | None = None,
        debug: bool = False,
        **more: Any,
    ) -> None:
        self._code = {**(settings or {}), **more}
        if application_id is not None:
            self._code["application_id"] = application_id
        self._session = session
        self._engine_name = engine
        self._clock = clock or SystemClock()
        self._debug = debug
        self._build: Callable[[StreamsBuilder], object] | None = None
        self._settings: Settings | None = None
        self._topology: TopologyGraph | None = None
        self._board = StatusBoard(self._clock)
        self._logbook = Logbook(self._clock)
        self._listeners: list[Listener] = [self._board, self._logbook]
        self._admin: Admin | None = None
        self._state = AppState.CREATED
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._pausing = Pausing(self._changed)
        self._thread: threading.Thread | None = None
        self._waiting: list[CaughtUp] = []
        self._error: BaseException | None = None
        self._coordinator: Coordinator | None = None
        self._engine: Engine | None = None

    def topology(self, build: Build) -> Build:
        """Decorate the function that writes the topology.

        It writes with the builder that it is given, or returns a `mustela.Topology`.
        """
        self._build = build
        return build

    @property
    def settings(self) -> Settings:
        """The settings, read when first asked for."""
        if self._settings is None:
            self._settings = Settings.load(self._code)
        return self._settings

    def configure(self, **settings: Any) -> None:
        """Set further settings from the program, before the start.

        Raises:
            AppStateError: If the application has started.
        """
        if self._state is not AppState.CREATED:
            msg = f"settings cannot be changed while the application is {self._state.value}"
            raise AppStateError(msg, fix="configure before run() or start()")
        self._code.update(settings)
        self._settings = None

    @property
    def debug(self) -> bool:
        """Whether errors of the engine come with its own stack; to be set before the start."""
        return self._debug

    @debug.setter
    def debug(self, wanted: bool) -> None:
        self._debug = wanted

    def built_topology(self) -> TopologyGraph:
        """Return the logical topology.

        Raises:
            NoTopologyError: If no function was decorated with ``@app.topology``.
        """
        if self._topology is None:
            self._topology = build_topology(self._build)
        return self._topology

    def built_plan(self) -> Plan:
        """Return the physical plan for the current settings."""
        settings = self.settings
        options = PlanOptions(
            emit=settings.emit,
            event_time=settings.event_time,
            rules_off=settings.topology.rules,
        )
        made = plan(self.built_topology(), options=options)
        return bind_serdes(made, settings.application_id, settings.schema_registry)

    def check_program(self) -> None:
        """See whether the program could run: without a broker, and without starting anything.

        `start` looks at the same, and the test driver when it is given an application.

        Raises:
            UnnamedStepError: If a stateful step has no name of its own, unless ``naming.strict``
                is false.
            UsageError: If a function cannot be sent to the engine's workers, or settings or
                topology are wrong.

        Example:
            >>> app = App("copy", settings={"naming.strict": True})
            >>> @app.topology
            ... def build(builder):
            ...     builder.stream("lines", key=str, value=str).to("copies")
            >>> app.check_program()
        """
        physical = self.built_plan()
        self._check_names(physical)
        _load_engine(self._engine_name).check(physical)

    def _check_names(self, physical: Plan) -> None:
        if self.settings.naming.strict:
            steps = (step.node for stage in physical.stages for step in stage.steps)
            refuse_unnamed([*self.built_topology(), *steps])

    @property
    def state(self) -> AppState:
        """Where the application is in its life."""
        return self._state

    @property
    def error(self) -> BaseException | None:
        """Why the application ended, if it was an error."""
        return self._error

    @property
    def topics(self) -> AppTopics:
        """What the application reads and writes, and what topics it makes for itself.

        It is known before the start; topics that a pattern finds are not among them.

        Raises:
            UsageError: If settings or topology are wrong.

        Example:
            >>> app = App("copy")
            >>> @app.topology
            ... def build(builder):
            ...     builder.stream("lines", key=str, value=str).to("copies")
            >>> app.topics.reads, app.topics.writes
            (('lines',), ('copies',))
        """
        return app_topics(self.settings, self.built_plan())

    @property
    def coordinator(self) -> Coordinator | None:
        """The driver's loop while the application runs; for tests and tools."""
        return self._coordinator

    def add_listener(self, listener: Listener) -> None:
        """Have a listener told of states, epochs and restores.

        Args:
            listener: Its methods are called in the application's own thread, and must return
                quickly. One that raises ends the application.

        Example:
            >>> from mustela.events import Listener, StateChanged
            >>> class Prints(Listener):
            ...     def on_event(self, event):
            ...         if isinstance(event, StateChanged):
            ...             print(event.state.value)
            >>> app = App("copy")
            >>> app.add_listener(Prints())
            >>> app.close()
            stopped
            True
        """
        self._listeners.append(listener)

    def run(self) -> None:
        """Start, and return when the application has stopped.

        SIGINT and SIGTERM finish the running epoch, commit, sync and stop. An epoch that is not
        done after ``shutdown.grace`` is given up, and a second signal ends the process at once.
        Called outside the main thread, signals are left alone.

        Raises:
            MustelaError: If the application ended with an error.
        """
        self._logbook.runs = True
        with stopped_by_signals(self._stop_in_time):
            self.start()
            self.wait()
            self._join()
        if self._error is not None:
            raise self._error

    def start(self) -> None:
        """Start in a thread of its own and return at once.

        Raises:
            UsageError: If topology or settings are wrong.
            AppStateError: If it was started before.
        """
        if self._state is not AppState.CREATED:
            msg = f"the application cannot start while it is {self._state.value}"
            raise AppStateError(msg, fix="create a new App to start again")
        settings, physical = self.settings, self.built_plan()
        self._check_names(physical)
        self._logbook.open(settings)
        try:
            if settings.admin.enabled:
                self._take_admin().open(self._watched())
            self._set(AppState.STARTING)
        except BaseException:
            self._close_watching()
            raise
        self._thread = threading.Thread(
            target=self._main, args=(settings, physical), name=f"mustela-{settings.application_id}"
        )
        self._thread.start()

    def pause(self) -> None:
        """Commit the running epoch and begin no other; the state is ``paused`` then.

        Nothing is read, and no window closes, until `resume`; the instance keeps its claim.
        Called from any thread, it returns at once.

        Raises:
            AppStateError: If the application was not started, or has ended.

        Example:
            >>> from mustela.runtime.app import AppStateError
            >>> try:
            ...     App("copy").pause()
            ... except AppStateError as error:
            ...     print(error.what)
            the application cannot pause while it is created
        """
        self._let_pause("pause", paused=True)

    def resume(self) -> None:
        """Go on after `pause`; an application that is not paused goes on as it is.

        Raises:
            AppStateError: If the application was not started, or has ended.
        """
        self._let_pause("resume", paused=False)

    def _let_pause(self, what: str, *, paused: bool) -> None:
        if self._state is AppState.CREATED or self._state.ended:
            msg = f"the application cannot {what} while it is {self._state.value}"
            raise AppStateError(msg, fix="call start() first; create a new App if it has ended")
        self._pausing.ask(paused)

    @property
    def asgi(self) -> Any:
        """The admin server as an ASGI application, to be mounted in a server of your own."""
        return self._take_admin().asgi(self._watched())

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the application has stopped; return False if the time is up first."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._state.ended, None if timeout is None else timeout.total_seconds()
            )

    def wait_until(self, state: AppState, timeout: timedelta | None = None) -> bool:
        """Wait for a state; return False if the time is up, or the application ended, first."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._state is state or self._state.ended,
                None if timeout is None else timeout.total_seconds(),
            )
            return self._state is state

    def wait_until_caught_up(self, timeout: timedelta | None = None) -> bool:
        """Wait until all that its sources hold now is read, and committed with its results.

        What comes later is not waited for, nor what waits by itself: windows that are not over,
        timers, and calls to the outside that are under way.

        Args:
            timeout: How long to wait, from now; None waits as long as it takes.

        Returns:
            True once it is so; False if the time is up, or the application ended, first.

        Raises:
            AppStateError: If it was not started.

        Example:
            >>> from mustela.runtime.app import AppStateError
            >>> try:
            ...     App("copy").wait_until_caught_up(timedelta(seconds=30))
            ... except AppStateError as error:
            ...     print(error.what)
            the application was not started
        """
        waiting = CaughtUp()
        with self._changed:
            if self._state is AppState.CREATED:
                msg = "the application was not started"
                raise AppStateError(msg, fix="call start() first, or use the App in a with block")
            self._waiting.append(waiting)
            try:
                self._changed.wait_for(
                    lambda: waiting.done or self._state.ended,
                    None if timeout is None else timeout.total_seconds(),
                )
            finally:
                self._waiting.remove(waiting)
        return waiting.done

    def close(self, timeout: timedelta | None = None) -> bool:
        """Finish the running epoch, commit, sync and stop.

        Args:
            timeout: How long to wait; None waits as long as it takes.

        Returns:
            Whether the application has stopped.
        """
        if self._state is AppState.CREATED:
            self._set(AppState.STOPPED)
        self._ask_to_stop()
        ended = self.wait(timeout)
        if ended:
            self._join()
        return ended

    def _ask_to_stop(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def _join(self) -> None:
        """Let the application's thread end: listeners have been told of everything then."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; raise what ended the application, unless the block raised itself."""
        self.close()
        if kind is None and self._error is not None:
            raise self._error

    def _set(self, state: AppState) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()
        Listeners(self._listeners).on_event(StateChanged(state=state))

    def _say(self, text: str) -> None:
        Listeners(self._listeners).on_event(Said(text=text))

    def _main(self, settings: Settings, plan: Plan) -> None:
        self._logbook.begin()
        try:
            self._live(settings, plan)
        except MustelaError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - whatever it is, it must reach the user
            self._error = shortage_of(error) or InvariantError(
                f"the application ended with {type(error).__name__}: {error}",
                fix="this is a bug in Mustela: please report it",
            )
            self._error.__cause__ = error
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self._set(AppState.STOPPED if self._error is None else AppState.ERROR)
        except ListenerError as error:
            self._error = self._error or error
        finally:
            self._close_watching()

    def _close_watching(self) -> None:
        if self._admin is not None:
            self._admin.close()
        self._logbook.close()

    def _take_admin(self) -> Admin:
        if self._admin is None:
            self._admin = load_admin()
        return self._admin

    def _watched(self) -> Watched:
        return Watched(
            settings=self.settings,
            board=self._board,
            topology=self.built_topology,
            plan=self.built_plan,
            workers=lambda stacks: workers_of(self._engine, stacks=stacks),
            pause=self.pause,
            resume=self.resume,
            stop=lambda: threading.Thread(target=self._stop_in_time, daemon=True).start(),
            say=self._say,
        )

    def _live(self, settings: Settings, plan: Plan) -> None:
        if settings.standby:
            self._stand_by(settings)
            if self._stopping.is_set():
                return
        engine = self._engine = _load_engine(self._engine_name)
        fan, world = Listeners(self._listeners), kafka_world(settings, self._clock)
        try:
            checked = check_before_start(settings, plan, world, fan)
        except BaseException:
            world.cluster.close()
            raise
        # From before the engine starts, which takes a while: who resets the application listens.
        keeper = keeper_of(settings, self._clock, incarnation=self._incarnation)
        keeper.start()
        try:
            try:
                options = EngineOptions.of(
                    settings, session=self._session, debug=self._debug, say=self._say
                )
                engine.start(replace(options, logs=self._logbook.options))
                self._coordinator = Coordinator(
                    settings,
                    plan,
                    engine,
                    clock=self._clock,
                    listener=fan,
                    world=world,
                    checked=checked,
                    board=self._board,
                )
                self._run(self._coordinator, settings, keeper)
            finally:
                keeper.stop(ended=not self._is_fenced())
        finally:
            engine.stop()

    def _incarnation(self) -> int:
        return 0 if self._coordinator is None else self._coordinator.state.incarnation

    def _is_fenced(self) -> bool:
        return self._coordinator is not None and self._coordinator.barrier.phase is Phase.FENCED

    def _run(self, coordinator: Coordinator, settings: Settings, keeper: LeaseKeeper) -> None:
        try:
            self._set(AppState.RESTORING)
            coordinator.prepare()
            self._logbook.started(settings, coordinator, self._admin)
            self._set(AppState.RUNNING)
            self._loop(coordinator, settings, keeper)
        finally:
            self._set(AppState.STOPPING)
            coordinator.close()

    def _stand_by(self, settings: Settings) -> None:
        """Wait for as long as another instance lives, or until this one is to stop."""
        fan = Listeners(self._listeners)
        for lease in others_alive(settings, self._clock, self._stopping.wait, fan):
            if self._state is not AppState.STANDBY:
                self._set(AppState.STANDBY)
                fan.on_event(Said(text=f"waits while the instance {lease.told} lives"))
        self._set(AppState.STARTING)

    def _loop(self, coordinator: Coordinator, settings: Settings, keeper: LeaseKeeper) -> None:
        timer = EpochTimer(settings.commit_interval.total_seconds())
        while not self._stopping.is_set():
            self._tell_of_lease(keeper)
            self._logbook.look()
            if self._pausing.is_asked:
                self._rest(coordinator, keeper)
                continue
            started = self._clock.monotonic()
            asked, seen = tuple(self._waiting), coordinator.ends
            busy = coordinator.run_once()
            if asked and coordinator.ends is not seen:  # a look that began after they asked
                self._tell(asked, coordinator)
            spent = self._clock.monotonic() - started
            self._stopping.wait(timer.pause(busy=busy, seconds=spent, lag=coordinator.lag()))

    def _tell_of_lease(self, keeper: LeaseKeeper) -> None:
        if (trouble := keeper.untold()) is not None:
            Listeners(self._listeners).on_error(trouble)

    def _rest(self, coordinator: Coordinator, keeper: LeaseKeeper) -> None:
        """Do nothing until the application is to go on, or to stop."""
        self._set(AppState.PAUSED)
        self._pausing.wait(self._stopping.is_set, lambda: self._tell_of_lease(keeper))
        if not self._stopping.is_set():
            coordinator.resume()
            self._set(AppState.RUNNING)

    def _tell(self, asked: Iterable[CaughtUp], coordinator: Coordinator) -> None:
        """Let go of those who wait for what is committed now."""
        committed = coordinator.state.sources.next_offsets
        with self._changed:
            for waiting in asked:
                waiting.see(coordinator.ends, committed)
            self._changed.notify_all()

    def _stop_in_time(self) -> None:
        """Stop; after the grace time, wait no longer for the epoch that runs."""
        self._ask_to_stop()  # and wake the main thread, which has a handler to run
        if not self.wait(self.settings.shutdown.grace) and self._engine is not None:
            self._engine.interrupt()
