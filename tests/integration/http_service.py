"""A small HTTP service for tests: slow, failing and hanging answers, and what was asked."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.patience import PATIENCE_S


class HttpService:
    """Answers ``GET /<path>?delay=<seconds>&fail=<n>&hang=1&held=1`` with the path in capitals.

    ``fail`` lets the first n requests of an idempotency key fail with status 503, ``hang`` answers
    only when the service is closed, ``held`` when a test lets such answers go. The headers
    ``Idempotency-Key`` are counted, and with them is kept which addresses asked.

    Args:
        body: Gives the answer to a path instead.
        address: Where it listens.
    """

    def __init__(self, body: Callable[[str], str] = str.upper, address: str = "127.0.0.1") -> None:
        self._body = body
        self._address = address
        self.asked: Counter[str] = Counter()
        self.asked_from: dict[str, list[str]] = defaultdict(list)
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._may_answer = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                service.answer(self)

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_arguments: Any) -> None:
                """A client that was killed is no error."""

        self._server = Server((address, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing.set()
        self.let_go()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._address}:{self._server.server_port}"

    def let_go(self) -> None:
        """Give the answers that are held, now and from now on."""
        self._may_answer.set()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        parts = urlsplit(request.path)
        wish = {name: values[0] for name, values in parse_qs(parts.query).items()}
        key = request.headers.get("Idempotency-Key", "")
        with self._lock:
            self.asked[key] += 1
            self.asked_from[key].append(str(request.client_address[0]))
            nth = self.asked[key]
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            if "hang" in wish:
                self._closing.wait(PATIENCE_S)
            if "held" in wish:
                self._may_answer.wait(PATIENCE_S)
            time.sleep(float(wish.get("delay", "0")))
            status = 503 if nth <= int(wish.get("fail", "0")) else 200
            body = self._body(parts.path.strip("/")).encode() if status == 200 else b"busy"
        finally:
            with self._lock:
                self._now -= 1
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Connection", "close")
        request.end_headers()
        request.wfile.write(body)
