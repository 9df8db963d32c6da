"""The driver's loop: what it tells of an epoch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.coordinator import Coordinator


@pytest.mark.parametrize("committed", [True, False])
def test_only_committed_epochs_are_told_and_learned_from(
    committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was not would lift the budget again that its failure has halved."""
    loop: Any = object.__new__(Coordinator)
    loop.barrier, loop._clock = Barrier(incarnation=1, last_epoch=4), ManualClock()
    loop._prefetch = SimpleNamespace(take=lambda _token: None)
    loop._cutter = SimpleNamespace(came_to_the_moment=lambda *_: True)
    loop._topics = {}
    learned: list[int] = []
    output = SimpleNamespace(close=lambda: None)

    def run(_job: object) -> SimpleNamespace:
        loop.barrier.start()
        loop.barrier.move(Phase.IN_HAND)
        return output

    def commit(*_: object) -> None:
        if committed:
            loop.barrier.move(Phase.UNKNOWN)
            loop.barrier.committed()
        else:
            loop.barrier.give_up()

    monkeypatch.setattr(Coordinator, "_next_turn", lambda _: SimpleNamespace(started=0.0))
    monkeypatch.setattr(Coordinator, "_goes_on", lambda *_: True)
    monkeypatch.setattr(loop, "_run_job", run, raising=False)
    monkeypatch.setattr(loop, "_commit", commit, raising=False)
    monkeypatch.setattr(loop, "_learn", lambda *_: learned.append(loop.barrier.last_epoch))
    assert loop.run_once()
    assert learned == ([5] if committed else [])
