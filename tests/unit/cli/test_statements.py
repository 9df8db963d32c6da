"""mustela sql."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mustela.admin.access import Access, Tokens, access_file
from mustela.cli import statements
from mustela.cli.main import main
from mustela.client.client import Client
from mustela.config.settings import Settings
from mustela.runtime.replica.places import replica_place

ANSWER = {
    "epoch": 7,
    "columns": [
        {"name": "city", "type": "string"},
        {"name": "at", "type": "timestamp[us, tz=UTC]"},
    ],
    "rows": [["Rome", "2026-01-31T12:00:00Z"], [None, None]],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    def ask(self: Client, question: Any) -> Any:
        found.append((str(self._http.base_url), self._http.headers["authorization"], question.body))
        return ANSWER

    monkeypatch.setattr(Client, "ask", ask)
    monkeypatch.setenv("MUSTELA__ADMIN__QUERY_TOKEN", "q" * 24)
    return found


def test_an_application_that_is_not_known_here_is_asked_by_its_address(
    asked: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: Any
) -> None:
    """Its id is enough where it runs as this user; elsewhere the error says what else to give."""
    monkeypatch.chdir(tmp_path)
    assert main(["sql", "nobody-runs-this", "select 1"]) == 2
    told = capsys.readouterr().err
    assert "CLI_NO_SERVER" in told
    assert "mustela sql http://" in told
    assert main(["sql", "http://127.0.0.1:8080", "select 1"]) == 0
    assert asked == [("http://127.0.0.1:8080", f"Bearer {'q' * 24}", {"sql": "select 1"})]


def test_rows_are_a_table_for_people_and_json_for_programs(
    asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Moments as ISO 8601, nothing for null; the JSON is the server's."""
    assert main(["sql", "http://127.0.0.1:8080", "select 1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["city  at", "Rome  2026-01-31T12:00:00+00:00"]
    assert main(["sql", "http://127.0.0.1:8080", "select 1", "--json"]) == 0
    assert '"epoch": 7' in capsys.readouterr().out
    assert statements._told(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00+00:00"


def test_a_replica_on_this_host_is_asked_where_the_application_does_not_run(
    asked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the commands that read state do; the application itself comes first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(tmp_path / "state"))
    settings = Settings.load({"application_id": "shop"})
    with replica_place(settings.state_dir, "shop", None) as place:
        _serve(settings.model_copy(update={"state_dir": place}), port=1)
        assert main(["sql", "shop", "select 1"]) == 0
        _serve(settings, port=2)
        assert main(["sql", "shop", "select 1"]) == 0
    assert [address for address, *_ in asked] == ["http://127.0.0.1:1", "http://127.0.0.1:2"]


def _serve(settings: Settings, *, port: int) -> None:
    access = Access(
        application_id="shop",
        address=f"http://127.0.0.1:{port}",
        certificate="",
        pid=os.getpid(),
        tokens=Tokens.of(settings),
    )
    access.write(access_file(settings), settings.state_dir)
