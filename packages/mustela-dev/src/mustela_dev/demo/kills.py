"""When to kill the application, and whether a kill hit an open transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mustela_dev.demo.feeder import SLICES, WINDOW

__all__ = ["FAULT_POINT", "Kill", "KillPlan"]

FAULT_POINT = "transaction-begun"
LATEST = 0.1
"""How much more input may pass before an application that has not reached its fault point is killed
anyway."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill.

    Attributes:
        share: The share of the input after which it happens.
        in_transaction: Whether the application must have a transaction open.
    """

    share: float
    in_transaction: bool = False


KILLS = (Kill(0.25), Kill(0.5, in_transaction=True), Kill(0.75))


@dataclass(slots=True)
class KillPlan:
    """Decides when to kill next.

    For the kill inside a transaction, the application is started with a fault point: when it has
    begun its n-th transaction, it writes a file and waits there to be killed. Slices are then fed
    one at a time, so that the n-th transaction is near the wanted share of the input.

    Attributes:
        lines: Lines of the input.
        directory: Where the application writes that file.
        kills: The remaining kills.
        done: How many kills happened.
        in_transaction: How many of them hit an open transaction.
        replayed: How many hit while lines were uncommitted, so that an epoch is run again.
    """

    lines: int
    directory: Path
    kills: tuple[Kill, ...] = KILLS
    done: int = 0
    in_transaction: int = 0
    replayed: int = 0

    @property
    def window(self) -> int:
        """How many slices may be uncommitted now."""
        return 1 if self.kills and self.kills[0].in_transaction else WINDOW

    def environment(self, committed: int) -> Mapping[str, str]:
        """Return the environment variables for the next start of the application."""
        if not (self.kills and self.kills[0].in_transaction):
            return {}
        size = max(1, self.lines // SLICES)
        slices = int((self.kills[0].share * self.lines - committed) / size)
        # The first transaction of a run is the one that claims the application.
        count = 1 + max(1, slices - 1)
        return {
            "MUSTELA_FAULT_POINT": f"{FAULT_POINT}:{count}",
            "MUSTELA_FAULT_DIR": str(self.directory),
        }

    def is_due(self, committed: int) -> bool:
        """Return whether to kill the application now."""
        if not self.kills:
            return False
        kill = self.kills[0]
        if not kill.in_transaction:
            return committed >= kill.share * self.lines
        return self._marker.exists() or committed >= (kill.share + LATEST) * self.lines

    def note(self, *, on_their_way: int) -> None:
        """Note that the application was killed."""
        self.kills = self.kills[1:]
        self.done += 1
        self.replayed += on_their_way > 0
        if self._marker.exists():
            self.in_transaction += 1
            self._marker.unlink()

    def wrong(self) -> list[str]:
        """Return what did not happen as planned."""
        wrong = [f"the kill at {kill.share:.0%} never came" for kill in self.kills]
        if not self.in_transaction:
            wrong.append("no kill hit an open transaction")
        return wrong

    @property
    def _marker(self) -> Path:
        return self.directory / FAULT_POINT
