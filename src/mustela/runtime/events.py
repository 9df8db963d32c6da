"""The events that an application sends to its listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from mustela.plan.epoch import TaskReport

__all__ = [
    "AppState",
    "EpochDone",
    "Event",
    "Failed",
    "Listener",
    "Restoring",
    "Said",
    "StateChanged",
    "UncaughtAnswer",
]


class AppState(Enum):
    """The state of an application.

    Attributes:
        CREATED: It has not been started.
        STARTING: It checks its topics and starts its engine.
        STANDBY: It waits while another instance is alive.
        RESTORING: It brings its state up to date.
        RUNNING: It runs epochs.
        PAUSED: It runs none until it is resumed.
        DRAINING: It finishes its last epoch, syncs its state and closes.
        STOPPED: It has ended on request.
        FAILED: It has ended with an error.

    Example:
        >>> AppState.RUNNING.ended, AppState.FAILED.ended
        (False, True)
    """

    CREATED = "created"
    STARTING = "starting"
    STANDBY = "standby"
    RESTORING = "restoring"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether the application has stopped or failed."""
        return self in {AppState.STOPPED, AppState.FAILED}


class UncaughtAnswer(Enum):
    """What an application does about an error that would end it.

    Kafka Streams' names are there too; an application has one thread and one instance, so that
    ``REPLACE_THREAD`` is ``RESTART``, and its two ways to shut down are one.

    Attributes:
        SKIP_RECORD: Leave out the record that the error names, and run the epoch again.
        RESTART: Start again in this process, after a pause and not more often than the settings
            under ``restart.`` allow.
        SHUTDOWN: End with the error.

    Example:
        >>> UncaughtAnswer.REPLACE_THREAD
        <UncaughtAnswer.RESTART: 'restart'>
    """

    SKIP_RECORD = "skip_record"
    RESTART = "restart"
    SHUTDOWN = "shutdown"
    REPLACE_THREAD = "restart"
    SHUTDOWN_CLIENT = "shutdown"
    SHUTDOWN_APPLICATION = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """The application entered a new state.

    Attributes:
        state: The new state.
        before: The state before it.
        at: When it came there, by the wall clock.
    """

    state: AppState
    before: AppState
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An error came up that is not simply tried again.

    Attributes:
        error: The error.
        answer: What the application does about it.
    """

    error: BaseException
    answer: UncaughtAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """Some key groups were restored.

    Attributes:
        done: Number of key groups that are up to date.
        groups: Number of all key groups.
        records: Changelog records read so far, by store.
        reports: What tasks did since the last such event.
    """

    done: int
    groups: int
    records: Mapping[str, int]
    reports: Sequence[TaskReport] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDone:
    """An epoch was committed.

    Attributes:
        epoch: Its number.
        records: Number of source records that it read.
        lag: Number of source records that are waiting.
        seconds: How long it took, from the choice to the end of the commit.
        job_seconds: How much of that was the engine's job.
        watermark: The watermark after it, in milliseconds; -1 if there is none yet.
        counters: Counts by name.
        reports: The reports of its tasks.
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
    """A message for a person.

    Attributes:
        text: The message.
    """

    text: str


Event = StateChanged | Restoring | EpochDone | Said | Failed


class Listener(Protocol):
    """Receives events in the application's own thread; its methods must return quickly.

    A subclass overrides only the methods that it needs. What it raises is logged, and
    the application continues.

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
        """Handle an event."""
        del event  # type checkers take an empty body for an abstract method

    def on_error(self, error: BaseException) -> None:
        """Handle an error that will be retried."""
        del error
