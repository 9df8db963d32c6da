"""Check whether a broker answers, with a hand-made request and without a Kafka client."""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["LOOPBACK", "Login", "answers", "free_port", "is_free"]

LOOPBACK = "127.0.0.1"
METADATA_KEY, METADATA_VERSION = 3, 2
HANDSHAKE_KEY, HANDSHAKE_VERSION = 17, 1
AUTHENTICATE_KEY, AUTHENTICATE_VERSION = 36, 0
REPLY_BYTES_MAX = 1 << 20
# Below the range that the system uses for outgoing connections, so that none of them takes a chosen
# port before the broker does.
PORT_FIRST, PORT_LAST = 20_000, 32_000
PORT_TRIES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to log in to a broker with TLS and a password (SASL's PLAIN).

    Attributes:
        ca: The certificate to trust, in PEM.
        user: The user.
        password: Its password.
    """

    ca: Path
    user: str
    password: str = field(repr=False)


def answers(
    port: int,
    cluster_id: str,
    login: Login | None = None,
    address: str = LOOPBACK,
    *,
    timeout_s: float = 2.0,
) -> bool:
    """Return whether the broker of cluster ``cluster_id`` on ``port`` accepts requests.

    It does so once its metadata names a broker: before that, topics cannot be created.

    Args:
        port: The port.
        cluster_id: The id of the cluster.
        login: How to log in, if the broker wants that.
        address: Where it listens.
        timeout_s: Seconds that each step may take.
    """
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as bare:
            if login is None:
                return _named(bare, cluster_id)
            context = ssl.create_default_context(cafile=str(login.ca))
            with context.wrap_socket(bare, server_hostname=address) as connection:
                return _logged_in(connection, login) and _named(connection, cluster_id)
    except (OSError, struct.error, UnicodeDecodeError):
        return False


def _named(connection: socket.socket, cluster_id: str) -> bool:
    reply = _ask(connection, METADATA_KEY, METADATA_VERSION, struct.pack(">i", -1))
    return _names_broker(reply, cluster_id)


def _logged_in(connection: socket.socket, login: Login) -> bool:
    mechanism = b"PLAIN"
    body = struct.pack(">h", len(mechanism)) + mechanism
    # In either reply the error follows the correlation; 0 is none.
    reply = _ask(connection, HANDSHAKE_KEY, HANDSHAKE_VERSION, body)
    if struct.unpack_from(">h", reply, 4)[0] != 0:
        return False
    token = f"\0{login.user}\0{login.password}".encode()
    body = struct.pack(">i", len(token)) + token
    reply = _ask(connection, AUTHENTICATE_KEY, AUTHENTICATE_VERSION, body)
    return bool(struct.unpack_from(">h", reply, 4)[0] == 0)


def _ask(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request without a client's id, and return what follows the size of its reply."""
    request = struct.pack(">hhih", key, version, 1, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    size = struct.unpack(">i", _read(connection, 4))[0]
    if not 0 < size <= REPLY_BYTES_MAX:
        raise ConnectionResetError
    return _read(connection, size)


def _read(connection: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionResetError
        parts += part
    return parts


def _names_broker(reply: bytes, cluster_id: str) -> bool:
    # correlation, [node, host, port, rack], cluster, ...: the protocol's version 2.
    brokers = struct.unpack_from(">i", reply, 4)[0]
    place = 8
    for _ in range(brokers):
        place += 4
        _, place = _text(reply, place)
        place += 4
        _, place = _text(reply, place)
    found, _ = _text(reply, place)
    return brokers > 0 and found == cluster_id


def _text(reply: bytes, place: int) -> tuple[str | None, int]:
    size = struct.unpack_from(">h", reply, place)[0]
    place += 2
    if size < 0:
        return None, place
    return reply[place : place + size].decode(), place + size


def is_free(port: int, address: str = LOOPBACK) -> bool:
    """Return whether a server could listen on ``port`` of an address of this host now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        # As in Java, a recently closed connection does not count.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
            server.listen(1)
        except OSError:
            return False
    return True


def free_port(*, besides: int = 0, address: str = LOOPBACK) -> int:
    """Return a port that a server could listen on now, other than ``besides``."""
    for _ in range(PORT_TRIES):
        port = PORT_FIRST + secrets.randbelow(PORT_LAST - PORT_FIRST)
        if port != besides and is_free(port, address):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind((address, 0))
        return int(server.getsockname()[1])
