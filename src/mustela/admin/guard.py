"""The checks before every endpoint: token, host name, origin, size, concurrency, duration.

A request from this host is not trusted for that reason: a page in a local browser can send one too.
So its Host must be one of ours (otherwise a foreign name could resolve to this host), and requests
from pages of another origin are refused. Endpoints that change something or show data always need a
token.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from mustela.admin.access import Scope, Tokens
from mustela.admin.attempts import Attempts
from mustela.admin.endpoints import JSON, Endpoint
from mustela.admin.exposure import ANY_HOST
from mustela.admin.pages import PAGE_POLICY

__all__ = ["BODY_MAX", "IS_PAGE", "Guard", "Policy"]

ASGI = Callable[..., Awaitable[None]]
_Scope = MutableMapping[str, Any]

BODY_MAX: Final = 64 * 1024
"""The largest body of a request, in bytes."""
IS_PAGE: Final = "mustela_page"
"""In the state of a request: it was let in for the page, and gets nothing else."""
_TARGET_MAX: Final = 4096
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?", re.IGNORECASE)
_NOTHING: Final = b"default-src 'none'; frame-ancestors 'none'"
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_audit = logging.getLogger("mustela.admin.audit")


def _say_nothing(_text: str) -> None:
    """Ignore a message."""


def _no_time() -> float:
    """Time stands still."""
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The access rules.

    Attributes:
        tokens: The token of each scope.
        hosts: Accepted values of the Host header; any, if `ANY_HOST` is among them.
        is_strict: Whether every endpoint needs a token, because other hosts can reach the server.
        open_groups: Groups of endpoints that need no token even then.
        requests_max: Maximum number of concurrent requests.
        timeout_s: Seconds that a response may take.
        say: Called with a line for each operation.
        now: Monotonic time, in seconds.
    """

    tokens: Tokens
    hosts: frozenset[str]
    is_strict: bool = False
    open_groups: frozenset[str] = frozenset()
    requests_max: int = 16
    timeout_s: float = 5.0
    say: Callable[[str], None] = field(default=_say_nothing)
    now: Callable[[], float] = field(default=_no_time)

    def needed(self, endpoint: Endpoint) -> Scope:
        """Return the scope that an endpoint needs."""
        if endpoint.is_static:
            return Scope.NOBODY
        if self.is_strict and endpoint.group not in self.open_groups:
            return max(Scope.READ, endpoint.scope)
        return endpoint.scope


