"""Whatever is sent, no answer is a server error."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

from tests.unit.admin.fakes import TOKENS, FakeApp

PATHS = (
    "/health/live",
    "/health/ready",
    "/info",
    "/config",
    "/topology",
    "/state",
    "/offsets",
    "/watermarks",
    "/metrics",
    "/debug/threads",
    "/debug/barriers",
    "/pause",
    "/resume",
    "/shutdown",
)
NAMES = ("host", "origin", "authorization", "content-length", "sec-fetch-site", "accept", "x")
text = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40)
headers = st.lists(
    st.tuples(st.sampled_from(NAMES), text | st.sampled_from([f"Bearer {TOKENS.operate}"])),
    max_size=4,
)
paths = st.sampled_from(PATHS) | st.text(max_size=30).map(lambda tail: f"/{tail}")
queries = st.dictionaries(st.sampled_from(("format", "stacks", "x")), st.text(max_size=20))
methods = st.sampled_from(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "XYZ"))


def served() -> FakeApp:
    app = FakeApp(Path(tempfile.gettempdir()) / "nowhere")
    app.runs(first=9)
    app.commits({"records:lines": 4, "dropped_late:x": 1, "odd": 2})
    return app


CLIENT = served().client()


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
