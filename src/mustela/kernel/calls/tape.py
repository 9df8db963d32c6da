"""Calls that are kept as they are made, so that an epoch can run again without making them."""

from __future__ import annotations

from collections.abc import Collection

from mustela.plan.calls import CallDesk, CallOutcome, CallRequest, CallTape, Fate, StepCalls
from mustela.topology.async_calls import AsyncNode

__all__ = ["KeepingDesk"]


class KeepingDesk:
    """The calls of one task, with what it learns from them; see `mustela.plan.calls.CallDesk`.

    Args:
        desk: Makes the calls.

    Attributes:
        tapes: What was learned, by step.
    """

    def __init__(self, desk: CallDesk) -> None:
        self._desk = desk
        self.tapes: dict[str, CallTape] = {}

    def step(self, node: AsyncNode) -> StepCalls:
        """Return the calls of one step."""
        tape = self.tapes.setdefault(node.name, CallTape())
        return _Keeping(self._desk.step(node), tape)


class _Keeping:
    """The calls of one step; see `mustela.plan.calls.StepCalls`."""

    def __init__(self, calls: StepCalls, tape: CallTape) -> None:
        self._calls = calls
        self._tape = tape
        tape.owner = calls.owner

    @property
    def owner(self) -> str:
        """The process."""
        return self._calls.owner

    def begin(self, wait_ms: int) -> None:
        """Note that a task begins."""
        self._calls.begin(wait_ms)

    def start(self, request: CallRequest) -> bool:
        """Accept a call, and keep that it was refused."""
        taken = self._calls.start(request)
        refused = self._tape.refused
        if not taken and request.call_id not in refused:
            refused.append(request.call_id)
        elif taken and request.call_id in refused:
            refused.remove(request.call_id)
        return taken

    def completed(self, *, wait: bool) -> list[CallOutcome]:
        """Return the calls that have ended, and keep them."""
        found = self._calls.completed(wait=wait)
        self._tape.completed.extend(found)
        return found

    def park(self, call_id: str) -> CallOutcome | None:
        """Leave a call to later tasks, and keep its outcome if it has ended."""
        found = self._calls.park(call_id)
        if found is None:
            self._tape.left.append(call_id)
        else:
            self._tape.parked.append(found)
        return found

    def fate(self, call_id: str, owner: str) -> Fate:
        """Return what became of a call, and keep it."""
        fate = self._calls.fate(call_id, owner)
        if fate == "lost":
            self._tape.lost.append(call_id)
        return fate

    def arrived(self, call_ids: Collection[str]) -> list[CallOutcome]:
        """Return the outcomes of those that have ended, and keep them."""
        found = self._calls.arrived(call_ids)
        self._tape.arrived.extend(found)
        return found

    def sweep(self, groups: Collection[int], wanted: Collection[str]) -> None:
        """Forget outcomes that nobody wants."""
        self._calls.sweep(groups, wanted)

    def poll_ms(self, age_ms: int | None) -> int:
        """Return how long to wait before looking again, and keep it."""
        wait_ms = self._calls.poll_ms(age_ms)
        self._tape.polls[-1 if age_ms is None else age_ms] = wait_ms
        return wait_ms
