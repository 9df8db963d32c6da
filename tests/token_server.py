"""An identity provider over HTTP for tests: tokens for client credentials (OAuth 2.0)."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote

CLIENT, SECRET = "shop", "canary secret+1"


class TokenServer:
    """Gives `a-token-1`, `a-token-2` and so on to the one client that it knows.

    Args:
        life_s: How long a token lives, in seconds; None to say nothing of it.
    """

    def __init__(self, *, life_s: Any = 100) -> None:
        self.given = 0
        self.forms: list[dict[str, list[str]]] = []
        self.life_s = life_s
        self.answers: list[tuple[int, Any]] = []
        """Given once each in place of tokens, first of all."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                form = parse_qs(self.rfile.read(length).decode())
                status, answer = server.answer(form, self.headers.get("Authorization") or "")
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/oauth2/token"

    @property
    def last(self) -> str:
        """What a request with the last token carries."""
        return f"Bearer a-token-{self.given}"

    def answer(self, form: dict[str, list[str]], authorization: str) -> tuple[int, Any]:
        self.forms.append(form)
        if self.answers:
            return self.answers.pop(0)
        kind, _, encoded = authorization.partition(" ")
        user = base64.b64decode(encoded).decode().split(":", 1)
        if kind != "Basic" or [unquote(part) for part in user] != [CLIENT, SECRET]:
            return 401, {"error": "invalid_client", "error_description": f"not with {user[1]}"}
        self.given += 1
        answer = {"access_token": f"a-token-{self.given}", "token_type": "Bearer"}
        return 200, answer if self.life_s is None else {**answer, "expires_in": self.life_s}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
