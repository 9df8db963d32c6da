"""A standby keeps warm what a takeover needs."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from mustela.clock import SystemClock
from mustela.errors import EnvironmentFault
from mustela.runtime.life import warm as warm_module
from mustela.runtime.life.warm import WarmStandby
from tests.patience import PATIENCE_S


class FollowedReplica:
    """A replica that shows an epoch when it is told to."""

    def __init__(self) -> None:
        self.record: Any = None
        self.shown: Any = None
        self.closed: list[bool] = []

    def step(self, wait_s: float) -> bool:
        threading.Event().wait(min(wait_s, 0.005))
        return False

    def close(self, *, clean: bool) -> None:
        self.closed.append(clean)


class Notes:
    """A listener that keeps errors."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def on_event(self, event: object) -> None:
        """Nobody listens."""

    def on_error(self, error: BaseException) -> None:
        """Keep it."""
        self.errors.append(error)


class Rehearsals:
    """Rehearsals whose end is awaited; the first ones fail."""

    def __init__(self, failing: int) -> None:
        self.failing = failing
        self.records: list[Any] = []
        self.enough = threading.Event()

    def __call__(self, record: Any) -> None:
        self.records.append(record)
        if len(self.records) <= self.failing:
            msg = "a worker died"
            raise EnvironmentFault(msg)
        self.enough.set()


def test_a_standby_is_ready_when_an_epoch_was_rehearsed(monkeypatch: Any) -> None:
    """Not before; one that fails is told, and repeated."""
    for name in ("_WAIT_S", "_TRY_AGAIN_S"):
        monkeypatch.setattr(warm_module, name, 0.001)
    replica, notes, rehearse = FollowedReplica(), Notes(), Rehearsals(failing=2)
    shown: list[Any] = []
    warm = WarmStandby(lambda: None, rehearse, shown.append, replica, SystemClock(), notes)  # type: ignore[arg-type]
    warm.start()
    assert not warm.is_ready
    assert not rehearse.records
    replica.record = replica.shown = SimpleNamespace(epoch=7)
    assert rehearse.enough.wait(PATIENCE_S)
    warm.take_over()
    assert warm.is_ready
    assert [type(error) for error in notes.errors] == [EnvironmentFault] * 2
    assert rehearse.records == [replica.record] * 3
    assert set(map(id, shown)) <= {id(None), id(replica.shown)}


def test_an_epoch_is_rehearsed_again_before_an_engine_ends_idle_workers(monkeypatch: Any) -> None:
    """The takeover may come an hour later."""
    monkeypatch.setattr(warm_module, "REHEARSE_EVERY_S", 0.001)
    replica, rehearse = FollowedReplica(), Rehearsals(failing=0)
    replica.record = SimpleNamespace(epoch=7)
    again = threading.Event()

    def repeat(record: Any) -> None:
        rehearse(record)
        if len(rehearse.records) == 3:
            again.set()

    warm = WarmStandby(lambda: None, repeat, lambda _: None, replica, SystemClock(), Notes())  # type: ignore[arg-type]
    warm.start()
    assert again.wait(PATIENCE_S)
    warm.stop()
    assert replica.closed == [True]
