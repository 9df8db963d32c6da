"""Client and listener that do not speak the same protocol: the error says so, and why."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from mustela.clock import SystemClock
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.connectors.kafka.client import ClientErrors, admin_client, unavailable
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.errors import MustelaError
from mustela_dev.broker.security import make_security

# A client that gives up says why only when its time is over: a second or two each.
waits = pytest.mark.slow
Listen = Callable[..., str]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for another host, signed by nobody, with its key."""
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=other.example", "-addext", "subjectAltName=DNS:other.example"]
    where = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run([*made, *name, *where], check=True, capture_output=True)
    return cert, key


@pytest.fixture
def listen(certificate: tuple[Path, Path]) -> Iterator[Listen]:
    """Make a listener, with TLS or without, that ends what it does not understand."""
    servers: list[socket.socket] = []

    def answer(server: socket.socket, tls: bool, files: tuple[Path, ...]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files[0], files[-1])
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with contextlib.suppress(OSError):
                    talk = context.wrap_socket(connection, server_side=True) if tls else connection
                    talk.recv(4096)
                    talk.close()

    def start(tls: bool, files: tuple[Path, ...] = certificate) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=answer, args=(server, tls, files), daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def refusal(servers: str, **properties: Any) -> MustelaError:
    """Return the error of a first question."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    admin = KafkaAdmin({"bootstrap.servers": servers, **named}, timeout=1.0)
    with pytest.raises(MustelaError) as caught:
        admin.cluster_id()
    return caught.value


def test_a_client_without_tls_at_a_listener_with_it(listen: Listen) -> None:
    """The broker ends the connection; it is not said that none answers."""
    error = refusal(listen(True))
    assert error.code == "KAFKA_SECURITY_MISMATCH"
    assert "no Kafka broker answers" not in str(error)
    assert "APIVERSION" in error.evidence["kafka"]
    assert "kafka.security.protocol" in (error.fix or "")


@waits
def test_a_client_with_tls_at_a_listener_without_it(listen: Listen) -> None:
    """The client guesses it, and is quoted."""
    error = refusal(listen(False), security_protocol="ssl")
    assert error.code == "KAFKA_SECURITY_MISMATCH"
    assert "SSL_HANDSHAKE" in error.evidence["kafka"]


@waits
def test_the_setting_that_the_error_names_helps(
    listen: Listen, certificate: tuple[Path, Path]
) -> None:
    """With TLS on both sides, the broker's certificate known, the listener is no other any more."""
    servers, known = listen(True), {"security.protocol": "ssl", "ssl.ca.location": certificate[0]}
    assert refusal(servers).code == "KAFKA_SECURITY_MISMATCH"
    said = ClientErrors()
    any_host = {"ssl.endpoint.identification.algorithm": "none"}
    properties = {key: str(value) for key, value in {**known, **any_host}.items()}
    client: Any = admin_client({"bootstrap.servers": servers, **properties}, said)
    for _ in range(20):
        client.poll(0.05)
    # It gets as far as its first request, which this listener does not understand.
    assert said.refused is None
    assert "SSL_HANDSHAKE" not in (said.mismatch or "")


@waits
def test_a_certificate_that_nobody_known_signed(listen: Listen) -> None:
    """The reason of the handshake is told, with the setting that names who is known."""
    error = refusal(listen(True), security_protocol="ssl")
    assert error.code == "KAFKA_AUTHENTICATION"
    assert "certificate verify failed" in error.evidence["kafka"]
    assert "kafka.ssl.ca.location" in (error.fix or "")


@waits
def test_a_certificate_of_another_host(listen: Listen, certificate: tuple[Path, Path]) -> None:
    """Known, but not of who answers."""
    cert, _ = certificate
    error = refusal(listen(True), security_protocol="ssl", ssl_ca_location=str(cert))
    assert error.code == "KAFKA_AUTHENTICATION"
    assert "verify failed" in error.evidence["kafka"]


@waits
def test_a_certificate_that_has_expired(listen: Listen, tmp_path: Path) -> None:
    """Of the right host, and signed by who is known; a later one of the same is taken."""
    codes: list[str] = []
    for name, now_ms in (("old", 0), ("new", SystemClock().now_ms())):
        made = make_security(tmp_path / name, now_ms=now_ms)
        servers = listen(True, (made.directory / "server.pem",))
        error = refusal(servers, security_protocol="ssl", ssl_ca_location=str(made.ca))
        codes.append(error.code)
        assert ("verify failed" in error.evidence["kafka"]) is (name == "old")
    assert codes[0] == "KAFKA_AUTHENTICATION" != codes[1]


@waits
def test_the_transactional_producer_says_the_same(listen: Listen) -> None:
    """Whatever client meets it first."""
    options = TransactionOptions(open_timeout=1.0)
    sink = TransactionalSink({"bootstrap.servers": listen(True)}, "app", options=options)
    with pytest.raises(MustelaError) as caught:
        sink.open()
    assert caught.value.code == "KAFKA_SECURITY_MISMATCH", caught.value


def test_a_broker_that_ended_in_mid_talk_and_is_gone_is_gone() -> None:
    """One that is killed while a client connects does not look like a wrong protocol for ever."""
    said = ClientErrors()
    lost = KafkaError._TRANSPORT  # pyright: ignore[reportPrivateUsage]
    said.note(KafkaError(lost, "Disconnected (after 1ms in state APIVERSION_QUERY)"))
    assert unavailable("ask", "here:1", 1.0, said).code == "KAFKA_SECURITY_MISMATCH"
    said.note(KafkaError(lost, "Connection refused (after 0ms in state CONNECT)"))
    assert unavailable("ask", "here:1", 1.0, said).code == "KAFKA_BROKER_UNAVAILABLE"
