"""What an application tells those who watch it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from mustela.plan.epoch import TaskReport

__all__ = ["AppState", "EpochDone", "Event", "Listener", "Restoring", "Said", "StateChanged"]


class AppState(Enum):
    """Where an application is in its life."""

    CREATED = "created"
    STARTING = "starting"
    STANDBY = "standby"
    RESTORING = "restoring"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERROR = "error"

    @property
    def ended(self) -> bool:
        """Whether the application does nothing any more."""
        return self in {AppState.STOPPED, AppState.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """The application came into a new state."""

    state: AppState


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """Some key groups are restored.

    Attributes:
        done: Key groups that are current.
        groups: All key groups.
        records: Changelog records read so far, by store.
        reports: What tasks did since the last such event.
    """

    done: int
    groups: int
    records: Mapping[str, int]
    reports: Sequence[TaskReport] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDone:
    """An epoch is committed.

    Attributes:
        epoch: Its number.
        records: Source records that it read.
        lag: Source records that are waiting.
        seconds: How long it took.
        job_seconds: The part of the engine's job in it.
        watermark: The watermark after it.
        counters: Counts by name.
        reports: What its tasks did.
    """

    epoch: int
    records: int
    lag: int
    seconds: float
    job_seconds: float
    watermark: int
    counters: Mapping[str, int]
    reports: Sequence[TaskReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something a person may want to know.

    Attributes:
        text: What.
    """

    text: str


Event = StateChanged | Restoring | EpochDone | Said


class Listener(Protocol):
    """Is told of events, in the application's own thread; must return quickly.

    A class that derives from it needs only the method that it wants.

    Example:
        >>> class Counts(Listener):
        ...     epochs = 0
        ...     def on_event(self, event):
        ...         self.epochs += isinstance(event, EpochDone)
        >>> counts = Counts()
        >>> counts.on_event(Said(text="hello"))
        >>> counts.on_error(RuntimeError("the broker does not answer"))
        >>> counts.epochs
        0
    """

    def on_event(self, event: Event) -> None:
        """Something happened."""
        del event  # an empty body would be an abstract one

    def on_error(self, error: BaseException) -> None:
        """Something failed and is tried again."""
        del error
