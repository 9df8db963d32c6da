"""The life of a process that serves a replica."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from mustela.admin.replica.shown import ReplicaEndpoints
from mustela.admin.server import AdminServer, Shown
from mustela.clock import Clock, SystemClock
from mustela.config.settings import Settings
from mustela.plan.plan import Plan
from mustela.queries.queries import Queries
from mustela.runtime.app import App
from mustela.runtime.events import Said
from mustela.runtime.kafka_world import kafka_world
from mustela.runtime.logbook import Logbook
from mustela.runtime.replica.following import Following
from mustela.runtime.replica.places import replica_place
from mustela.runtime.replica.replica import Replica
from mustela.runtime.replica.selected import readable, with_stores
from mustela.runtime.start.recovery import Recovery
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.watched import Watched

__all__ = ["ReplicaServer"]


class ReplicaServer:
    """Follows an application, and answers queries by HTTP.

    Nothing is written to Kafka. The application may run, be down, or not have begun yet.

    Args:
        app: The application; it is not started.
        stores: The stores that are followed; None for all that have a changelog.
        clock: Wall and monotonic time.
        on_error: Called with each fault after which it is tried again, beside the log.
        make_replica: Makes the replica; for tests.

    Attributes:
        address: The URL at which it answers; empty while it does not.
        place: The directory of its copies.
    """

    def __init__(
        self,
        app: App,
        *,
        stores: Collection[str] | None = None,
        clock: Clock | None = None,
        on_error: Callable[[BaseException], object] = lambda _error: None,
        make_replica: Callable[..., Replica] = Replica,
    ) -> None:
        self.address = ""
        self.place = Path()
        self._app = app
        self._names = None if stores is None else frozenset(stores)
        whole = app.built_plan()
        self._plan = with_stores(whole, readable(whole) if stores is None else self._names or ())
        self._clock = clock or SystemClock()
        self._on_error = on_error
        self._make_replica = make_replica
        self._logbook = Logbook(self._clock)
        self._board = StatusBoard(self._clock)
        self._ended = threading.Event()

    def run(self, ready: Callable[[ReplicaServer], object] = lambda _server: None) -> None:
        """Serve until `stop` is called.

        Args:
            ready: Called once requests are answered.

        Raises:
            MustelaError: If it cannot listen, or cannot follow the application any more.
        """
        app, settings = self._app, self._app.settings
        self._logbook.runs = True
        with ExitStack() as stack:
            self._logbook.open(settings)
            stack.callback(self._logbook.close)
            self.place = stack.enter_context(
                replica_place(settings.state_dir, settings.application_id, self._names)
            )
            own = settings.model_copy(update={"state_dir": self.place})
            world = kafka_world(settings, self._clock)
            stack.callback(world.cluster.close)
            recovery = Recovery(settings, app.built_plan(), world, self._say)
            replica = self._make_replica(
                own, self._plan, examine=recovery.examine, changes=self._board.changes
            )
            following = Following(replica, self._clock, on_error=self._note, on_end=self._ended.set)
            stack.callback(following.stop)
            queries = Queries(replica, clock=self._clock)
            stack.callback(queries.close)
            shown = ReplicaEndpoints(following, self._plan)
            server = AdminServer(Shown(endpoints=shown.all, probes=shown.probes()))
            server.open(self._watched(own, queries))
            stack.callback(server.close)
            self.address = server.address
            following.start()
            ready(self)
            self._ended.wait()
            if following.lost is not None:
                raise following.lost

    def stop(self) -> None:
        """End `run`; may be called from any thread."""
        self._ended.set()

    def _watched(self, settings: Settings, queries: Queries) -> Watched:
        app = self._app

        def nothing() -> None:
            """A replica is not operated."""

        return Watched(
            settings=settings,
            board=self._board,
            topology=cache(app.built_topology),
            plan=self._shown_plan,
            workers=lambda _stacks: (),
            pause=nothing,
            resume=nothing,
            stop=nothing,
            say=self._say,
            queries=queries,
            functions=app.query_functions,
        )

    def _shown_plan(self) -> Plan:
        return self._plan

    def _say(self, text: str) -> None:
        self._logbook.on_event(Said(text=text))

    def _note(self, error: BaseException) -> Any:
        self._logbook.on_error(error)
        self._on_error(error)
