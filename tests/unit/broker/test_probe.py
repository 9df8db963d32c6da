"""Whether a broker answers, asked of servers made for the test; ports."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from mustela_dev.broker.probe import LOOPBACK, answers, free_port, is_free


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value)) + value.encode()


def metadata(brokers: int, cluster: str) -> bytes:
    """A reply to a metadata request, version 2."""
    rows = [struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">i", 9) + text(None)] * brokers
    body = struct.pack(">ii", 1, brokers) + b"".join(rows) + text(cluster)
    body += struct.pack(">ii", 1, 0)
    return struct.pack(">i", len(body)) + body


@contextmanager
def server(reply: bytes) -> Generator[int]:
    """Answer one connection with ``reply``, then close it."""
    with socket.create_server((LOOPBACK, 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("reply", "up"),
    [
        (metadata(1, "ours"), True),
        (metadata(0, "ours"), False),
        (metadata(1, "another"), False),
        (metadata(1, "ours")[:20], False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"", False),
        (struct.pack(">i", 4) + b"\x00\x00\x00\x01", False),
    ],
    ids=["up", "no broker yet", "another cluster", "cut", "web server", "closed", "short"],
)
def test_only_the_right_cluster_with_a_broker_answers(reply: bytes, up: bool) -> None:
    """An open port alone means nothing: it may be another program's, or open too early."""
    with server(reply) as port:
        assert answers(port, "ours") is up


def test_a_port_that_nobody_serves_does_not_answer() -> None:
    """It is not an error: the broker may come."""
    assert not answers(free_port(), "ours")


def test_a_port_in_use_is_not_free() -> None:
    """Neither is it chosen."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        port = listening.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_chosen_port_is_free_and_not_the_other() -> None:
    """A broker needs two of them."""
    port = free_port()
    assert is_free(port)
    assert free_port(besides=port) != port
