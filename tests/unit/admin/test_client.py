"""How the command line asks the server of an application of this user."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.admin.access import access_file, read_access
from mustela.admin.client import AdminClient, find_server
from mustela.admin.errors import AdminSilentError
from mustela.admin.server import AdminServer
from mustela.cli.console import ExitCode
from mustela.cli.status import from_server, status, top
from mustela.cli.watching import picture
from mustela.events import AppState
from tests.unit.admin.fakes import FakeApp


@contextmanager
def served(directory: Path, **settings: Any) -> Iterator[FakeApp]:
    app = FakeApp(directory, **settings)
    server = AdminServer()
    server.open(app.watched)
    try:
        yield app
    finally:
        server.close()


def test_the_server_is_found_by_the_settings(tmp_path: Path) -> None:
    """And not once it has gone."""
    with served(tmp_path) as app:
        app.runs(first=10)
        server = find_server(app.settings)
        assert server is not None
        found = from_server(server)
        assert found is not None
        assert (found["source"], found["state"], found["lag"]) == ("admin server", "running", 3)
        assert found["partitions"][0]["end"] == 10
    assert find_server(app.settings) is None


def test_a_file_of_a_process_that_is_gone_leads_nowhere(tmp_path: Path) -> None:
    """Whoever listens at its address today may be anybody."""
    with served(tmp_path) as app:
        path = access_file(app.settings)
        access = read_access(path)
        assert access is not None
        replace(access, pid=2**22 + 1).write(path, tmp_path)
        assert find_server(app.settings) is None


def test_a_token_is_not_sent_where_nobody_showed_a_certificate(tmp_path: Path) -> None:
    """On loopback nothing that status shows needs one."""
    with served(tmp_path) as app, socket.create_server(("127.0.0.1", 0)) as other:
        access = read_access(access_file(app.settings))
        assert access is not None
        heard: list[bytes] = []

        def listen() -> None:
            connection, _ = other.accept()
            with connection:
                heard.append(connection.recv(65_536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

        thread = threading.Thread(target=listen)
        thread.start()
        address = f"http://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(AdminSilentError, match="does not answer"):
            AdminClient(replace(access, address=address)).get("/info")
        thread.join()
        assert b"authorization" not in heard[0].lower()


def test_a_server_with_tls_is_known_by_its_own_certificate(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    """Whatever names are in it; another server's is refused before anything is said."""
    certificate, key = pair
    secured = {"admin__tls_certificate": certificate, "admin__tls_key": key}
    exposed = {"admin__read_token": "t" * 24, "admin__listen": "0.0.0.0:0"}
    with served(tmp_path, **secured, **exposed, admin__allowed_hosts="shop.internal") as app:
        app.runs()
        server = find_server(app.settings)
        assert server is not None
        told = server.get("/info")
        assert told is not None
        assert told["state"] == "running"
        other = tmp_path / "other.pem"
        other.write_text(certificate.read_text().replace("A", "B", 40))
        with pytest.raises(AdminSilentError):
            AdminClient(replace(server.access, certificate=str(other))).get("/info")


def test_what_is_switched_off_is_not_asked_for_twice(tmp_path: Path) -> None:
    """Without the topology Kafka tells."""
    with served(tmp_path, admin__endpoints_off=["topology"]) as app:
        server = find_server(app.settings)
        assert server is not None
        assert from_server(server) is None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApp]:
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with served(tmp_path) as app:
        yield app


def test_status_says_what_an_application_is_at(
    here: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, with the partitions that wait, and as JSON."""
    here.runs(first=10)
    here.commits(reports=[here.measured()])
    assert status("orders") == 0
    told = capsys.readouterr().out
    assert told.startswith("orders is running (process ")
    assert "epoch 1 of run 3, which take 0.235 s (median)" in told
    assert "lag 3, watermark 1970-01-01T00:16:20Z" in told
    assert told.splitlines()[-1].split() == ["lines", "0", "7", "10", "3"]
    assert status("orders", json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["epoch"], document["lag"]) == (1, 3)


def test_status_says_why_an_application_is_not_ready(
    here: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    """How far a restore is, or that it is paused."""
    here.restores(1, 4, counts=5)
    status("orders")
    assert "restored 1 of 4 key groups" in capsys.readouterr().out
    here.comes_to(AppState.PAUSED)
    status("orders")
    assert "not ready: the application is paused" in capsys.readouterr().out


def test_top_draws_lanes_phases_partitions_steps_and_stores(
    here: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal once."""
    here.runs(first=10)
    here.commits(reports=[here.measured()])
    assert top("orders", interval=0.2) == 0
    told = capsys.readouterr().out
    for word in ("orders", "running", "lag 3", "choosing", "lane", "lines", "counts", "step"):
        assert word in told, word


def test_top_prints_its_looks_as_json(here: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each."""
    here.runs(first=10)
    assert top("orders", once=True, json=True) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["lag"] == 3


def test_rates_of_top_are_those_between_two_looks(tmp_path: Path) -> None:
    """A restart of the application gives none."""
    from rich.console import Console

    with served(tmp_path) as app:
        app.runs(first=10)
        server = find_server(app.settings)
        assert server is not None
        app.commits()
        before = from_server(server)
        report = app.measured()
        report.measured.seconds.update({"parse": 0.02, "counts": 0.141})
        app.commits({"records:lines": 50}, records=47, reports=[report])
        now = from_server(server)
    assert before is not None
    assert now is not None
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(picture(before, now))
    told = console.export_text()
    assert "records/s 200" in told  # 47 in 0.235 s
    assert "counts 60 %" in told  # of the lane's time between the two looks
    assert "26" in next(line for line in told.splitlines() if line.startswith("counts"))
    console.print(picture({**before, "incarnation": 2}, now))
    assert "records/s -" in console.export_text()


def test_where_the_server_is_silent_kafka_tells(
    here: FakeApp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its error says; nobody has to know that there is a server."""
    import mustela.cli.status as module

    access = read_access(access_file(here.settings))
    assert access is not None
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    silent = replace(access, address=address)
    with pytest.raises(AdminSilentError):
        AdminClient(silent).get("/info")
    silent.write(access_file(here.settings), here.settings.state_dir)
    known = {"source": "kafka", "state": "stopped", "application_id": "orders", "partitions": []}
    told = {**known, "epoch": 7, "incarnation": 1, "lag": 0, "watermark_ms": None}
    monkeypatch.setattr(module, "from_kafka", lambda _settings, *, listen: told)
    assert status("orders") == ExitCode.STOPPED
    seen = capsys.readouterr()
    assert "the admin server of orders does not answer" in seen.err
    assert seen.out.startswith("orders: no instance is running\n  epoch 7 of run 1\n")
