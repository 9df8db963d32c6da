"""Whatever is sent, no answer is a server error."""

from __future__ import annotations

import atexit
import re
import socket
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings, strategies as st

from mustela.admin.endpoints import endpoints, json_answer
from mustela.admin.server import AdminServer
from tests.patience import PATIENCE_S
from tests.unit.admin.fakes import TOKENS, FakeApp

PATHS = tuple(endpoint.path for endpoint in endpoints(lambda _watched, _query: json_answer({})))
NAMES = (
    "host",
    "origin",
    "authorization",
    "content-length",
    "sec-fetch-site",
    "sec-fetch-mode",
    "sec-fetch-dest",
    "accept",
    "x",
)
text = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40)
headers = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        text | st.sampled_from([f"Bearer {TOKENS.operate}", "text/html", "navigate", "document"]),
    ),
    max_size=4,
)
paths = st.sampled_from(PATHS) | st.text(max_size=30).map(lambda tail: f"/{tail}")
queries = st.dictionaries(st.sampled_from(("format", "stacks", "x")), st.text(max_size=20))
methods = st.sampled_from(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "XYZ"))


lines = st.sampled_from(
    [
        b"GET /topology HTTP/1.1\r\n",
        b"POST /pause HTTP/1.1\r\n",
        b"GET /topology/live HTTP/1.0\r\n",
        b"Host: localhost\r\n",
        b"Host: [::1]:1\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Upgrade: websocket\r\n",
        b"Connection: upgrade\r\n",
        b"Expect: 100-continue\r\n",
        b"Accept: text/html\r\n",
        b"Authorization: Bearer " + b"o" * 32 + b"\r\n",
        b"\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"\x00\xff: \x00\r\n",
    ]
)
fragments = st.lists(lines, max_size=9).map(b"".join)


def served() -> FakeApp:
    app = FakeApp(Path(tempfile.gettempdir()) / "nowhere")
    app.runs(first=9)
    app.commits({"records:lines": 4, "dropped_late:x": 1, "odd": 2})
    return app


CLIENT = served().client()


@pytest.mark.slow
@settings(deadline=None)
@given(
    method=methods,
    path=paths,
    query=queries,
    sent=headers,
    body=st.binary(max_size=100),
    strict=st.booleans(),
)
def test_no_request_ends_in_a_server_error(
    method: str,
    path: str,
    query: dict[str, str],
    sent: list[tuple[str, str]],
    body: bytes,
    strict: bool,
) -> None:
    """Paths, queries, headers, methods and bodies of any kind are answered or refused."""
    import asyncio
    from typing import Any
    from urllib.parse import quote, urlencode

    raw = [(name.encode(), value.encode("latin-1")) for name, value in sent]
    if not strict:
        raw = [(b"host", b"localhost"), *(pair for pair in raw if pair[0] != b"host")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": "",
        "query_string": urlencode(query).encode(),
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    answers: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    asyncio.run(CLIENT.app(scope, receive, send))
    status = answers[0]["status"]
    assert 200 <= status < 500, (method, path, query, sent, status)


@settings(deadline=None, max_examples=60)
@given(data=st.binary(max_size=400) | fragments)
def test_no_bytes_on_the_wire_end_in_a_server_error(data: bytes) -> None:
    """A whole request, a part of one, several, or noise: refused, or the connection ends."""
    with socket.create_connection(place(), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while part := connection.recv(65_536):
                answer += part
        except ConnectionResetError:
            pass
    assert not re.search(rb"HTTP/1\.1 5(?!03)", answer), (data, answer[:200])


@cache
def place() -> tuple[str, int]:
    """Where a real server listens, for all examples."""
    server = AdminServer()
    server.open(served().watched)
    atexit.register(server.close)
    found = urlsplit(server.address)
    assert found.hostname is not None
    assert found.port is not None
    return found.hostname, found.port
