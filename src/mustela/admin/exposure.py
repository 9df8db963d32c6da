"""Where the admin server may listen: on loopback, or elsewhere only with TLS and a token."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import Final

from mustela.admin.errors import AdminAddressError, AdminExposedError, AdminTlsError
from mustela.config.admin import AdminSettings, host_and_port

__all__ = ["ANY_HOST", "bind", "check_exposure", "is_loopback", "is_wildcard"]

ANY_HOST: Final = "*"
_BACKLOG: Final = 64


def is_loopback(host: str) -> bool:
    """Return whether an address, or every address of a name, is a loopback address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(
        ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found
    )


def is_wildcard(host: str) -> bool:
    """Return whether an address means all addresses of the host."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def check_exposure(settings: AdminSettings) -> None:
    """Refuse to listen for other hosts without TLS, a token and a list of host names.

    Raises:
        AdminExposedError: If one of these is missing.
        AdminTlsError: If the certificate and key cannot be used.
    """
    address = host_and_port(settings.listen)
    assert address is not None, "settings check it"
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        msg = "of admin.tls_certificate and admin.tls_key only one is set"
        raise AdminTlsError(msg, fix="set both, or none")
    _check_tls(settings)
    if is_loopback(address[0]):
        return
    missing = [
        name
        for name, there in (
            ("admin.tls_certificate and admin.tls_key", settings.tls_certificate is not None),
            ("admin.read_token, of 24 characters or more", bool(settings.read_token)),
            (
                "admin.allowed_hosts, the names that clients ask by",
                bool(settings.hosts) or not is_wildcard(address[0]),
            ),
        )
        if not there
    ]
    if missing:
        msg = f"the admin server may not listen on {settings.listen}, which other hosts can reach"
        raise AdminExposedError(
            msg,
            why="anyone who reaches it could see the application, or intercept its tokens",
            fix=f"set {'; set '.join(missing)}; or leave admin.listen at 127.0.0.1:0",
            fields={"listen": settings.listen, "missing": missing},
        )


def _check_tls(settings: AdminSettings) -> None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=lambda: "")
    except (OSError, ValueError) as error:
        msg = "the certificate and key of the admin server cannot be used"
        raise AdminTlsError(
            msg,
            evidence={
                "certificate": settings.tls_certificate,
                "key": settings.tls_key,
                "said": str(error),
            },
            fix="name PEM files that this user can read and that belong together",
        ) from None


def bind(listen: str) -> socket.socket:
    """Listen at ``host:port``; connections wait until they are accepted.

    Raises:
        AdminAddressError: If that is not possible.
    """
    address = host_and_port(listen)
    assert address is not None, "settings check it"
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With an explicit protocol, asyncio sends each part of a response at once.
        made = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(_BACKLOG)
        except OSError:
            made.close()
            raise
    except OSError as error:
        msg = f"the admin server cannot listen on {listen}: {error.strerror or error}"
        raise AdminAddressError(
            msg,
            fix="give an address of this host with a port that is free; port 0 takes any",
            fields={"listen": listen},
        ) from None
    made.setblocking(False)
    return made
