"""A running application that shocks come to: halted at phases, let go on, restarted, watched."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from mustela_dev import DevelopmentBroker
from tests.faults.campaign import Campaign
from tests.faults.process import ChildApp, ChildEndedError
from tests.patience import PATIENCE_S

__all__ = ["Life", "NotHappenedError"]

POLL_S = 0.02
POINT_S = 120.0
RESTARTS_MAX = 24
ANY_POINT = "*"
BORNE_EXITS = {3}
"""A supervisor restarts after these; every other exit that nothing called for is a violation."""


class NotHappenedError(Exception):
    """A fault did not come about, so that it does not count."""


class Life:
    """An application under shocks, from its first start to its last stop.

    Args:
        campaign: Its topics, its feeder, its watcher.
        broker: The broker, which shocks may kill.
        rng: For everything that is random.

    Attributes:
        restarts: By code, how often it ended with a named error and was started again.
        environment: Settings of every start from now on, besides the campaign's.
    """

    def __init__(self, campaign: Campaign, broker: DevelopmentBroker, rng: random.Random) -> None:
        self.campaign = campaign
        self.broker = broker
        self.random = rng
        self.restarts: dict[str, int] = {}
        self.environment: dict[str, str] = {}
        self._judged: set[int] = set()

    @property
    def epoch(self) -> int:
        """The last epoch that was committed."""
        records = self.campaign.watcher.seen.records
        return records[-1].epoch if records else 0

    def start(self) -> ChildApp:
        """Start the application, ready to be halted anywhere."""
        return self.campaign.start(ANY_POINT, **self.environment)

    def child(self) -> ChildApp:
        """Return the run that lives; one is started if there is none."""
        child = self.campaign.child
        if child is None or child.returncode is not None:
            child = self.start()
        self.settle(self.epoch)
        assert self.campaign.child is not None
        return self.campaign.child

    def settle(self, mark: int) -> None:
        """Wait until an epoch after ``mark`` is committed; restart it as a supervisor does.

        Raises:
            ChildEndedError: If it ends as it may not, or goes on without an epoch.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self.epoch <= mark:
            child = self.campaign.child
            if child is None or child.returncode is not None:
                self._restart(child)
            if time.monotonic() > deadline:
                said = [] if child is None else [child.events()[-3:], child.stacks()]
                fed = f"{self.campaign.feeder.told()}, {self.campaign.waiting()}"
                msg = f"no epoch after {mark} in {PATIENCE_S:g} s: {fed}, {said}"
                raise ChildEndedError(msg)
            time.sleep(POLL_S)

    def _restart(self, child: ChildApp | None) -> None:
        if child is not None:
            self.check_end(child)
            child.kill()
            self.campaign.is_damaged = True
        self.start()

    def check_end(self, child: ChildApp) -> str:
        """Return the code of the named error that ended a run.

        Raises:
            ChildEndedError: If it ended without one, or with one that asks for no restart.
        """
        ends = [event for event in child.events() if event["event"] == "end"]
        if child.returncode not in BORNE_EXITS or not ends or not ends[-1]["code"]:
            said = f"{child.events()[-3:]}\n{child.text()}"
            msg = f"{child.directory.name} ended by itself with {child.returncode}: {said}"
            raise ChildEndedError(msg)
        code: str = ends[-1]["code"]
        if child.pid not in self._judged:
            self._judged.add(child.pid)
            self.restarts[code] = self.restarts.get(code, 0) + 1
        if sum(self.restarts.values()) > RESTARTS_MAX:
            msg = f"it ended {self.restarts} times: {child.text()}"
            raise ChildEndedError(msg)
        return code

    def halt(self, point: str, *, child: ChildApp | None = None) -> int:
        """Wait until some process has come to a phase and stays there; return its id.

        Raises:
            NotHappenedError: If nothing comes there in time.
        """
        run = child or self.campaign.child
        assert run is not None
        wish, marker = run.directory / f"want-{point}", run.directory / point
        wish.touch()
        deadline = time.monotonic() + POINT_S
        while not (marker.exists() and marker.read_text()):
            if run.returncode is not None or time.monotonic() > deadline:
                wish.unlink(missing_ok=True)
                msg = f"nothing came to {point}: {run.returncode}"
                raise NotHappenedError(msg)
            time.sleep(POLL_S)
        return int(marker.read_text())

    def release(self, point: str) -> None:
        """Let what was halted go on."""
        if self.campaign.child is not None:
            (self.campaign.child.directory / point).unlink(missing_ok=True)

    @contextmanager
    def halted(self, points: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """Halt at one of the points, or, as often, nowhere; yield which, and who is there."""
        point = self.random.choice(points) if points and self.random.random() < 0.7 else ""
        who = self.halt(point) if point else 0
        try:
            yield point, who
        finally:
            self.release(point or "nowhere")

    def kill_app(self) -> int:
        """Kill the whole application; return how many processes there were."""
        child = self.campaign.child
        assert child is not None
        count = child.kill()
        require(child.returncode == -signal.SIGKILL, f"the driver ended with {child.returncode}")
        self.campaign.child = None
        return count

    @property
    def directory(self) -> Path:
        """Where the application's runs are."""
        return self.campaign.directory


def require(happened: bool, otherwise: str) -> None:
    """See that a fault came about.

    Raises:
        NotHappenedError: If not.
    """
    if not happened:
        raise NotHappenedError(otherwise)


def await_state(
    processes: list[psutil.Process], reached: Callable[[psutil.Process], bool], what: str
) -> None:
    """Wait until all processes have come to a state.

    Raises:
        NotHappenedError: If they do not.
    """
    deadline = time.monotonic() + POINT_S
    while not all(map(reached, processes)):
        require(time.monotonic() < deadline, f"{processes} are not {what}")
        time.sleep(POLL_S)
