"""Events as tests tell them."""

from __future__ import annotations

from datetime import UTC, datetime

from mustela.runtime.events import AppState, StateChanged

__all__ = ["state_changed"]


def state_changed(state: AppState, before: AppState = AppState.CREATED) -> StateChanged:
    """Return the event that an application came into a state, at some time."""
    return StateChanged(state=state, before=before, at=datetime.fromtimestamp(0, UTC))
