"""A standby keeps ready what a takeover needs: the engine, and the state of its host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from mustela.clock import Clock
from mustela.errors import MustelaError
from mustela.queries.source import Edition
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.events import Listener, Said
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.replica.following import follow
from mustela.runtime.replica.replica import Replica

__all__ = ["WarmStandby"]

REHEARSE_EVERY_S = 30.0
"""So often an epoch is rehearsed: an engine may end workers that were idle for a minute."""

_WAIT_S = 0.1
_TRY_AGAIN_S = 2.0
_JOIN_S = 30.0
REACH_S = 5.0
"""How long a takeover lets the replica catch up; what it lacks then is restored."""


class WarmStandby:
    """Starts the engine, and follows the state, while another instance runs.

    Args:
        start_engine: Starts the engine.
        rehearse: Lets it run an epoch that does nothing, as of a record.
        show: Receives the state of this host as of each epoch, or None while it is of none.
        replica: Keeps the state of this host; it is closed here.
        clock: Monotonic time.
        listener: Receives what goes wrong, which never ends a standby: a takeover then restores.
    """

    def __init__(
        self,
        start_engine: Callable[[], None],
        rehearse: Callable[[EpochRecord], None],
        show: Callable[[Edition | None], None],
        replica: Replica,
        clock: Clock,
        listener: Listener,
    ) -> None:
        self._start_engine = start_engine
        self._rehearse = rehearse
        self._show = show
        self._is_rehearsed = False
        self._replica = replica
        self._clock = clock
        self._listener = listener
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._is_lost = False
        self._threads = [
            threading.Thread(target=self._begin, name="mustela-standby-engine", daemon=True),
            threading.Thread(target=self._follow, name="mustela-replica", daemon=True),
        ]

    @property
    def replica(self) -> Replica:
        """The state of this host."""
        return self._replica

    @property
    def is_ready(self) -> bool:
        """Whether an epoch was rehearsed, and the state of this host is that of an epoch."""
        is_well = self._error is None and not self._is_lost
        return is_well and self._is_rehearsed and self._replica.record is not None

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def take_over(self) -> None:
        """Stop following, and wait until the engine has started, and ends a rehearsal.

        Raises:
            MustelaError: If it could not.
        """
        self._done.set()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def reach(self, state: CommittedState) -> None:
        """Bring the state of this host to what a claim has found, and close the replica.

        Args:
            state: The claimed state.
        """
        deadline = self._clock.monotonic() + REACH_S
        try:
            while not self._is_lost and self._clock.monotonic() < deadline:
                record = self._replica.record
                if record is not None and record.incarnation >= state.incarnation:
                    break
                self._replica.step(_WAIT_S)
        except MustelaError as error:
            self._listener.on_error(error)
        finally:
            # Whoever runs now marks them clean in the end: to sync them here would take time.
            self._close(clean=False)

    def end_following(self) -> None:
        """Show no more epochs."""
        self._done.set()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def stop(self) -> None:
        """End the standby: no takeover follows."""
        self.end_following()
        self._close(clean=True)

    def _close(self, *, clean: bool) -> None:
        with suppress(MustelaError):
            self._replica.close(clean=clean)

    def _begin(self) -> None:
        try:
            self._start_engine()
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            self._error = error
            return
        while not self._done.is_set():
            record = self._replica.record
            if record is None:
                self._done.wait(_WAIT_S)
                continue
            self._done.wait(REHEARSE_EVERY_S if self._has_rehearsed(record) else _TRY_AGAIN_S)

    def _has_rehearsed(self, record: EpochRecord) -> bool:
        try:
            self._rehearse(record)
        except MustelaError as error:
            self._listener.on_error(error)
            self._is_rehearsed = False
        else:
            self._is_rehearsed = True
        return self._is_rehearsed

    def _follow(self) -> None:
        lost = follow(self._replica, self._done, self._failed, self._stepped)
        if lost is not None:
            self._give_up(lost)

    def _stepped(self) -> None:
        self._show(self._replica.shown)

    def _failed(self, error: MustelaError) -> None:
        self._stepped()
        self._listener.on_error(error)

    def _give_up(self, error: MustelaError) -> None:
        self._is_lost = True
        self._show(None)
        text = f"does not keep the state of this host up to date; a takeover restores it: {error}"
        self._listener.on_event(Said(text=text))
