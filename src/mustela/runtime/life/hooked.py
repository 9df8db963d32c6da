"""What a program attaches to an application: listeners, hooks, health indicators, a handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from mustela.clock import Clock
from mustela.queries.functions import FUNCTION_TIMEOUT, Functions, QueryFunction
from mustela.runtime.events import Listener, UncaughtAnswer
from mustela.runtime.hook_kinds import refuse_kind
from mustela.runtime.life.hooks import Hooks
from mustela.runtime.life.standing import Standing
from mustela.runtime.life.uncaught import Uncaught
from mustela.runtime.status.indicators import Indicators

__all__ = ["Hooked"]

Hook = TypeVar("Hook", bound=Callable[[], object])
Query = TypeVar("Query", bound=Callable[..., Any])
Handler = TypeVar("Handler", bound=Callable[[Any], UncaughtAnswer | str])


class Hooked:
    """The part of an application to which programs attach functions, before it starts.

    Args:
        clock: Wall and monotonic time.
        *first: Listeners that are notified before all others.
    """

    def __init__(self, clock: Clock, *first: Listener) -> None:
        self._listeners: list[Listener] = [*first]
        self._standing = Standing(clock, self._listeners)
        self._hooks = Hooks()
        self._uncaught = Uncaught(self._standing, clock)
        self._indicators = Indicators(clock)
        self._functions = Functions()

    def query(
        self, name: str, *, timeout: timedelta = FUNCTION_TIMEOUT
    ) -> Callable[[Query], Query]:
        """Decorate a function that answers a query, served under ``/queries/<name>``.

        Its first argument is a `Snapshot`: several stores as of one committed epoch. Its other
        parameters are those of the query, converted to the types in their annotations. The result
        is what JSON can hold, or dataclasses, Structs and models of it. It runs in a thread of the
        admin server. To refuse a question it raises
        `mustela.stores.QueryRefusedError`.

        Args:
            name: The name of the query.
            timeout: How long its snapshot lives, and so how long it may read; the server waits no
                longer than ``admin.request_timeout``.

        Raises:
            QueryError: If the function takes no snapshot, a parameter has a type that no client can
                give, or there is a query of that name.

        Example:
            >>> from mustela import App
            >>> app = App("sales")
            >>> @app.query("top-cities")
            ... def top_cities(snapshot, *, count: int = 10) -> list[str]:
            ...     totals = snapshot.store("totals").items()
            ...     best = sorted(totals, key=lambda row: -row[1])[:count]
            ...     return [city for city, _ in best]
        """
        return self._functions.add(name, timeout)

    @property
    def query_functions(self) -> Mapping[str, QueryFunction]:
        """The queries by name; for servers that answer them."""
        return self._functions.known

    def add_listener(self, listener: Listener) -> None:
        """Notify a listener of states, epochs and restores.

        Args:
            listener: Its methods are called in the application's own thread and must return
                quickly. An exception that one raises is logged (`mustela.listeners`) and has no
                other effect.

        Example:
            >>> from mustela.events import Listener, StateChanged
            >>> class Prints(Listener):
            ...     def on_event(self, event):
            ...         if isinstance(event, StateChanged):
            ...             print(event.state.value)
            >>> from mustela import App
            >>> app = App("copy")
            >>> app.add_listener(Prints())
            >>> app.close()
            stopped
            True
        """
        self._listeners.append(listener)

    def on_start(self, hook: Hook) -> Hook:
        """Decorate a function that is called before the application starts.

        Hooks are called once, without arguments, in the application's own thread; a restart in the
        same process does not call them again. If one raises, the application does not start.

        Raises:
            HookKindError: If it is a coroutine function, or needs arguments.

        Example:
            >>> from mustela import App
            >>> app = App("copy")
            >>> @app.on_start
            ... def connect():
            ...     print("connected")
        """
        self._hooks.add("start", hook)
        return hook

    def on_started(self, hook: Hook) -> Hook:
        """Decorate a function that is called when the state is restored, before the first epoch.

        If it raises, the application ends with that error. Otherwise it behaves like `on_start`.
        """
        self._hooks.add("started", hook)
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Decorate a function that is called before the application stops, after the last epoch.

        All such hooks are called, also after errors. If one raises, the application still stops,
        and ends with that error unless it already has one.
        """
        self._hooks.add("stop", hook)
        return hook

    def on_stopped(self, hook: Hook) -> Hook:
        """Decorate a function that is called last, after the application has stopped.

        By then everything is committed and closed. Otherwise it behaves like `on_stop`.
        """
        self._hooks.add("stopped", hook)
        return hook

    def health(self, name: str) -> Callable[[Hook], Hook]:
        """Decorate a function that checks something the application depends on.

        It returns None or True if all is well, and False or a text that says what is wrong if not;
        raising an exception also means not well. ``/health/ready`` of the admin server shows the
        result under its name, and answers 503 while it is not well; the metric
        ``mustela_health_up`` shows it too. The function is called at most once a second, in a
        separate thread, and counts as not well if it has not returned after two seconds.

        Args:
            name: The name of the health indicator.

        Raises:
            DuplicateIndicatorError: If there is one with this name already, or the name is empty.

        Example:
            >>> from mustela import App
            >>> app = App("copy")
            >>> @app.health("db")
            ... def database():
            ...     return "the pool is empty"  # None or True if all is well
        """

        def decorate(check: Hook) -> Hook:
            self._indicators.add(name, check)
            return check

        return decorate

    def uncaught_exception_handler(self, handler: Handler) -> Handler:
        """Decorate a function that decides what follows an error that would end the application.

        It is called in the application's own thread with the error, and returns an
        `UncaughtAnswer`: to skip the record that the error names, to restart in this process, or to
        shut down, as without a handler. The settings under ``restart.`` limit restarts. The
        function is not called when another instance took over, for a `UsageError`, or when the
        application was asked to stop.

        Raises:
            HookKindError: If it cannot be called with one argument.

        Example:
            >>> from mustela.events import UncaughtAnswer
            >>> from mustela import App
            >>> app = App("copy")
            >>> @app.uncaught_exception_handler
            ... def handle(error):
            ...     if isinstance(error, TimeoutError):
            ...         return UncaughtAnswer.RESTART
            ...     return UncaughtAnswer.SHUTDOWN
        """
        refuse_kind(handler, "uncaught_exception_handler", arguments=1)
        self._uncaught.handler = handler
        return handler
