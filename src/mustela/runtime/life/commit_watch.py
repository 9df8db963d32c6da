"""Checks from outside whether a running application commits, and acts if it does not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from mustela.config.lifetime import StallSettings
from mustela.errors import EnvironmentFault
from mustela.runtime.status.board import StatusBoard

__all__ = ["CommitStalledError", "CommitWatch"]

_LOOKS: Final = 20
"""How many checks there are within `stall.after`."""
_PERIOD_S: Final = (0.01, 5.0)
_EXIT_CODE: Final = 3
"""The exit code of an environment fault, after which supervisors restart the process."""


class CommitStalledError(EnvironmentFault):
    """Nothing was committed for longer than ``stall.after``, although there was work."""

    code = "COMMIT_STALLED"


class CommitWatch:
    """Checks whether commits stall.

    Args:
        board: The application's status.
        settings: What counts as stalled, and what to do about it.
        say: Called with a message about a stall.
        interrupt: Ends the running job.
        leave: Ends the process with an exit code.

    Attributes:
        error: Why the job was ended; None if it was not.
    """

    def __init__(
        self,
        board: StatusBoard,
        settings: StallSettings,
        say: Callable[[str], object],
        interrupt: Callable[[], object],
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._board = board
        self._settings = settings
        self._say = say
        self._interrupt = interrupt
        self._leave = leave
        self._is_told = False
        self.error: CommitStalledError | None = None

    @contextmanager
    def over(self) -> Generator[None]:
        """Check, in a separate thread, while the block runs."""
        closed = threading.Event()
        limit_s = self._settings.after.total_seconds()
        period_s = min(max(limit_s / _LOOKS, _PERIOD_S[0]), _PERIOD_S[1])

        def watch() -> None:
            while not closed.wait(period_s):
                self.look()

        thread = threading.Thread(target=watch, name="mustela-commit-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            closed.set()
            thread.join()

    def look(self) -> None:
        """Check once; each stall is reported and acted on once."""
        limit_s = self._settings.after.total_seconds()
        stalled_s = self._board.stalled_s()
        if stalled_s <= limit_s:
            self._is_told = False
            return
        if self._is_told:
            return
        self._is_told = True
        epoch = self._board.in_flight
        phase = "no epoch" if epoch is None else f"epoch {epoch.epoch} is {epoch.phase}"
        text = f"nothing was committed for {stalled_s:.3g} s, although there is work: {phase}"
        self._say(text)
        if self._settings.action == "fail":
            self.error = CommitStalledError(
                text,
                evidence={"limit": f"{limit_s:g} s", "phase": phase},
                why="stall.after is the longest time without a commit, and stall.action is fail; "
                "nothing of the epoch is committed",
                fix="see /debug/threads for what its workers do, or raise stall.after; start the "
                "application again: it continues after its last committed epoch",
            )
            self._interrupt()
        elif self._settings.action == "exit":
            os.write(2, f"error: {text}; stall.action is exit\n".encode())
            self._leave(_EXIT_CODE)
