"""Planned takeovers: what the running instance knows of its standbys, and who asks for a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.errors import UsageError
from mustela.processes import boot_id
from mustela.runtime.lease import LeaseRow, StandbyReport, TakeOver

__all__ = ["NoStandbyError", "ReportedStandbys", "Standbys", "no_standby", "place_of"]


class NoStandbyError(UsageError):
    """No standby is ready to take over."""

    code = "NO_STANDBY"


class ReportedStandbys:
    """The standbys by their reports in the lease topic.

    Args:
        clock: Monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[StandbyReport, float]] = {}

    def note(self, report: StandbyReport) -> None:
        """Take a report that was just written."""
        self._heard[report.standby] = report, self._clock.monotonic()

    def alive(self) -> list[StandbyReport]:
        """Return the last report of each standby that is alive."""
        now = self._clock.monotonic()
        return [row for row, heard in self._heard.values() if now - heard <= row.ttl_ms / 1000]

    def ready(self) -> list[StandbyReport]:
        """Return those that can take over now, in the order in which they try."""
        return sorted((row for row in self.alive() if row.ready), key=lambda row: row.standby)

    def before(self, name: str, *, ready: bool) -> int:
        """Return how many standbys take over rather than one of them.

        Args:
            name: Its name: the names order those that are ready.
            ready: Whether it is.
        """
        others = [row.standby for row in self.ready() if row.standby != name]
        return sum(not ready or other < name for other in others)


class Standbys(ReportedStandbys):
    """The standbys that an instance hears of, and who asks it to hand over to them.

    Args:
        clock: Monotonic time.
        hand_over: Ends the running life in favour of a standby.
        say: Receives messages.
    """

    def __init__(
        self, clock: Clock, hand_over: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        super().__init__(clock)
        self._hand_over = hand_over
        self._say = say

    def hear_of_others(self, rows: Iterable[LeaseRow]) -> None:
        """Take rows of the lease topic; nobody is asked."""
        for row in rows:
            if isinstance(row, StandbyReport):
                self.note(row)

    def hear(self, rows: Iterable[LeaseRow]) -> None:
        """Take rows of the lease topic; hand over if one asks for it."""
        rows = list(rows)
        self.hear_of_others(rows)
        if any(isinstance(row, TakeOver) and not row.by for row in rows):
            self._asked()

    def switch(self, application_id: str) -> None:
        """Hand over to a standby.

        Raises:
            NoStandbyError: If none is ready.
        """
        if not self.ready():
            raise no_standby(application_id, self.alive())
        self._hand_over()

    def share_state(self, place: str) -> bool:
        """Whether a standby keeps its state in the same directory."""
        return any(row.place == place for row in self.alive())

    def _asked(self) -> None:
        found = self.ready()
        if found:
            self._say(f"hands over to the standby {found[0].told}")
            self._hand_over()
        else:
            self._say("was asked to hand over, but no standby is ready: goes on")


def place_of(settings: Settings) -> str:
    """Return what names a directory of state among all hosts."""
    return f"{boot_id()}:{settings.state_dir.absolute()}"


def no_standby(application_id: str, alive: Iterable[StandbyReport]) -> NoStandbyError:
    """Return the error that no standby is ready."""
    waiting = ", ".join(row.told for row in alive)
    return NoStandbyError(
        f"no standby of {application_id} is ready to take over",
        evidence={"waiting": waiting or "none"},
        why="a standby is ready when it has rehearsed an epoch on the state of its host",
        fix="start one: mustela run MODULE:APP --standby; or wait until mustela ha status"
        f" {application_id} says that it is ready",
    )
