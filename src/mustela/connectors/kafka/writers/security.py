"""TLS and SASL by the same properties as librdkafka's."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.writers.wire import (
    NO_TAGS,
    Answer,
    Api,
    compact_bytes,
    plain_string,
)

__all__ = ["encrypted", "log_in", "mechanism_of", "protocol_of", "unsupported"]

HANDSHAKE = Api(17, 1, "SaslHandshake", flexible=False)
AUTHENTICATE = Api(36, 2, "SaslAuthenticate")
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MECHANISMS = ("PLAIN", *_HASHES)
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
# What librdkafka knows besides, and this does not.
_UNKNOWN = (
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.crl.location",
    "ssl.engine.location",
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.sigalgs.list",
    "ssl.providers",
)
Call = Callable[[Api, bytes], Answer]


def protocol_of(properties: Mapping[str, Any]) -> str:
    """Return the protocol of the listener, in lower case."""
    return str(properties.get("security.protocol", "plaintext")).lower()


def mechanism_of(properties: Mapping[str, Any]) -> str:
    """Return the name of the way to log in; librdkafka's default is Kerberos."""
    given = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
    return str(given)


def unsupported(properties: Mapping[str, Any]) -> list[str]:
    """Name the properties that a writer cannot honour."""
    protocol = protocol_of(properties)
    found = [name for name in _UNKNOWN if properties.get(name)] if "ssl" in protocol else []
    if protocol not in _PROTOCOLS:
        found.append("security.protocol")
    if protocol.startswith("sasl") and mechanism_of(properties) not in _MECHANISMS:
        found.append("sasl.mechanism")
    return found


def encrypted(plain: socket.socket, host: str, properties: Mapping[str, Any]) -> socket.socket:
    """Return a socket that speaks TLS, if the listener does; otherwise the one that is given.

    Raises:
        KafkaException: If the certificates or their names do not fit.
    """
    if "ssl" not in protocol_of(properties):
        return plain
    try:
        return _context(properties).wrap_socket(plain, server_hostname=host)
    except (ssl.SSLError, FileNotFoundError) as raised:
        text = f"TLS with {host}: {raised}"
        raise KafkaException(KafkaError(KafkaError._SSL, text)) from raised  # pyright: ignore[reportPrivateUsage]


def _context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
    )
    names = str(properties.get("ssl.endpoint.identification.algorithm", "https"))
    context.check_hostname = names == "https"
    if str(properties.get("enable.ssl.certificate.verification", True)).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = properties.get("ssl.certificate.location")
    if certificate:
        key, password = properties.get("ssl.key.location"), properties.get("ssl.key.password")
        context.load_cert_chain(certificate, key, password)
    return context


def log_in(call: Call, properties: Mapping[str, Any]) -> None:
    """Log in, if the listener demands it.

    Raises:
        KafkaException: If the broker refuses the mechanism or the user.
    """
    if not protocol_of(properties).startswith("sasl"):
        return
    mechanism = mechanism_of(properties)
    answer = call(HANDSHAKE, plain_string(mechanism))
    code, offered = answer.int16(), answer.plain_array(answer.plain_string)
    if code:
        raise _refused(code, f"{mechanism} is not one of {', '.join(map(str, offered))}")
    user = str(properties.get("sasl.username", ""))
    password = str(properties.get("sasl.password", ""))
    if mechanism in _HASHES:
        _scram(call, _HASHES[mechanism], user, password)
    else:
        _exchange(call, f"\0{user}\0{password}".encode())


def _exchange(call: Call, token: bytes) -> bytes:
    answer = call(AUTHENTICATE, compact_bytes(token) + NO_TAGS)
    code, text, told = answer.int16(), answer.string(), answer.data()
    if code:
        raise _refused(code, text or "the login is refused")
    return told or b""


def _scram(call: Call, name: str, user: str, password: str) -> None:
    """RFC 5802, without channel binding: the broker proves that it knows the password, too."""
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    first = f"n={escaped},r={nonce}"
    told = _exchange(call, b"n,," + first.encode()).decode()
    said = dict(part.split("=", 1) for part in told.split(","))
    if not said["r"].startswith(nonce):
        raise _refused(KafkaError.SASL_AUTHENTICATION_FAILED, "the broker answers another login")
    salt, rounds = base64.b64decode(said["s"]), int(said["i"])
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", name)
    bare = f"c=biws,r={said['r']}"
    signed = f"{first},{told},{bare}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = _exchange(call, f"{bare},p={base64.b64encode(proof).decode()}".encode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    if last != b"v=" + base64.b64encode(expected):
        raise _refused(KafkaError.SASL_AUTHENTICATION_FAILED, "the broker lacks the password")


def _refused(code: int, text: str) -> KafkaException:
    return KafkaException(KafkaError(code, text))
