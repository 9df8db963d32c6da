"""The rules of bases and pendings, independent of the storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mustela.errors import InvariantError
from mustela.state.faults import FencedStateError, StateNotReadyError, gone
from mustela.state.interfaces import Committed, Condition, EnvironmentSpec, Token

__all__ = ["Standing", "check_fence", "check_rest", "check_token", "compare", "not_ready"]

_CLOCK_SLACK_MS = 60_000
"""How far a clock may be set back while copies are still trusted."""


@dataclass(slots=True, kw_only=True)
class Standing:
    """The position of a base.

    Attributes:
        token: The epoch whose state the base is; None if it has never held any.
        incarnation: The highest incarnation that has written here.
        positions: Per logged store, the changelog offset up to which the base is complete.
        partial: Whether a restore has begun and not been finished.
        time_ms: The driver's clock at ``token``.
        folding: The epoch whose rows are in the base in part; its pending has them all.
    """

    token: Token | None = None
    incarnation: int = 0
    positions: dict[str, int] = field(default_factory=dict[str, int])
    partial: bool = False
    time_ms: int = 0
    folding: Token | None = None

    def move_to(self, committed: Committed) -> None:
        """Record that the base is now the committed state."""
        self.token = committed.token
        self.positions.update(committed.changelog_ends)
        self.partial = False
        self.folding = None
        self.time_ms = max(self.time_ms, committed.time_ms)

    def begin_restore(self, time_ms: int) -> None:
        """Record that the base is being changed, and is not the state of any epoch."""
        if not self.partial and self.token is None:
            self.time_ms = time_ms
        self.partial = True
        self.folding = None

    def finish_restore(self, committed: Committed, spec: EnvironmentSpec, where: str) -> None:
        """Record that the base is now the committed state, if its positions agree.

        Raises:
            StateGoneError: If the restored rows are no longer here.
            StateNotReadyError: If they do not agree.
        """
        ends = committed.changelog_ends
        short = {
            store.name: f"{self.positions.get(store.name, 0)} of {ends.get(store.name, 0)}"
            for store in spec.stores
            if store.logged and self.positions.get(store.name, 0) != ends.get(store.name, 0)
        }
        if short and not self.partial:
            raise gone(where)
        if short:
            msg = f"the restore of epoch {committed.token} has not reached the committed ends"
            raise StateNotReadyError(msg, evidence={"state": where, **short})
        self.move_to(committed)


def compare(
    standing: Standing, committed: Committed, *, has_pending: bool, spec: EnvironmentSpec
) -> Condition:
    """Return how a readable base of the right owner compares with the committed state.

    Args:
        standing: The position of the base.
        committed: The committed state.
        has_pending: Whether the committed epoch's pending is here.
        spec: Says which stores are logged and when a copy is stale.
    """
    base, target = standing.token, committed.token
    # A store that no longer has a changelog may have a position from when it had one.
    logged = [store.name for store in spec.stores if store.logged]
    ends = {name: committed.changelog_ends.get(name, 0) for name in logged}
    if _is_ahead(standing, committed, ends):
        return Condition.AHEAD
    reached = all(standing.positions.get(name, 0) >= ends[name] for name in logged)
    if not standing.partial:
        if base == target and reached:
            return Condition.CURRENT
        if has_pending and standing.folding in (None, target):
            return Condition.FOLDABLE
    if base is None and standing.folding is None and not any(standing.positions.values()):
        return Condition.EMPTY
    if _is_stale(standing, committed, spec):
        return Condition.STALE
    return Condition.BEHIND


def _is_ahead(standing: Standing, committed: Committed, ends: Mapping[str, int]) -> bool:
    target = committed.token
    for base in (standing.token, standing.folding):
        if base is not None and base != target and (target is None or base[:2] >= target[:2]):
            return True
    return any(offset > ends.get(name, offset) for name, offset in standing.positions.items())


def _is_stale(standing: Standing, committed: Committed, spec: EnvironmentSpec) -> bool:
    if spec.stale_after_ms is None or not committed.time_ms:
        return False
    age = committed.time_ms - standing.time_ms
    # A copy from the future was written with a wrong clock: its age is unknown.
    return age > spec.stale_after_ms or age < -_CLOCK_SLACK_MS


def check_fence(standing: Standing, incarnation: int, where: str) -> None:
    """Refuse a writer that a newer instance has replaced.

    Raises:
        FencedStateError: If ``incarnation`` is lower than the highest that has written.
    """
    if incarnation < standing.incarnation:
        msg = f"incarnation {incarnation} may not write: {standing.incarnation} has taken over"
        raise FencedStateError(
            msg,
            evidence={"state": where},
            why="a newer instance of this application owns its state",
            fix="stop this instance",
            fields={"incarnation": incarnation, "owner": standing.incarnation},
        )


def check_rest(standing: Standing, store: str, start: int, where: str, *, goes_on: bool) -> None:
    """Check that the state that a restore continues from still exists.

    Args:
        standing: The position of the base.
        store: The store that is restored.
        start: The offset from which its changelog was read.
        where: For messages.
        goes_on: Whether a restore has begun and is not finished.

    Raises:
        StateGoneError: If it does not: earlier rows would be missing.
    """
    if standing.positions.get(store, 0) < start or (goes_on and not standing.partial):
        raise gone(where)


def check_token(token: Token, committed: Committed) -> None:
    """Refuse a pending that is not newer than the committed state.

    Raises:
        InvariantError: If it is not.
    """
    if committed.token is not None and token[:2] <= committed.token[:2]:
        msg = f"epoch {token} cannot follow the committed epoch {committed.token}"
        raise InvariantError(msg)


def not_ready(condition: Condition, committed: Committed, where: str) -> StateNotReadyError:
    """Return the error for a requested state that is not here."""
    return StateNotReadyError(
        f"state of epoch {committed.token} is not here: the environment is {condition.value}",
        evidence={"state": where},
        fields={"condition": condition, "path": where},
    )
