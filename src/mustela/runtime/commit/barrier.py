"""The commit barrier as a state machine: the allowed sequences of steps in the epoch protocol.

Pure: it knows neither the broker nor Spark. The coordinator asks it before each step, so that a
step out of turn raises an error instead of losing data.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from mustela.errors import InvariantError
from mustela.state.interfaces import Token

__all__ = ["Barrier", "OnPhase", "Phase"]


class Phase(Enum):
    """Where the current epoch is in the protocol."""

    IDLE = "idle"
    RUNNING = "running"
    IN_HAND = "in-hand"
    BEGUN = "begun"
    PRODUCED = "produced"
    OFFSETS_ADDED = "offsets-added"
    COMMIT_SENT = "commit-sent"
    UNKNOWN = "unknown"
    FENCED = "fenced"


_NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.RUNNING, Phase.FENCED}),
    Phase.RUNNING: frozenset({Phase.IN_HAND, Phase.IDLE}),
    Phase.IN_HAND: frozenset({Phase.BEGUN, Phase.IDLE, Phase.FENCED, Phase.UNKNOWN}),
    Phase.BEGUN: frozenset({Phase.PRODUCED, Phase.IDLE, Phase.UNKNOWN, Phase.FENCED}),
    Phase.PRODUCED: frozenset({Phase.OFFSETS_ADDED, Phase.IDLE, Phase.UNKNOWN, Phase.FENCED}),
    Phase.OFFSETS_ADDED: frozenset({Phase.COMMIT_SENT, Phase.IDLE, Phase.UNKNOWN, Phase.FENCED}),
    Phase.COMMIT_SENT: frozenset({Phase.IDLE, Phase.UNKNOWN, Phase.FENCED}),
    Phase.UNKNOWN: frozenset({Phase.IDLE, Phase.FENCED}),
    Phase.FENCED: frozenset(),
}


OnPhase = Callable[[Token, Phase, str], None]
"""Called at each step, with the attempt, its phase and, if it ended, its outcome."""


def _tell_nobody(_token: Token, _phase: Phase, _outcome: str) -> None:
    """Ignore a step."""


class Barrier:
    """Numbers epochs and attempts, and enforces the order of steps.

    Args:
        incarnation: Number of this run of the application.
        last_epoch: Number of the last committed epoch.
        on_phase: Called at each step.

    Example:
        >>> barrier = Barrier(incarnation=1, last_epoch=0)
        >>> barrier.start()
        Token(incarnation=1, epoch=1, attempt=0)
        >>> barrier.give_up()
        >>> barrier.start()
        Token(incarnation=1, epoch=1, attempt=1)
    """

    def __init__(
        self, *, incarnation: int, last_epoch: int, on_phase: OnPhase = _tell_nobody
    ) -> None:
        self.incarnation = incarnation
        self.last_epoch = last_epoch
        self._phase = Phase.IDLE
        self._attempt = 0
        self._on_phase = on_phase

    @property
    def phase(self) -> Phase:
        """The last step taken."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._enter(phase)

    def _enter(self, phase: Phase, outcome: str = "") -> None:
        self._phase = phase
        self._on_phase(self.token, phase, outcome)

    @property
    def token(self) -> Token:
        """The token of the running epoch, or of the next one."""
        return Token(self.incarnation, self.last_epoch + 1, self._attempt)

    def start(self) -> Token:
        """Begin an attempt of the next epoch."""
        self.move(Phase.RUNNING)
        return self.token

    def move(self, phase: Phase, outcome: str = "") -> None:
        """Go to ``phase``.

        Args:
            phase: The next step.
            outcome: How the attempt ended, if it did.

        Raises:
            InvariantError: If the protocol does not allow it now.
        """
        if phase not in _NEXT[self.phase]:
            msg = f"the epoch protocol does not go from {self.phase.value} to {phase.value}"
            raise InvariantError(msg, evidence={"epoch": self.token})
        self._enter(phase, outcome)

    def committed(self) -> None:
        """Note that the epoch is committed; the next one gets the next number."""
        if self.phase not in {Phase.COMMIT_SENT, Phase.UNKNOWN}:
            msg = f"an epoch cannot be committed while it is {self.phase.value}"
            raise InvariantError(msg, evidence={"epoch": self.token})
        self._enter(Phase.IDLE, "committed")
        self.last_epoch += 1
        self._attempt = 0

    def give_up(self) -> None:
        """Note that the attempt did not commit; its token is never used again."""
        self.move(Phase.IDLE, "given up")
        self._attempt += 1

    def again(self) -> None:
        """Note that the transaction was aborted, but the epoch's rows are still available."""
        if self.phase not in {Phase.BEGUN, Phase.PRODUCED, Phase.OFFSETS_ADDED, Phase.COMMIT_SENT}:
            msg = f"no transaction is open while the epoch is {self.phase.value}"
            raise InvariantError(msg, evidence={"epoch": self.token})
        self.phase = Phase.IN_HAND

    def nothing_to_say(self) -> None:
        """Note that the epoch had nothing to commit; its number is used by the next one."""
        self.move(Phase.IDLE, "nothing to commit")
        self._attempt += 1
