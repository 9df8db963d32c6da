"""What a start asks the brokers, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mustela.clock import ManualClock
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.app import App
from mustela.runtime.events import AppState
from mustela.runtime.life import life as life_module
from tests.integration.no_engine import NoEngine
from tests.unit.runtime.fakes import FakeAdmin, FakeSink, world_of

SOON = timedelta(seconds=120)


class Counting:
    """A broker that counts what it is asked, up to when it is told to stop."""

    def __init__(self, admin: FakeAdmin) -> None:
        self._admin = admin
        self.asked: Counter[str] = Counter()
        self.is_over = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._admin, name)

        def counted(*given: Any, **more: Any) -> Any:
            if not self.is_over:
                self.asked[name] += 1
            return call(*given, **more)

        return counted


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """Start an application that counts words, and say what was asked until it ran."""
    cluster: Any = Counting(FakeAdmin({"lines": 2, "counts": 1}))

    def run() -> Counter[str]:
        world = world_of(cluster, clock=ManualClock(60_000), sink=FakeSink())
        monkeypatch.setattr(life_module, "kafka_world", lambda *_, **__: world)
        monkeypatch.setattr(life_module, "load_engine", lambda *_: NoEngine())
        nobody = SimpleNamespace(
            start=bool, wait_until_said=bool, stop=lambda **_: None, untold=lambda: None
        )
        monkeypatch.setattr(life_module, "keeper_of", lambda *_, **__: nobody)
        app = App("app", state_dir=str(tmp_path), bootstrap_servers="fake:1")
        app.add_listener(Until(cluster))

        @app.topology
        def build(builder: StreamsBuilder) -> None:
            words = builder.stream("lines", key=str, value=str).group_by_key()
            words.count(store="words").to_stream().to("counts", key=str, value=int)

        app.start()
        assert app.wait_until(AppState.RUNNING, SOON), app.error
        app.close(SOON)
        return cluster.asked

    return run


class Until:
    """Stops counting when the application runs."""

    def __init__(self, cluster: Counting) -> None:
        self._cluster = cluster

    def on_event(self, event: Any) -> None:
        self._cluster.is_over = self._cluster.is_over or (
            getattr(event, "state", None) is AppState.RUNNING
        )

    def on_error(self, error: BaseException) -> None:
        """Nothing fails."""


def test_a_start_asks_no_more_than_it_needs(asked: Callable[[], Counter[str]]) -> None:
    """The gate looks before an engine is started, and when older instances are fenced."""
    counted = asked()
    assert counted["group_offsets"] == 2  # one for each look of the gate
    assert counted["cluster_id"] == 1
    assert counted["check_internal"] == 1
    assert sum(counted.values()) <= 18, counted
