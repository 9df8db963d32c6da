"""How both clients connect."""

from __future__ import annotations

import ssl
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from mustela.client.errors import ClientLibraryError

__all__ = ["connection_options", "http_library"]


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


def connection_options(
    url: str, *, token: str | None, certificate: str | Path | None, timeout: timedelta
) -> dict[str, Any]:
    """Return the arguments of a client of httpx."""
    headers = {"accept": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    options: dict[str, Any] = {
        "base_url": url.rstrip("/"),
        "headers": headers,
        "timeout": timeout.total_seconds(),
        "trust_env": False,
    }
    if certificate is not None:
        options["verify"] = ssl.create_default_context(cafile=str(certificate))
    return options
