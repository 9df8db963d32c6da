"""The page on web services: its program starts the application, serves its pages, and closes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mustela import App

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "web_service.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_service_of_the_page_starts_shows_and_closes_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a broker: that the application is started and closed is noted in their place."""
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(tmp_path))
    called: list[str] = []
    monkeypatch.setattr(App, "start", lambda _app: called.append("start"))
    monkeypatch.setattr(App, "close", lambda _app: called.append("close"))
    names: dict[str, Any] = {"__name__": "service"}
    for program in PROGRAM.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(program, str(PAGE), "exec", dont_inherit=True), names)
    with TestClient(names["service"]) as client:
        assert called == ["start"]
        assert client.get("/state").json() == {"state": "created", "error": None}
        assert client.get("/admin/health/ready").status_code == 503
        assert client.get("/admin/info").status_code == 401
    assert called == ["start", "close"]
