"""What an admin server is given of an application: what it is at, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from mustela.config.settings import Settings
from mustela.plan.plan import Plan
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.indicators import Indicators
from mustela.runtime.status.snapshot import WorkerView
from mustela.topology.graph import TopologyGraph

__all__ = ["Admin", "Inspected", "Watched", "workers_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One application, as an admin server sees it.

    Attributes:
        settings: The settings.
        board: What it is at.
        topology: Gives the logical topology.
        plan: Gives the physical plan.
        workers: Gives what its workers are at; with True each says where in Python it is, too.
        pause: Commits the running epoch, and begins no other.
        resume: Goes on.
        stop: Asks it to finish the running epoch and stop, and returns at once.
        say: Tells those who watch the application.
        indicators: Health indicators of the user's, if there may be some.
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


class Admin(Protocol):
    """The admin server, as the runtime starts and stops it."""

    address: str

    def open(self, watched: Watched) -> None:
        """Listen, as the settings say.

        Raises:
            MustelaError: If it may not, or cannot, listen there.
        """
        ...

    def asgi(self, watched: Watched) -> Any:
        """Return the same as an ASGI application, to be mounted in a server of the user's own."""
        ...

    def close(self) -> None:
        """Listen no more."""
        ...


@runtime_checkable
class Inspected(Protocol):
    """An engine that can say what its workers are at."""

    def workers(self, *, stacks: bool) -> Sequence[WorkerView]:
        """Return what each worker process is at; called from any thread, while jobs run.

        Args:
            stacks: Whether each is asked where in Python it is, which may take a second.
        """
        ...


def workers_of(engine: object, *, stacks: bool) -> Sequence[WorkerView]:
    """Return what the workers of an engine are at; of one that cannot say, nothing."""
    return engine.workers(stacks=stacks) if isinstance(engine, Inspected) else ()
