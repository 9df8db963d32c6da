"""What readers in other threads see of a running application."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.clock import SystemClock
from mustela.planner.planner import plan
from mustela.queries.errors import StateElsewhereError, StateUnavailableError
from mustela.queries.queries import Queries
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.events import AppState
from mustela.runtime.reading import Published
from mustela.state.interfaces import Committed, EnvironmentSpec, Snapshot
from mustela.state.memory import MemoryEnvironment


class Here:
    """An engine that has the state of this process."""

    state_is_here = True

    def __init__(self, state: CommittedState) -> None:
        self._state = state

    def open_state(self, stage: int, group: int, committed: Committed) -> Snapshot:
        stages = self._state.plan.stages
        spec = EnvironmentSpec(
            application_id="app", stage="s", group=group, groups=2, stores=stages[stage].stores
        )
        return MemoryEnvironment(spec).snapshot(committed)


class Elsewhere:
    """An engine that has its state on other hosts."""

    state_is_here = False

    def open_state(self, stage: int, group: int, committed: Committed) -> Snapshot:
        raise NotImplementedError


def counted(**more: Any) -> CommittedState:
    builder = StreamsBuilder()
    builder.stream("words", key=str, value=str).group_by_key().count(store="counts")
    return CommittedState(plan=plan(builder.build()), key_groups=2, lanes=1, **more)


def test_state_on_other_hosts_is_not_read_and_state_here_is() -> None:
    """The error names what can be done; one host is."""
    published = Published(SystemClock(), lambda: AppState.RUNNING, lambda: None)
    queries, state = Queries(published), counted()
    engine: Any = Elsewhere()
    published.publish(state, engine)
    with pytest.raises(StateElsewhereError, match=r"spark\.master = local"):
        queries.store("counts")
    engine = Here(state)
    published.publish(state, engine)
    assert len(queries.store("counts")) == 0


def test_a_reader_waits_for_an_application_that_starts_but_not_for_one_that_has_ended() -> None:
    """What waits would otherwise fail for as long as state is restored."""
    states = [AppState.RESTORING]
    published = Published(SystemClock(), lambda: states[0], lambda: None)
    queries = Queries(published)
    with pytest.raises(StateUnavailableError, match="is restoring"):
        queries.snapshot(min_epoch=1, timeout=timedelta(milliseconds=1))
    states[0] = AppState.STOPPED
    with pytest.raises(StateUnavailableError, match="is stopped"):
        queries.snapshot(min_epoch=1, timeout=timedelta(minutes=5))


@pytest.mark.parametrize(
    ("state", "way_on"),
    [
        (AppState.CREATED, "wait_until"),
        (AppState.STOPPED, "mustela state"),
        (AppState.FAILED, r"app\.error"),
    ],
)
def test_who_cannot_read_is_told_the_way_on(state: AppState, way_on: str) -> None:
    """An application that has failed is not started by waiting for it."""
    queries = Queries(Published(SystemClock(), lambda: state, lambda: None))
    with pytest.raises(StateUnavailableError, match=way_on):
        queries.store("counts")
