"""What an admin server gets of an application: its status, and the requests it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from mustela.config.settings import Settings
from mustela.plan.plan import Plan
from mustela.queries.functions import QueryFunction
from mustela.queries.queries import Queries
from mustela.runtime.lease import StandbyReport
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.indicators import Indicators
from mustela.runtime.status.snapshot import WorkerView
from mustela.topology.graph import TopologyGraph

__all__ = ["Admin", "Inspected", "Watched", "hosts_elsewhere_of", "workers_of"]


def _nothing(*_arguments: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One application, as an admin server sees it.

    Attributes:
        settings: The settings.
        board: Its status.
        topology: Returns the logical topology.
        plan: Returns the physical plan.
        workers: Returns what its workers are doing; with True, including their Python stacks.
        pause: Commits the running epoch, and starts no other.
        resume: Ends the pause.
        stop: Asks it to finish the running epoch and stop, and returns at once.
        switch: Hands over to a standby, by its name or any if that is empty; with True also to one
            that has not caught up. Returns at once.
        promote: Lets this standby take over from the running instance, and returns at once.
        standbys: Returns the last reports of the standbys that this instance hears of.
        say: Sends a message to the application's listeners.
        indicators: Health indicators of the user's, if there may be some.
        hosts_elsewhere: Returns the other hosts that have workers, which ``workers`` leaves out.
        queries: What reads its stores, if they can be read.
        functions: The user's own queries by name.
    """

    settings: Settings
    board: StatusBoard
    topology: Callable[[], TopologyGraph]
    plan: Callable[[], Plan]
    workers: Callable[[bool], Sequence[WorkerView]]
    pause: Callable[[], None]
    resume: Callable[[], None]
    stop: Callable[[], None]
    say: Callable[[str], None]
    indicators: Indicators | None = None
    switch: Callable[[str, bool], None] = _nothing
    promote: Callable[[], None] = _nothing
    standbys: Callable[[], Sequence[StandbyReport]] = tuple
    hosts_elsewhere: Callable[[], Sequence[str]] = tuple
    queries: Queries | None = None
    functions: Mapping[str, QueryFunction] = field(default_factory=dict[str, QueryFunction])


class Admin(Protocol):
    """The admin server, as the runtime starts and stops it."""

    address: str

    def open(self, watched: Watched) -> None:
        """Listen at the address in the settings.

        Raises:
            MustelaError: If it is not allowed to listen there, or cannot.
        """
        ...

    def asgi(self, watched: Watched) -> Any:
        """Return the server as an ASGI application, to mount in the user's own server."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


@runtime_checkable
class Inspected(Protocol):
    """An engine that can report what its workers are doing."""

    def workers(self, *, stacks: bool) -> Sequence[WorkerView]:
        """Return what each worker process is doing; may be called from any thread, while jobs run.

        Args:
            stacks: Whether to ask each for its Python stacks, which may take a second.
        """
        ...


def workers_of(engine: object, *, stacks: bool) -> Sequence[WorkerView]:
    """Return what the workers of an engine are doing, or nothing if it cannot report that."""
    return engine.workers(stacks=stacks) if isinstance(engine, Inspected) else ()


def hosts_elsewhere_of(engine: object) -> Sequence[str]:
    """Return the other hosts of an engine's workers, or nothing if it cannot report that."""
    found = getattr(engine, "hosts_elsewhere", None)
    return () if found is None else found()
