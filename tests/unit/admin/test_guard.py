"""Who is let in: tokens, scopes, names, origins, and limits on size, time and number."""

from __future__ import annotations

import asyncio
import hmac
import threading
from pathlib import Path
from typing import Any

import pytest

from mustela.admin.access import Scope, Tokens
from mustela.admin.attempts import WRONG_AT_ONCE, Attempts
from mustela.admin.endpoints import Endpoint, endpoints, json_answer
from mustela.admin.guard import BODY_MAX, Guard
from tests.unit.admin.fakes import TOKENS, Client, FakeApp

ALL = endpoints(lambda _watched, _query: json_answer({}))
NEEDED = {
    "/config": Scope.READ,
    "/debug/threads": Scope.QUERY,
    "/pause": Scope.OPERATE,
    "/resume": Scope.OPERATE,
    "/shutdown": Scope.OPERATE,
    "/ha/switch": Scope.OPERATE,
    "/ha/promote": Scope.OPERATE,
}
GRANTED = {
    "": Scope.NOBODY,
    "guessed" * 6: Scope.NOBODY,
    TOKENS.read: Scope.READ,
    TOKENS.query: Scope.QUERY,
    TOKENS.operate: Scope.OPERATE,
}


@pytest.fixture
def app(tmp_path: Path) -> FakeApp:
    made = FakeApp(tmp_path)
    made.runs()
    return made


def wanted(scope: Scope, token: str) -> set[int]:
    granted = GRANTED[token]
    if granted >= scope:
        return {200, 202}
    return {401} if granted is Scope.NOBODY else {403}


@pytest.mark.parametrize("endpoint", ALL, ids=lambda endpoint: endpoint.path)
def test_loopback_is_no_trust(app: FakeApp, endpoint: Endpoint) -> None:
    """What changes something, or shows data, threads or settings, needs a token here too."""
    for token in GRANTED:
        answer = app.client().ask(endpoint.method, endpoint.path, token=token)
        expected = wanted(NEEDED.get(endpoint.path, Scope.NOBODY), token)
        assert answer.status_code in expected, (endpoint.path, token, answer.text)


@pytest.mark.parametrize("endpoint", ALL, ids=lambda endpoint: endpoint.path)
def test_elsewhere_everything_needs_a_token(app: FakeApp, endpoint: Endpoint) -> None:
    """Whoever can be reached by other hosts shows nothing to a stranger."""
    client = app.client(is_strict=True)
    for token in GRANTED:
        answer = client.ask(endpoint.method, endpoint.path, token=token)
        least = Scope.NOBODY if endpoint.is_static else Scope.READ
        expected = wanted(NEEDED.get(endpoint.path, least), token)
        assert answer.status_code in expected, (endpoint.path, token, answer.text)


def test_a_refused_operation_is_not_done(app: FakeApp) -> None:
    """The token is looked at first."""
    for token in ("", "x" * 32, TOKENS.read, TOKENS.query):
        app.client().post("/shutdown", token)
    assert app.asked == []


def test_what_is_asked_without_a_token_says_how_to_ask(app: FakeApp) -> None:
    """401 with the kind of token, as HTTP wants it, and where the token is."""
    answer = app.client().post("/pause")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "admin.operate_token" in answer.json()["fix"]


@pytest.mark.parametrize(
    "given",
    ["Basic " + "o" * 32, "o" * 32, "Bearer", "Bearer  ", "bearer\t" + "o" * 32, "Bearer \u00e9"],
)
def test_only_a_bearer_token_is_one(app: FakeApp, given: str) -> None:
    """No other way to say it is taken for it."""
    headers = {"authorization": given.encode("latin-1")}
    assert app.client().post("/pause", headers=headers).status_code == 401


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each comparison is `hmac.compare_digest` of digests, with every token, found or not."""
    seen: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        seen.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    tokens = Tokens(read="r" * 24, query="q" * 24, operate="o" * 24)
    for given in ("", "r", "r" * 24, "x" * 5_000, "\udcff"):
        tokens.scope_of(given)
    assert len(seen) == 3 * 5
    assert {len(part) for pair in seen for part in pair} == {32}


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1"])
def test_requests_come_by_our_own_names(app: FakeApp, host: str) -> None:
    """With whatever port: it may be forwarded."""
    assert app.client().get("/info", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("[::2]", 403),
        ("", 400),
        ("localhost:80:80", 400),
        ("localhost/", 400),
        ("user@localhost", 400),
    ],
)
def test_a_name_that_is_not_ours_is_refused(app: FakeApp, host: str, status: int) -> None:
    """A name of somebody else's that leads here is how a page reads what is not its own."""
    answer = app.client().get("/info", TOKENS.operate, headers={"host": host})
    assert answer.status_code == status


