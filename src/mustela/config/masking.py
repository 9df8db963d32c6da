"""Keep secrets out of every print: by the name of a key, and by the look of a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["MASK", "is_secret_key", "mask_text", "mask_value"]

MASK = "******"

_SECRET_KEY = re.compile(
    r"password|passwd|passphrase|secret|token(?!\.endpoint\.url|\.url)|credential|jaas|api.?key"
    r"|access.?key|private.?key|ssl\.key(?!store\.(?:location|type))|basic\.auth|assertion"
    r"|sasl\.oauthbearer\.config|ssl_key",
    re.IGNORECASE,
)
_SECRET_TEXT = (
    # A PEM block, also one that a log line cut in the middle.
    (re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.S), MASK),
    # user:password@ in an address; the scheme and the host stay.
    (re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s@]+@"), rf"\1{MASK}@"),
    # JSON web tokens.
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"), MASK),
    # password=…, token: …, as login modules and query strings have them.
    (
        re.compile(
            r"((?:password|passwd|passphrase|secret|token|api_?key|access_?key)"
            r"[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/=._~-]{8,}"), rf"\1{MASK}"),
)


def is_secret_key(key: str) -> bool:
    """Whether a setting of this name holds a secret.

    Example:
        >>> is_secret_key("kafka.sasl.password"), is_secret_key("kafka.sasl.username")
        (True, False)
    """
    return _SECRET_KEY.search(key.replace("_", ".")) is not None


def mask_text(text: str) -> str:
    """Replace what looks like a secret inside a text.

    Example:
        >>> mask_text("http://joe:hunter2@proxy:3128/")
        'http://******@proxy:3128/'
    """
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def mask_value(key: str, value: Any) -> Any:
    """Return a value as it may be printed.

    Args:
        key: The setting's whole name.
        value: Its value; mappings and lists are masked item by item.

    Example:
        >>> mask_value("kafka", {"sasl.password": "hunter2", "client.id": "a"})
        {'sasl.password': '******', 'client.id': 'a'}
    """
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {name: mask_value(f"{key}.{name}", item) for name, item in items}
    if value is None or value == "":
        return value
    if is_secret_key(key):
        return MASK
    if isinstance(value, list | tuple):
        return [mask_value(key, item) for item in cast("list[Any]", value)]
    return mask_text(value) if isinstance(value, str) else value
