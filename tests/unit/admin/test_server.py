"""The server as it listens: on a real socket of loopback."""

from __future__ import annotations

import gc
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from mustela.admin.access import access_file, read_access
from mustela.admin.errors import AdminAddressError
from mustela.admin.server import AdminServer
from tests.patience import PATIENCE_S
from tests.unit.admin.fakes import FakeApp

Serve = Callable[..., tuple[AdminServer, FakeApp]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    opened: list[AdminServer] = []

    def start(**settings: Any) -> tuple[AdminServer, FakeApp]:
        app = FakeApp(tmp_path, **settings)
        server = AdminServer()
        server.open(app.watched)
        opened.append(server)
        return server, app

    yield start
    for server in opened:
        server.close()


def connect(address: str) -> socket.socket:
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side ends the connection, however it does."""
    found = b""
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_it_listens_on_loopback_at_a_free_port_and_says_where(serve: Serve) -> None:
    """Two servers of one host are no trouble."""
    one, app = serve()
    other, _ = serve()
    assert one.address.startswith("http://127.0.0.1:")
    assert one.address != other.address
    assert app.said == [f"the admin server listens at {one.address}"]
    app.runs()
    answer = httpx.get(f"{one.address}/health/ready", timeout=PATIENCE_S)
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert "server" not in answer.headers


def test_the_file_of_the_server_leads_to_it(serve: Serve) -> None:
    """Address and tokens are those of the server that runs; its end removes the file."""
    server, app = serve()
    path = access_file(app.settings)
    access = read_access(path)
    assert access is not None
    assert (access.address, access.pid) == (server.address, os.getpid())
    headers = {"authorization": f"Bearer {access.tokens.operate}"}
    answer = httpx.post(f"{access.address}/pause", headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == 202
    assert app.asked == ["pause"]
    server.close()
    assert not path.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{access.address}/info", timeout=PATIENCE_S)


def test_a_request_that_does_not_arrive_is_not_waited_for(serve: Serve) -> None:
    """One that sends a byte now and then holds a connection for no longer than its time."""
    server, _ = serve(admin__request_timeout="100ms")
    for begun in (
        b"",
        b"GET /info HTTP/1.1\r\nHost: local",
        b"POST /pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nx",
    ):
        with connect(server.address) as slow:
            slow.sendall(begun)
            answer = read_all(slow)
        assert b"HTTP/1.1 2" not in answer
    assert httpx.get(f"{server.address}/health/live", timeout=PATIENCE_S).status_code == 200


def test_a_head_that_is_too_large_is_refused(serve: Serve) -> None:
    """It is read no further than 16 KiB."""
    server, _ = serve()
    with connect(server.address) as large:
        large.sendall(b"GET /info HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 60_000)
        assert read_all(large).startswith(b"HTTP/1.1 400")


def test_bytes_that_are_no_http_are_refused_without_a_word_in_the_log(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    """A scanner of ports does not fill anybody's log."""
    server, _ = serve()
    for junk in (
        b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"\r\n" * 50_000,
    ):
        with connect(server.address) as other:
            try:
                other.sendall(junk)
                other.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            assert b"500" not in read_all(other)[:20]
    assert httpx.get(f"{server.address}/health/live", timeout=PATIENCE_S).status_code == 200
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_many_idle_connections_do_not_shut_others_out(serve: Serve) -> None:
    """They end by themselves, and those beyond the limit at once."""
    server, _ = serve(admin__request_timeout="500ms")
    held = [connect(server.address) for _ in range(300)]
    try:
        for connection in held:
            assert read_all(connection) == b""
        assert httpx.get(f"{server.address}/health/live", timeout=PATIENCE_S).status_code == 200
    finally:
        for connection in held:
            connection.close()


def test_it_speaks_tls_with_the_certificate_of_the_settings(
    serve: Serve, pair: tuple[Path, Path]
) -> None:
    """And nothing else then."""
    certificate, key = pair
    server, app = serve(admin__tls_certificate=certificate, admin__tls_key=key)
    assert server.address.startswith("https://127.0.0.1:")
    context = ssl.create_default_context(cafile=str(certificate))
    answer = httpx.get(f"{server.address}/health/live", verify=context, timeout=PATIENCE_S)
    assert answer.status_code == 200
    access = read_access(access_file(app.settings))
    assert access is not None
    assert access.certificate == str(certificate)
    with connect(server.address) as plain:
        plain.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"up" not in read_all(plain)


def test_a_server_that_others_can_reach_shows_nothing_without_a_token(
    serve: Serve, pair: tuple[Path, Path]
) -> None:
    """Health too: the probe port is for those who have none."""
    certificate, key = pair
    server, _ = serve(
        admin__listen="0.0.0.0:0",
        admin__tls_certificate=certificate,
        admin__tls_key=key,
        admin__read_token="t" * 24,
        admin__allowed_hosts="127.0.0.1",
    )
    address = server.address.replace("0.0.0.0", "127.0.0.1")
    context = ssl.create_default_context(cafile=str(certificate))
    with httpx.Client(verify=context, base_url=address, timeout=PATIENCE_S) as client:
        for path in ("/health/live", "/info", "/metrics"):
            assert client.get(path).status_code == 401
            allowed = client.get(path, headers={"authorization": "Bearer " + "t" * 24})
            assert allowed.status_code == 200
            named = client.get(path, headers={"host": "evil.example"})
            assert named.status_code == 403


def test_a_probe_port_may_be_open_to_others_without_a_token(serve: Serve) -> None:
    """It answers two questions with a word each, by whatever name it is asked."""
    server, app = serve(admin__probe_listen="0.0.0.0:0")
    app.runs()
    address = server.probe_address.replace("0.0.0.0", "127.0.0.1")
    headers = {"host": "10.1.2.3:8081"}
    answer = httpx.get(f"{address}/health/ready", headers=headers, timeout=PATIENCE_S)
    assert answer.json() == {"status": "ready"}
    for path in ("/info", "/metrics", "/offsets", "/config"):
        assert httpx.get(f"{address}{path}", timeout=PATIENCE_S).status_code == 404


def test_a_server_that_cannot_listen_leaves_nothing(serve: Serve, tmp_path: Path) -> None:
    """No socket, and no file that leads nowhere."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        app = FakeApp(tmp_path / "x", admin__probe_listen=f"127.0.0.1:{taken.getsockname()[1]}")
        server = AdminServer()
        with pytest.raises(AdminAddressError):
            server.open(app.watched)
    assert not access_file(app.settings).exists()
    server.close()


def test_mounted_it_takes_any_name_and_asks_for_a_token(tmp_path: Path) -> None:
    """Where the outer server listens is not known; the tokens are in the same file."""
    import asyncio

    app = FakeApp(tmp_path)
    app.runs()
    server = AdminServer()
    mounted = server.asgi(app.watched)
    access = json.loads(access_file(app.settings).read_text())
    assert access["address"] == ""

    async def ask(path: str, token: str = "") -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport: Any = httpx.ASGITransport(mounted)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as http:
            return (await http.get(path, headers=headers)).status_code

    assert asyncio.run(ask("/health/ready")) == 200
    assert asyncio.run(ask("/info")) == 401
    assert asyncio.run(ask("/info", access["tokens"]["read"])) == 200
    server.close()
    assert not access_file(app.settings).exists()


def test_a_connection_that_came_while_it_closes_is_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has asked all others to end by then, and waits for this one in vain."""
    monkeypatch.setattr(H11Protocol, "shutdown", lambda _self: None)
    server, _ = serve()
    with connect(server.address) as connection:
        host = urlsplit(server.address).netloc
        connection.sendall(f"GET /health/live HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(1)  # so it is known
        server.close()
        gc.collect()  # a transport that is left open would be told of here
        assert read_all(connection)