def test_two_hosts_are_none(app: FakeApp) -> None:
    """What stands before us might look at the other one."""
    headers = [(b"host", b"localhost"), (b"host", b"evil.example")]
    answers: list[Any] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/info",
        "query_string": b"",
        "headers": headers,
    }

    async def send(message: Any) -> None:
        answers.append(message)

    asyncio.run(app.client().app(scope, None, send))
    assert answers[0]["status"] == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_another_origin_are_refused(app: FakeApp, headers: dict[str, str]) -> None:
    """Another port of this host is another origin, too."""
    for method, path in (("GET", "/info"), ("POST", "/pause")):
        answer = app.client().ask(method, path, token=TOKENS.operate, headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert app.asked == []


def test_a_page_of_our_own_origin_is_let_in(app: FakeApp) -> None:
    """What we serve may ask us."""
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert app.client().get("/info", headers=headers).status_code == 200


def test_every_answer_says_that_it_is_not_to_be_kept_or_guessed_at(app: FakeApp) -> None:
    """No caching, no sniffing, nothing loaded, no frames; refusals say so too."""
    for path in ("/info", "/config", "/nothing"):
        headers = app.client().get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")


def test_large_bodies_and_addresses_are_refused(app: FakeApp) -> None:
    """No endpoint needs one."""
    client = app.client()
    assert client.post("/pause", TOKENS.operate, content=b"x" * BODY_MAX).status_code == 202
    assert client.post("/pause", TOKENS.operate, content=b"x" * (BODY_MAX + 1)).status_code == 413
    assert client.get("/info?" + "x" * 5_000).status_code == 414
    wrong = {"content-length": "\u0661"}
    headers = {name: value.encode() for name, value in wrong.items()}
    assert client.post("/pause", TOKENS.operate, headers=headers).status_code == 400


def test_only_so_many_requests_are_answered_at_the_same_time(app: FakeApp) -> None:
    """The next one is told to come again; the driver's own work goes on."""
    go, here = threading.Event(), threading.Barrier(3)

    def slow(_stacks: bool) -> list[Any]:
        here.wait(60)
        assert go.wait(60)
        return []

    app.workers = slow
    client = app.client(requests_max=2, timeout_s=60.0)

    async def ask() -> tuple[list[int], int]:
        import httpx

        transport = httpx.ASGITransport(client.app)
        headers = {"authorization": f"Bearer {TOKENS.query}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=60
        ) as http:
            held = [asyncio.create_task(http.get("/debug/threads")) for _ in range(2)]
            await asyncio.to_thread(here.wait, 60)
            refused = await http.get("/health/live")
            go.set()
            return [(await task).status_code for task in held], refused.status_code

    assert asyncio.run(ask()) == ([200, 200], 503)


def test_an_answer_that_takes_too_long_is_given_up(app: FakeApp) -> None:
    """503, and the place is free for others."""
    go = threading.Event()

    def slow(_stacks: bool) -> list[Any]:
        assert go.wait(60)
        return []

    app.workers = slow
    try:
        client = app.client(timeout_s=0.05)
        answer = client.get("/debug/threads", TOKENS.query)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "took longer" in answer.text
    finally:
        go.set()


@pytest.mark.parametrize(
    "group", ["health", "info", "config", "topology", "state", "metrics", "debug", "operate"]
)
def test_each_group_of_endpoints_has_a_switch(tmp_path: Path, group: str) -> None:
    """What is switched off is not there, with whatever token."""
    app = FakeApp(tmp_path, admin__endpoints_off=[group])
    app.runs()
    for endpoint in ALL:
        status = app.client().ask(endpoint.method, endpoint.path, token=TOKENS.operate).status_code
        assert (status == 404) == (endpoint.group == group), endpoint.path


def test_each_operation_leaves_an_audit_line(
    app: FakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Done or refused: what, from where, with which scope; and never the token."""
    caplog.set_level("INFO", "mustela.admin.audit")
    app.client().post("/pause", TOKENS.operate)
    app.client().post("/resume", TOKENS.read)
    app.client().post("/shutdown")
    app.client().get("/info", TOKENS.operate)
    assert app.said == [
        "admin: POST /pause from 127.0.0.1:123 with the scope operate: 202",
        "admin: POST /resume from 127.0.0.1:123 with the scope read: 403",
        "admin: POST /shutdown from 127.0.0.1:123 with the scope nobody: 401",
    ]
    assert [record.getMessage() for record in caplog.records] == app.said


def test_a_wrong_method_does_nothing(app: FakeApp) -> None:
    """Reading does not operate, and operating does not read."""
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        answer = app.client().ask(method, "/pause", token=TOKENS.operate)
        assert answer.status_code == 405
    assert app.client().post("/info", TOKENS.operate).status_code == 405
    assert app.asked == []


def test_nothing_but_http_is_spoken(app: FakeApp) -> None:
    """A web socket is closed at once."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError

    guard = Guard(never, ALL, app.policy())
    asyncio.run(guard({"type": "websocket"}, never, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_below_another_server_the_guard_is_the_same(app: FakeApp) -> None:
    """Mounted at a path, endpoints are known by the rest of it, and tokens are asked for."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    inner = app.client(is_strict=True, open_groups=frozenset({"health"})).app
    client = Client(Starlette(routes=[Mount("/admin", app=inner)]))
    assert client.get("/admin/health/live").status_code == 200
    assert client.get("/admin/info").status_code == 401
    assert client.get("/admin/info", TOKENS.read).status_code == 200
    assert client.post("/admin/pause", TOKENS.read).status_code == 403
    assert app.asked == []


def test_wrong_tokens_are_looked_at_now_and_then_only(app: FakeApp) -> None:
    """After ten of an address one a second; the right one is not looked at meanwhile, either."""
    client = app.client()
    for _ in range(WRONG_AT_ONCE):
        assert client.post("/pause", "x" * 32).status_code == 401
    for token in ("x" * 32, TOKENS.operate):
        refused = client.post("/pause", token)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert client.get("/health/live").status_code == 200
    assert client.get("/info", "x" * 32).status_code == 200  # it needs none, so none is looked at
    app.clock.advance(1_000)
    assert client.post("/pause", TOKENS.operate).status_code == 202
    assert client.post("/pause", "y" * 32).status_code == 401
    assert client.post("/pause", "y" * 32).status_code == 429
    assert app.asked == ["pause"]


def test_wrong_tokens_count_by_address_and_many_addresses_are_no_memory() -> None:
    """Of version 6 a network is one address: a host has as many in it as it likes."""
    attempts = Attempts(lambda: 0.0)
    for number in range(WRONG_AT_ONCE):
        attempts.failed(f"2001:db8::{number:x}")
    assert not attempts.may("2001:db8::ffff")
    assert attempts.may("2001:db8:1::1")
    for _ in range(WRONG_AT_ONCE):
        attempts.failed("::ffff:10.0.0.7")
    assert not attempts.may("::ffff:10.0.0.7")
    assert attempts.may("::ffff:10.0.0.8")
    for number in range(5_000):
        attempts.failed(f"10.1.{number // 256}.{number % 256}")
    assert len(attempts._used) <= 1_000


@pytest.mark.parametrize("endpoint", ALL, ids=lambda endpoint: endpoint.path)
def test_no_route_does_anything_by_another_method(app: FakeApp, endpoint: Endpoint) -> None:
    """With the mightiest token."""
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"):
        if method in (endpoint.method, "HEAD" if endpoint.method == "GET" else ""):
            continue
        status = app.client().ask(method, endpoint.path, token=TOKENS.operate).status_code
        assert status == 405, (method, endpoint.path)
    assert app.asked == []


@pytest.mark.parametrize(
    "path",
    [
        "/topology/../access.py",
        "/topology/..%2faccess.py",
        "/topology/%2e%2e/%2e%2e/access.py",
        "/topology/page.js/../../access.py",
        "/topology/page.html",
        "/topology/",
        "//topology/page.js/x",
        "/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/page/page.js",
        "/topology/page.js%00.css",
    ],
)
def test_no_path_leads_to_a_file(app: FakeApp, path: str) -> None:
    """What is served is named in the program: nothing of a request becomes a path."""
    raw = path.encode()
    scope = {
        "type": "http",
        "method": "GET",
        "path": path.replace("%2f", "/").replace("%2e", ".").replace("%00", "\0"),
        "raw_path": raw,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", b"Bearer " + b"o" * 32)],
    }
    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(app.client().app(scope, receive, send))
    assert answers[0]["status"] == 404
