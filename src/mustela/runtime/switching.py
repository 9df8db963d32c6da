"""Planned takeovers: what the running instance knows of its standbys, and who asks for a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mustela.clock import Clock
from mustela.config.settings import Settings
from mustela.errors import UsageError
from mustela.processes import boot_id
from mustela.runtime.lease import Lease, LeaseRow, StandbyReport, SwitchRefused, TakeOver

__all__ = [
    "CAUGHT_UP_S",
    "NoStandbyError",
    "ReportedStandbys",
    "StandbyBehindError",
    "Standbys",
    "no_standby",
    "place_of",
    "standby_behind",
    "told_standbys",
]

CAUGHT_UP_S = 10.0
"""How long a standby has to say that it has what was committed when the switch was asked for."""


class NoStandbyError(UsageError):
    """No standby is ready to take over."""

    code = "NO_STANDBY"


class StandbyBehindError(UsageError):
    """No standby has caught up with the running instance in time."""

    code = "STANDBY_BEHIND"


class ReportedStandbys:
    """The standbys by their reports in the lease topic.

    Args:
        clock: Monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[str, tuple[StandbyReport, float]] = {}
        self._successor = ""

    def note(self, report: StandbyReport) -> None:
        """Take a report that was just written."""
        self._heard[report.standby] = report, self._clock.monotonic()

    def alive(self) -> list[StandbyReport]:
        """Return the last report of each standby that is alive."""
        now = self._clock.monotonic()
        return [row for row, heard in self._heard.values() if now - heard <= row.ttl_ms / 1000]

    def ready(self, to: str = "") -> list[StandbyReport]:
        """Return those that can take over now, in the order in which they try.

        Args:
            to: Only this standby, or those on this host; empty for all.
        """
        return sorted((row for row in self._meant(to) if row.ready), key=lambda row: row.standby)

    def _meant(self, to: str) -> list[StandbyReport]:
        return [row for row in self.alive() if _is_meant(row, to)]

    def hear_of_others(self, rows: Iterable[LeaseRow]) -> None:
        """Take rows of the lease topic; nobody is asked."""
        for row in rows:
            if isinstance(row, StandbyReport):
                self.note(row)
            elif isinstance(row, Lease):
                self._successor = row.successor if row.ended else ""

    def before(self, name: str, *, ready: bool) -> int:
        """Return how many standbys take over rather than one of them.

        Args:
            name: Its name: the names order those that are ready, after the one that was named by an
                instance that has handed over.
            ready: Whether it is.
        """
        if self._successor:
            return int(name != self._successor)
        others = [row.standby for row in self.ready() if row.standby != name]
        return sum(not ready or other < name for other in others)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A switch that was asked for: it waits until a standby is ready and has what is committed now.

    Who was ready a moment ago may have begun anew since, so one that is not ready is waited for.
    """

    request: TakeOver
    committed: int
    until: float


class Standbys(ReportedStandbys):
    """The standbys that an instance hears of, and who asks it to hand over to them.

    Args:
        clock: Monotonic time.
        committed: Returns the last epoch that this instance has committed.
        hand_over: Ends the running life in favour of a standby.
        say: Receives messages.
        answer: Writes a row into the lease topic.

    Attributes:
        successor: The standby that it hands over to; empty while there is none.
    """

    def __init__(
        self,
        clock: Clock,
        committed: Callable[[], int],
        hand_over: Callable[[], None],
        say: Callable[[str], None],
        answer: Callable[[LeaseRow], object],
    ) -> None:
        super().__init__(clock)
        self._committed = committed
        self._hand_over = hand_over
        self._say = say
        self._answer = answer
        self._asked: _Asked | None = None
        self.successor = ""

    def hear(self, rows: Iterable[LeaseRow]) -> None:
        """Take rows of the lease topic; hand over if one asks for it, and a standby is near.

        Call it every moment, also without rows: what was asked for waits for reports, and not for
        ever.
        """
        rows = list(rows)
        self.hear_of_others(rows)
        for row in rows:
            if isinstance(row, TakeOver) and not row.by:
                self._ask(row)
        self._look()

    def switch(self, application_id: str, to: str = "", *, force: bool = False) -> None:
        """Hand over to a standby when it has caught up; return at once.

        Args:
            application_id: The application, for messages.
            to: To this standby, or one on this host; empty for any.
            force: Whether to hand over before it has caught up.

        Raises:
            NoStandbyError: If none is ready.
        """
        if not self._takers(to, force=force):
            raise no_standby(application_id, told_standbys(self.alive()))
        self._ask(TakeOver(take_over="", to=to, force=force))
        self._look()

    def share_state(self, place: str) -> bool:
        """Whether a standby keeps its state in the same directory."""
        return any(row.place == place for row in self.alive())

    def _takers(self, to: str, *, force: bool) -> list[StandbyReport]:
        """Return who may be handed over to: with force, also one that is not ready."""
        others = self._meant(to) if force else []
        return self.ready(to) or sorted(others, key=lambda row: row.standby)

    def _ask(self, request: TakeOver) -> None:
        until = self._clock.monotonic() + CAUGHT_UP_S
        self._asked = _Asked(request, self._committed(), until)

    def _look(self) -> None:
        asked = self._asked
        if asked is None:
            return
        request = asked.request
        takers = self._takers(request.to, force=request.force)
        near = [row for row in takers if request.force or row.epoch >= asked.committed]
        if near:
            self._asked, self.successor = None, near[0].standby
            self._say(f"hands over to the standby {near[0].told}, which has epoch {near[0].epoch}")
            self._hand_over()
        elif not self._meant(request.to) or self._clock.monotonic() >= asked.until:
            self._asked = None
            self._refuse(asked, behind=bool(takers))

    def _refuse(self, asked: _Asked, *, behind: bool) -> None:
        waiting = told_standbys(self.alive())
        why = f"no standby has epoch {asked.committed} yet" if behind else "no standby is ready"
        self._say(f"was asked to hand over, but {why}: goes on; waiting: {waiting}")
        if asked.request.take_over:
            self._answer(
                SwitchRefused(
                    refused=asked.request.take_over,
                    committed=asked.committed,
                    waiting=waiting,
                    behind=behind,
                )
            )


def _is_meant(row: StandbyReport, to: str) -> bool:
    """Whether a standby is the one that a request names: the whole name, or how it begins."""
    return not to or f"{row.standby}/".startswith(f"{to}/")


def told_standbys(alive: Iterable[StandbyReport]) -> str:
    """Return standbys as text, for messages."""
    found = (f"{row.told}, {_progress(row)}" for row in alive)
    return "; ".join(found) or "none"


def _progress(row: StandbyReport) -> str:
    epoch = f"at epoch {row.epoch}" if row.epoch >= 0 else "at no epoch"
    return f"{'ready' if row.ready else 'not ready'} {epoch}"


def place_of(settings: Settings) -> str:
    """Return what names a directory of state among all hosts."""
    return f"{boot_id()}:{settings.state_dir.absolute()}"


def no_standby(application_id: str, waiting: str) -> NoStandbyError:
    """Return the error that no standby is ready.

    Args:
        application_id: The application.
        waiting: The standbys that are alive, for messages.
    """
    return NoStandbyError(
        f"no standby of {application_id} is ready to take over",
        evidence={"waiting": waiting},
        why="a standby is ready when it has rehearsed an epoch on the state of its host",
        fix="start one: mustela run MODULE:APP --standby; or wait until mustela ha status"
        f" {application_id} says that it is ready",
    )


def standby_behind(application_id: str, refused: SwitchRefused) -> StandbyBehindError:
    """Return the error that no standby has caught up in time; the running instance goes on.

    Args:
        application_id: The application.
        refused: The answer of the running instance.
    """
    return StandbyBehindError(
        f"no standby of {application_id} has reached epoch {refused.committed}"
        f" within {CAUGHT_UP_S:g} seconds",
        evidence={"waiting": refused.waiting},
        why="the pause of a switch would last until it has read the rest",
        fix=f"try again when mustela ha status {application_id} shows that it is near; or switch"
        f" all the same: mustela ha switch {application_id} --force",
    )
