"""The page that draws the topology: files of the wheel, the same for every application.

They show nothing of the application: so they need no token, which a browser could not send for
them. What the page shows it asks for itself, with the token that it was given.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["ASSETS", "PAGE_POLICY", "asset"]

ASSETS: Final = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "layout.js": "text/javascript; charset=utf-8",
}
"""The files, each with its media type."""

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What the page may load and do: only what comes from here."""


@cache
def asset(name: str) -> bytes:
    """Return a file of the page.

    Example:
        >>> asset("page.html")[:15]
        b'<!doctype html>'
    """
    return files("mustela.admin").joinpath("page", name).read_bytes()
