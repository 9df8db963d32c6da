"""An application: a name, a topology, settings, and its life from start to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Self, TypeVar

from mustela.clock import Clock, SystemClock
from mustela.config.settings import Settings
from mustela.dsl.builder import StreamsBuilder
from mustela.plan.bound import bind_serdes
from mustela.plan.plan import Plan
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.queries.queries import Queries
from mustela.runtime.app_errors import (
    AppStateError,
    NoTopologyError,
    UnnamedStepError,
    refuse_unnamed,
)
from mustela.runtime.app_topics import AppTopics, app_topics
from mustela.runtime.building import build_topology, name_of
from mustela.runtime.caught_up import CaughtUp
from mustela.runtime.coordinator import Coordinator
from mustela.runtime.events import AppState, StateChanged
from mustela.runtime.installed import load_admin, load_engine as _load_engine
from mustela.runtime.life.clean_up import remove_local_state
from mustela.runtime.life.hooked import Hooked
from mustela.runtime.life.life import Life, Means
from mustela.runtime.life.lives import Lives
from mustela.runtime.logbook import Logbook
from mustela.runtime.reading import Published
from mustela.runtime.replica.global_copies import GlobalCopies
from mustela.runtime.signals import stopped_by_signals
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.watched import Admin, Watched, hosts_elsewhere_of, workers_of
from mustela.runtime.traces import make_spans
from mustela.serdes.schemas.options import refuse_mock
from mustela.sql.asking import SqlReadable
from mustela.topology.graph import TopologyGraph

__all__ = [
    "App",
    "AppState",
    "AppStateError",
    "AppTopics",
    "NoTopologyError",
    "UnnamedStepError",
]

Build = TypeVar("Build", bound=Callable[[StreamsBuilder], object])


class App(Hooked, SqlReadable):
    """A stream processing application.

    Args:
        application_id: The application's name: consumer group, transactional id and the first
            part of its internal topics.
        settings: Settings by name: nested, dotted, or Kafka Streams' names; they win over the
            environment and ``mustela.yaml``.
        session: A SparkSession or SparkContext to run in; without one, the active one or a new
            one is used.
        engine: Name of the engine: ``spark``, or one that another distribution registers.
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
        super().__init__(self._clock, self._board, self._logbook)
        self._lives = Lives(
            self._standing,
            self._hooks,
            self._uncaught,
            lambda: self.settings.restart,
            lambda: self.settings.standby,
        )
        self._published = Published(self._clock, lambda: self.state, lambda: self._queries.close())
        self._published.tables = GlobalCopies(lambda: self.settings, engine)
        self._queries = Queries(self._published, clock=self._clock)
        self._life: Life | None = None
        self._admin: Admin | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def topology(self, build: Build) -> Build:
        """Decorate the function that writes the topology.

        The function uses the builder that it is given, or returns a `mustela.Topology`.
        """
        self._build = build
        return build

    @property
    def settings(self) -> Settings:
        """The settings, read on first use."""
        if self._settings is None:
            self._settings = Settings.load(self._code)
        return self._settings

    def configure(self, **settings: Any) -> None:
        """Set further settings from the program, before the start.

        Raises:
            AppStateError: If the application has started.
        """
        if self.state is not AppState.CREATED:
            msg = f"settings cannot be changed while the application is {self.state.value}"
            raise AppStateError(msg, fix="configure before run() or start()")
        self._code.update(settings)
        self._settings = None

    @property
    def debug(self) -> bool:
        """Whether errors of the engine include its own stack trace; set it before the start."""
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
            self._topology = build_topology(self._build, holds=self.settings.hold_format)
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
        """Check that the program can run, without a broker and without starting anything.

        `start` makes the same checks, and so does the test driver when it is given an application.

        Raises:
            UnnamedStepError: If a stateful step has no explicit name, unless ``naming.strict`` is
                false.
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
        """The application's current state."""
        return self._standing.state

    @property
    def history(self) -> tuple[StateChanged, ...]:
        """The last 50 changes of state, the oldest first: each with the time and the state before.

        Example:
            >>> app = App("copy")
            >>> app.close()
            True
            >>> [(change.before.value, change.state.value) for change in app.history]
            [('created', 'stopped')]
        """
        return self._standing.history

    @property
    def error(self) -> BaseException | None:
        """Why the application ended, if it was an error."""
        return self._error

    @property
    def topics(self) -> AppTopics:
        """The topics that the application reads, writes, and creates for itself.

        They are known before the start; topics that match a pattern are not included.

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
    def queries(self) -> Queries:
        """What reads the stores; for tools that serve them."""
        return self._queries

    @property
    def coordinator(self) -> Coordinator | None:
        """The driver's loop while the application runs; for tests and tools."""
        return None if self._life is None else self._life.coordinator

    def run(self) -> None:
        """Start, and return when the application has stopped.

        SIGINT and SIGTERM finish the running epoch, commit, sync and stop. An epoch that has not
        finished after ``shutdown.grace`` is abandoned, and a second signal ends the process at
        once. Outside the main thread, signals are not handled.

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
        """Start in a new thread and return at once.

        Raises:
            UsageError: If topology or settings are wrong.
            AppStateError: If it was started before.
        """
        if self.state is not AppState.CREATED:
            msg = f"the application cannot start while it is {self.state.value}"
            raise AppStateError(msg, fix="call restart(), or create a new App")
        self._begin()

    def _begin(self) -> None:
        settings, physical = self.settings, self.built_plan()
        self._check_names(physical)
        refuse_mock(settings.schema_registry)
        make_spans(settings, self._board, self._listeners)
        self._logbook.open(settings)
        try:
            if settings.admin.enabled:
                self._take_admin().open(self._watched())
            self._error = None
            self._standing.set(AppState.STARTING)
        except BaseException:
            self._close_watching()
            raise
        self._thread = threading.Thread(
            target=self._main, args=(settings, physical), name=f"mustela-{settings.application_id}"
        )
        self._thread.start()

    def restart(self, timeout: timedelta | None = None) -> bool:
        """Finish the running epoch, commit, stop, and start again in this process.

        Called in the application's own thread, as by a listener, it returns at once.

        Args:
            timeout: How long to wait until it runs again; None waits as long as it takes.

        Returns:
            Whether it runs again; False if the time is up, or the application ended, first.

        Raises:
            AppStateError: If it was never started.

        Example:
            >>> from mustela.runtime.app import AppStateError
            >>> try:
            ...     App("copy").restart()
            ... except AppStateError as error:
            ...     print(error.what)
            the application cannot restart while it is created
        """
        with self._standing.changed:
            state = self.state
            if state is AppState.CREATED:
                msg = "the application cannot restart while it is created"
                raise AppStateError(msg, fix="call start() first")
            own = self._thread is threading.current_thread()
            if state.ended and own:
                msg = "the application cannot restart while its end is told"
                raise AppStateError(msg, fix="call restart() in another thread")
            life = self._standing.life
            if not state.ended:
                self._standing.ask_to_restart()
        if state.ended:
            self._join()
            self._hooks.reset()
            self._standing.reset()
            self._begin()
        if own:
            return False

        def is_again() -> bool:
            return self.state is AppState.RUNNING and self._standing.life > life

        return self._standing.wait(lambda: is_again() or self.state.ended, timeout) and is_again()

    def clean_up(self) -> None:
        """Delete the application's state on this host; the next start restores it from changelogs.

        Topics, offsets and whatever other hosts keep stay: ``mustela clean`` removes those too.
        As in Kafka Streams, it is for tests, and for a host that is no longer used.

        Raises:
            AppStateError: If the application is running.

        Example:
            >>> App("copy-once").clean_up()
        """
        if self.state is not AppState.CREATED and not self.state.ended:
            msg = f"local state cannot be deleted while the application is {self.state.value}"
            raise AppStateError(msg, fix="call close() first")
        self._join()
        remove_local_state(self.settings)

    def pause(self) -> None:
        """Commit the running epoch and start no other; the state is then ``paused``.

        Nothing is read, and no window closes, until `resume`; no other instance takes over. This
        can be called from any thread and returns at once.

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
        """Continue after `pause`; does nothing if the application is not paused.

        Raises:
            AppStateError: If the application was not started, or has ended.
        """
        self._let_pause("resume", paused=False)

    def hand_over(self, to: str = "", *, force: bool = False) -> None:
        """Hand over to a standby at an epoch's end, once it has caught up; returns at once.

        With ``standby`` this instance waits as the standby then, otherwise it stops.

        Args:
            to: A standby, or a host that has one; empty for any.
            force: Whether to hand over also before it has caught up.

        Raises:
            AppStateError: If the application does not run.
            NoStandbyError: If no standby is ready.

        Example:
            >>> from mustela.runtime.app import AppStateError
            >>> try:
            ...     App("copy").hand_over()
            ... except AppStateError as error:
            ...     print(error.what)
            the application cannot hand over while it is created
        """
        if self._life is None or self.state not in {AppState.RUNNING, AppState.PAUSED}:
            msg = f"the application cannot hand over while it is {self.state.value}"
            raise AppStateError(msg, fix="ask the instance that runs: see mustela ha status")
        self._life.standbys.switch(self.settings.application_id, to, force=force)

    def promote(self) -> None:
        """Let this standby take over from the running instance, without asking it.

        The running instance is fenced, whether or not it answers.

        Raises:
            AppStateError: If this instance is not a standby.

        Example:
            >>> from mustela.runtime.app import AppStateError
            >>> try:
            ...     App("copy").promote()
            ... except AppStateError as error:
            ...     print(error.what)
            the application cannot be promoted while it is created
        """
        if self.state is not AppState.STANDBY:
            msg = f"the application cannot be promoted while it is {self.state.value}"
            raise AppStateError(msg, fix="ask a standby: see mustela ha status")
        self._standing.is_promoted.set()

    def _let_pause(self, what: str, *, paused: bool) -> None:
        if self.state is AppState.CREATED or self.state.ended:
            msg = f"the application cannot {what} while it is {self.state.value}"
            raise AppStateError(msg, fix="call start() first, or restart() if it has ended")
        self._standing.pausing.ask(paused)

    @property
    def asgi(self) -> Any:
        """The admin server as an ASGI application, to mount in your own server."""
        return self._take_admin().asgi(self._watched())

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the application has stopped; return False if the timeout expires first."""
        return self._standing.wait(lambda: self.state.ended, timeout)

    def wait_until(self, state: AppState, timeout: timedelta | None = None) -> bool:
        """Wait for a state; return False if the timeout expires, or the application ends, first."""
        self._standing.wait(lambda: self.state is state or self.state.ended, timeout)
        return self.state is state

    def wait_until_caught_up(self, timeout: timedelta | None = None) -> bool:
        """Wait until all records that the sources hold now are read, and their results committed.

        It does not wait for later records, nor for open windows, timers and running external calls.

        Args:
            timeout: How long to wait; None waits without limit.

        Returns:
            True once they are committed; False if the timeout expires, or the application ends,
            first.

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
        waiting, standing = CaughtUp(), self._standing
        if self.state is AppState.CREATED:
            msg = "the application was not started"
            raise AppStateError(msg, fix="call start() first, or use the App in a with block")
        with standing.changed:
            standing.waiting.append(waiting)
            try:
                standing.wait(lambda: waiting.done or self.state.ended, timeout)
            finally:
                standing.waiting.remove(waiting)
        return waiting.done

    def close(self, timeout: timedelta | None = None) -> bool:
        """Finish the running epoch, commit, sync and stop.

        Args:
            timeout: How long to wait; None waits without limit.

        Returns:
            Whether the application has stopped.
        """
        if self.state is AppState.CREATED:
            self._standing.set(AppState.STOPPED)
        self._standing.ask_to_stop()
        ended = self.wait(timeout)
        if ended:
            self._join()
        return ended

    def _join(self) -> None:
        """Wait for the application's thread: by then listeners have received all events."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop; raise the error that ended the application, unless the block itself raised."""
        self.close()
        if kind is None and self._error is not None:
            raise self._error

    def _main(self, settings: Settings, plan: Plan) -> None:
        def begin() -> Life:
            self._life = Life(self._means(settings, plan), self._standing, self._lives)
            return self._life

        self._logbook.begin()
        self._end(self._lives.run(begin))

    def _means(self, settings: Settings, plan: Plan) -> Means:
        return Means(
            settings=settings,
            plan=plan,
            engine_name=self._engine_name,
            session=self._session,
            debug=self._debug,
            clock=self._clock,
            board=self._board,
            logbook=self._logbook,
            admin=self._admin,
            published=self._published,
            target=name_of(self),
        )

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        try:
            self._standing.set(AppState.STOPPED if error is None else AppState.FAILED)
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
            workers=lambda stacks: workers_of(self._engine(), stacks=stacks),
            hosts_elsewhere=lambda: hosts_elsewhere_of(self._engine()),
            pause=self.pause,
            resume=self.resume,
            stop=lambda: threading.Thread(target=self._stop_in_time, daemon=True).start(),
            say=self._standing.say,
            indicators=self._indicators,
            switch=lambda to, force: self.hand_over(to, force=force),
            promote=self.promote,
            standbys=lambda: () if self._life is None else self._life.standbys.alive(),
            queries=self._queries,
            functions=self.query_functions,
        )

    def _engine(self) -> Any:
        return None if self._life is None else self._life.engine

    def _stop_in_time(self) -> None:
        """Stop; after the grace time, do not wait for the running epoch any longer."""
        self._standing.ask_to_stop()  # and wake the main thread, which has a handler to run
        if not self.wait(self.settings.shutdown.grace) and self._life is not None:
            self._life.interrupt()
