"""How both clients connect."""

from __future__ import annotations

import ssl
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from mustela.client.errors import ClientLibraryError, RemoteRefusedError

__all__ = ["checked_address", "connection_options", "http_library"]


def http_library() -> Any:
    """Return httpx.

    Raises:
        ClientLibraryError: If it is not installed.
    """
    try:
        return import_module("httpx")
    except ImportError:
        msg = "the client needs httpx, which is not installed"
        raise ClientLibraryError(msg, fix="pip install 'mustela[client]'") from None


def checked_address(url: str) -> str:
    """Return the address of a server as other parts of an address follow it.

    Raises:
        RemoteRefusedError: If it does not say how the server is asked.
    """
    if not url.startswith(("http://", "https://")):
        msg = f"{url!r} is not the address of a server"
        fix = f"write http://{url}, or https:// if it has a certificate"
        raise RemoteRefusedError(msg, fix=fix)
    return url.rstrip("/")


def connection_options(
    url: str, *, token: str | None, certificate: str | Path | None, timeout: timedelta
) -> dict[str, Any]:
    """Return the arguments of a client of httpx.

    Raises:
        RemoteRefusedError: If the address does not say how the server is asked.
    """
    headers = {"accept": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    options: dict[str, Any] = {
        "base_url": checked_address(url),
        "headers": headers,
        "timeout": timeout.total_seconds(),
        "trust_env": False,
    }
    if certificate is not None:
        options["verify"] = ssl.create_default_context(cafile=str(certificate))
    return options
