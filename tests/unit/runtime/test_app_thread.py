"""The application's own thread: however it ends, somebody hears of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mustela.dsl.builder import StreamsBuilder
from mustela.runtime import app as app_module
from mustela.runtime.app import App
from mustela.runtime.events import AppState


def test_an_error_before_the_first_life_ends_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as the application's, and nobody waits for a thread that is gone."""

    def fail(_app: object) -> str:
        msg = "dictionary changed size during iteration"
        raise RuntimeError(msg)

    monkeypatch.setattr(app_module, "name_of", fail)
    app = App("app", state_dir=str(tmp_path), bootstrap_servers="fake:1")

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).to("out", key=str, value=str)

    app.start()
    assert app.close(timedelta(seconds=60))
    assert app.state is AppState.FAILED
    assert "dictionary changed size" in str(app.error)
