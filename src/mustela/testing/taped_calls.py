"""Calls that are not made: their outcomes are those that were kept when an epoch ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mustela.plan.calls import CallOutcome, CallRequest, CallTape, Fate
from mustela.topology.async_calls import AsyncNode

__all__ = ["TapedDesk"]


class TapedDesk:
    """The calls of one lane; see `mustela.plan.calls.CallDesk`.

    Args:
        tapes: What was kept, by step.
        unknown: Receives the calls that were never made when the epoch ran.
    """

    def __init__(self, tapes: Mapping[str, CallTape], unknown: set[str]) -> None:
        self._tapes = tapes
        self._unknown = unknown

    def step(self, node: AsyncNode) -> _Taped:
        """Return the calls of one step."""
        return _Taped(self._tapes.get(node.name), self._unknown)


class _Taped:
    """The calls of one step; see `mustela.plan.calls.StepCalls`."""

    def __init__(self, tape: CallTape | None, unknown: set[str]) -> None:
        self._tape = tape or CallTape()
        self._unknown = unknown
        self._completed = {one.call_id: one for one in self._tape.completed}
        self._parked = {one.call_id: one for one in self._tape.parked}
        self._arrived = {one.call_id: one for one in self._tape.arrived}
        self._started: list[str] = []
        self._known = {*self._completed, *self._parked, *self._tape.left}

    @property
    def owner(self) -> str:
        """The process that made them."""
        return self._tape.owner

    def begin(self, wait_ms: int) -> None:
        """Do nothing: no call is made."""

    def start(self, request: CallRequest) -> bool:
        """Accept a call, if it was accepted then."""
        name = request.call_id
        if name in self._tape.refused:
            return False
        if name not in self._known:
            self._unknown.add(name)
        self._started.append(name)
        return True

    def completed(self, *, wait: bool) -> list[CallOutcome]:
        """Return the outcomes that came then, of calls begun now."""
        del wait
        started, self._started = self._started, []
        return [self._completed.pop(name) for name in started if name in self._completed]

    def park(self, call_id: str) -> CallOutcome | None:
        """Return the outcome that came when the task stopped waiting."""
        return self._parked.get(call_id) or self._completed.pop(call_id, None)

    def fate(self, call_id: str, owner: str) -> Fate:
        """Return what had become of a call."""
        del owner
        return "lost" if call_id in self._tape.lost else "running"

    def arrived(self, call_ids: Collection[str]) -> list[CallOutcome]:
        """Return the outcomes that had arrived."""
        return [one for one in self._arrived.values() if one.call_id in call_ids]

    def sweep(self, groups: Collection[int], wanted: Collection[str]) -> None:
        """Do nothing: no outcome is kept here."""

    def poll_ms(self, age_ms: int | None) -> int:
        """Return how long the task wanted to wait."""
        return self._tape.polls.get(-1 if age_ms is None else age_ms, 1)
