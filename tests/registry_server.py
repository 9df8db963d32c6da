"""A schema registry over HTTP for tests: the mock, with authentication, TLS and faults.

It listens on the loopback address in a thread of the test, so that confluent-kafka's own client and
ours can talk to the same one.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mustela.serdes.schemas.mock import MockTransport

Judge = Callable[[str, str, dict[str, Any]], tuple[int, dict[str, Any]] | None]


class RegistryServer:
    """A registry on the loopback address.

    Args:
        authorization: What the header of that name must be, or what says so; None for anything.
        judge: Answers in place of the registry: (method, path, body) -> (status, body) or None.
        tls: Certificate and key of the server, and the certificates of clients that it wants.
    """

    def __init__(
        self,
        *,
        authorization: str | Callable[[], str] | None = None,
        judge: Judge | None = None,
        tls: tuple[Path, Path, Path | None] | None = None,
    ) -> None:
        self.registry = MockTransport()
        self.asked: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}
        self.authorization = authorization
        self.judge = judge
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._do("GET")

            def do_POST(self) -> None:
                self._do("POST")

            def _do(self, method: str) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                server.headers = {name.lower(): text for name, text in self.headers.items()}
                status, answer = server.answer(
                    method, self.path, body, self.headers.get("Authorization")
                )
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[0], tls[1])
            if tls[2] is not None:
                context.load_verify_locations(tls[2])
                context.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def answer(
        self, method: str, path: str, body: dict[str, Any], authorization: str | None
    ) -> tuple[int, Any]:
        self.asked.append((method, path))
        wanted_login = self.authorization() if callable(self.authorization) else self.authorization
        if wanted_login is not None and authorization != wanted_login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        judged = None if self.judge is None else self.judge(method, path, body)
        if judged is not None:
            return judged
        wanted = {
            name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)
        }
        if wanted.get("schemaType") == "AVRO":
            del wanted["schemaType"]
        answer = self.registry.ask(method, path, wanted if method == "POST" else None)
        return answer.status, answer.body

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


def basic(user_info: str) -> str:
    """Return the header of basic authentication."""
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"


def make_certificate(directory: Path, name: str, password: str = "") -> tuple[Path, Path]:
    """Make a certificate that signs itself, for 127.0.0.1; return it and its key as files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    locked = serialization.BestAvailableEncryption(password.encode()) if password else None
    certificate, private = directory / f"{name}.pem", directory / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            locked or serialization.NoEncryption(),
        )
    )
    return certificate, private
