"""When the application is killed, and whether the kill was one inside an open transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mustela_dev.demo.feeder import SLICES, WINDOW

__all__ = ["FAULT_POINT", "Kill", "KillPlan"]

FAULT_POINT = "transaction-begun"
LATEST = 0.1
"""An application that has not come to its fault point by so much later is killed as it is."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill.

    Attributes:
        share: Of the input, after which it comes.
        in_transaction: Whether the application must have a transaction open.
    """

    share: float
    in_transaction: bool = False


KILLS = (Kill(0.25), Kill(0.5, in_transaction=True), Kill(0.75))


@dataclass(slots=True)
class KillPlan:
    """Says when the time has come for the next kill.

    For the one inside a transaction the application is started with a fault point: it says so in a
    file when it has begun its n-th transaction, and waits there to be killed. One slice at a time
    is fed then, so that the n-th transaction comes near the share of the input that is wanted.

    Attributes:
        lines: Lines of the input.
        directory: Where the application writes that file.
        kills: The kills that are left.
        done: How many there were.
        in_transaction: How many of them hit an open transaction.
        replayed: How many hit while lines were on their way, so that an epoch is run again.
    """

    lines: int
    directory: Path
    kills: tuple[Kill, ...] = KILLS
    done: int = 0
    in_transaction: int = 0
    replayed: int = 0

    @property
    def window(self) -> int:
        """How many slices may be on their way now."""
        return 1 if self.kills and self.kills[0].in_transaction else WINDOW

    def environment(self, committed: int) -> Mapping[str, str]:
        """Return the variables for the application that is started now."""
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
        """Return whether the application is to be killed now."""
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
        """Return what did not come as planned."""
        wrong = [f"the kill at {kill.share:.0%} never came" for kill in self.kills]
        if not self.in_transaction:
            wrong.append("no kill hit an open transaction")
        return wrong

    @property
    def _marker(self) -> Path:
        return self.directory / FAULT_POINT
