"""Reading the stores of a running application: its newest committed epoch, for other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from mustela.clock import Clock
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.queries.errors import StateElsewhereError, StateUnavailableError
from mustela.queries.source import Edition, StorePlace, places_in
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.engine import Engine
from mustela.runtime.events import AppState
from mustela.runtime.replica.global_copies import GlobalCopies
from mustela.state.interfaces import Committed, Snapshot, Token

__all__ = ["Published", "ReadableEngine"]


_ON_THE_WAY: Final = frozenset({AppState.STARTING, AppState.STANDBY, AppState.RESTORING})
_START: Final = "start it, and wait: app.wait_until(AppState.RUNNING)"
_FIXES: Final = {
    AppState.FAILED.value: "see app.error, remove its cause, then app.restart()",
    AppState.STOPPED.value: "app.restart(), or read what it has committed: mustela state",
}


@runtime_checkable
class ReadableEngine(Protocol):
    """An engine whose state other threads of the driver can read."""

    @property
    def state_is_here(self) -> bool:
        """Whether the state of all key groups is on this host."""
        ...

    def open_state(self, stage: int, group: int, committed: Committed) -> Snapshot:
        """Open a view of the state of a key group; may be called from any thread.

        Raises:
            StateNotReadyError: If this state is not there, or is no longer.
        """
        ...


class Published:
    """The newest committed epoch of an application, for readers in other threads.

    The application's thread replaces one reference for each epoch; it waits for no reader.

    Args:
        clock: Monotonic time.
        state: Returns the application's state, for messages.
        on_end: Called when there is nothing to read any more, until the next life.

    Attributes:
        tables: Opens global tables; None if there are none to read.
    """

    def __init__(
        self, clock: Clock, state: Callable[[], AppState], on_end: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._state = state
        self._on_end = on_end
        self.tables: GlobalCopies | None = None
        self._edition: Edition | None = None
        self._places: tuple[Plan | None, Mapping[str, StorePlace]] = None, {}
        self._is_elsewhere = False
        self._waiting: list[threading.Event] = []

    def publish(self, state: CommittedState, engine: Engine) -> None:
        """Let readers see a committed state."""
        if isinstance(engine, ReadableEngine) and engine.state_is_here:
            if self._places[0] is not state.plan:
                self._places = state.plan, places_in(state.plan, state.key_groups)
            self._edition = _LiveEdition(state, engine, self._places[1], self.tables)
        else:
            self._is_elsewhere = True
        for event in tuple(self._waiting):
            event.set()

    def show(self, edition: Edition | None) -> None:
        """Let readers see what a standby has of another instance's state.

        Args:
            edition: An epoch that was committed; None while none is whole.
        """
        self._edition = edition
        for event in tuple(self._waiting):
            event.set()

    def end(self) -> None:
        """Let readers see nothing; the state is closed, or belongs to another instance."""
        self._edition = None
        for event in tuple(self._waiting):
            event.set()
        self._on_end()
        if self.tables is not None:
            self.tables.close()

    def newest(self) -> Edition:
        """Return the newest committed epoch.

        Raises:
            StateUnavailableError: If there is none now.
            StateElsewhereError: If the state is on other hosts.
        """
        edition = self._edition
        if edition is not None:
            return edition
        if self._is_elsewhere:
            msg = "the stores cannot be read here: Spark keeps them on other hosts"
            raise StateElsewhereError(
                msg,
                why="only the workers of a Spark cluster have the files of the state",
                fix="run Spark on this host (spark.master = local[*]), or write the table to a"
                " topic and read that",
            )
        state = self._state().value
        if state == AppState.STANDBY.value:
            msg = "the standby has no epoch to read now"
            raise StateUnavailableError(
                msg,
                why="it has not caught up with the running instance, or cannot follow it",
                fix="try again in a moment; the log says if it cannot follow",
                fields={"state": state},
            )
        msg = f"the stores cannot be read while the application is {state}"
        raise StateUnavailableError(msg, fix=_FIXES.get(state, _START), fields={"state": state})

    def wait(self, holds: Callable[[Edition], bool], seconds: float) -> bool:
        """Wait until the newest epoch meets a condition; return False if the time is up first.

        An application that is starting is waited for as well.
        """
        limit = self._clock.monotonic() + seconds
        event = threading.Event()
        self._waiting.append(event)
        try:
            while not self._meets(holds):
                left = limit - self._clock.monotonic()
                if left <= 0:
                    self.newest()  # says why there is none, if that is so
                    return False
                event.wait(left)
                event.clear()
            return True
        finally:
            self._waiting.remove(event)

    def _meets(self, holds: Callable[[Edition], bool]) -> bool:
        if self._edition is None and self._state() in _ON_THE_WAY:
            return False
        return holds(self.newest())


class _LiveEdition:
    """The committed state of a running application as of one epoch.

    Args:
        state: The committed state; it is not changed any more, but for the watermark.
        engine: Opens views.
        stores: All stores by name, without global tables.
        tables: Opens global tables.
    """

    def __init__(
        self,
        state: CommittedState,
        engine: ReadableEngine,
        stores: Mapping[str, StorePlace],
        tables: GlobalCopies | None,
    ) -> None:
        self._stores = stores
        self._tables = tables
        self._read = state.global_marks  # the next epoch's look replaces what the state has
        self._state = state
        self._engine = engine
        self._known: dict[tuple[int, int], Committed] = {}
        value = state.watermark.value
        self.epoch = state.epoch
        self.watermark = None if value < 0 else value

    @property
    def stores(self) -> Mapping[str, StorePlace]:
        """All stores by name."""
        tables = self._tables
        return self._stores if tables is None else tables.beside(self._state.plan, self._stores)

    def mark(self, stage: int, group: int) -> object:
        """Return what identifies the state of a key group."""
        if stage < 0 and self._tables is not None:
            return self._tables.mark(self._state.plan, stage, self._read)
        return self._state.life, self._committed(stage, group)

    def open(self, stage: int, group: int) -> Snapshot:
        """Open a view of the state of a key group."""
        if stage < 0 and self._tables is not None:
            return self._tables.open(self._state.plan, stage, self._read, self.epoch)
        return self._engine.open_state(stage, group, self._committed(stage, group))

    def has_read(self, sent: Mapping[TopicPartition, int]) -> bool:
        """Return whether the records at these offsets, and all before them, are in this state."""
        offsets = self._state.sources.next_offsets
        return all(offsets.get(place, 0) > offset for place, offset in sent.items())

    def _committed(self, stage: int, group: int) -> Committed:
        """Return what is committed in a key group; each get asks for it."""
        found = self._known.get((stage, group))
        if found is None:
            found = self._known[stage, group] = self._found(stage, group)
        return found

    def _found(self, stage: int, group: int) -> Committed:
        state = self._state
        where = state.plan.stages[stage]
        last = state.groups[where.identity][group]
        ends = {store: state.changelog_ends[store][group] for store in where.logged}
        if last is None:
            return Committed(changelog_ends=ends)
        token = Token(last.incarnation, last.epoch, last.attempt)
        return Committed(token=token, changelog_ends=ends, time_ms=last.time_ms)
