"""Liveness and readiness of an application, from its board."""

from __future__ import annotations

from typing import Any, NamedTuple

from mustela.runtime.events import AppState
from mustela.runtime.status.snapshot import EpochTrace
from mustela.runtime.status.watched import Watched

__all__ = ["Health", "liveness", "readiness", "restore_facts", "stuck_phase"]

_STUCK_TIMES = 3
_STUCK_LEAST_S = 1.0


class Health(NamedTuple):
    """An answer to a probe.

    Attributes:
        is_good: Whether all is well.
        facts: The contents of the response.
    """

    is_good: bool
    facts: dict[str, Any]


def liveness(watched: Watched) -> Health:
    """Return whether the application is alive: it has not ended, and commits if there is work."""
    board, limit_s = watched.board, watched.settings.stall.after.total_seconds()
    state, stalled_s = board.life.state, board.stalled_s()
    facts: dict[str, Any] = {"state": state}
    if AppState(state).ended:
        return Health(False, {"status": "down", **facts, "why": "the application has ended"})
    if stalled_s > limit_s:
        why = "nothing was committed for longer than stall.after, though there is work"
        facts |= {"stalled_seconds": round(stalled_s, 3), "limit_seconds": limit_s}
        return Health(False, {"status": "down", **facts, "why": why})
    return Health(True, {"status": "up", **facts})


def readiness(watched: Watched) -> Health:
    """Return whether the application does its work, and its health indicators report well."""
    found = _own_readiness(watched)
    if watched.indicators is None or not watched.indicators.last():
        return found
    answers = watched.indicators.ask()
    told = {
        name: {"status": "up"} if answer.is_up else {"status": "down", "why": answer.why}
        for name, answer in answers.items()
    }
    sick = sorted(name for name, answer in answers.items() if not answer.is_up)
    facts = {**found.facts, "indicators": told}
    if found.is_good and sick:
        why = f"not well: {', '.join(sick)}"
        return Health(False, {**facts, "status": "unwell", "why": why})
    return Health(found.is_good, facts)


def _own_readiness(watched: Watched) -> Health:
    """Return whether its state is restored, and epochs can commit."""
    board = watched.board
    state = board.life.state
    facts: dict[str, Any] = {"state": state}
    if state == AppState.RESTORING.value:
        return Health(False, {"status": "restoring", **facts, "restore": restore_facts(watched)})
    if state != AppState.RUNNING.value:
        return Health(False, {"status": state, **facts, "why": f"the application is {state}"})
    if not liveness(watched).is_good:
        return Health(False, {**liveness(watched).facts, "status": "stalled"})
    if board.is_blind:
        last = board.faults[-1] if board.faults else None
        why = "the last look at the broker, or the last epoch, failed and is tried again"
        told = None if last is None else {"code": last.code, "what": last.what}
        return Health(False, {"status": "failing", **facts, "why": why, "fault": told})
    return Health(True, {"status": "ready", **facts})


def restore_facts(watched: Watched) -> dict[str, Any] | None:
    """Return the progress of the restore; None before it began."""
    progress = watched.board.restore
    if progress is None:
        return None
    logged = [name for name, (_, spec) in watched.plan().stores.items() if spec.logged]
    stores = sorted({*logged, *progress.records})
    return {
        "key_groups_done": progress.done,
        "key_groups": progress.groups,
        "stores": {store: {"records": progress.records.get(store, 0)} for store in stores},
    }


def stuck_phase(trace: EpochTrace | None, watched: Watched) -> str | None:
    """Return the phase in which an epoch is stuck, having taken three times the recent maximum."""
    if trace is None or trace.ended is not None:
        return None
    phase, seconds = trace.seconds(watched.board.clock.monotonic())[-1]
    before = [
        spent for old in watched.board.recent for name, spent in old.seconds(0.0) if name == phase
    ]
    longest = max(before, default=0.0)
    return phase if seconds > max(_STUCK_LEAST_S, _STUCK_TIMES * longest) else None