class _Refused(Exception):
    """A request is refused."""

    def __init__(self, status: int, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.fix = fix


class Guard:
    """Passes the requests that the policy allows to an ASGI application.

    Args:
        app: The ASGI application.
        known: Its endpoints.
        policy: The access rules.
    """

    def __init__(self, app: ASGI, known: Iterable[Endpoint], policy: Policy) -> None:
        self._app = app
        every = tuple(known)
        self._endpoints = {endpoint.path: endpoint for endpoint in every}
        self._above = tuple(endpoint for endpoint in every if endpoint.app is not None)
        self._policy = policy
        self._busy = 0
        self._attempts = Attempts(policy.now)

    async def __call__(self, scope: _Scope, receive: ASGI, send: ASGI) -> None:
        """Answer or refuse a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        sender = _Sender(send)
        endpoint = self._endpoint_of(scope)
        try:
            if endpoint is not None and endpoint.streams(_path(scope), _accept(scope)):
                self._check(scope)
                await self._pass_on(scope, receive, sender)
            else:
                await self._in_turn(scope, receive, sender)
        except _Refused as refusal:
            await sender.refuse(refusal)
        self._note(scope, sender.status)

    def _endpoint_of(self, scope: _Scope) -> Endpoint | None:
        path = _path(scope)
        found = self._endpoints.get(path)
        if found is None:
            found = next((each for each in self._above if path.startswith(f"{each.path}/")), None)
        return found

    async def _pass_on(self, scope: _Scope, receive: ASGI, sender: _Sender) -> None:
        endpoint = self._endpoint_of(scope)
        app = self._app if endpoint is None or endpoint.app is None else endpoint.app
        await app(scope, receive, sender)

    async def _in_turn(self, scope: _Scope, receive: ASGI, sender: _Sender) -> None:
        if self._busy >= self._policy.requests_max:
            raise _Refused(503, "too many requests at the same time")
        self._busy += 1
        try:
            await self._within_time(scope, receive, sender)
        finally:
            self._busy -= 1

    async def _within_time(self, scope: _Scope, receive: ASGI, sender: _Sender) -> None:
        import anyio

        endpoint = self._endpoint_of(scope)
        seconds = self._policy.timeout_s + (0.0 if endpoint is None else endpoint.more_s)
        with anyio.move_on_after(seconds) as timer:
            self._check(scope)
            if _is_page(scope):
                sender.policy = PAGE_POLICY.encode()
            await self._pass_on(scope, receive, sender)
        if timer.cancelled_caught and not sender.status:
            what = f"the answer took longer than {seconds:g} s"
            raise _Refused(503, what)

    def _check(self, scope: _Scope) -> None:
        """Refuse a request that is not allowed.

        Raises:
            _Refused: If it is not allowed.
        """
        headers = _headers(scope)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > _TARGET_MAX:
            raise _Refused(414, "the address is too long")
        host = self._check_host(headers.get("host", []))
        endpoint = self._endpoint_of(scope)
        for_page = endpoint is not None and endpoint.has_page and _wants_page(scope, headers)
        if not (for_page and _navigates(headers)):
            _check_origin(headers, host)
        _check_size(headers)
        if endpoint is None:
            return  # unknown paths need no checks
        if for_page:
            scope.setdefault("state", {})[IS_PAGE] = True
            return
        needed = self._policy.needed(endpoint)
        if needed is Scope.NOBODY:
            return
        granted = self._granted(_client(scope), headers.get("authorization", []))
        scope.setdefault("state", {})["mustela_scope"] = granted.name.lower()
        if granted is Scope.NOBODY:
            name = needed.name.lower()
            fix = (
                f"send Authorization: Bearer with the token admin.{name}_token; "
                "if that is not set, with the one in the file ~admin/APPLICATION.json of state_dir"
            )
            raise _Refused(401, f"a token with scope {name} is needed", fix)
        if granted < needed:
            raise _Refused(403, f"the token's scope is not {needed.name.lower()}")

    def _check_host(self, given: list[str]) -> str:
        if len(given) != 1:
            raise _Refused(400, "one Host is needed")
        found = _HOST.fullmatch(given[0])
        if found is None:
            raise _Refused(400, "the Host is not a valid host name")
        allowed = self._policy.hosts
        if ANY_HOST not in allowed and (found[1] or found[2]).lower() not in allowed:
            raise _Refused(403, "this Host is not one of admin.allowed_hosts")
        return given[0].lower()

    def _granted(self, address: str, given: list[str]) -> Scope:
        if not given:
            return Scope.NOBODY  # nothing is tried
        if not self._attempts.may(address):
            raise _Refused(429, "too many wrong tokens from this address")
        kind, _, token = given[0].partition(" ")
        found = Scope.NOBODY
        if len(given) == 1 and kind.lower() == "bearer":
            found = self._policy.tokens.scope_of(token.strip())
        if found is Scope.NOBODY:
            self._attempts.failed(address)
        return found

    def _note(self, scope: _Scope, status: int) -> None:
        """Write the audit line of an operation, executed or refused."""
        endpoint = self._endpoint_of(scope)
        if endpoint is None or endpoint.group != "operate":
            return
        port = (scope.get("client") or ("?", 0))[1]
        bearer = scope.get("state", {}).get("mustela_scope", "nobody")
        text = (
            f"admin: {scope['method'][:8]} {endpoint.path} from {_client(scope)}:{port}"
            f" with the scope {bearer}: {status}"
        )
        _audit.info(text)
        self._policy.say(text)


def _client(scope: _Scope) -> str:
    return (scope.get("client") or ("?", 0))[0]


def _path(scope: _Scope) -> str:
    """Return the path relative to where the application is mounted."""
    path, root = scope["path"], scope.get("root_path") or ""
    return path[len(root) :] if root and path.startswith(root) else path


def _accept(scope: _Scope) -> str:
    return ",".join(_headers(scope).get("accept", []))


def _is_page(scope: _Scope) -> bool:
    return bool(scope.get("state", {}).get(IS_PAGE))


def _wants_page(scope: _Scope, headers: Mapping[str, list[str]]) -> bool:
    """Whether a browser asks for something to look at."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    form = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("format")
    return form == ["html"] or (form is None and "text/html" in ",".join(headers.get("accept", [])))


def _navigates(headers: Mapping[str, list[str]]) -> bool:
    """Return whether the request is a user's navigation to the page in a top-level window."""
    mode, into = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return mode == ["navigate"] and into == ["document"]


def _headers(scope: _Scope) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _check_origin(headers: Mapping[str, list[str]], host: str) -> None:
    own = {f"http://{host}", f"https://{host}"}
    if any(origin.lower() not in own for origin in headers.get("origin", [])):
        raise _Refused(403, "requests of pages of another origin are refused")
    sites = headers.get("sec-fetch-site", [])
    if any(site not in ("same-origin", "none") for site in sites):
        raise _Refused(403, "requests of pages of another site are refused")


def _check_size(headers: Mapping[str, list[str]]) -> None:
    for length in headers.get("content-length", []):
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            raise _Refused(400, "the Content-Length is not a number")
        if int(length) > BODY_MAX:
            raise _Refused(413, f"a body has at most {BODY_MAX} bytes")


class _Sender:
    """Sends a response with the headers common to all, and remembers its status."""

    def __init__(self, send: ASGI) -> None:
        self._send = send
        self.status = 0
        self.policy = _NOTHING

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = (*_HEADERS, (b"content-security-policy", self.policy))
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        await self._send(message)

    async def refuse(self, refusal: _Refused) -> None:
        fix = {"fix": refusal.fix} if refusal.fix else {}
        body = json.dumps({"error": refusal.what, **fix}).encode()
        headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if refusal.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
